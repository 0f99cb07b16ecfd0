"""Large files and trees on a link with a delay: they go over several connections. What must hold whatever
happens to these: each file arrives whole or the old one stays, and nothing temporary is left."""
import contextlib
import os
import pathlib
import signal
import subprocess
import sys

import pytest
import ssh_servers
import trees
from host import is_running, wait_until
from mcp_client import ToolFailed
from test_sync_property import ENV
from test_transfers import ENDED, caught, check, finished, let_go, workers

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import link  # noqa: E402

POOL = 0
pytestmark = [pytest.mark.only_tiers("root"),
              pytest.mark.skipif(link.why_not() is not None, reason=str(link.why_not()))]
RELAY = "relay --socket"


@pytest.fixture
def line():
    with link.Link(25) as made:
        yield made


@pytest.fixture
def far(line, world):
    """A server at the far end, and a user whose home is empty again afterwards."""
    yield world.sshd(address=line.address, wrap=line.far)
    world.user.kill_all()
    for path in world.user.home.glob("proj*"):
        subtree = sorted(path.rglob("*"), reverse=True)
        for one in subtree:
            one.rmdir() if one.is_dir() and not one.is_symlink() else one.unlink()
        path.rmdir()


@pytest.fixture(autouse=True)
def no_workers_stay(host):
    yield
    for pid in workers(host):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def client_of(host, line, world, far, **env):
    """A client of a server at the near end, whose agent is there."""
    argv = line.near([host.install.anybox])
    client = host.server(*argv[1:], program=argv[0], env={**ENV, **ssh_servers.hosts(world.entry(far)), **env})
    ssh_servers.wait_for_agent(client)
    return client


def write_project(host, mib, name="proj"):
    folder = host.project / name
    folder.mkdir()
    (folder / "before").write_bytes(b"first")
    (folder / "large").write_bytes(os.urandom((mib << 20) + 4321))
    (folder / "z-after").write_bytes(b"last")
    return folder


def up(client, folder, **more):
    return client.tool("sync_local_to_remote", 110, local_path=str(folder), remote_path=folder.name, **more)


def start_up(client, folder):
    return client.start_tool("sync_local_to_remote", {"local_path": str(folder), "remote_path": folder.name})


def lanes(world):
    """The relays of further connections; the oldest one is everybody's."""
    return sorted(map(int, world.user.processes(RELAY)), key=lambda pid: started(pid))[1:]


def started(pid):
    try:
        with open(f"/proc/{pid}/stat") as f:
            return int(f.read().rsplit(")", 1)[1].split()[19])
    except FileNotFoundError:
        return sys.maxsize


def in_the_middle(client, world, task, before):
    """The worker when it has a relay and lanes of its own, besides those that were there before."""
    while check(client, task)["status"] not in ENDED:
        if len(set(world.user.processes(RELAY)) - before) > 1:
            return check(client, task).get("pid")
    return None


def same(near, far):
    assert not trees.differences(trees.look(near), trees.look(far))
    assert not trees.temporary(far) and not trees.temporary(near)


def test_a_large_file_takes_several_connections_there_and_back(host, world, line, far):
    client = client_of(host, line, world, far)
    folder = write_project(host, 48)
    small = host.project / "proj-small"
    small.mkdir()
    (small / "little").write_bytes(b"x" * 100_000)
    up(client, small)
    assert not lanes(world), "a small file does not"
    answer = up(client, folder)
    assert answer["uploaded_files"] == 3 and answer["bytes"] == (48 << 20) + 4321 + 9, answer
    assert wait_until(lambda: len(lanes(world)) == 3, 60, 0.1), world.user.processes(RELAY)
    same(folder, world.user.home / "proj")
    client.tool("sync_remote_to_local", 110, remote_path="proj", local_path=str(host.project / "back"))
    same(folder, host.project / "back")
    assert up(client, folder)["uploaded_files"] == 0


def kill_lanes(world):
    """As soon as there is one."""
    assert wait_until(lambda: len(lanes(world)) > 0, 60, 0.02)
    for pid in lanes(world):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_connections_that_are_lost_are_made_up_for(host, world, line, far):
    client = client_of(host, line, world, far)
    folder = write_project(host, 128)
    call = start_up(client, folder)
    kill_lanes(world)
    answer = client.finish_tool(call, 110)
    assert answer["uploaded_files"] == 3 and not answer.get("failed_files"), answer
    same(folder, world.user.home / "proj")


def test_a_host_that_lets_no_more_in_is_enough(host, world, line):
    """One connection may be had, and no other."""
    server = world.sshd(address=line.address, wrap=line.far, MaxStartups="1:100:1")
    client = client_of(host, line, world, server)
    folder = write_project(host, 40, "proj-one")
    keys = server.keys.read_text()
    server.keys.write_text("")
    try:
        assert up(client, folder)["uploaded_files"] == 3
    finally:
        server.keys.write_text(keys)
    same(folder, world.user.home / "proj-one")
    assert not lanes(world)
    client.bash("rm -rf proj-one")


def test_a_conversation_that_was_begun_ahead_and_lost_is_no_loss(host, world, line, far):
    """Each listing begins one for the files that follow; here they follow when it is gone."""
    client = client_of(host, line, world, far)
    folder = write_project(host, 1)
    for _ in range(3):
        assert up(client, folder, dry_run=True)["new_files"] == 3
    relays = world.user.processes(RELAY)
    for pid in relays:
        os.kill(int(pid), signal.SIGKILL)
    assert wait_until(lambda: not any(is_running(int(pid)) for pid in relays), 60)

    def is_back():
        with contextlib.suppress(ToolFailed):
            client.bash("true")
        return world.user.processes(RELAY)

    assert wait_until(is_back, 60)
    assert up(client, folder)["uploaded_files"] == 3
    same(folder, world.user.home / "proj")


@pytest.mark.parametrize("who", ["worker", "sshd"])
def test_what_dies_in_the_middle_is_gone_on_with(host, world, line, far, who):
    client = client_of(host, line, world, far, REMOTE_SANDBOX_INLINE_SYNC_MAX_FILES="0")
    folder = write_project(host, 128)
    old = b"old" * 1000
    up(client, folder, excludes=["large"])
    target = world.user.home / "proj" / "large"
    client.tool("write_remote_file", remote_path="proj/large", content=old.decode())
    before = set(world.user.processes(RELAY))
    task = up(client, folder)["task_id"]
    pid = in_the_middle(client, world, task, before)
    if pid and who == "worker":
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        assert wait_until(lambda: not is_running(pid), 30)
    elif pid:
        far.signal_all(signal.SIGKILL)
        assert finished(client, task)["status"] in ("failed", "completed")
    assert target.stat().st_size in (len(old), folder.joinpath("large").stat().st_size)

    def again():
        answer = up(client, folder)
        return answer["mode"] == "inline" or finished(client, answer["task_id"])["status"] == "completed"

    for _ in range(10):
        with contextlib.suppress(ToolFailed):
            if again():
                break
    same(folder, world.user.home / "proj")


def test_cancel_in_the_middle_leaves_the_old_file(host, world, line, far):
    client = client_of(host, line, world, far, REMOTE_SANDBOX_INLINE_SYNC_MAX_FILES="0")
    folder = write_project(host, 128)
    task = up(client, folder)["task_id"]
    let_go(caught(client, task))
    answer = client.tool("cancel_file_transfer_task", task_id=task, force_kill_after_s=60)
    assert answer == {"task_id": task, "status": "cancelled", "terminated": True}
    target = world.user.home / "proj"
    assert wait_until(lambda: not trees.temporary(target), 30), os.listdir(target)
    assert not (target / "large").exists()


# ---- many files ---------------------------------------------------------------------------------


def write_many(host, folders=60, size=40_000):
    """Twenty files to a folder, half of them below another one: files of the upper one come before and after
    those. And what else there is in a tree."""
    folder = host.project / "proj"
    for i in range(folders):
        inner = folder / f"d{i:03d}" / "m"
        inner.mkdir(parents=True)
        for j in range(10):
            (inner / f"f{j}").write_bytes(os.urandom(size + j))
            (inner.parent / f"{'az'[j % 2]}{j}").write_bytes(os.urandom(size - j))
        (inner.parent / "link").symlink_to("../d000/a0")
        os.chmod(inner, [0o755, 0o700, 0o555][i % 3])
        os.utime(inner, (1.5e9 + i, 1.5e9 + i))
        os.utime(inner.parent, (1.4e9 + i, 1.4e9 + i))
    (folder / "empty").mkdir()
    (folder / os.fsdecode(b"odd \xff\nname")).write_bytes(b"odd")
    return folder


def read_by(pid):
    """How many bytes a process has read."""
    try:
        with open(f"/proc/{pid}/io") as f:
            return int(f.readline().split()[1])
    except FileNotFoundError:
        return 0


def each_is_whole(near, target):
    allowed = trees.look(near)
    for path, what in trees.look(target, everything=False).items():
        if what[0] == "file":
            assert what[3] == allowed[path][3], f"{path!r} is half"


def test_many_files_take_several_connections(host, world, line, far):
    client = client_of(host, line, world, far)
    folder = write_many(host)
    answer = up(client, folder)
    assert answer["uploaded_files"] == 60 * 21 + 1 and not answer.get("failed_files"), answer
    assert answer["uploaded_dirs"] == 122, answer
    same(folder, world.user.home / "proj")
    assert wait_until(lambda: len(lanes(world)) == 3, 60, 0.1), world.user.processes(RELAY)
    changed = [path for path in folder.rglob("*[0-9]") if path.is_file() and not path.is_symlink()]
    for path in changed:
        path.write_bytes(os.urandom(40_020))
    before = {pid: read_by(pid) for pid in lanes(world)}
    answer = up(client, folder)
    assert answer["uploaded_files"] == len(changed) == 1200, answer
    assert sum(read_by(pid) - before.get(pid, 0) for pid in lanes(world)) > 1 << 20, "the others carried nothing"
    same(folder, world.user.home / "proj")
    assert up(client, folder)["uploaded_files"] == 0


def test_many_files_and_connections_that_are_lost(host, world, line, far):
    client = client_of(host, line, world, far)
    folder = write_many(host, 90)
    call = start_up(client, folder)
    kill_lanes(world)
    answer = client.finish_tool(call, 110)
    assert answer["uploaded_files"] == 90 * 21 + 1 and not answer.get("failed_files"), answer
    same(folder, world.user.home / "proj")


@pytest.mark.parametrize("who", ["worker", "sshd", "nobody"])
def test_many_files_in_the_middle(host, world, line, far, who):
    """Somebody dies, or it is cancelled."""
    client = client_of(host, line, world, far, REMOTE_SANDBOX_INLINE_SYNC_MAX_FILES="0")
    folder = write_many(host, 90)
    target = world.user.home / "proj"
    before = set(world.user.processes(RELAY))
    task = up(client, folder)["task_id"]
    pid = in_the_middle(client, world, task, before)
    if pid and who == "worker":
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        assert wait_until(lambda: not is_running(pid), 60)
    elif pid and who == "sshd":
        far.signal_all(signal.SIGKILL)
        assert finished(client, task)["status"] in ("failed", "completed")
    elif pid:
        answer = client.tool("cancel_file_transfer_task", task_id=task, force_kill_after_s=60)
        assert answer.get("already_finished") or (answer["status"] == "cancelled" and not is_running(pid)), answer
    each_is_whole(folder, target)

    def again():
        answer = up(client, folder)
        return answer["mode"] == "inline" or finished(client, answer["task_id"])["status"] == "completed"

    for _ in range(10):
        with contextlib.suppress(ToolFailed):
            if again():
                break
    same(folder, target)


def test_many_files_and_a_full_disk(host, world, line, far):
    client = client_of(host, line, world, far)
    folder = write_many(host)
    target = pathlib.Path(world.user.mkdir("proj"))
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size=20m,uid={world.user.uid},mode=755", "small", target], check=True)
    try:
        with pytest.raises(ToolFailed) as failed:
            up(client, folder)
        assert "space" in failed.value.text, failed.value.text
        assert wait_until(lambda: not trees.temporary(target), 60)
        each_is_whole(folder, target)
    finally:
        world.user.kill_all()
        subprocess.run(["umount", "-l", target], check=True)


@pytest.mark.long
def test_connections_that_nobody_needs_end(host, world, line, far):
    client = client_of(host, line, world, far)
    up(client, write_project(host, 40))
    assert wait_until(lambda: len(lanes(world)) > 0, 60, 0.1)
    assert wait_until(lambda: not lanes(world), 90, 0.5)
    assert client.bash("true")["exit_code"] == 0
