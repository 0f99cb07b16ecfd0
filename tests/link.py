"""A slow line: two network namespaces that see each other with a delay (link.c). For root.

    with Link(25) as link:                      # 25 ms each way: a round trip of 50 ms
        subprocess.Popen(link.far(["sshd", ...]))      # listens on link.address
        subprocess.run(link.near(["ssh", link.address]))
        link.cut()                              # packets are lost, in silence
        link.mend()
"""
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

SOURCE = pathlib.Path(__file__).with_name("link.c")


def why_not():
    """Why there can be no link here, or None."""
    if os.geteuid() != 0:
        return "only root can make network namespaces"
    if not os.path.exists("/dev/net/tun"):
        return "there is no /dev/net/tun"
    if not (shutil.which("cc") and shutil.which("nsenter")):
        return "cc or nsenter is not installed"
    return None


class Link:
    near_address, address = "10.99.0.1", "10.99.0.2"

    def __init__(self, one_way_ms):
        with tempfile.TemporaryDirectory(prefix="abx-link-") as folder:
            program = os.path.join(folder, "link")
            subprocess.run(["cc", "-O2", "-D_GNU_SOURCE", "-o", program, SOURCE], check=True)
            self.process = subprocess.Popen([program, str(one_way_ms)], stdin=subprocess.DEVNULL,
                                            stdout=subprocess.PIPE, text=True)
            word, *numbers = (self.process.stdout.readline().split() or ["failed"])
        if word != "ready":
            self.process.wait()
            raise RuntimeError("the link could not be made: see above")
        pid, self._near = numbers

    def near(self, argv):
        """The command that runs argv on the near end, as the same process."""
        return ["nsenter", f"--net=/proc/{self.process.pid}/fd/{self._near}", "--", *map(str, argv)]

    def far(self, argv):
        return ["nsenter", f"--net=/proc/{self.process.pid}/ns/net", "--", *map(str, argv)]

    def cut(self):
        self.process.send_signal(signal.SIGUSR1)

    def mend(self):
        self.process.send_signal(signal.SIGUSR2)

    def close(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
