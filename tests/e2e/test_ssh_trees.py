"""Whole folders to SSH hosts and back. What a sync does is in test_sync.py; here is what differs
by the way to a host: over its agent, or over plain channels without anything put there."""
import itertools
import os
import random
import stat
import subprocess

import pytest

import ssh_servers
from mcp_client import ToolFailed
from ssh_servers import wait_for_agent

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

