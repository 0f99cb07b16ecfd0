"""Whole folders to SSH hosts and back. What a sync does is in test_sync.py; here is what differs
by the way to a host: over its agent, or over plain channels without anything put there."""
import contextlib
import itertools
import os
import random
import signal
import stat
import subprocess
import time

import pytest

import ssh_servers
from mcp_client import ToolFailed
from ssh_servers import wait_for_agent
from test_transfers import caught, let_go, workers

pytestmark = pytest.mark.only_tiers("root")

COUNTER = itertools.count()
NAMES = ["a", "b.txt", "-rf", "two words", "line\nbreak", "\"'`$x", "*", "#", "~", "%s",
         os.fsdecode(b"\xff\xfe"), "L" * 255, "ünï"]


@pytest.fixture(scope="module")
def toolless(world):
    """A server on which find is not GNU's."""
    folder = world.folder / "tools"
    folder.mkdir()
    (folder / "find").write_text("#!/bin/sh\necho BSD find\nexit 1\n")
    (folder / "find").chmod(0o755)
    return world.sshd(SetEnv=f"PATH={folder}:/usr/bin:/bin")


@pytest.fixture(params=["agent", "tar", "sftp"])
def client(request, host, world):
    return client_of(request, host, world)


def client_of(request, host, world):
    """A server with one host, reached by this way; it may sync what is below "work"."""
    where = request.getfixturevalue("toolless") if request.param == "sftp" else world.server
    entry = world.entry(where, agent="auto" if request.param == "agent" else "never")
    work = host.user_home / "work"
    work.mkdir()
    c = host.server(env=ssh_servers.hosts(entry), cwd=work)
    c.way = request.param
    if request.param == "agent":
        wait_for_agent(c)
    return c


@pytest.fixture
def there(world):
    """A folder of the user's that nobody else uses."""
    return world.user.mkdir(f"there{next(COUNTER)}")


def fill(folder, rng, depth=3):
    folder.mkdir()
    for name in rng.sample(NAMES, rng.randrange(2, 9)):
        path = folder / name
        kind = rng.randrange(4 if depth else 3)
        if kind == 3:
            fill(path, rng, depth - 1)
        elif kind == 2:
            path.symlink_to(rng.choice(["nowhere", "/etc/passwd", "../x y"]))
        else:
            size = rng.choice([0, 1, 511, 512, 513, 70_000])
            path.write_bytes(rng.randbytes(size))
            path.chmod(rng.choice([0o644, 0o755, 0o600, 0o444]))
        os.utime(path, ns=(0, rng.randrange(10**9, 10**18)), follow_symlinks=False)


def picture(folder, client):
    """What a folder holds: path -> type, mode, mtime, contents. SFTP has no times of links."""
    out = {}
    for top, dirs, files in os.walk(folder):
        for name in dirs + files:
            path = os.path.join(top, name)
            is_ = os.lstat(path)
            what = os.readlink(path) if stat.S_ISLNK(is_.st_mode) else \
                open(path, "rb").read() if stat.S_ISREG(is_.st_mode) else None
            is_link = stat.S_ISLNK(is_.st_mode)
            mode = 0 if is_link else is_.st_mode
            mtime = 0 if is_link and client.way == "sftp" else is_.st_mtime_ns // 10**9
            out[os.path.relpath(path, folder)] = (mode, mtime, what)
    return out


def test_there_and_back(client, host, there):
    rng = random.Random(6)
    here, back = host.user_home / "work/here", host.user_home / "work/back"
    for round in range(3):
        fill(here, rng)
        far = there / f"new/{round}"
        client.tool("sync_local_to_remote", local_path=str(here), remote_path=str(far))
        assert picture(far, client) == picture(here, client)
        again = client.tool("sync_local_to_remote", local_path=str(here), remote_path=str(far))
        assert again["uploaded_files"] == 0, again
        client.tool("sync_remote_to_local", local_path=str(back), remote_path=str(far))
        assert picture(back, client) == picture(here, client)
        for folder in (here, back):
            os.rename(folder, f"{folder}{round}")


def up(client, here, there, **more):
    return client.tool("sync_local_to_remote", local_path=str(here), remote_path=str(there), **more)


def test_changes_and_extras(client, host, world, there):
    here = host.user_home / "work/here"
    fill(here, random.Random(7))
    up(client, here, there)
    (here / "new").write_text("new")
    (here / "mode").write_text("x")
    up(client, here, there)
    (here / "mode").chmod(0o751)
    (here / "new").write_text("other")
    world.user.mkdir(f"{there.name}/gone")
    world.user.write(f"{there.name}/gone/x\ny", "")
    world.user.write(f"{there.name}/z", "")
    done = up(client, here, there, delete_extras=True)
    assert (done["deleted_files"], done["deleted_dirs"]) == (2, 1), done
    assert picture(there, client) == picture(here, client)


def test_checksum(client, host, there):
    here = host.user_home / "work/here"
    here.mkdir()
    (here / "f").write_text("one")
    (here / "g").write_text("two")
    up(client, here, there)
    before = (there / "f").stat()
    (there / "f").write_text("0ne")
    os.utime(there / "f", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert up(client, here, there)["uploaded_files"] == 0
    assert up(client, here, there, checksum=True)["uploaded_files"] == 1
    assert (there / "f").read_text() == "one"


def test_a_link_in_the_way_leads_nowhere(client, host, world, there):
    here, outside = host.user_home / "work/here", world.user.mkdir(f"{there.name}-outside")
    (here / "d/e").mkdir(parents=True)
    (here / "d/e/x").write_text("x")
    (here / "f").write_text("new")
    world.user.write("victim", "safe")
    for name, target in (("d", outside), ("f", world.user.home / "victim")):
        (there / name).symlink_to(target)
        world.user.own(there / name)
    up(client, here, there)
    assert picture(there, client) == picture(here, client)
    assert os.listdir(outside) == []
    assert (world.user.home / "victim").read_text() == "safe"


SWAPPER = """#!/bin/sh
case "$*" in *"/d -mindepth"*)
    if [ -f "$HOME/swap" ] && [ ! -L "$(cat "$HOME/swap")/d" ]; then
        (cd "$(cat "$HOME/swap")" && mv d moved && ln -s "$HOME/outside" d)
    fi;;
esac
exec /usr/bin/find "$@"
"""


def test_a_link_that_is_put_in_the_way_meanwhile_leads_nowhere(host, world, there):
    """The host's find is the moment at which somebody does that: files are about to be moved."""
    tools, work = world.folder / f"swapper{next(COUNTER)}", host.user_home / "work"
    tools.mkdir()
    (tools / "find").write_text(SWAPPER)
    (tools / "find").chmod(0o755)
    server = world.sshd(SetEnv=f"PATH={tools}:/usr/bin:/bin")
    work.mkdir()
    client = host.server(env=ssh_servers.hosts(world.entry(server, agent="never")), cwd=work)
    here, outside = work / "here", world.user.mkdir("outside")
    (here / "d").mkdir(parents=True)
    (here / "d/x").write_text("x")
    (there / "d").mkdir()
    world.user.own(there / "d")
    world.user.write("swap", str(there))
    up(client, here, there)
    assert (there / "d").is_symlink(), "nobody has put it there"
    assert os.listdir(outside) == [] and (there / "moved/x").read_text() == "x"
    (world.user.home / "swap").unlink()
    up(client, here, there)
    assert (there / "d/x").read_text() == "x" and os.listdir(outside) == []


def test_a_full_disk_leaves_what_was_there(client, host, there):
    here = host.user_home / "work/here"
    here.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k,mode=777", "none", str(there)], check=True)
    try:
        (here / "a").write_text("old")
        up(client, here, there)
        (here / "a").write_bytes(os.urandom(1_000_000))
        with pytest.raises(ToolFailed, match="no space left"):
            up(client, here, there)
        assert os.listdir(there) == ["a"]
        assert (there / "a").read_text() == "old"
    finally:
        subprocess.run(["umount", "-l", str(there)], check=True)


@pytest.mark.parametrize("in_background", ["agent", "tar", "sftp"], indirect=True)
def test_cancel_in_the_middle_of_a_large_file_leaves_the_old_one(in_background, host, world, there):
    client, here = in_background, host.user_home / "work/here"
    here.mkdir()
    (here / "large").write_bytes(os.urandom(200 << 20))
    (there / "large").write_text("old")
    world.user.own(there / "large")
    task = up(client, here, there)["task_id"]
    let_go(caught(client, task))
    began = time.monotonic()
    answer = client.tool("cancel_file_transfer_task", task_id=task, force_kill_after_s=60)
    assert answer == {"task_id": task, "status": "cancelled", "terminated": True}
    assert time.monotonic() - began < 20  # it is milliseconds on a machine that has time
    assert client.tool("check_file_transfer_task", task_id=task)["status"] == "cancelled"
    assert (there / "large").read_text() == "old"


@pytest.fixture
def in_background(request, host, world):
    """A client whose syncs all become transfers."""
    host.pool["REMOTE_SANDBOX_INLINE_SYNC_MAX_FILES"] = "0"
    yield client_of(request, host, world)
    del host.pool["REMOTE_SANDBOX_INLINE_SYNC_MAX_FILES"]
    for pid in workers(host):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def test_what_cannot_be_there_is_said(client, host, world):
    here = host.user_home / "work/here"
    here.mkdir()
    (here / "a").write_text("x")
    world.user.write("plainfile", "")
    with pytest.raises(ToolFailed, match="a file"):
        up(client, here, f"{world.user.home}/plainfile/")
    with pytest.raises(ToolFailed, match="may not|denied"):
        up(client, here, "/nothing-of-yours")
    with pytest.raises(ToolFailed, match="there is no"):
        client.tool("sync_remote_to_local", remote_path="no/such/folder", local_path=str(here))

