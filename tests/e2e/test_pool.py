"""Boxes made in advance: they are like fresh ones, end with their server, and leave nothing."""
import contextlib
import os
import pathlib
import select
import signal
import socket
import struct
import subprocess
import time

import pytest
from host import cgroups, pid_inside, wait_until

pytestmark = pytest.mark.every_tier

# Everything of a box that a program in it could look at, but for what differs from box to box
# in any case: numbers of mounts, inodes and namespaces, and times.
LOOK = r"""
import os, pathlib, re, resource, socket, stat, sys
def text(path):
    try:
        return pathlib.Path(path).read_text(errors="replace")
    except OSError as e:
        return e.strerror
def entries(top):
    for path, dirs, files in os.walk(top):
        dirs.sort()
        for name in sorted(dirs + files):
            s = os.lstat(os.path.join(path, name))
            yield path, name, oct(s.st_mode), s.st_uid, s.st_gid, s.st_size, s.st_nlink
look = {"env": dict(os.environ), "cwd": os.getcwd(), "ids": (os.getresuid(), os.getresgid(), os.getgroups())}
look["mounts"] = [re.sub(r"^\d+ \d+ \d+:\d+ |(?:shared|master):\d+ |inode64|uid=\d+|gid=\d+", "", l)
                  for l in text("/proc/self/mountinfo").splitlines()]
look["limits"] = {n: resource.getrlimit(getattr(resource, n)) for n in dir(resource) if n.startswith("RLIMIT_")}
look["fds"] = [os.readlink(f"/proc/self/fd/{f}").split(":")[0] for f in range(3)]
look["status"] = [l for l in text("/proc/1/status").splitlines()
                  if re.match("Name|Umask|State|Uid|Gid|Groups|NSpid|Cap|NoNewPrivs|Seccomp|Sig|Shd", l)]
look["init fds"] = text("/proc/1/fd")
look["oom"] = text("/proc/1/oom_score_adj"), text("/proc/self/oom_score_adj")
look["cgroup"] = text("/proc/self/cgroup")
look["names"] = socket.gethostname(), text("/etc/hosts"), text("/etc/hostname"), text("/etc/resolv.conf")
look["stat"] = {p: (os.statvfs(p).f_blocks, os.statvfs(p).f_files) for p in ("/tmp", "/workspace", "/dev/shm")}
look["free"] = {p: (os.statvfs(p).f_bfree, os.statvfs(p).f_ffree) for p in ("/tmp", "/workspace")}
look["user"] = {n: text("/proc/sys/user/" + n) for n in sorted(os.listdir("/proc/sys/user"))}
look["net"] = re.sub(r"\d+", "", text("/proc/net/dev")), text("/proc/net/route")
for top in "/", "/etc", "/tmp", "/home", "/workspace", "/run", "/var", "/dev":
    look[top] = list(entries(top)) if top != "/" else sorted(os.listdir("/"))
look["processes"] = [text(f"/proc/{p}/comm") for p in sorted(os.listdir("/proc")) if p.isdigit()]
import hashlib, json
for key, value in look.items():
    value = json.dumps(value)
    open("/workspace/look-" + key.replace("/", "_"), "w").write(value)
    print(key, hashlib.sha256(value.encode()).hexdigest())
"""


def prepared(host):
    """PID 1s that wait in the state folder's pool, by the folders there."""
    pool = host.home / "pool"
    return list(pool.iterdir()) if pool.is_dir() else []


def fills(client):
    """Is its thread that prepares boxes at work?"""
    for thread in pathlib.Path(f"/proc/{client.pid}/task").glob("*"):
        with contextlib.suppress(OSError):  # it has just ended
            if (thread / "comm").read_text() == "pool\n":
                return True
    return False


def filled(host, n=1):
    assert wait_until(lambda: len(prepared(host)) >= n and not any(map(fills, host.clients)))


def inits(host):
    return {pid for pid in host.install.box_inits() if pid_inside(pid) == 1}


def is_prepared(pid):
    """It has no name yet; where its root is shared there is an empty file for it."""
    name = pathlib.Path("/proc", str(pid), "root") / "etc/hostname"
    return not name.exists() or name.read_text() == ""


def look(client, **order):
    name = client.tool("create_sandbox", **order)["name"]
    answer = client.bash("python3 -", stdin=LOOK, sandbox_name=name)
    assert answer["exit_code"] == 0, answer
    return name, dict(line.rsplit(" ", 1) for line in answer["stdout"].splitlines())


MACHINE_MIB = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
ORDERS = [
    {},
    {"name": "like", "env": {"A": "1", "PATH": "/bin"}, "timeout": 500},
    {"memory": "300m", "pids": 50, "disk": "20m"},
    {"memory": f"{MACHINE_MIB * 3 // 4}m", "disk": f"{MACHINE_MIB // 3}m"},
]


def made_afresh(host, order):
    """The limits of a scope are systemd's: a prepared box that has others is not changed."""
    scopes = any(line.endswith(".scope") for info in (host.home / "boxes").glob("*/info")
                 for line in info.read_text().splitlines() if line.startswith("cgroup="))
    return scopes and order.keys() & {"memory", "pids", "cpus"}


@pytest.mark.parametrize("order", ORDERS, ids=["plain", "named", "small", "large"])
def test_a_box_of_the_pool_is_like_a_fresh_one(host, order):
    other = host.server(env={"ANYBOX_LOCAL_POOL": "0"})
    name, fresh = look(other, **{"name": "twin", **order})

    def details(key):
        path = "/workspace/look-" + key.replace("/", "_")
        return client.bash(f"cat '{path}'", sandbox_name=name)["stdout"]

    client = host.server()
    client.tool("create_sandbox", name="first")
    filled(host)
    folders = set(prepared(host))
    seen_by_fresh = {key: details(key) for key in fresh}
    client.tool("delete_sandbox", sandbox_name=name)
    name, pooled = look(client, **{"name": "twin", **order})
    if not made_afresh(host, order):
        assert folders - set(prepared(host)), "it came from the pool"
    assert len(pooled) > 20 and pooled.keys() == fresh.keys()
    for key, value in fresh.items():
        assert pooled[key] == value, f"{key}: {details(key)} is not {seen_by_fresh[key]}"


def test_it_has_what_create_answers_and_what_others_see(host):
    fresh = host.server(env={"ANYBOX_LOCAL_POOL": "0"}).tool("create_sandbox", name="a", memory="200m")
    client = host.server()
    client.tool("create_sandbox", name="first")
    filled(host)
    pooled = client.tool("create_sandbox", name="b", memory="200m")
    differ = {"sandbox_id", "id", "sandbox_short_id", "name", "sandbox_name", "created_at", "selected", "expires_at"}
    assert {k: v for k, v in pooled.items() if k not in differ} == {k: v for k, v in fresh.items() if k not in differ}
    other = host.server()
    shown = {b["name"]: b for b in other.tool("list_sandboxes")["sandboxes"]}
    assert set(shown) == {"a", "b", "first"} and shown["b"]["connection_alive"] is True
    assert other.bash("hostname", sandbox_name="b")["stdout"] == "b\n"


def test_nothing_is_prepared_before_the_first_box_nor_by_the_command_line(host):
    client = host.server()
    client.tool("list_sandboxes")
    assert host.run("run", "--", "true").returncode == 0
    time.sleep(0.3)
    assert prepared(host) == [] and not inits(host)


def test_limits_of_a_pooled_box_hold(host):
    client = host.server()
    client.tool("create_sandbox", name="first")
    filled(host)
    client.tool("create_sandbox", name="tight", memory="64m", disk="8m")
    full = client.bash("head -c 16M /dev/zero > /tmp/f; ls -s --block-size=1M /tmp/f", sandbox_name="tight")
    assert "No space" in full["stderr"] and full["stdout"].startswith("8 ")
    client.bash("rm /tmp/f", sandbox_name="tight")
    greedy = client.bash("python3 -c 'x = bytearray(200 << 20)'", sandbox_name="tight")
    assert greedy["exit_code"] != 0
    filled(host)
    client.tool("create_sandbox", name="brief", timeout=1)
    assert wait_until(lambda: "brief" not in {b["name"] for b in client.tool("list_sandboxes")["sandboxes"]})
    error = client.tool_error("exec_bash", command="true", sandbox_name="brief")
    assert error["code"] == "gone" and "lifetime" in error["error"]


def test_the_pool_grows_with_what_is_asked_for_and_not_beyond(host):
    client = host.server(env={"ANYBOX_LOCAL_POOL": "3"})
    client.tool("create_sandbox")
    filled(host, 2)
    assert len(prepared(host)) == 2
    for _ in range(3):
        client.tool("create_sandbox")
    filled(host, 3)
    assert wait_until(lambda: len(prepared(host)) == 3 and len(inits(host)) == 4 + 3)


def test_a_server_that_ends_takes_its_pool_with_it(host):
    client = host.server()
    box = client.tool("create_sandbox")["sandbox_id"]
    filled(host, 2)
    client.close()
    assert wait_until(lambda: prepared(host) == [] and len(inits(host)) == 1)
    assert host.server().bash("echo here", sandbox_id=box)["stdout"] == "here\n"


def test_a_killed_server_leaves_a_pool_that_dies_and_is_swept(host):
    client = host.server()
    client.tool("create_sandbox", name="stays")
    filled(host, 2)
    names = {p.name for p in prepared(host)}
    os.kill(client.pid, signal.SIGKILL)
    assert wait_until(lambda: len(inits(host)) == 1), "helpers see the end of their server"
    other = host.server()
    other.tool("create_sandbox", name="another")
    assert wait_until(lambda: not names & {p.name for p in prepared(host)})
    assert not [c for c in cgroups() if any(n in str(c) for n in names)]
    assert other.bash("echo here", sandbox_name="stays")["stdout"] == "here\n"


def test_a_dead_helper_is_not_handed_out(host):
    client = host.server()
    client.tool("create_sandbox", name="first")
    filled(host, 2)
    mine = inits(host)
    waiting = [p for p in mine if is_prepared(p)]
    assert len(waiting) == len(mine) - 1
    for pid in waiting:
        os.kill(pid, signal.SIGKILL)
    assert client.bash("echo ok", sandbox_id=client.tool("create_sandbox")["sandbox_id"])["stdout"] == "ok\n"
    assert wait_until(lambda: len(prepared(host)) >= 2)


def test_a_stopped_helper_does_not_hold_a_create_for_ever(host):
    """It is given up, and a fresh box made."""
    client = host.server()
    client.tool("create_sandbox", name="first")
    filled(host, 2)
    held = [p for p in inits(host) if is_prepared(p)]
    for pid in held:
        os.kill(pid, signal.SIGSTOP)
    assert held
    made = client.tool("create_sandbox", name="second")
    assert client.bash("hostname", sandbox_id=made["sandbox_id"])["stdout"] == "second\n"
    assert not set(held[:1]) & inits(host) or len(held) > 1


ENTER = """
import ctypes, os, socket, sys
libc = ctypes.CDLL(None, use_errno=True)
uid, pid, folder = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
os.setgroups([]); os.setresgid(uid, uid, uid); os.setresuid(uid, uid, uid)
assert libc.prctl(4, 1, 0, 0, 0) == 0
proc = f"/proc/{pid}/"
def call(*args):
    if libc.syscall(*args) < 0: raise OSError(ctypes.get_errno(), "")
tries = {name: lambda name=name: os.open(proc + name, os.O_RDONLY)
         for name in ("mem", "maps", "root", "cwd", "exe", "fd", "fd/4", "environ", "ns/user", "ns/mnt", "ns/net")}
tries["write"] = lambda: os.open(proc + "mem", os.O_RDWR)
tries["map"] = lambda: os.open(proc + "oom_score_adj", os.O_WRONLY)
tries["trace"] = lambda: call(101, 0x4206, pid, 0, 0)
tries["enter"] = lambda: call(308, os.pidfd_open(pid), 0x10000000)
tries["take"] = lambda: call(438, os.pidfd_open(pid), 4, 0)
if len(sys.argv) > 4:
    tries["signal"] = lambda: os.kill(pid, 0)
    tries["talk"] = lambda: socket.socket(socket.AF_UNIX).connect(folder + "/agent.sock")
    tries["list"] = lambda: os.listdir(folder)
for name, what in tries.items():
    try: what(); print(name)
    except OSError: pass
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="the numbers of system calls are of x86_64")
def test_nobody_gets_into_a_prepared_box(host, tier):
    """It has every capability in its namespace until the order; neither other users nor other
    programs of the same one may have them."""
    client = host.server()
    client.tool("create_sandbox", name="first")
    filled(host, 2)
    waiting = [p for p in inits(host) if is_prepared(p)]
    assert waiting
    for pid in waiting:
        for who, more in ((58899, ["other"]), (tier.uid, [])):
            if who == 0:
                continue
            done = subprocess.run(["/usr/bin/python3", "-c", ENTER, str(who), str(pid), str(prepared(host)[0]), *more],
                                  capture_output=True, text=True, check=True)
            assert done.stdout == "", (who, done.stdout)
    made = client.tool("create_sandbox", name="second")
    assert client.bash("hostname", sandbox_id=made["sandbox_id"])["stdout"] == "second\n"


def test_who_connects_before_the_order_is_served_after_it(host):
    """And no earlier; and what is no request does not keep the box from its order."""
    client = host.server()
    client.tool("create_sandbox", name="first")
    filled(host, 2)
    early = []
    for folder in prepared(host):
        for say in b"", b"\xff" * 100, struct.pack("<IB", 1, 22):  # nothing, junk, SHUTDOWN's length alone
            early.append(socket.socket(socket.AF_UNIX))
            early[-1].connect(str(folder / "agent.sock"))
            early[-1].send(say[:4] if len(say) == 5 else say)
    time.sleep(0.2)
    assert select.select(early, [], [], 0)[0] == []
    for name in "second", "third":
        made = client.tool("create_sandbox", name=name)
        assert client.bash("hostname", sandbox_id=made["sandbox_id"])["stdout"] == name + "\n"
    for one in early:
        one.close()


def test_etc_changed_on_the_host_means_a_fresh_box(host, tmp_path):
    """A file of /etc is shown as it was when the box was made: a stale one is not given out."""
    if os.geteuid() != 0:
        pytest.skip("needs to change /etc")
    client = host.server()
    client.tool("create_sandbox", name="first")
    filled(host, 2)
    before = set(prepared(host))
    marker = pathlib.Path("/etc/.anybox-test-marker")
    marker.touch()
    marker.unlink()
    client.tool("create_sandbox", name="second")
    assert wait_until(lambda: not before & set(prepared(host)))
    assert client.bash("echo ok", sandbox_name="second")["stdout"] == "ok\n"


def test_many_at_once_get_a_box_each(host):
    client = host.server()
    client.tool("create_sandbox")
    filled(host, 2)
    calls = [client.start_tool("create_sandbox", {"name": f"n{i}"}) for i in range(12)]
    ids = {client.finish_tool(c)["sandbox_id"] for c in calls}
    assert len(ids) == 12
    calls = [client.start_tool("exec_bash", {"command": "hostname", "sandbox_id": i}) for i in ids]
    assert {client.finish_tool(c)["stdout"].strip() for c in calls} == {f"n{i}" for i in range(12)}


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can look into a box from outside")
def test_a_box_without_processes_takes_no_memory_for_a_full_disk(host):
    client = host.server(env={"ANYBOX_LOCAL_POOL": "0"})
    client.tool("create_sandbox", name="a")
    (pid,) = inits(host)
    reserve = pathlib.Path("/proc", str(pid), "root") / "var/anybox/.reserve"
    assert reserve.parent.is_dir() and not reserve.exists()
    assert client.bash("ls -A /var/anybox")["stdout"] == ".reserve\n"
    assert reserve.stat().st_blocks * 512 >= 64 << 10
    children = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
    assert wait_until(lambda: len(children.read_text().split()) == 1)  # it waits for the next command
    os.kill(int(children.read_text()), signal.SIGKILL)
    assert wait_until(lambda: not reserve.exists())
    assert client.bash("ls -A /var/anybox")["stdout"] == ".reserve\n"
