"""A real sshd on a port of its own, with keys of its own, that lets the user in who runs it."""
import contextlib
import getpass
import os
import pathlib
import shutil
import socket
import subprocess

from host import wait_until

PROGRAM = shutil.which("sshd", path="/usr/sbin:/usr/local/sbin:/sbin:/usr/bin")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def make_key(path, passphrase="", owner=None):
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", passphrase, "-f", path], check=True)
    if owner is not None:
        os.chown(path, owner, -1)
    return path


class Sshd:
    def __init__(self, folder, *lines):
        self.folder, self.port = folder, free_port()
        self.user = getpass.getuser()
        folder.mkdir()
        make_key(folder / "host_key")
        (folder / "keys").touch(mode=0o600)
        config = folder / "config"
        config.write_text("\n".join([
            f"Port {self.port}", "ListenAddress 127.0.0.1", f"HostKey {folder}/host_key",
            f"AuthorizedKeysFile {folder}/keys", f"PidFile {folder}/pid", "StrictModes no",
            "UsePAM no", "PasswordAuthentication no", "Subsystem sftp internal-sftp", *lines, ""]))
        if os.geteuid() == 0:
            pathlib.Path("/run/sshd").mkdir(exist_ok=True)
        self.process = subprocess.Popen([PROGRAM, "-D", "-f", config, "-E", folder / "log"])
        wait_until(self.answers, 10)

    def answers(self):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1) as s:
            return s.recv(4) == b"SSH-"
        return False

    def let_in(self, key):
        with open(self.folder / "keys", "a", encoding="utf-8") as f:
            f.write(pathlib.Path(f"{key}.pub").read_text("utf-8"))

    def close(self):
        self.process.terminate()
        self.process.wait(10)
