"""A container engine for the tests: a dockerd of their own, with its socket, data and processes
in one folder, no network and no iptables; and an image of the host's own programs, so that no
registry is needed."""
import contextlib
import http.client
import io
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tarfile
import time

from mcp_client import McpClient

IMAGE = "anybox-test:latest"
PACKAGES = ("bash", "coreutils", "findutils", "grep", "sed", "tar", "gzip", "procps", "diffutils", "dash", "util-linux",
            "python3-minimal", "python3.11-minimal", "libpython3.11-minimal", "libpython3.11-stdlib", "python3")
TYPICAL = {"bash", "ls", "cp", "mv", "sort", "stat", "df", "find", "grep", "sed", "tar", "gzip", "ps", "diff", "dash",
           "flock", "setsid", "mawk", "python3.11"}  # these need all the libraries that any of them needs
LINKS = {"bin": "usr/bin", "sbin": "usr/sbin", "lib": "usr/lib", "lib64": "usr/lib64"}
CLEAN = """
for p in /proc/[0-9]*; do
    p=${p#/proc/}
    [ $p = $$ ] || [ $p = 1 ] || grep -qs boxinit /proc/$p/cmdline || kill -9 $p 2>/dev/null
done
chmod -R u+rwX ~ /app/results /tmp 2>/dev/null
find ~ /app/results /tmp -mindepth 1 -delete
"""
SKIPPED = ("/usr/share", "/etc", "/var", "/lib/systemd", "/usr/lib/systemd")


def why_not():
    """Why no engine can be started here, or None."""
    if os.getuid() != 0:
        return "only root can start a container engine"
    for program in "dockerd", "containerd", "runc":
        if not shutil.which(program):
            return f"{program} is missing (apt-get install docker.io)"
    return None


class Connection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("docker", timeout=120)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self.path))


def libraries(programs):
    """What these need beside themselves, as the loader says."""
    said = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
    return {word for word in said.split() if word.startswith("/") and not word.endswith(":")}


def files_of_packages():
    listed = subprocess.run(["dpkg", "-L", *PACKAGES], capture_output=True, text=True, check=False).stdout.split("\n")
    files = {f for f in listed if f.startswith("/") and not f.startswith(SKIPPED) and (os.path.islink(f) or os.path.isfile(f))}
    return files | {"/usr/bin/awk", "/usr/bin/mawk", "/usr/bin/python3", "/usr/bin/which"} | programs_of_links(files)


def programs_of_links(files):
    return {os.path.realpath(f) for f in files if os.path.islink(f) and os.path.exists(f)}


def inside(path):
    """A path as it is in an image whose /bin and /lib are links."""
    name = path.lstrip("/")
    first, _, rest = name.partition("/")
    return f"{LINKS[first]}/{rest}" if first in LINKS else name


def root_archive():
    """A small root file system with bash, the usual tools and python3, as a tar."""
    files = {f for f in files_of_packages() if os.path.isfile(f)}
    programs = [f for f in files if os.path.basename(f) in TYPICAL or "/lib-dynload/" in f]
    files |= {l for l in libraries(programs) if os.path.exists(l)}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", dereference=True) as tar:
        for name, target in LINKS.items():
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            tar.addfile(link)
        seen = set()
        for path in sorted(files):
            name = inside(path)
            if name in seen:
                continue
            seen.add(name)
            tar.add(os.path.realpath(path), arcname=name, recursive=False)
        for name, text in (("etc/passwd", "root:x:0:0:root:/root:/bin/bash\n"), ("etc/group", "root:x:0:\n"),
                           ("etc/nsswitch.conf", "passwd: files\n")):
            entry = tarfile.TarInfo(name)
            entry.size = len(text)
            tar.addfile(entry, io.BytesIO(text.encode()))
    return out.getvalue()


class Engine:
    volumes_of_read_only = 2  # home and work folder

    def __init__(self, folder, *options):
        self.folder, self.options = folder, options
        self.socket = folder / "sock"
        self.log = folder / "log"
        self.process = self.containerd = None
        self.driver = None
        self.lent, self.homes = {}, {}  # by whether it has the agent
        folder.mkdir()

    # ---- its life ----

    def start(self):
        for driver in [self.driver] if self.driver else ["overlay2", "vfs"]:
            if self._start(driver):
                self.driver = driver
                return
        raise RuntimeError("dockerd does not start:\n" + self.log.read_text(errors="replace")[-3000:])

    def _start_containerd(self):
        """By itself, as on most machines: it goes on when dockerd is killed."""
        if self.containerd and self.containerd.poll() is None:
            return
        config = self.folder / "containerd.toml"
        config.write_text(f'''version = 2
root = "{self.folder}/containerd"
state = "{self.folder}/containerd-run"
disabled_plugins = ["io.containerd.grpc.v1.cri"]
[grpc]
address = "{self.folder}/containerd.sock"
''')
        with open(self.log, "ab") as log:
            self.containerd = subprocess.Popen(["containerd", "--config", config], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                               start_new_session=True)
        until = time.monotonic() + 60
        while time.monotonic() < until and self.containerd.poll() is None:
            with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as probe:
                probe.connect(f"{self.folder}/containerd.sock")
                return
            time.sleep(0.05)

    def _start(self, driver):
        self._start_containerd()
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                ["dockerd", "--data-root", self.folder / "data", "--exec-root", self.folder / "exec",
                 "--containerd", self.folder / "containerd.sock", "--pidfile", self.folder / "pid", "-H", f"unix://{self.socket}", "--storage-driver", driver,
                 "--iptables=false", "--ip6tables=false", "--bridge=none", "--shutdown-timeout", "5",
                 *self.options],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        return self._comes_up()

    def _comes_up(self):
        until = time.monotonic() + 60
        while time.monotonic() < until and self.process.poll() is None:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if self.call("GET", "/_ping")[0] == 200:
                    return True
            time.sleep(0.1)
        self.stop()
        return False

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self):
        """As the kernel does it: its containers and containerd go on."""
        self.process.kill()
        self.process.wait()

    def close(self):
        self.stop()
        if self.containerd:
            self.containerd.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.containerd.wait(30)
        for entry in os.listdir("/proc"):  # what watches a container whose engine was killed
            with contextlib.suppress(OSError, ValueError):
                if str(self.folder).encode() in pathlib.Path(f"/proc/{int(entry)}/cmdline").read_bytes():
                    os.kill(int(entry), signal.SIGKILL)
        mounts = [line.split()[1] for line in open("/proc/mounts") if line.split()[1].startswith(str(self.folder))]
        for mount in sorted(mounts, reverse=True):
            subprocess.run(["umount", "-l", mount], check=False, capture_output=True)
        shutil.rmtree(self.folder, ignore_errors=True)

    # ---- asking it ----

    def call(self, method, path, body=None, raw=None, kind="application/json"):
        connection = Connection(self.socket)
        try:
            data = raw if raw is not None else None if body is None else json.dumps(body)
            connection.request(method, path, data, {"Content-Type": kind} if data is not None else {})
            answer = connection.getresponse()
            said = answer.read()
        finally:
            connection.close()
        return answer.status, said

    def ask(self, method, path, body=None, **more):
        status, said = self.call(method, path, body, **more)
        assert 200 <= status < 300, (method, path, status, said)
        return json.loads(said) if said.strip() else None

    def import_image(self, name, archive, changes=()):
        query = "".join("&changes=" + c.replace(" ", "%20") for c in changes)
        repo, tag = name.split(":")
        self.ask("POST", f"/images/create?fromSrc=-&repo={repo}&tag={tag}{query}", raw=archive, kind="application/x-tar")

    def containers(self):
        return self.ask("GET", "/containers/json?all=1")

    def of_box(self, box_id):
        """Everything the engine says of a sandbox's container."""
        return self.ask("GET", f"/containers/anybox-{box_id[:12]}/json")

    def volumes(self):
        return self.ask("GET", "/volumes")["Volumes"] or []

    @property
    def env(self):
        return {"DOCKER_HOST": f"unix://{self.socket}", "ANYBOX_DOCKER_DEFAULT_IMAGE": IMAGE}


    def run(self, container, script, user=""):
        """A script in a container by the engine's own exec; its exit code."""
        made = self.ask("POST", f"/containers/{container}/exec",
                        {"Cmd": ["bash", "-c", script], "AttachStdout": True, "User": user})
        self.call("POST", f"/exec/{made['Id']}/start", {"Detach": False, "Tty": False})
        return self.ask("GET", f"/exec/{made['Id']}/json")["ExitCode"]

    # ---- one box for many tests ----

    def lend(self, host, agent=True):
        """Gives the test a state folder that knows of the one box "work"; its id."""
        env = {**self.env, "ANYBOX_DOCKER_AGENT": "true" if agent else "false"}
        if agent not in self.lent or not self.is_running(self.lent[agent]):
            self.homes[agent] = self.folder / f"home{time.monotonic_ns()}"
            client = McpClient([str(host.install.anybox)], env=host.env(ANYBOX_HOME=str(self.homes[agent]), **env),
                               cwd=host.project)
            self.lent[agent] = client.tool("create_sandbox", name="work", provider="docker")["sandbox_id"]
            client.close()
        shutil.copytree(self.homes[agent], host.home)
        host.more_env = env
        host.kept.add(self.lent[agent])
        return self.lent[agent]

    def is_running(self, box_id):
        status, said = self.call("GET", f"/containers/anybox-{box_id[:12]}/json")
        return status == 200 and json.loads(said)["State"]["Status"] == "running"

    def empty(self, box_id):
        """Ends its processes but PID 1 and those who speak with it, and removes its files."""
        if not self.is_running(box_id) or self.run(f"anybox-{box_id[:12]}", CLEAN) != 0:
            self.call("DELETE", f"/containers/anybox-{box_id[:12]}?force=1&v=1")
            self.lent = {agent: lent for agent, lent in self.lent.items() if lent != box_id}


RUNTIME = """#!/usr/bin/python3
import json, os, resource, sys
# runc for a root who may not raise limits, as in a container: Podman asks for the most that there are.
words = sys.argv[1:]


def most(limit):
    hard = resource.getrlimit(getattr(resource, limit))[1]
    return float("inf") if hard == resource.RLIM_INFINITY else hard


def change(path, of):
    with open(path) as f:
        spec = json.load(f)
    process = of(spec)
    process["rlimits"] = [r for r in process.get("rlimits") or [] if r["hard"] <= most(r["type"])]
    with open(path, "w") as f:
        json.dump(spec, f)


if "create" in words and "--bundle" in words:
    change(words[words.index("--bundle") + 1] + "/config.json", lambda spec: spec["process"])
if "exec" in words and "--process" in words:
    change(words[words.index("--process") + 1], lambda spec: spec)
os.execvp("runc", ["runc", *words])
"""


class Podman(Engine):
    """The same API, served by Podman."""
    volumes_of_read_only = 3  # and the agent's

    @staticmethod
    def why_not():
        if os.getuid() != 0:
            return "only root can start a container engine"
        for program in "podman", "runc":
            if not shutil.which(program):
                return f"{program} is missing (apt-get install podman)"
        return None

    def _start(self, driver):
        folder = self.folder
        runtime = folder / "runc"
        runtime.write_text(RUNTIME)
        runtime.chmod(0o755)
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                ["podman", "--root", folder / "data", "--runroot", folder / "run", "--tmpdir", folder / "tmp", "--runtime", runtime,
                 "--cgroup-manager", "cgroupfs", "--events-backend", "file", "--storage-driver", driver.replace("overlay2", "overlay"),
                 "system", "service", "--time", "0", f"unix://{self.socket}"], cwd=folder,
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        return self._comes_up()

    def import_image(self, name, archive, changes=()):
        """It names what it imports by its repository alone."""
        repo, tag = name.split(":")
        super().import_image(name, archive, changes)
        if tag != "latest":
            self.ask("POST", f"/images/{repo}:latest/tag?repo={repo}&tag={tag}")
            self.ask("DELETE", f"/images/{repo}:latest")


def cached_archive(build):
    """Made once for each build folder."""
    kept = pathlib.Path(build) / "e2e-image.tar"
    if not kept.exists():
        fresh = kept.with_suffix(f".{os.getpid()}")
        fresh.write_bytes(root_archive())
        fresh.rename(kept)
    return kept.read_bytes()
