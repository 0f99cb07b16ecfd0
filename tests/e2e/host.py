"""The machine as the tests see it: who runs the program (the tiers), where its state is,
which processes, mounts and cgroups belong to boxes, and what a finished test left behind."""
import atexit
import contextlib
import ctypes
import fcntl
import functools
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pytest
from mcp_client import McpClient

IS_ROOT = os.getuid() == 0
TIERS = ("root", "subuid", "plain") if IS_ROOT else ("self",)
NAMES = ("remote-sandbox-mcp", "mcp-sandbox", "mcp-python-sandbox", "opensandbox-mcp-server")
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"

# Users and ids of this process's own: others may run tests at the same time.
SLOT_LOCK = socket.socket(socket.AF_UNIX)
SLOTS = 4000


def take_slot():
    """A number that no other pytest of this machine has: pids alone meet again modulo a small number,
    and then one would kill the other's users' processes. The name of a socket is ours until we end."""
    for n in range(SLOTS):
        slot = (os.getpid() + n) % SLOTS
        with contextlib.suppress(OSError):
            SLOT_LOCK.bind(f"\0anybox-tests-{slot}")
            return slot
    raise RuntimeError(f"all {SLOTS} slots for tests are taken")


SLOT = take_slot()
CLONE_NEWNS = 0x20000
SUBUID_USER, PLAIN_USER = 50000 + 2 * SLOT, 50001 + 2 * SLOT
FIRST_SUBUID = 700000000 + 65536 * SLOT

# Runs "$@" as the user $2 with a passwd and subuid of its own, in a mount namespace of
# its own: the host's /etc is not touched. It execs all the way, so the pid stays.
AS_USER = """
for f in passwd group subuid subgid; do
    mount --bind "$1/$f" "/etc/$f" || exit 125
done
id=$2
shift 2
exec setpriv --reuid "$id" --regid "$id" --clear-groups -- "$@"
"""


@functools.cache
def use_own_etc():
    """Tests that log in make users. They do it in a copy of /etc in a mount namespace of our own:
    the machine's stays as it is, and so do its files that other tests have mounted others on."""
    if ctypes.CDLL(None).unshare(CLONE_NEWNS) != 0:
        return
    folder = tempfile.mkdtemp(prefix="abx-etc-", dir="/tmp")
    for command in ["mount", "--make-rprivate", "/"], ["cp", "-a", "/etc", folder], ["mount", "--bind", f"{folder}/etc", "/etc"]:
        subprocess.run(command, check=True, stdin=subprocess.DEVNULL)
    atexit.register(leave_own_etc, folder)


def leave_own_etc(folder):
    subprocess.run(["umount", "-l", "/etc"], check=True, stdin=subprocess.DEVNULL)
    shutil.rmtree(folder)


class Tier:
    """Who runs anybox: root, a user with a range of subuids, one without, or ourselves."""

    def __init__(self, name, folder):
        self.name = name
        self.uid = {"root": 0, "subuid": SUBUID_USER, "plain": PLAIN_USER}.get(name, os.getuid())
        self.etc = folder / f"etc-{name}"
        self.switches = name in ("subuid", "plain")
        if self.switches:
            self._make_etc()

    def _make_etc(self):
        user = f"anybox-{self.name}"
        ranges = f"{user}:{FIRST_SUBUID}:65536\n" if self.name == "subuid" else ""
        self.etc.mkdir()
        for name, extra in (("passwd", f"{user}:x:{self.uid}:{self.uid}::/nonexistent:/bin/sh\n"),
                            ("group", f"{user}:x:{self.uid}:\n")):
            (self.etc / name).write_text(pathlib.Path("/etc", name).read_text() + extra)
        for name in "subuid", "subgid":
            (self.etc / name).write_text(ranges)
            if not pathlib.Path("/etc", name).exists():
                pathlib.Path("/etc", name).touch()  # something to mount on

    def wrap(self, argv):
        argv = [str(a) for a in argv]
        if not self.switches:
            return argv
        return ["unshare", "-m", "sh", "-c", AS_USER, "sh", str(self.etc), str(self.uid), *argv]

    def refused(self):
        """Why the kernel does not let this tier make boxes, or None."""
        probe = subprocess.run(self.wrap(["unshare", "-Ur", "true"]), stdin=subprocess.DEVNULL,
                               capture_output=True, text=True, check=False)
        return None if probe.returncode == 0 else f"user namespaces are refused: {probe.stderr.strip()}"


class Install:
    """A copy of the built programs as `make install` lays them out, readable for everybody.
    Its path is in no other process's executable, which is how our boxes are told apart."""

    def __init__(self, build, folder):
        self.folder = folder
        self.anybox, self.boxinit = folder / "bin/anybox", folder / "libexec/anybox/boxinit"
        self.anybox.parent.mkdir()
        self.boxinit.parent.mkdir(parents=True)
        shutil.copy(build / "anybox", self.anybox)
        self.conformance = folder / "bin/anybox-conformance"
        if (build / "anybox-conformance").exists():
            shutil.copy(build / "anybox-conformance", self.conformance)
        if (build / "boxinit").exists():
            shutil.copy(build / "boxinit", self.boxinit)
        for name in NAMES:
            (self.anybox.parent / name).symlink_to("anybox")

    def box_inits(self):
        """The pids of every box's PID 1 (and of what sets one up). A test that asks is about
        them, and cannot be played where nobody may tell."""
        if not IS_ROOT:
            pytest.skip("only root sees which processes are in boxes")
        return [pid for pid in self.seen_inits() if not self.is_of_server(pid)]

    def box_processes(self):
        """Every process in a box of ours, PID 1 included; as box_inits()."""
        self.box_inits()
        return [pid for pid in self.seen_processes() if not self.is_of_server(pid)]

    def makers(self):
        """What gives birth to the boxes of a server that is alive: one for each of these."""
        return [pid for pid in self.seen_inits() if self.is_maker(pid)]

    def is_maker(self, pid):
        """It is a server's child and hears of boxes by a socket, not by a file."""
        try:
            return executable(parent(pid)) == str(self.anybox) and os.readlink(f"/proc/{pid}/fd/3").startswith("socket:")
        except OSError:
            return False

    def is_of_server(self, pid):
        """A maker, its child that keeps a root for the next boxes, or the child that this has for
        a moment: they are in no box. Nor is one that has ended since it was seen."""
        keeper = parent(pid)
        return (self.is_maker(pid) or namespace(pid, "pid") == namespace("self", "pid") and
                (self.is_maker(keeper) or self.is_maker(parent(keeper)))) or namespace(pid, "pid") is None

    def seen_inits(self):
        """Those that we may look at: for an ordinary user perhaps none."""
        return [pid for pid in pids() if executable(pid).startswith(str(self.boxinit))]

    def seen_processes(self):
        ours = set(self.seen_inits())
        spaces = {namespace(pid, "pid") for pid in ours} - {namespace("self", "pid"), None}
        return sorted(ours | {pid for pid in pids() if namespace(pid, "pid") in spaces})


class Host:
    """One test's world: a state folder, a project folder, and the programs it started."""

    def __init__(self, install, tier, folder, pool=None):
        self.install, self.tier, self.folder = install, tier, folder
        self.pool = {} if pool is None else {"ANYBOX_LOCAL_POOL": str(pool)}
        self.home, self.project, self.user_home = folder / "s", folder / "proj", folder / "home"
        self.stderr_file = folder / "stderr"
        for path in self.project, self.user_home:
            path.mkdir()
            os.chown(path, tier.uid, tier.uid if tier.switches else -1)
        os.chown(folder, tier.uid, tier.uid if tier.switches else -1)
        self.clients = []
        self.ids = set()
        self.more_env = {}  # for every server of this test
        self.kept = set()  # boxes that others use after it

    def env(self, **more):
        """What the SDKs pass to a server, and where its state is."""
        return {"HOME": str(self.user_home), "PATH": SYSTEM_PATH, "TERM": "xterm", "SHELL": "/bin/sh",
                "USER": "tester", "LOGNAME": "tester", "ANYBOX_HOME": str(self.home),
                **{k: v for k, v in os.environ.items() if k.endswith("SAN_OPTIONS")}, **self.pool, **self.more_env, **more}

    def server(self, *args, env=None, cwd=None, program=None, **more):
        """A running stdio server with a client that has shaken hands."""
        more.setdefault("stderr", open(self.stderr_file, "ab"))
        argv = self.tier.wrap([program or self.install.anybox, *args])
        client = McpClient(argv, env=self.env(**(env or {})), cwd=cwd or self.project, **more)
        self.clients.append(client)
        return client

    def run(self, *args, env=None, timeout=120, text=True, program=None, **more):
        """The command line, to its end. The standard input is empty unless given."""
        if "input" not in more:
            more.setdefault("stdin", subprocess.DEVNULL)
        argv = self.tier.wrap([program or self.install.anybox, *args])
        return subprocess.run(argv, env=self.env(**(env or {})), cwd=self.project, timeout=timeout,
                              capture_output=True, text=text, check=False, **more)

    def popen(self, *args, env=None, **more):
        argv = self.tier.wrap([self.install.anybox, *args])
        return subprocess.Popen(argv, env=self.env(**(env or {})), cwd=self.project, **more)

    def stderr(self):
        return self.stderr_file.read_text(errors="replace") if self.stderr_file.exists() else ""

    def sweep(self):
        """Deletes every box through the program itself."""
        client = self.server()
        for box in client.tool("list_sandboxes")["sandboxes"]:
            if box["sandbox_id"] in self.kept:
                continue
            self.ids.add(box["sandbox_id"])
            client.tool("delete_sandbox", sandbox_id=box["sandbox_id"])
        client.close()

    def residue(self):
        """What is left of boxes that should be gone, as sentences."""
        found = [f"process {pid}: {command_line(pid)}" for pid in self.install.seen_processes()
                 if not self.install.is_of_server(pid)]
        mounts = pathlib.Path("/proc/self/mountinfo").read_text()
        found += [f"mount: {line}" for line in mounts.splitlines()
                  if str(self.home) in line or any(i in line for i in self.ids)]
        if self.home.is_dir():
            found += [f"folder: {path}" for path in self.home.rglob("*")
                      if path.is_dir() and re.fullmatch("[0-9a-f]{32}", path.name)]
        for cgroup in cgroups():
            if any(i in str(cgroup) for i in self.ids):
                found.append(f"cgroup: {cgroup}")
        return found

    def note_ids(self):
        """Remembers which boxes this state folder has known, before they are deleted."""
        if self.home.is_dir():
            self.ids |= {p.name for p in self.home.rglob("*") if re.fullmatch("[0-9a-f]{32}", p.name)}
            for info in self.home.glob("boxes/*/info"):  # cgroups have names of their own
                with contextlib.suppress(FileNotFoundError):
                    text = info.read_text("utf-8", "replace")
                    self.ids |= set(re.findall("anybox[-/]([0-9a-f]{32})", text))
        for client in self.clients:
            for line in client.lines:
                # Not every number: a command may have told of processes that are nothing to us.
                text = line.decode("utf-8", "replace")
                self.ids |= set(re.findall(r"sandbox_id\W{1,8}([0-9a-f]{32})\b", text))

    def watchdog_pid(self):
        """Of the watchdog of this state folder, or None."""
        with contextlib.suppress(FileNotFoundError, ValueError):
            pid = int((self.home / "watchdog.lock").read_text())
            if "watchdog" in command_line(pid):
                return pid
        return None

    def kill_watchdog(self):
        """Until its lock is free too: the last of its threads may end later than it seems to."""
        lock = os.open(self.home / "watchdog.lock", os.O_RDWR)
        os.kill(self.watchdog_pid(), signal.SIGKILL)
        fcntl.flock(lock, fcntl.LOCK_EX)
        os.close(lock)

    def end_watchdog(self):
        pid = self.watchdog_pid()
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
            assert wait_until(lambda: not is_running(pid)), "the watchdog does not end"

    def finish(self):
        """Ends what the test started, deletes its boxes, and tells what is left."""
        try:
            for client in self.clients:
                client.close()
            self.end_watchdog()
            self.note_ids()
            if self.home.exists():
                self.sweep()
            wait_until(lambda: not self.residue())
            left = self.residue()
            assert not left, f"left behind: {left}"
        finally:
            for client in self.clients:
                client.kill()
            for pid in self.install.seen_inits():  # so that the next test starts clean
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


# ---- looking at processes ---------------------------------------------------


def pids():
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def executable(pid):
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""


def parent(pid):
    try:
        return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def namespace(pid, kind):
    try:
        return os.readlink(f"/proc/{pid}/ns/{kind}")
    except OSError:
        return None


def processes_beside(pid):
    """All in the same pid namespace, itself included."""
    space = namespace(pid, "pid")
    return [other for other in pids() if namespace(other, "pid") == space]


def command_line(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def pid_inside(pid):
    """The pid that a process has in its own namespace: 1 for a box's init."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return None
    numbers = re.search(r"^NSpid:\s*(.*)$", status, re.M)
    return int(numbers.group(1).split()[-1]) if numbers else None


def is_running(pid):
    """There, and not a zombie that nobody has waited for yet."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def children(pid):
    return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def at_rest(pid):
    """It sleeps, and no signal waits for it. One that was killed is awake until it is gone."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return True
    return re.search(r"^State:\s*S", status, re.M) is not None and \
        all(int(bits, 16) == 0 for bits in re.findall(r"^(?:SigPnd|ShdPnd):\s*(\w+)", status, re.M))


def links(pid):
    """What a process has open, by number. What comes and goes meanwhile may be missing."""
    found = {}
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(OSError):
            found[int(fd)] = os.readlink(f"/proc/{pid}/fd/{fd}")
    return found


def free_port():
    """One that nobody is given by chance in the meantime: the kernel chooses from higher ones."""
    while True:
        port = random.randrange(10000, 32000)
        with contextlib.suppress(OSError), socket.socket() as s:
            s.bind(("127.0.0.1", port))
            return port


def cgroups():
    """Every cgroup that could be ours: folders with a box id or our name in their path."""
    for top, folders, _ in os.walk("/sys/fs/cgroup"):
        for name in folders:
            if "anybox" in os.path.join(top, name) or re.search("[0-9a-f]{32}", name):
                yield pathlib.Path(top, name)


def wait_until(what, timeout=30, pause=0.02):
    """what() until it is true, or the time is over; gives its last value. The machine may be
    very busy: a shorter time is for what is not to happen."""
    end = time.monotonic() + timeout
    while True:
        value = what()
        if value or time.monotonic() > end:
            return value
        time.sleep(pause)
