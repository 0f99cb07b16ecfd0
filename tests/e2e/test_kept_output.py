"""All that a command prints is kept once its call has left it, however much it is; what a full disk does
not take is told, and never costs the command's end."""
import contextlib
import subprocess

import pytest

from host import wait_until

FIRST, MANY, WIDTH = 10_000_000, (64 << 20) // 9 + 1, 9  # lines of eight digits: 64 MiB


@pytest.fixture(autouse=True)
def short_window(host):
    host.pool = {**host.pool, "ANYBOX_DEFAULTS_EXEC_WINDOW": "2"}


def ended(client, task_id):
    assert wait_until(lambda: not client.tool("check_background_task", task_id=task_id, wait_s=20,
                                              last_n_lines=1)["running"], 120)
    return client.tool("check_background_task", task_id=task_id)


def lines(first, count):
    return "".join(f"{FIRST + i}\n" for i in range(first, first + count))


def test_64_mib_handed_over_in_the_middle(place, request):
    half = FIRST + MANY // 2
    answer = place.bash(f"rm -f go; seq {FIRST} {half - 1}; until [ -e go ]; do sleep 0.1; done; "
                        f"seq {half} {FIRST + MANY - 1}; echo over >&2; exit 3")
    assert answer["running"] is True and answer["stdout"].startswith(lines(0, 10))
    place.bash("touch go", timeout_s=20)
    end = ended(place, answer["task_id"])
    assert (end["exit_code"], end["log_size"], end["stderr_tail"]) == (3, MANY * WIDTH, "over\n")
    assert "log_incomplete" not in end
    same = f"seq {FIRST} {FIRST + MANY - 1} | cmp - {end['log_file']} && echo same"
    assert place.bash(same, timeout_s=60)["stdout"] == "same\n"
    # All of it by cursor in one place; in the others a piece here and there.
    step = 0 if request.node.callspec.id == "local-root" else 8 << 20
    cursor, pieces = 0, 0
    while cursor < end["log_size"]:
        part = place.tool("check_background_task", task_id=answer["task_id"], **{"from": cursor})
        text = part["log_tail"]
        wanted = lines(cursor // WIDTH, len(text) // WIDTH + 2)[cursor % WIDTH:]
        assert text and wanted.startswith(text) and part["cursor"] == cursor + len(text), cursor
        cursor, pieces = part["cursor"] + step, pieces + 1
    assert pieces >= (256 if step == 0 else 8)


@contextlib.contextmanager
def small_disk(client, world):
    """What is kept goes to a disk of 4 MiB."""
    if client.provider == "local":
        client.tool("create_sandbox", name="small", disk="4m")
        client.tool("select_sandbox", sandbox_name="small")
        yield
        return
    folder = world.user.home / ".anybox" / "exec"
    client.bash("mkdir -p ~/.anybox/exec", timeout_s=20)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size=4m,mode=700,uid={world.user.uid}", "none", str(folder)],
                   check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=False)


def test_a_full_disk_costs_output_and_never_the_end(place, request):
    if place.provider not in ("local", "ssh"):
        pytest.skip("a sandbox there has no disk of its own size")
    world = None if place.provider == "local" else request.getfixturevalue("world")
    with small_disk(place, world):
        answer = place.bash("echo begun; rm -f /tmp/go.$$; echo $$; until [ -e /tmp/go.$$ ]; do sleep 0.1; done; "
                            "rm -f /tmp/go.$$; head -c 20000000 /dev/zero | tr '\\0' x; echo over; exit 7")
        assert answer["running"] is True
        place.bash(f"touch /tmp/go.{answer['stdout'].split()[1]}", timeout_s=20)
        end = ended(place, answer["task_id"])
        assert (end["exit_code"], end["status"]) == (7, "exited")
        assert end["log_incomplete"] is True and "disk was full" in end["note"]
        assert 1 << 20 < end["log_size"] < 4 << 20
        head = place.tool("check_background_task", task_id=answer["task_id"], **{"from": 0})["log_tail"]
        assert head.startswith("begun\n")
        if place.provider == "local":  # there is room for the end of one more
            answer = place.bash("sleep 8; exit 5")
            assert answer["running"] is True
            assert ended(place, answer["task_id"])["exit_code"] == 5
