"""Limits: each is measured from inside, each end tells its kind, and what eats all that a
box may have hurts nobody else and can be deleted in the middle of it."""
import contextlib
import os
import pathlib
import re
import time

import pytest

from host import is_running, namespace, pids, wait_until
from mcp_client import ToolFailed

pytestmark = pytest.mark.every_tier

MIB = 1 << 20
PIDS_OWN = 8  # of boxinit and its workers, beside the limit


class Made:
    """A box that was made with limits, as the host sees it."""

    def __init__(self, host, client, name, **limits):
        self.host, self.client, self.name = host, client, name
        made = client.tool("create_sandbox", name=name, **limits)
        self.id, self.limits, self.isolation = made["sandbox_id"], made["limits"], made["isolation"]
        info = (host.home / "boxes" / self.id / "info").read_text()
        self.init = int(re.search(r"^pid=(\d+)$", info, re.M).group(1))
        self.cgroups = re.findall(r"^cgroup=(.*)$", info, re.M)
        self.space = namespace(self.init, "pid")

    @property
    def by_cgroup(self):
        """Whether memory and processes are limited for the box as a whole."""
        return "rlimits" not in self.isolation

    def bash(self, command, **more):
        return self.client.bash(command, sandbox_name=self.name, **more)

    def python(self, script, **more):
        return self.bash("python3 -", stdin=script, **more)

    def processes(self):
        """Only root sees which processes are in boxes: nobody else is told any."""
        if self.space is None:
            return []
        return [pid for pid in pids() if namespace(pid, "pid") == self.space and is_running(pid)]

    def resident(self):
        """Bytes of memory of all its processes; what they share counts for each."""
        total = 0
        for pid in self.processes():
            with contextlib.suppress(OSError, ValueError, IndexError):
                total += int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096
        return total

    def cpu_s(self):
        """Seconds of processor time of all processes that are in it now."""
        total = 0
        for pid in self.processes():
            with contextlib.suppress(OSError, IndexError):
                total += sum(map(int, pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))
        return total / os.sysconf("SC_CLK_TCK")

    def left(self):
        """What there still is of it after its end."""
        found = [f"process {pid}" for pid in self.processes()]
        found += [f"cgroup {c}" for c in self.cgroups if os.path.exists(c)]
        folder = self.host.home / "boxes" / self.id
        mounts = pathlib.Path("/proc/self/mountinfo").read_text()
        return found + [str(folder)] * folder.exists() + ["a mount"] * (self.id in mounts)


@pytest.fixture
def make(host, client):
    return lambda name="limited", **limits: Made(host, client, name, **limits)


def outcome(client, call, timeout=30):
    """The answer's JSON, of a failure too."""
    try:
        return client.finish_tool(call, timeout)
    except ToolFailed as failed:
        return failed.answer


# ---- how much there is, measured from inside -------------------------------------------


def test_memory(make):
    box = make(memory="256m", disk="16m")
    assert box.limits["memory_mb"] == 256
    answer = box.python("x = []\n"
                        "while True:\n"
                        "    x.append(bytearray(1 << 20))\n"
                        "    print(len(x), flush=True)")
    assert 192 <= int(answer["stdout"].split()[-1]) <= 256
    if box.by_cgroup:
        assert answer["oom_killed"] is True and answer["signal"] == "SIGKILL" and answer["exit_code"] == 137
        assert answer["limits_hit"] == ["memory"]
    else:
        assert answer["exit_code"] == 1 and "MemoryError" in answer["stderr"]
        assert "limits_hit" not in answer, "nobody counts that"
    after = box.bash("echo alive")
    assert after["stdout"] == "alive\n" and not after.get("oom_killed") and "limits_hit" not in after


def test_memory_that_a_child_was_killed_for_is_told(make):
    box = make(memory="64m", disk="16m")
    if not box.by_cgroup:
        pytest.skip("memory is limited for each process here")
    answer = box.bash("python3 -c 'x = bytearray(200 << 20)'; echo on")
    assert answer["stdout"] == "on\n" and answer["exit_code"] == 0 and answer["limits_hit"] == ["memory"]
    assert answer["oom_killed"] is False


@pytest.mark.parametrize("limit,bomb", [
    ("memory", "import os; f = os.memfd_create('x')\nwhile True: os.write(f, b'x' * (1 << 20))"),
    ("disk", "f = open('/dev/shm/x', 'wb')\nwhile True: f.write(b'x' * (1 << 20))"),
    ("memory", "import socket; s = []\nwhile True:\n a, b = socket.socketpair(); a.setblocking(False); s += [a, b]\n"
     " try: a.send(b'x' * 100000)\n except OSError: pass")])
def test_memory_of_every_kind_is_limited(make, limit, bomb):
    box = make(memory="64m", disk="40m")
    if not box.by_cgroup and limit == "memory":
        pytest.skip("only a cgroup limits that")
    answer = box.python(bomb, timeout_s=20)
    assert answer["exit_code"] != 0 and not answer["timed_out"] and answer["limits_hit"] == [limit]
    assert box.bash("echo alive")["stdout"] == "alive\n"


@pytest.mark.alone
def test_processors(make, client):
    spin = ("import os, resource, time\n"
            "began, used = time.monotonic(), time.process_time()\n"
            "kids = [os.fork() for _ in range(2)]\n"
            "while time.monotonic() < began + 1: pass\n"
            "if all(kids):\n"
            "    for k in kids: os.wait()\n"
            "    kid = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
            "    used = time.process_time() - used + kid.ru_utime + kid.ru_stime\n"
            "    print(used / (time.monotonic() - began))")
    if not make("other").by_cgroup:
        error = client.tool_error("create_sandbox", name="fifth", cpus=0.2)
        assert error["code"] == "unsupported" and "cpus cannot be limited here" in error["error"]
        assert "leave cpus out" in error["error"]
        return
    box = make("fifth", cpus=0.2)
    assert box.limits["cpus"] == 0.2

    def is_throttled():
        assert float(box.python(spin)["stdout"]) < 0.2 * 1.4
        stats = "".join(f.read_text() for c in box.cgroups for f in pathlib.Path(c).glob("cpu.stat"))
        return int(re.search(r"^nr_throttled (\d+)", stats, re.M).group(1)) > 3
    # On a machine that has no time for it the limit is not met at once.
    assert wait_until(is_throttled), "it would have taken more"


def test_a_box_without_a_limit_of_processors_weighs_as_one(make):
    box = make()
    if not box.by_cgroup:
        pytest.skip("each process weighs for itself")
    assert box.limits["cpus"] is None
    assert any(os.path.exists(f"{c}/{name}") for c in box.cgroups for name in ("cpu.shares", "cpu.weight"))


def test_processes(make):
    box = make(pids=40)
    assert box.limits["pids"] == 40
    answer = box.python("import os, time\n"
                        "n = 0\n"
                        "try:\n"
                        "    while os.fork(): n += 1\n"
                        "    time.sleep(60)\n"
                        "except OSError as e:\n"
                        "    print(n, e.errno, flush=True)\n"
                        "    os.killpg(0, 9)")
    n, errno = map(int, answer["stdout"].split())
    assert 30 <= n <= 40 + PIDS_OWN and errno == 11
    assert answer.get("limits_hit") == (["pids"] if box.by_cgroup else None)
    assert "limits_hit" not in box.bash("true")


def test_threads_count_as_processes(make):
    box = make(pids=40)
    answer = box.python("import threading, time\n"
                        "threading.stack_size(256 << 10)\n"  # else memory may be the first limit
                        "n = 0\n"
                        "try:\n"
                        "    while True:\n"
                        "        threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
                        "        n += 1\n"
                        "except RuntimeError:\n"
                        "    print(n)")
    assert 30 <= int(answer["stdout"]) <= 40 + PIDS_OWN


def test_a_command_that_finds_no_process_is_told_which_limit_it_was(make, client, tier):
    box = make(pids=30)
    box.python("import os, time\n"
               "for i in range(60):\n"
               "    try:\n"
               "        if os.fork() == 0: os.setsid(); time.sleep(300)\n"
               "    except OSError: pass\n")
    for _ in range(6):  # one process was kept ready, and the first command has left its own
        call = client.start_tool("exec_bash", {"command": "exec sleep 300"})
        if wait_until(call.done, 0.15):
            break
    if tier.name in ("plain", "self") and not box.by_cgroup and not call.done():
        assert "BlockingIOError" in box.python("import os; os.fork()")["stderr"]
        return  # the limit is the command's own there, which then starts no other
    answer = outcome(client, call)
    assert answer["code"] == "limit" and "no process left (limit 30)" in answer["error"], answer
    if box.by_cgroup:
        files = client.tool_error("write_remote_file", remote_path="f", content="x")
        assert files["code"] == "limit" and "no process left (limit 30)" in files["error"], files


def test_open_files(make):
    box = make(open_files=100)
    assert box.limits["open_files"] == 100
    answer = box.python("import os\n"
                        "try:\n"
                        "    while True: last = os.dup(0)\n"
                        "except OSError as e: print(last, e.errno)")
    assert answer["stdout"] == "99 24\n"
    assert "limits_hit" not in answer, "nobody counts that"


def test_all_processes_together_cannot_open_all_files_of_the_machine(make):
    limits = make().limits
    most = int(pathlib.Path("/proc/sys/fs/file-max").read_text())
    assert limits["pids"] * limits["open_files"] <= max(most / 2, limits["pids"] * 256)


def test_disk_space(make, client):
    box = make(disk="8m")
    assert box.limits["disk_mb"] == 8
    answer = box.bash("for d in /workspace /tmp /var/tmp /home/user /dev/shm /run; do head -c 2000000 /dev/zero > $d/f; "
                      "done; cat /workspace/f /tmp/f /var/tmp/f /home/user/f /dev/shm/f /run/f | wc -c")
    assert 8 * MIB - 200000 < int(answer["stdout"]) <= 8 * MIB, "all folders share it"
    assert "No space left on device" in answer["stderr"] and answer["limits_hit"] == ["disk"]
    error = client.tool_error("write_remote_file", remote_path="more", content="x" * 10000)
    assert error["code"] == "limit" and "disk limit 8 MiB" in error["error"]
    assert "limits_hit" not in box.bash("rm /tmp/f")


def test_number_of_files(make):
    box = make(disk="1m")
    answer = box.python("import os\n"
                        "n = 0\n"
                        "try:\n"
                        "    while True: os.close(os.open(f'/tmp/{n}', os.O_CREAT)); n += 1\n"
                        "except OSError as e: print(n, e.errno)")
    n, errno = map(int, answer["stdout"].split())
    assert n < 16384 and errno == 28 and answer["limits_hit"] == ["disk"]


# ---- time ------------------------------------------------------------------------------


@pytest.mark.only_tiers("root", "self")  # test_exec.py has more of it
def test_the_time_of_a_command(make):
    began = time.monotonic()
    answer = make().bash("echo before; sleep 60", timeout_s=3)
    assert 2.9 < time.monotonic() - began < 20
    assert (answer["timed_out"], answer["exit_code"], answer["stdout"]) == (True, 124, "before\n")
    assert not answer.get("oom_killed") and "limits_hit" not in answer and "sandbox_ended" not in answer


def ended_under_a_command(client, call, reason):
    answer = outcome(client, call)
    assert answer["code"] == "gone" and answer["sandbox_ended"] == reason, answer
    assert answer["stdout"] == "begun\n" and answer["exit_code"] == -1
    return answer["error"]


def test_the_lifetime_of_a_box(host, make, client):
    began = time.monotonic()
    box = make(timeout=6)
    call = client.start_tool("exec_bash", {"command": "echo begun; sleep 60"})
    other = host.server()
    unattended = Made(host, other, "unattended", timeout=6)
    other.kill()
    assert "its lifetime of 6 s was over" in ended_under_a_command(client, call, "lifetime")
    assert 5.9 < time.monotonic() - began < 30
    error = client.tool_error("exec_bash", command="true", sandbox_id=box.id)
    assert error["code"] == "gone" and "its lifetime of 6 s was over" in error["error"]
    assert wait_until(lambda: not box.left()), box.left()
    assert wait_until(lambda: not unattended.processes()), "it needs no server to end"


@pytest.mark.only_tiers("root", "self")  # PID 1 keeps that time, for everybody alike
def test_an_idle_box_ends_and_use_keeps_it(make, client):
    idle = make("idle", idle_timeout_s=4)
    idle.bash("sleep 300 &")  # a leftover does not count as use
    assert idle.limits["idle_s"] == 4
    busy = make("busy", idle_timeout_s=5)
    long_one = client.start_tool("exec_bash", {"command": "sleep 6; echo awake", "sandbox_name": "busy"})
    used = make("used", idle_timeout_s=5)
    while not long_one.done():
        used.bash("true")
        time.sleep(0.2)
    assert client.finish_tool(long_one)["stdout"] == "awake\n"
    assert busy.bash("echo still")["stdout"] == "still\n"

    def others():
        used.bash("true")
        busy.bash("true")
        return {b["name"] for b in client.tool("list_sandboxes")["sandboxes"]} == {"used", "busy"}

    assert wait_until(others)
    error = client.tool_error("exec_bash", command="true", sandbox_id=idle.id)
    assert error["code"] == "gone" and "it was idle for 4 s" in error["error"]


def test_a_box_that_is_deleted_under_a_command(host, make, client):
    for other in client, host.server():
        box = make()
        call = client.start_tool("exec_bash", {"command": "echo begun; sleep 60", "sandbox_name": "limited"})
        assert wait_until(lambda b=box: "sleep 60" in b.bash("ps ax")["stdout"])
        time.sleep(1)  # what it printed is on its way
        other.tool("delete_sandbox", sandbox_id=box.id)
        assert "it was deleted" in ended_under_a_command(client, call, "deleted")
        assert not box.left()


# ---- in the middle of the worst --------------------------------------------------------

# What is done, with which limits, and what of it may be anywhere.
FORKS = "import os\nwhile True:\n  try: os.fork()\n  except OSError: pass\n"
BOMBS = {
    "forks": (FORKS, {}),
    "forks that leave": ("import os\nwhile True:\n  try:\n    if os.fork() == 0: os.setsid()\n  except OSError: pass\n", {}),
    "zombies": ("import os\nwhile True:\n  try:\n    if os.fork() == 0: os._exit(0)\n  except OSError: pass\n", {}),
    "threads": ("import threading\nwhile True:\n  try: threading.Thread(target=threading.Event().wait).start()\n"
                "  except RuntimeError: pass\n", {}),
    "daemons": ("import os, time\nfor i in range(100):\n  try:\n    if os.fork() == 0:\n      os.setsid()\n"
                "      if os.fork() == 0: time.sleep(600)\n      os._exit(0)\n  except OSError: pass\ntime.sleep(600)\n", {}),
    "memory": ("x = []\nwhile True:\n  try: x.append(bytearray(1 << 20))\n  except MemoryError: pass\n", {}),
    "memory of many": ("import os\nfor i in range(4): os.fork()\nx = []\nwhile True:\n"
                       "  try: x.append(bytearray(1 << 20))\n  except MemoryError: pass\n", {}),
    "memory files": ("import os\nf = os.memfd_create('x')\nwhile True: os.write(f, b'x' * (1 << 20))\n", {}),
    "memory of sockets": ("import socket, time\ns = []\nwhile True:\n  try:\n    a, b = socket.socketpair()\n"
                          "    a.setblocking(False); s += [a, b]\n    a.send(b'x' * 100000)\n"
                          "  except OSError: time.sleep(0.001)\n", {"open_files": 4096}),
    "disk": ("import os\ni = 0\nwhile True:\n  i += 1\n  try:\n    with open(f'/tmp/{i % 100}', 'wb') as f: f.write(bytes(1 << 20))\n"
             "  except OSError: pass\n", {}),
    "shared memory": ("f = open('/dev/shm/x', 'wb', buffering=0)\nwhile True:\n  try: f.write(bytes(1 << 20))\n"
                      "  except OSError: pass\n", {}),
    "inodes": ("import os\ni = 0\nwhile True:\n  i += 1\n  try: os.mkdir(f'/tmp/{i}')\n  except OSError: pass\n", {}),
    "descriptors": ("import os, socket\nfor i in range(3): os.fork()\nwhile True:\n  try: os.pipe()\n"
                    "  except OSError: pass\n  try: socket.socket(socket.AF_UNIX).detach()\n  except OSError: pass\n", {}),
    "terminals and watches": ("import ctypes, os, time\nlibc = ctypes.CDLL(None)\nwhile True:\n  try: os.openpty()\n"
                              "  except OSError: pass\n  libc.inotify_init()\n  libc.epoll_create(1)\n", {}),
    "processors": ("import os\nfor i in range(4): os.fork()\nwhile True: pass\n", {}),
    "output": ("import os\nfor i in range(2): os.fork()\nwhile True:\n  os.write(1, b'y\\n' * 30000)\n"
               "  os.write(2, b'x' * 60000)\n", {}),
}


def files_open():
    return int(pathlib.Path("/proc/sys/fs/file-nr").read_text().split()[0])


@pytest.mark.alone  # for some kinds of users much of the machine may be taken
@pytest.mark.parametrize("what", BOMBS)
def test_hurts_only_its_box(make, client, what):
    script, more = BOMBS[what]
    calm = make("calm")
    files_before = files_open()
    bomb = make("bomb", memory="96m", disk="32m", pids=64, **{"open_files": 64, **more},
                **({"cpus": 0.5} if calm.by_cgroup else {}))
    if not bomb.by_cgroup and what in ("memory files", "memory of sockets"):
        pytest.skip("only a cgroup limits that")
    call = client.start_tool("exec_bash", {"command": "python3 -", "stdin": script, "sandbox_name": "bomb",
                                           "timeout_s": 60})
    time.sleep(0.15)
    began = time.monotonic()
    assert calm.bash("echo calm")["stdout"] == "calm\n"
    assert len(client.tool("list_sandboxes")["sandboxes"]) == 2
    client.tool("create_sandbox", name="another")
    client.tool("delete_sandbox", sandbox_name="another")
    assert client.result("ping") == {}
    assert time.monotonic() - began < 20
    assert len(bomb.processes()) <= 64 + PIDS_OWN
    assert bomb.resident() <= (96 * MIB + 64 * 12 * MIB if bomb.by_cgroup else 64 * 96 * MIB)
    assert files_open() < files_before + 64 * bomb.limits["open_files"] + 4096
    began = time.monotonic()
    assert client.tool("delete_sandbox", sandbox_name="bomb")["status"] == "deleted"
    assert time.monotonic() - began < 20
    assert not bomb.left()
    answer = outcome(client, call)
    assert answer.get("sandbox_ended") == "deleted" or "exit_code" in answer
    assert calm.bash("echo still")["stdout"] == "still\n"
