"""Docker to compare with: the daemon that runs, or else one of our own for the while."""
import glob
import io
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import time

START_S = 30


def small_image():
    """A tar of bash, true and sleep with their libraries: no registry is needed."""
    files = {shutil.which(name) for name in ("bash", "true", "sleep")}
    for program in list(files):
        told = subprocess.run(["ldd", program], stdout=subprocess.PIPE, text=True, check=True).stdout
        files.update(re.findall(r"(/\S+) \(0x", told))
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", dereference=True) as tar:
        for path in sorted(files):
            tar.add(path, arcname=path.lstrip("/"))
    return out.getvalue()


def quiet(args, **more):
    return subprocess.run(args, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, **more)


class Docker:
    """ready, or why not. With an image and a container that lives, both removed at the end;
    the daemon too if it is ours, by its process."""

    def __init__(self):
        self.ready, self.why, self.what = False, "", ""
        self.daemon, self.folder = None, None
        self.socket = "/var/run/docker.sock"
        self.image = self.container = f"anybox-bench-{os.getpid()}"

    def command(self, *args):
        return [self.client, "-H", f"unix://{self.socket}", *args]

    def __enter__(self):
        self.client = shutil.which("docker")
        try:
            self.ready = self.reach() and self.fill()
        except BaseException:
            self.__exit__()
            raise
        return self

    def reach(self):
        if not self.client:
            self.why = "docker is not installed"
            return False
        if self.answers():
            self.what = f"the daemon that runs here, {self.version()}"
            return True
        program = shutil.which("dockerd")
        if not program or os.geteuid() != 0:
            self.why = f"no daemon answers, and {'only root can start one' if program else 'dockerd is not installed'}"
            return False
        return self.start(program)

    def answers(self):
        return quiet(self.command("version", "--format", "{{.Server.Version}}")).returncode == 0

    def version(self):
        return quiet(self.command("version", "--format", "{{.Server.Version}}"), text=True).stdout.strip()

    def start(self, program):
        self.folder = tempfile.mkdtemp(prefix="anybox-bench-docker-")
        self.socket = os.path.join(self.folder, "docker.sock")
        log = os.path.join(self.folder, "log")
        with open(log, "wb") as f:
            self.daemon = subprocess.Popen(
                [program, "--data-root", f"{self.folder}/data", "--exec-root", f"{self.folder}/exec",
                 "--pidfile", f"{self.folder}/pid", "-H", f"unix://{self.socket}", "--iptables=false",
                 "--ip6tables=false", "--ip-forward=false", "--bridge=none", "--cgroup-parent", self.image], stdin=subprocess.DEVNULL, stdout=f, stderr=f)
        until = time.monotonic() + START_S
        while time.monotonic() < until and self.daemon.poll() is None:
            if self.answers():
                self.what = f"a daemon of our own, {self.version()}"
                return True
            time.sleep(0.2)
        with open(log, errors="replace") as f:
            self.why = f"dockerd does not start: {(f.read().splitlines() or ['it says nothing'])[-1]}"
        return False

    def fill(self):
        made = quiet(self.command("import", "-", self.image), input=small_image())
        if made.returncode == 0:
            made = quiet(self.command("run", "-d", "--rm", "--network", "none", "--name", self.container, self.image,
                                      "sleep", "infinity"))
        if made.returncode != 0:
            self.why = f"docker refuses: {made.stderr.decode(errors='replace').strip().splitlines()[-1]}"
        return made.returncode == 0

    def __exit__(self, *_):
        if self.client:
            quiet(self.command("rm", "-f", self.container))
            quiet(self.command("rmi", self.image))
        if self.daemon:
            self.daemon.terminate()
            try:
                self.daemon.wait(20)
            except subprocess.TimeoutExpired:
                self.daemon.kill()
                self.daemon.wait()
        if self.folder:
            self.unmount()
            for left in glob.glob(f"/sys/fs/cgroup/**/{self.image}", recursive=True):
                os.rmdir(left)
            shutil.rmtree(self.folder, ignore_errors=True)

    def unmount(self):
        """What a daemon leaves mounted when it goes, deepest first."""
        with open("/proc/self/mountinfo") as f:
            points = [line.split()[4] for line in f]
        for point in sorted((p for p in points if p.startswith(self.folder + "/")), reverse=True):
            quiet(["umount", "-l", point])
