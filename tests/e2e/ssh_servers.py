"""Real SSH servers on loopback ports, a user to log in as, and a proxy that can be cut."""
import contextlib
import json
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import threading
import time

SSHD = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin") or "/usr/sbin/sshd"
SFTP = next((p for p in ("/usr/lib/openssh/sftp-server", "/usr/libexec/sftp-server")
             if os.path.exists(p)), "internal-sftp")


def why_not():
    """Why no servers can be started here, or None."""
    if os.getuid() != 0:
        return "only root can make users to log in as"
    if not os.path.exists(SSHD):
        return "sshd is not installed (openssh-server)"
    return None


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def keygen(path, kind="ed25519", passphrase=""):
    subprocess.run(["ssh-keygen", "-q", "-t", kind, "-N", passphrase, "-f", str(path)], check=True,
                   stdin=subprocess.DEVNULL)
    return path


class User:
    """An account of this test run's own."""

    def __init__(self, name, folder, shell="/bin/bash", password="a pass'word"):
        self.name, self.password, self.home = name, password, folder / name
        subprocess.run(["useradd", "-M", "-d", str(self.home), "-s", shell, name], check=True)
        subprocess.run(["chpasswd"], input=f"{name}:{password}\n", text=True, check=True)
        self.home.mkdir()
        self.own(self.home)

    def own(self, path):
        entry = pwd.getpwnam(self.name)
        os.chown(path, entry.pw_uid, entry.pw_gid)

    def shell(self, path):
        subprocess.run(["usermod", "-s", path, self.name], check=True)

    def write(self, name, text):
        (self.home / name).write_text(text)
        self.own(self.home / name)

    def processes(self, pattern):
        found = subprocess.run(["pgrep", "-u", self.name, "-f", pattern], capture_output=True,
                               text=True, check=False)
        return found.stdout.split()

    def remove(self):
        subprocess.run(["pkill", "-KILL", "-u", self.name], check=False)
        subprocess.run(["userdel", "-f", self.name], check=False, capture_output=True)


class Sshd:
    """One server with its own port, host key and settings."""

    def __init__(self, folder, authorized, host_key=None, **settings):
        folder.mkdir()
        folder.chmod(0o755)
        self.port = free_port()
        self.host_key = host_key or keygen(folder / "host_key")
        self.pid_file, self.log = folder / "pid", folder / "log"
        keys = folder / "authorized_keys"
        keys.write_text("".join(pathlib.Path(f"{k}.pub").read_text() for k in authorized))
        keys.chmod(0o644)
        options = {"Port": self.port, "ListenAddress": "127.0.0.1", "HostKey": self.host_key,
                   "AuthorizedKeysFile": keys, "PidFile": self.pid_file, "StrictModes": "no",
                   "UsePAM": "no", "PermitRootLogin": "no", "Subsystem": f"sftp {SFTP}",
                   "MaxStartups": 100, **settings}
        (folder / "config").write_text("".join(f"{k} {v}\n" for k, v in options.items()))
        pathlib.Path("/run/sshd").mkdir(exist_ok=True)
        self.process = subprocess.Popen([SSHD, "-D", "-f", str(folder / "config"), "-E", str(self.log)],
                                        stdin=subprocess.DEVNULL)
        until = time.monotonic() + 10
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port)):
                return
            assert self.process.poll() is None and time.monotonic() < until, self.log.read_text()
            time.sleep(0.02)

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
        self.process.terminate()
        self.signal_all(signal.SIGKILL)
        self.process.wait(10)


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


def hosts(*entries):
    """The variable that names these hosts."""
    return {"REMOTE_SANDBOX_LIST": json.dumps(list(entries))}
