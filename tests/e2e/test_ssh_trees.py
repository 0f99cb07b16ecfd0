"""Whole folders to SSH hosts and back. What a sync does is in test_sync.py; here is what differs
by the way to a host: over its agent, or over plain channels without anything put there."""
import os
import random
import stat

import pytest

import ssh_servers
from ssh_servers import wait_for_agent

pytestmark = pytest.mark.only_tiers("root")

NAMES = ["a", "b.txt", "-rf", "two words", "line\nbreak", "\"'`$x", "*", "#", "~", "%s",
         os.fsdecode(b"\xff\xfe"), "L" * 255, "ünï"]


@pytest.fixture(params=["auto"])
def client(request, host, world):
    """A server with one host, reached by this way; it may sync what is below "work"."""
    entry = world.entry(world.server, agent=request.param)
    work = host.user_home / "work"
    work.mkdir()
    c = host.server(env=ssh_servers.hosts(entry), cwd=work)
    if request.param == "auto":
        wait_for_agent(c)
    return c


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


def picture(folder):
    """What a folder holds: path -> type, mode, mtime, contents."""
    out = {}
    for top, dirs, files in os.walk(folder):
        for name in dirs + files:
            path = os.path.join(top, name)
            is_ = os.lstat(path)
            what = os.readlink(path) if stat.S_ISLNK(is_.st_mode) else \
                open(path, "rb").read() if stat.S_ISREG(is_.st_mode) else None
            mode = 0 if stat.S_ISLNK(is_.st_mode) else is_.st_mode
            out[os.path.relpath(path, folder)] = (mode, is_.st_mtime_ns // 10**9, what)
    return out


def test_there_and_back(client, host, world):
    rng = random.Random(6)
    here, back = host.user_home / "work/here", host.user_home / "work/back"
    for round in range(3):
        fill(here, rng)
        there = world.user.home / f"there{round}"
        client.tool("sync_local_to_remote", local_path=str(here), remote_path=str(there))
        assert picture(there) == picture(here)
        again = client.tool("sync_local_to_remote", local_path=str(here), remote_path=str(there))
        assert again["uploaded_files"] == 0, again
        client.tool("sync_remote_to_local", local_path=str(back), remote_path=str(there))
        assert picture(back) == picture(here)
        for folder in (here, back):
            os.rename(folder, f"{folder}{round}")
