"""Sync with dice: random trees, random edits, random deaths. What must hold: both sides are the same
afterwards, no file is ever half, and nothing temporary is left. The dice are told when a test fails
(DICE=n plays them again); --long plays more rounds."""
import contextlib
import os
import pathlib
import random
import signal
import subprocess
import time

import pytest
import trees
from host import is_running, pid_inside, processes_beside, wait_until
from mcp_client import ToolFailed
from places import PLACES
from test_transfers import check, finished, has_agent, workers

POOL = 0
LONG_PLACES = ("opensandbox",)  # of provider/shell.h there is an SSH host as well
ENV = {"REMOTE_SANDBOX_INLINE_SYNC_MAX_FILES": "1000000", "REMOTE_SANDBOX_INLINE_SYNC_MAX_BYTES": "1t"}


@pytest.fixture
def dice(request):
    seed = int(os.environ.get("DICE") or random.randrange(1 << 32))
    print(f"DICE={seed}")
    return random.Random(seed)


@pytest.fixture(autouse=True)
def no_threshold(host):
    host.pool.update(ENV)
    yield
    for pid in workers(host):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def rounds(request):
    return 12 if request.config.getoption("--long") else 1


def far_root(host, client):
    """The folder that a box's commands begin in, as the tests see it."""
    if client.provider in ("ssh", "opensandbox"):
        return client.work
    if os.geteuid() != 0:
        pytest.skip("only root can look into a box from outside")
    if client.provider == "docker":
        return f"/proc/{client.init}/root{client.work}"
    for pid in host.install.box_inits():
        folder = os.path.join("/proc", str(pid), "root", "workspace")
        if pid_inside(pid) == 1 and os.path.exists(folder):
            return folder
    raise AssertionError("the box has no init")


EDIT = """
import random, sys
sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[3])
import trees
g = trees.Gardener(random.Random(int(sys.argv[1])))
g.n = int(sys.argv[2])
g.edit("tree", 25)
print(g.n)
"""


def edit_far(client, dice, n):
    """Edits the tree in the box, as whoever its code runs as. How far the gardener's count is then."""
    folder = f"{client.home}/.of-tests"
    client.tool("write_remote_file", remote_path=f"{folder}/trees.py", content=pathlib.Path(trees.__file__).read_text())
    done = client.bash(f"python3 - {dice.randrange(1 << 32)} {n} {folder}", stdin=EDIT)
    assert done["exit_code"] == 0, done
    return int(done["stdout"])


def garden(host, dice, folder, n):
    """A tree of whoever the server runs as."""
    gardener = trees.Gardener(dice, host.tier.uid if host.tier.switches else None)
    gardener.grow(folder, n)
    return gardener


def same(near, far, clean=True):
    found = trees.differences(trees.look(near), trees.look(far, clean))
    assert not found, found[:20]
    assert not trees.temporary(near) and not (clean and trees.temporary(far))


def sync_up(client, folder, **more):
    return client.tool("sync_local_to_remote", 110, local_path=str(folder), remote_path=folder.name, force=True,
                       exclude_style="git", excludes=["!.git", "!.idea", "!.vscode", "!__pycache__", "!*.pyc",
                                                      "!node_modules"], **more)


def sync_down(client, name, folder, **more):
    return client.tool("sync_remote_to_local", 110, remote_path=name, local_path=str(folder), force=True, **more)


def test_both_sides_are_the_same_after_any_edits(place, host, dice, rounds):
    near = host.project / "tree"
    gardener = garden(host, dice, near, 120)
    far = os.path.join(far_root(host, place), "tree")
    sync_up(place, near)
    same(near, far)
    for i in range(2 * rounds):
        gardener.edit(near, 25)
        answer = sync_up(place, near, delete_extras=True, checksum=i % 3 == 1)
        assert not answer.get("failed_files"), answer
        same(near, far)
        again = sync_up(place, near, delete_extras=True)
        assert again["uploaded_files"] == again["deleted_files"] == again["deleted_dirs"] == 0, again
        gardener.n = edit_far(place, dice, gardener.n)
        answer = sync_down(place, "tree", near, delete_extras=True)
        assert not answer.get("failed_files"), answer
        same(near, far)


def test_a_fresh_copy_of_what_was_sent_is_the_same(place, host, dice):
    near = host.project / "tree"
    garden(host, dice, near, 150)
    sync_up(place, near)
    sync_down(place, "tree", host.project / "back")
    same(near, host.project / "back")
    sync_down(place, "tree", host.project / "back")
    same(near, host.project / "back")


# ---- deaths ----------------------------------------------------------------------------------


def versions(*looks):
    """The contents that each file has had."""
    found = {}
    for one in looks:
        for path, what in one.items():
            if what[0] == "file":
                found.setdefault(path, set()).add(what[3])
    return found


def nothing_is_half(folder, *looks):
    """Each file is one that it was or is to be; what is temporary does not count."""
    allowed = versions(*looks)
    for path, what in (trees.look(folder, everything=False) if os.path.isdir(folder) else {}).items():
        if what[0] == "file":
            assert what[3] in allowed.get(path, ()), f"{path!r} is neither old nor new"


def heavy(host, dice, folder, n=60, size=1 << 20):
    """Enough to be in the middle of it: what is random here cannot be packed."""
    gardener = garden(host, dice, folder, 60)
    for i in range(n):
        path = os.path.join(folder, f"big{i}")
        with open(path, "wb") as f:
            f.write(dice.randbytes(size))
        gardener.finish(path, 0o644)
    return gardener


def rewrite_heavy(gardener, dice, folder, n=60, size=1 << 20):
    for i in range(n):
        path = os.path.join(folder, f"big{i}")
        if os.path.isfile(path) and not os.path.islink(path):
            with open(path, "wb") as f:
                f.write(dice.randbytes(size + 1 + dice.randrange(100)))
            gardener.finish(path, 0o644)


def new_server(host, client):
    """One more server with the same arguments, for when the first one is dead."""
    argv = client.argv[client.argv.index(str(host.install.anybox)) + 1:]
    other = host.server(*argv)
    for name in ("name", "provider", "box_id", "home", "work", "user", "init"):
        setattr(other, name, getattr(client, name, None))
    return other


def kill_worker(_host, _client, _world, seen):
    with contextlib.suppress(ProcessLookupError):
        os.kill(seen["pid"], signal.SIGKILL)


def kill_server(_host, client, _world, _seen):
    client.process.kill()
    client.killed = True


def kill_far(host, client, world, seen):
    """Whoever serves the connection: sshd's child, or the file worker in the box."""
    if client.provider == "ssh":
        world.server.signal_all(signal.SIGKILL)
        return
    if client.provider == "opensandbox":
        for sandbox in world.sandboxes.values():
            sandbox.signal_all(signal.SIGKILL)
        return
    inside = processes_beside(client.init) if client.provider == "docker" else host.install.box_processes()
    for pid in inside:
        if pid_inside(pid) not in (None, 1):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def cancel(_host, client, _world, seen):
    client.tool("cancel_file_transfer_task", task_id=seen["task_id"])


@pytest.mark.parametrize("death", [kill_worker, kill_server, kill_far, cancel])
def test_what_dies_in_the_middle_is_gone_on_with(place, host, request, dice, rounds, death):
    needs = {"ssh": "world", "opensandbox": "platform"}.get(place.provider)
    world = request.getfixturevalue(needs) if needs else None
    near = host.project / "tree"
    gardener = heavy(host, dice, near)
    far = os.path.join(far_root(host, place), "tree")
    old, client = {}, place
    for _ in range(rounds):
        host.pool["REMOTE_SANDBOX_INLINE_SYNC_MAX_FILES"] = "0"
        client = new_server(host, client)
        task = sync_up(client, near, delete_extras=True)["task_id"]
        time.sleep(dice.random() * 0.3)
        seen = check(client, task)
        if seen["status"] in ("queued", "running") and "pid" in seen:
            death(host, client, world, seen)
        client = new_server(host, client)
        wait_until(lambda: not is_running(seen.get("pid", 0)), 60)
        new = trees.look(near)
        nothing_is_half(far, old, new)
        host.pool.update(ENV)
        client = new_server(host, client)
        until_through(lambda: sync_up(client, near, delete_extras=True))
        same(near, far, has_agent(request))
        old = trees.look(near)
        rewrite_heavy(gardener, dice, near)


def until_through(act, tries=5):
    """A connection that was just cut may fail one call more."""
    for i in range(tries):
        try:
            return act()
        except ToolFailed:
            if i == tries - 1:
                raise
            time.sleep(0.5)


def test_a_fetch_that_dies_is_gone_on_with(place, host, dice, rounds):
    near = host.project / "tree"
    heavy(host, dice, near)
    sync_up(place, near)
    back = host.project / "back"
    host.pool["REMOTE_SANDBOX_INLINE_SYNC_MAX_FILES"] = "0"
    client = new_server(host, place)
    for _ in range(rounds):
        answer = sync_down(client, "tree", back)
        if answer["mode"] == "inline":
            break  # the last one was through before it could be killed
        time.sleep(dice.random() * 0.3)
        seen = check(client, answer["task_id"])
        if "pid" in seen:
            kill_worker(host, client, None, seen)
            wait_until(lambda: not is_running(seen["pid"]), 30)
        nothing_is_half(back, trees.look(near))
    answer = sync_down(client, "tree", back)
    if answer["mode"] == "background":
        assert finished(client, answer["task_id"])["status"] == "completed"
    same(near, back)


def test_two_at_once_into_one_target_end_in_one_of_them(place, host, dice):
    near = host.project / "tree"
    heavy(host, dice, near, 20)
    far = os.path.join(far_root(host, place), "tree")
    calls = [place.start_tool("sync_local_to_remote", {"local_path": str(near), "remote_path": "tree"})
             for _ in range(3)]
    for call in calls:
        with contextlib.suppress(ToolFailed):  # another one may take away what it works on
            place.finish_tool(call, 110)
    sync_up(place, near)
    same(near, far)


# ---- full disks ---------------------------------------------------------------------------------


def test_a_box_that_is_full_says_so_and_keeps_whole_files(host, dice):
    client = host.server()
    client.tool("create_sandbox", name="work", disk="32m")
    client.provider = "local"
    near = host.project / "tree"
    heavy(host, dice, near, 64)
    far = os.path.join(far_root(host, client), "tree")
    with pytest.raises(ToolFailed) as failed:
        sync_up(client, near)
    assert "space" in failed.value.text, failed.value.text
    nothing_is_half(far, trees.look(near))
    assert not trees.temporary(far)
    for i in range(16, 64):
        os.unlink(near / f"big{i}")
    client.bash("rm -f tree/big*")  # deletions come last in a sync, and there is no room before
    sync_up(client, near, delete_extras=True)
    same(near, far)


def test_a_container_that_is_full_says_so_and_keeps_whole_files(host, engine, dice):
    """Its memory is what can be filled without harm to others."""
    near, there = host.project / "tree", "/dev/shm/tree"
    heavy(host, dice, near, 16)
    with PLACES["docker"](host, engine) as client:
        def up():
            return client.tool("sync_local_to_remote", 110, local_path=str(near), remote_path=there)

        free = int(client.bash("df -B1 --output=avail /dev/shm | tail -n 1")["stdout"])
        client.bash(f"head -c {free - (8 << 20)} /dev/zero > /dev/shm/filler")
        far = f"/proc/{client.init}/root{there}"
        try:
            with pytest.raises(ToolFailed) as failed:
                up()
            assert "space" in failed.value.text, failed.value.text
            nothing_is_half(far, trees.look(near))
            assert not trees.temporary(far)
            client.bash("rm /dev/shm/filler")
            up()
            nothing_is_half(far, trees.look(near))
            assert len(list(pathlib.Path(far).glob("big*"))) == 16 and not trees.temporary(far)
        finally:
            client.bash("rm -rf /dev/shm/filler /dev/shm/tree")


def test_a_folder_here_that_is_full_says_so_and_keeps_whole_files(place, host, dice):
    if os.geteuid() != 0:
        pytest.skip("only root can mount a small file system")
    if host.tier.switches:
        pytest.skip("mounts are seen by servers of this namespace only")
    near, small = host.project / "tree", host.project / "small"
    heavy(host, dice, near, 40)
    sync_up(place, near)
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "small", small], check=True)
    try:
        client = new_server(host, place)
        with pytest.raises(ToolFailed) as failed:
            sync_down(client, "tree", small / "tree")
        assert "space" in failed.value.text, failed.value.text
        nothing_is_half(small / "tree", trees.look(near))
        assert not trees.temporary(small)
        client.close()
    finally:
        subprocess.run(["umount", "-l", small], check=True)


# ---- sizes --------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_hundred_thousand_files(place, host):
    near = host.project / "tree"
    for i in range(100):
        (near / f"d{i}").mkdir(parents=True)
        for j in range(1000):
            path = near / f"d{i}" / f"f{j}"
            path.write_bytes(b"x" * (j % 100))
            os.utime(path, (1.6e9 + j, 1.6e9 + j))
    if host.tier.switches:
        subprocess.run(["chown", "-R", f"{host.tier.uid}:{host.tier.uid}", near], check=True)
    answer = place.tool("sync_local_to_remote", 300, local_path=str(near), remote_path="tree")
    assert answer["uploaded_files"] == 100000
    again = place.tool("sync_local_to_remote", 300, local_path=str(near), remote_path="tree")
    assert again["uploaded_files"] == 0 and again["skipped_files"] == 100000
    assert place.bash("find tree -type f | wc -l")["stdout"] == "100000\n"


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_sparse_file_of_five_gigabytes(place, host, request):
    if request.node.callspec.params["place"] not in ("local", "ssh-agent", "docker"):
        pytest.skip("without an agent all of it would travel and be written")
    near, back = host.project / "tree", host.project / "back"
    near.mkdir()
    with open(near / "hole", "wb") as f:
        f.truncate(5 << 30)
        f.seek(3 << 30)
        f.write(b"in the middle")
    if host.tier.switches:
        subprocess.run(["chown", "-R", f"{host.tier.uid}:{host.tier.uid}", near], check=True)
    place.tool("sync_local_to_remote", 500, local_path=str(near), remote_path="tree")
    there = place.bash("cd tree && stat -c %s hole && du -k hole | cut -f 1 && "
                       "dd if=hole bs=1M skip=3072 count=1 status=none | head -c 20 | od -An -c")
    size, kib, text = there["stdout"].split(maxsplit=2)
    assert int(size) == 5 << 30 and int(kib) < 1024, there
    assert "".join(text.split()) == "inthemiddle" + r"\0" * 7, there
    place.tool("sync_remote_to_local", 500, remote_path="tree", local_path=str(back))
    found = (back / "hole").stat()
    assert found.st_size == 5 << 30 and found.st_blocks * 512 < 1 << 20
    with open(back / "hole", "rb") as f:
        f.seek(3 << 30)
        assert f.read(20) == b"in the middle" + b"\0" * 7
