"""What the SSH tests share: a user, keys, and servers that end with the module."""
import os
import pathlib
import shutil
import tempfile
import time

import pytest

import ssh_servers


class World:
    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="abx-ssh-", dir="/tmp"))
        self.folder.chmod(0o755)
        self.key = ssh_servers.keygen(self.folder / "id")
        self.user = ssh_servers.User(f"abxt{os.getpid() % 100000}", self.folder)
        self.ends = []
        self.n = 0

    def sshd(self, **settings):
        self.n += 1
        server = ssh_servers.Sshd(self.folder / f"sshd{self.n}", [self.key], **settings)
        self.ends.append(server.stop)
        return server

    def proxy(self, port):
        proxy = ssh_servers.Proxy(port)
        self.ends.append(proxy.close)
        return proxy

    def entry(self, port, name="box", **more):
        """A host of REMOTE_SANDBOX_LIST, by key unless a password is given."""
        port = getattr(port, "port", port)
        given = {"name": name, "host": "127.0.0.1", "port": port, "user": self.user.name, **more}
        if "password" not in given:
            given.setdefault("key_file", str(self.key))
        return given

    def close(self):
        for end in reversed(self.ends):
            end()
        self.user.remove()
        shutil.rmtree(self.folder, ignore_errors=True)


@pytest.fixture(scope="module")
def world():
    if ssh_servers.why_not():
        must = "ssh" in os.environ.get("ANYBOX_MUST_RUN", "").split(",")
        (pytest.fail if must else pytest.skip)(ssh_servers.why_not())
    made = World()
    try:
        made.server = made.sshd()
        yield made
    finally:
        made.close()


@pytest.fixture
def ssh(host, world):
    """A client whose active box is the user's account."""
    return host.server(env=ssh_servers.hosts(world.entry(world.server)))


def wait_gone(user, pattern, seconds=5):
    until = time.monotonic() + seconds
    while user.processes(pattern) and time.monotonic() < until:
        time.sleep(0.05)
    return not user.processes(pattern)
