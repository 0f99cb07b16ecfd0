"""Real SSH servers on ports of their own, accounts to log in as, and a proxy that can be cut.

A World has a user, a key that lets in, and servers that end with it. As root its user is an
account of its own; anybody else's is whoever runs the tests, who can only log in by key."""
import contextlib
import itertools
import json
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time

from host import SLOT, free_port, use_own_etc
from mcp_client import ToolFailed

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin:/usr/bin")
SFTP = next((p for p in ("/usr/lib/openssh/sftp-server", "/usr/libexec/sftp-server")
             if os.path.exists(p)), "internal-sftp")
IS_ROOT = os.geteuid() == 0
COUNTER = itertools.count()

# A program that passes its input and output on to a host and a port: for a ProxyCommand.
RELAY = """
import os, socket, sys, threading
s = socket.create_connection((sys.argv[1], int(sys.argv[2])))
def back():
    while True:
        d = s.recv(65536)
        if not d:
            os._exit(0)
        os.write(1, d)
threading.Thread(target=back, daemon=True).start()
while True:
    d = os.read(0, 65536)
    if not d:
        break
    s.sendall(d)
"""


def why_not(account=True):
    """Why no servers can be started here, or None; with `account`, ones for a user of their own."""
    if SSHD is None:
        return "sshd is not installed (openssh-server)"
    if account and not IS_ROOT:
        return "only root can make users to log in as"
    return None


def keygen(path, kind="ed25519", passphrase="", *options, owner=None):
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-f", str(path), *options],
                   check=True, stdin=subprocess.DEVNULL)
    if owner is not None:
        os.chown(path, owner, -1)
    return path


def hosts(*entries):
    """The variable that names these hosts."""
    return {"REMOTE_SANDBOX_LIST": json.dumps(list(entries))}


def use_ssh_config(host, text):
    """The environment in which `text` is the user's ~/.ssh/config: ssh reads that of the passwd
    entry's home, so one in our PATH is told the file."""
    folder, config = host.user_home / "bin", host.user_home / "ssh_config"
    folder.mkdir(exist_ok=True)
    config.write_text(text)
    (folder / "ssh").write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {config} "$@"\n')
    (folder / "ssh").chmod(0o755)
    return {"PATH": f"{folder}:{host.env()['PATH']}"}


def wait_gone(user, pattern, seconds=30):
    until = time.monotonic() + seconds
    while user.processes(pattern) and time.monotonic() < until:
        time.sleep(0.05)
    return not user.processes(pattern)


def until_back(act, seconds=60):
    """The first answer of a host that comes back: calls fail until then."""
    until = time.monotonic() + seconds
    while True:
        try:
            return act()
        except ToolFailed:
            assert time.monotonic() < until, "the host does not come back"
            time.sleep(0.3)


def via(client, name=None):
    """How the host is reached: "agent" or "channels"."""
    boxes = client.tool("list_sandboxes")["sandboxes"]
    return next(b["via"] for b in boxes if "via" in b and name in (None, b["name"]))


def wait_for_agent(client, name=None, seconds=60):
    until = time.monotonic() + seconds
    chosen = {"sandbox_id": name} if name else {}
    while via(client, name) != "agent":
        assert time.monotonic() < until, client.tool("list_sandboxes")
        client.tool("exec_bash", command="true", **chosen)
        time.sleep(0.05)


class Myself:
    """Whoever runs the tests."""

    def __init__(self):
        entry = pwd.getpwuid(os.geteuid())
        self.name, self.home, self.uid, self.gid = \
            entry.pw_name, pathlib.Path(entry.pw_dir), entry.pw_uid, entry.pw_gid

    def own(self, path):
        os.chown(path, self.uid, self.gid, follow_symlinks=False)

    def write(self, name, text):
        (self.home / name).write_text(text)
        self.own(self.home / name)

    def mkdir(self, name):
        (self.home / name).mkdir()
        self.own(self.home / name)
        return self.home / name

    def processes(self, pattern):
        found = subprocess.run(["pgrep", "-u", self.name, "-f", pattern], capture_output=True,
                               text=True, check=False)
        return found.stdout.split()

    def remove(self):
        pass


class Account(Myself):
    """A user of this test run's own."""

    def __init__(self, folder, shell="/bin/bash", password="a pass'word"):
        use_own_etc()
        number = next(COUNTER) % 10
        self.name = f"abxt{os.getpid() % 100000}x{number}"
        self.password, self.home = password, folder / self.name
        subprocess.run(["useradd", "-u", str(10000 + 10 * SLOT + number), "-M", "-d", str(self.home), "-s", shell, self.name], check=True)
        subprocess.run(["chpasswd"], input=f"{self.name}:{password}\n", text=True, check=True)
        entry = pwd.getpwnam(self.name)
        self.uid, self.gid = entry.pw_uid, entry.pw_gid
        self.home.mkdir()
        self.own(self.home)

    @contextlib.contextmanager
    def shell(self, path):
        """Logs in with another shell for a while."""
        subprocess.run(["usermod", "-s", str(path), self.name], check=True)
        try:
            yield
        finally:
            subprocess.run(["usermod", "-s", "/bin/bash", self.name], check=True)

    def kill_all(self):
        subprocess.run(["pkill", "-KILL", "-u", self.name], check=False)

    def remove(self):
        self.kill_all()
        subprocess.run(["userdel", "-f", self.name], check=False, capture_output=True)


class Sshd:
    """One server with its own port, host key and settings. `wrap` turns its command into one
    that runs it elsewhere, for example at the far end of a link."""

    def __init__(self, folder, authorized=(), host_key=None, address="127.0.0.1", wrap=list,
                 **settings):
        folder.mkdir()
        folder.chmod(0o755)
        self.address, self.port, self.wrap = address, free_port(), wrap
        self.host_key = host_key or keygen(folder / "host_key")
        self.log, self.keys, self.config = folder / "log", folder / "authorized_keys", folder / "config"
        self.keys.touch(mode=0o644)
        for key in authorized:
            self.let_in(key)
        options = {"Port": self.port, "ListenAddress": address, "HostKey": self.host_key,
                   "AuthorizedKeysFile": self.keys, "PidFile": folder / "pid", "StrictModes": "no",
                   "UsePAM": "no", "PermitRootLogin": "no" if IS_ROOT else "prohibit-password",
                   "Subsystem": f"sftp {SFTP}", "MaxStartups": 100, **settings}
        self.config.write_text("".join(f"{k} {v}\n" for k, v in options.items()))
        if IS_ROOT:
            pathlib.Path("/run/sshd").mkdir(exist_ok=True)
        self.start()

    def start(self):
        argv = [SSHD, "-D", "-f", str(self.config), "-E", str(self.log)]
        before = self.log.read_text().count("Server listening") if self.log.exists() else 0
        self.process = subprocess.Popen(self.wrap(argv), stdin=subprocess.DEVNULL)
        until = time.monotonic() + 30
        while not self.log.exists() or self.log.read_text().count("Server listening") == before:
            assert self.process.poll() is None and time.monotonic() < until, \
                self.log.exists() and self.log.read_text()
            time.sleep(0.02)

    def let_in(self, key):
        with open(self.keys, "a", encoding="utf-8") as f:
            f.write(pathlib.Path(f"{key}.pub").read_text("utf-8"))

    def children(self):
        """The processes that serve connections."""
        found = subprocess.run(["pgrep", "-P", str(self.process.pid)], capture_output=True, text=True,
                               check=False).stdout.split()
        for pid in list(found):
            found += subprocess.run(["pgrep", "-P", pid, "sshd"], capture_output=True, text=True,
                                    check=False).stdout.split()
        return [int(p) for p in found]

    def signal_all(self, number):
        for pid in self.children():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def stop(self):
        children = self.children()  # nobody's children once it has ended
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        for pid in children:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self.process.wait(30)


class Proxy:
    """Passes bytes on to a port until it is told to stall or to drop everything."""

    def __init__(self, port):
        self.target, self.stalled, self.socks = port, threading.Event(), []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.accepted = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near = self.listener.accept()[0]
                self.accepted += 1
                far = socket.create_connection(("127.0.0.1", self.target))
                self.socks += [near, far]
                for a, b in ((near, far), (far, near)):
                    threading.Thread(target=self._pass, args=(a, b), daemon=True).start()

    def _pass(self, a, b):
        with contextlib.suppress(OSError):
            while True:
                data = a.recv(65536)
                while self.stalled.is_set():
                    time.sleep(0.05)
                if not data:
                    break
                b.sendall(data)
        with contextlib.suppress(OSError):
            b.shutdown(socket.SHUT_WR)

    def drop(self):
        for s in self.socks:
            with contextlib.suppress(OSError):
                s.shutdown(socket.SHUT_RDWR)
            s.close()
        self.socks = []

    def close(self):
        with contextlib.suppress(OSError):
            self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.stalled.clear()
        self.drop()


class World:
    """A user, a key and servers; what it made ends with it, the last thing first."""

    def __init__(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="abx-ssh-", dir="/tmp"))
        self.folder.chmod(0o755)
        self.n, self.ends = 0, []
        self.user = Myself()
        try:
            self.key = keygen(self.folder / "id")
            self.user = Account(self.folder) if IS_ROOT else self.user
            self.cache = self.folder / "cache"  # where agents are put, instead of into the home
            self.cache.mkdir()
            self.user.own(self.cache)
            self.server = self.sshd()
        except BaseException:
            self.close()
            raise

    def sshd(self, authorized=None, **settings):
        self.n += 1
        settings.setdefault("SetEnv", f"XDG_CACHE_HOME={self.cache}")
        server = Sshd(self.folder / f"sshd{self.n}", authorized or [self.key], **settings)
        self.ends.append(server.stop)
        return server

    def proxy(self, port):
        proxy = Proxy(port)
        self.ends.append(proxy.close)
        return proxy

    def entry(self, where, name="box", **more):
        """A host of REMOTE_SANDBOX_LIST, by key unless a password is given. `where` is a
        server, a proxy or a port."""
        given = {"name": name, "host": getattr(where, "address", "127.0.0.1"),
                 "port": getattr(where, "port", where), "user": self.user.name, **more}
        if "password" not in given:
            given.setdefault("key_file", str(self.key))
        return given

    def close(self):
        for end in reversed(self.ends):
            end()
        self.user.remove()
        shutil.rmtree(self.folder, ignore_errors=True)
