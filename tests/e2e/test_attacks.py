"""Attacks from inside a box, and by other users of the machine: each is tried, and the
kernel has to say no.

The first part drives boxinit alone, for each way a box can have its uids (as in
test_boxinit.py); the second runs the whole program as each kind of user.
"""
import json
import os
import pathlib
import re
import resource
import select
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time

import pytest

import agent_client
import rootfs
from agent_client import ENV, LIST, Box, Failed, Maker, text, u8, u32
from host import FIRST_SUBUID, SUBUID_USER, Tier, pid_inside, wait_until

ROOT = os.geteuid() == 0
NOBODY = 65534
# With an image the payload is the root of its box, without any capability.
# "shared" is as "range", made by a maker: with a root that many boxes have, where the kernel can.
MODES = ["range", "shared", "helper", "one", "range-image", "helper-image"] if ROOT else ["one"]
MUST_RUN = os.environ.get("ANYBOX_MUST_RUN", "").split(",")


@pytest.fixture(scope="module")
def world():
    """A copy of boxinit that every user can run, and the attacker's program."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="attack-", dir="/tmp"))
    folder.chmod(0o755)
    source = pathlib.Path(__file__).with_name("attack.c")
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if source.with_suffix("").exists():  # brought along, as into the virtual machine
        shutil.copy(source.with_suffix(""), folder / "attack")
    elif compiler is None:
        (pytest.fail if "local" in MUST_RUN else pytest.skip)("there is no C compiler")
    else:
        subprocess.run([compiler, "-std=gnu17", "-O1", "-o", folder / "attack", source, "-lutil"], check=True)
    before = agent_client.BOXINIT
    agent_client.BOXINIT = shutil.copy(before, folder / "boxinit")
    yield folder
    agent_client.BOXINIT = before
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
def make(world):
    def image(owner):
        path = world / f"image-{owner}"
        return str(path if path.exists() else rootfs.make(path, owner, python=True))

    def start(mode, prefix=(), **kw):
        mode, _, of_image = mode.partition("-")
        if of_image:
            kw["image"] = image(SUBUID_USER if mode == "helper" else 0)
            kw["env"] = [*ENV[:1], "HOME=/root", "USER=root", *ENV[3:]]
        if mode == "helper":
            if not shutil.which("newuidmap"):
                (pytest.fail if "local" in MUST_RUN else pytest.skip)("newuidmap is not installed")
            tier = Tier("subuid", pathlib.Path(tempfile.mkdtemp(dir=world)))
            return Box(mode=2, first=FIRST_SUBUID, chown=tier.uid,
                       prefix=[*prefix, *tier.wrap([])], **kw)
        if mode == "range":
            return Box(mode=1, prefix=prefix, **kw)
        if mode == "shared":
            with Maker(prefix, kw.pop("without", ())) as maker:
                return Box(mode=1, maker=maker, **kw)
        return Box(mode=0, run_as=NOBODY if ROOT else None, prefix=prefix, **kw)
    return start


@pytest.fixture(params=MODES)
def mode(request):
    return request.param


@pytest.fixture
def box(make, mode, world):
    with make(mode) as b:
        b.write("/tmp/attack", (world / "attack").read_bytes(), mode=0o755)
        yield b


@pytest.fixture(scope="module", params=MODES)
def calls(make, world, request):
    """What `attack calls` printed: {group: [(name, result)]}. One run for all."""
    with make(request.param) as b:
        b.write("/tmp/attack", (world / "attack").read_bytes(), mode=0o755)
        r = b.run(["/tmp/attack", "calls"])
        assert r.code == 0, r.err
        assert b.run(["true"]).code == 0, "PID 1 does not answer any more"
        found = {"mode": request.param}
        for line in r.text.splitlines():
            group, name, result = line.split()
            found.setdefault(group, []).append((name, result))
        return found


def works(tries):
    return [name for name, result in tries if result == "worked"]


# ---- what code in a box calls ----------------------------------------------------


def test_the_first_process_cannot_be_limited_slowed_traced_or_robbed(calls):
    assert works(calls["init"]) == []


def test_nothing_of_the_first_process_can_be_looked_at(calls):
    assert works(calls["look"]) == []


def test_no_setting_device_or_system_file_can_be_written(calls):
    # Over an image the system's files are the box's own.
    own = ["/etc/passwd", "/usr/bin/env", "set-user-id-root"] if calls["mode"].endswith("image") else []
    assert works(calls["write"]) == own


def test_no_namespace_can_be_made_or_entered(calls):
    assert works(calls["namespace"]) == []


def test_nothing_can_be_mounted_or_unmounted(calls):
    assert works(calls["mount"]) == []


def test_the_parts_of_the_kernel_that_are_mostly_attacked_are_closed(calls):
    assert works(calls["kernel"]) == []


def test_only_plain_sockets_can_be_made(calls):
    unix, inet, inet6, netlink = (str(int(f)) for f in (socket.AF_UNIX, socket.AF_INET,
                                                        socket.AF_INET6, socket.AF_NETLINK))
    allowed = {f"{f}/{t}" for f in (unix, inet, inet6) for t in (1, 2)}
    allowed |= {f"{unix}/3", f"{unix}/5", f"{netlink}/2", f"{netlink}/3"}
    assert set(works(calls["socket"])) <= allowed
    # The filter says no, not the family: a module would be loaded before that.
    for name, result in calls["socketpair"]:
        if name.split("/")[0] != unix or name.endswith("bits"):
            assert result == "EAFNOSUPPORT", name
    for name, result in calls["socket"]:
        if name not in allowed and name.split("/")[0] in (inet, inet6):
            assert result == "ESOCKTNOSUPPORT", name


def test_only_plain_protocols_can_be_had(calls):
    tcp, udp = {"2/1/6", "10/1/6"}, {"2/2/17", "10/2/17"}
    ping = {"2/2/1", "10/2/58"}
    assert tcp | udp <= set(works(calls["protocol"])) <= tcp | udp | ping


@pytest.mark.parametrize("limit", ["RLIMIT_NOFILE", "RLIMIT_AS", "RLIMIT_CPU"])
def test_the_first_process_keeps_its_limits(box, limit):
    r = box.run(["python3", "-c", f"""
import os, resource
try: resource.prlimit(1, resource.{limit}, (1, 1))
except OSError: print("refused")
for i in range(3000): os.stat("/")
"""])
    assert r.text == "refused\n"
    assert box.run(["true"]).code == 0 and box.stat("/workspace").type == "dir"


# Where the code has PID 1's uid, what PID 1 keeps of a command lies in the code's reach.
IN_THE_WAY = {
    "pipes": "cd /var/anybox/kept && rm -f status.new gaps && mkfifo status.new gaps && touch /tmp/go && sleep 1000",
    "leases": """exec python3 -c "
import fcntl, os, signal
signal.signal(signal.SIGIO, signal.SIG_IGN)
for name in 'status.new', 'gaps':
    fcntl.fcntl(os.open('/var/anybox/kept/' + name, os.O_RDWR), fcntl.F_SETLEASE, fcntl.F_WRLCK)
open('/tmp/go', 'w')
signal.pause()" """,
}


@pytest.mark.parametrize("mode", [m for m in MODES if m in ("one", "range-image")])
@pytest.mark.parametrize("way", IN_THE_WAY)
def test_what_is_put_in_the_way_of_the_first_process_does_not_stop_it(make, mode, way):
    with make(mode) as b:
        with b.connect() as c:
            c.start(["bash", "-c", "until [ -e /tmp/go ]; do sleep 0.05; done; echo bye"], id="kept", keep=True)
            c.wait_started()
        assert wait_until(lambda: b.sh("[ -e /var/anybox/kept/started ]").code == 0)
        with b.connect() as c:
            c.start(["bash", "-c", IN_THE_WAY[way]], id="attacker")
            assert wait_until(lambda: not b.state("kept")[0])
            with b.connect() as reader:  # who hears the end has PID 1 remove what it kept
                reader.attach("kept")
                assert reader.wait().code == 0 and reader.out == b"bye\n"
            assert b.run(["true"]).code == 0
            b.kill_task("attacker")
        b.extend(idle_ms=1000)
        b.wait_gone()  # its clock goes, too


# ---- processes between fork and exec --------------------------------------------


def test_what_is_not_yet_the_command_cannot_be_looked_into(box):
    """File workers and children before exec have the payload's uid and were PID 1."""
    with box.connect() as c:
        c.start(["/tmp/attack", "inspect"])
        c.wait_output(b"go")
        end = time.monotonic() + 1.9
        while time.monotonic() < end:
            box.run(["true"])
            box.write("/tmp/f", b"x" * 100000)
        c.wait()
    tries, found = re.search(rb"tries (\d+) found (\d+)", c.out).groups()
    assert int(tries) > 0, "the attack never met one"
    assert int(found) == 0, c.out.decode()


def test_killing_file_workers_leaves_nothing_half_written(box):
    box.write("/tmp/f", b"old")
    with box.connect() as c:
        c.start(["python3", "-c", """
import os, signal, time
print("go", flush=True)
end = time.time() + 1
while time.time() < end:
    for p in os.listdir("/proc"):
        if p.isdigit() and int(p) not in (1, os.getpid()):
            try: os.kill(int(p), signal.SIGKILL)
            except OSError: pass
"""])
        c.wait_output(b"go")
        end = time.monotonic() + 0.8
        while time.monotonic() < end:
            try:
                box.write("/tmp/f", b"n" * 300000)
            except (Failed, OSError, AssertionError):
                pass
        c.wait()
    assert box.read("/tmp/f")[0] in (b"old", b"n" * 300000)


def test_file_workers_that_were_stopped_do_not_block_the_file_tools(box):
    """All of them are used up by stopping each; their clients go away."""
    with box.connect() as c:
        c.start(["python3", "-c", """
import os, signal
print("go", flush=True)
while True:
    for p in os.listdir("/proc"):
        if p.isdigit() and int(p) not in (1, os.getpid()):
            try: os.kill(int(p), signal.SIGSTOP)
            except OSError: pass
"""], id="stopper")
        c.wait_output(b"go")
        for _ in range(3):
            clients = [box.connect() for _ in range(12)]
            for k in clients:
                k.send(LIST, text("/usr") + u8(1) + u32(1000000))
            time.sleep(0.1)
            for k in clients:
                k.close()
        box.kill_task("stopper")
        c.wait()

    def answers():
        try:
            return box.stat("/workspace").type == "dir"
        except Failed as e:
            assert e.kind == "limit"
            return False
    assert wait_until(answers)


@pytest.mark.parametrize("mode,how", [(m, "hold") for m in MODES] + [(MODES[0], "stop")])
def test_a_command_that_somebody_traces_still_ends_when_it_is_killed(box, how):
    """Its tracer never waits for it: it stays a zombie that PID 1 is not told of, or does
    not even become one."""
    with box.connect() as tracer:
        tracer.start(["/tmp/attack", how, "sleep"], id="tracer")
        tracer.wait_output(b"go")
        with box.connect() as c:
            c.start(["sleep", "60"], timeout_ms=500, grace_ms=0)
            tracer.wait_output(b"held")
            ending = c.wait()
        assert ending.timed_out and ending.signaled and ending.code == signal.SIGKILL
        assert box.usage()["tasks"] == 1
        assert box.run(["true"]).code == 0
        box.shutdown()  # with all of that still there
    box.wait_gone()


def test_orphans_in_sessions_of_their_own_neither_fill_nor_slow_the_first_process(box):
    def resident():
        status = pathlib.Path(f"/proc/{box.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status).group(1))
    box.run(["true"])
    before = resident()
    with box.connect() as c:
        c.start(["/tmp/attack", "storm"])
        c.wait_output(b"go")
        slowest = 0
        for _ in range(10):
            began = time.monotonic()
            box.usage()
            slowest = max(slowest, time.monotonic() - began)
            time.sleep(0.05)
        assert c.wait().code == 0
    assert slowest < 10
    assert resident() - before < 4096
    wait_until(lambda: box.usage()["processes"] <= 1)
    assert box.usage()["processes"] <= 1, "zombies are left"


CHANGE_INIT = """
import os, signal, time
print("go", flush=True)
end = time.time() + 20
while time.time() < end:
    for p in os.listdir("/proc"):
        try:
            if not p.isdigit() or int(p) in (1, os.getpid()) or not os.readlink(f"/proc/{p}/exe").count("boxinit"):
                continue
            os.kill(int(p), signal.SIGSTOP)
            fd = os.open(f"/proc/{p}/exe", os.O_RDONLY)
        except OSError:
            continue
        for what in (lambda: os.chmod(f"/proc/self/fd/{fd}", 0o777), lambda: os.utime(f"/proc/self/fd/{fd}", (1, 1)),
                     lambda: os.write(os.open(f"/proc/self/fd/{fd}", os.O_WRONLY), b"x")):
            try: what()
            except OSError: pass
        os.kill(int(p), signal.SIGKILL)
        print("tried", flush=True)
        raise SystemExit
"""


def test_the_programs_file_on_the_host_cannot_be_changed(make, mode, world, monkeypatch):
    """A command that is a link to /proc/self/exe is run by what is still boxinit: a file on the
    host's own mount, which may belong to the very user that code in the box is."""
    owner = {"range": 0, "shared": 0, "helper": SUBUID_USER, "one": NOBODY if ROOT else os.getuid()}[mode.split("-")[0]]
    own = world / f"boxinit-{mode}"
    shutil.copy(agent_client.BOXINIT, own)
    if ROOT:
        os.chown(own, owner, owner)
    own.chmod(0o755)
    monkeypatch.setattr(agent_client, "BOXINIT", str(own))
    before, content = own.stat(), own.read_bytes()
    with make(mode) as b, b.connect() as c:
        b.sh("ln -s /proc/self/exe /tmp/tool")
        b.write("/tmp/script", "#!/tmp/tool\n", mode=0o755)
        c.start(["python3", "-c", CHANGE_INIT])
        c.wait_output(b"go")

        def tried():
            for program in "/tmp/tool", "/tmp/script":
                with b.connect() as other:
                    other.start([program, "box"])
                    time.sleep(0.02)
            return select.select([c.sock], [], [], 0)[0]
        assert wait_until(tried), "nothing of it was ever met"
        c.wait()
        assert b"tried" in c.out
    after = own.stat()
    assert (after.st_mode, after.st_mtime_ns, after.st_ctime_ns) == (before.st_mode, before.st_mtime_ns, before.st_ctime_ns)
    assert own.read_bytes() == content


# ---- what all boxes and the host share -------------------------------------------


TAKE_ALL = """
import ctypes, os, signal, sys, time
libc, librt = ctypes.CDLL(None), ctypes.CDLL("librt.so.1")
most = int(sys.argv[1])
signal.pthread_sigmask(signal.SIG_BLOCK, range(34, 65))
def count(take):
    n = 0
    while n < most and take(n) >= 0: n += 1
    return n
print(count(lambda n: libc.inotify_init()), count(lambda n: librt.mq_open(b"/attack%d" % n, 0o102, 0o600, None)),
      count(lambda n: libc.sigqueue(os.getpid(), 40, None)),
      count(lambda n: libc.timer_create(1, None, ctypes.byref(ctypes.c_void_p()))), flush=True)
if most == 1:
    librt.mq_unlink(b"/attack0")
else:
    time.sleep(60)
"""


def test_what_is_counted_for_the_user_cannot_be_used_up_by_a_box(box, mode):
    """inotify instances, message queues, pending signals and timers: root's own in a box of root."""
    owner = {"range": 0, "shared": 0, "helper": SUBUID_USER, "one": NOBODY if ROOT else os.getuid()}[mode.split("-")[0]]

    def become():
        if ROOT:
            os.setgroups([])
            os.setresgid(owner, owner, owner)
            os.setresuid(owner, owner, owner)
    with box.connect() as c:
        c.start(["python3", "-c", TAKE_ALL, "1000000"], id="taker")
        c.wait_output(b"\n")
        taken = [int(n) for n in c.out.split()]
        left = subprocess.run(["/usr/bin/python3", "-c", TAKE_ALL, "1"], preexec_fn=become, check=True,
                              capture_output=True, text=True).stdout.split()
        box.kill_task("taker")
    assert taken[0] > 0 and taken[1] > 0 and taken[2] > 100
    assert left == ["1"] * 4, f"the box took {taken}"


def test_a_box_cannot_use_up_the_machines_terminals(box):
    r = box.run(["python3", "-c", """
import os, resource
try:
    while True: os.openpty()
except OSError as e: print(len(os.listdir("/dev/pts")), e.errno)
"""])
    terminals = int(r.text.split()[0])
    assert 4 < terminals <= 130


def test_rights_to_run_before_others_are_not_inherited(make, mode):
    """A user may have some, for sound or desktop programs."""
    give = ["prlimit", "--rtprio=50:50", "--nice=40:40"]
    given = subprocess.run([*give, "true"], stderr=subprocess.DEVNULL, check=False).returncode == 0
    if not given or mode == "one":  # that is an ordinary user
        pytest.skip("nobody here can give them")
    with make(mode, prefix=give) as b:
        r = b.run(["python3", "-c", """
import os, resource
print(resource.getrlimit(resource.RLIMIT_RTPRIO), resource.getrlimit(resource.RLIMIT_NICE))
for what in (lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(10)), lambda: os.nice(-5)):
    try: what(); print("worked")
    except OSError: pass
"""])
        assert r.text == "(0, 0) (0, 0)\n", r.err


@pytest.mark.skipif(resource.getrlimit(resource.RLIMIT_CORE)[1] == 0, reason="nobody here may have a core")
def test_the_host_runs_no_program_for_what_crashes(box):
    """Where kernel.core_pattern names one, the kernel runs it as root whatever the limit is, but for this one."""
    r = box.run(["python3", "-c", """
import ctypes, resource as r
for want in (0, 0), (0, 1), (1, 1):
    r.setrlimit(r.RLIMIT_CORE, want)
    r.prlimit(0, r.RLIMIT_CORE, want)
    ctypes.CDLL(None).syscall(160, r.RLIMIT_CORE | 1 << 32, (ctypes.c_ulong * 2)(*want))  # the old call
    print(*r.getrlimit(r.RLIMIT_CORE))
"""])
    assert r.text == "1 1\n" * 3, r.err.decode()


def test_the_boot_arguments_of_the_host_are_not_told(box):
    assert box.run(["cat", "/proc/cmdline"]).out == b""


def test_no_file_of_proc_but_a_processes_own_can_be_written(box):
    r = box.run(["python3", "-c", """
import os
for top, folders, files in os.walk("/proc"):
    if top == "/proc":
        folders[:] = [f for f in folders if not f.isdigit() and f not in ("self", "thread-self", "net")]
    for f in files:
        path = os.path.join(top, f)
        if os.path.isfile(path) and not path.startswith("/proc/pressure/"):
            try:
                os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
                print(path)
            except OSError: pass
"""])
    assert r.text == "" and r.code == 0, r.err


@pytest.mark.skipif(not ROOT, reason="only root is root outside")
def test_a_payload_that_is_root_outside_cannot_change_the_hosts_devices(world):
    """Root without its capabilities, as in a container, has one uid for all: root's."""
    with Box(mode=0) as b:
        r = b.run(["python3", "-c", """
import os
def tries(what):
    try: what(); print("worked")
    except OSError: pass
for device in "/dev/null", "/dev/zero", "/dev/urandom", "/dev/tty":
    tries(lambda: os.chmod(device, 0o666))
    tries(lambda: os.utime(device))
tries(lambda: os.fchmod(0, 0o666))
for name in "kpageflags", "kpagecount", "vmallocinfo", "slabinfo":
    if os.path.exists("/proc/" + name) and open("/proc/" + name, "rb").read(8):
        print(name, "is told")
open("/dev/null", "w").write("x")
"""])
        assert r.text == "" and r.code == 0, r.err


# ---- mounts and cgroups -------------------------------------------------------------


WRITABLE = {"/tmp", "/var/tmp", "/var/anybox", "/home/user", "/workspace", "/run", "/dev/shm", "/dev/pts", "/proc"}
OLD_KERNELS = [[], [442], [428], [428, 442]]  # mount_setattr, open_tree: before 5.12 and 5.2


def mounts_of(b):
    lines = [line.split() for line in b.run(["cat", "/proc/self/mountinfo"]).text.splitlines()]
    return [(fields[4], set(fields[5].split(","))) for fields in lines]


@pytest.mark.parametrize("mode,without", [(m, w) for m in MODES for w in OLD_KERNELS
                                          if w == [] or m in ("range", "shared", "one")])
def test_nothing_but_what_is_meant_to_be_can_be_written(make, mode, without):
    """Below /etc too, which could be written until the order; and what the host has mounted there."""
    nested = ROOT and mode in ("range", "shared", "helper")
    prefix = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o mode=777,dev,suid tmpfs /etc/ssl/certs && exec "$@"',
              "sh"] if nested else []
    with make(mode, prefix=prefix, without=without) as b:
        mounts = mounts_of(b)
        assert ("/etc/ssl/certs" in [at for at, _ in mounts]) == nested
        writable = WRITABLE | ({"/"} if mode.endswith("image") else set())
        assert {at for at, flags in mounts if "rw" in flags} == writable
        assert [at for at, flags in mounts if "nosuid" not in flags] == []
        devices = {at for at, flags in mounts if "nodev" not in flags}
        assert all(at.startswith(("/dev/", "/proc/")) for at in devices), devices
        r = b.sh("for f in /etc/ssl/certs/x /etc/ssl/x /etc/x /etc/ld.so.conf.d/x; do : 2>/dev/null >$f && echo $f; done")
        assert mode.endswith("image") or r.text == ""


COVERED = """echo secret > "$0/bound/secret" && mount -t tmpfs -o ro,nosuid,nodev tmpfs "$0/bound" && mount --rbind "$0" /opt &&
exec "$@" """

UNCOVER = """umount /opt/bound && echo uncovered; mount --bind /opt /mnt && echo bound alone
mount -o remount,bind,rw /opt/bound && echo writable; mount -o remount,bind,dev,suid /opt/bound && echo devices
cat /opt/bound/secret; mount -t tmpfs tmpfs /mnt && echo may mount"""


@pytest.mark.skipif(not ROOT, reason="enters a box with all rights that its user namespace has")
@pytest.mark.parametrize("mode", ["range", "shared"])
def test_what_the_host_has_mounted_over_something_stays_covered_for_whoever_is_root_in_a_box(make, tmp_path, mode):
    """As for any user namespace that was made with a copy of the host's mounts, and so for a root
    that was handed over: nobody in a box has these rights, but they would not do it, either."""
    (tmp_path / "bound").mkdir()
    tmp_path.parent.chmod(0o755)
    tmp_path.chmod(0o755)
    prefix = ["unshare", "-m", "sh", "-c", COVERED, str(tmp_path)]
    shares = mode == "shared" and agent_client.HAS_SHARED_ROOTS
    for _ in range(20):  # where the machine has stood still a box may have its own root
        with make(mode, prefix=prefix, ro_binds=[*agent_client.RO_BINDS, "/opt"]) as b:
            enter = ["nsenter", f"--target={b.pid}", "--user", "--mount", "--setuid=0", "--setgid=0"]
            is_shared = "idmapped" in dict(mounts_of(b))["/"]
            told = subprocess.run([*enter, "sh", "-c", UNCOVER], capture_output=True, text=True).stdout.splitlines()
        assert told == ["may mount"]
        if is_shared == shares:
            return
    pytest.fail("no box has shared its root")


def test_no_cgroup_but_its_own_is_seen_or_reached(box):
    told = box.run(["cat", "/proc/self/cgroup", "/proc/1/cgroup"]).text.split()
    assert told and {line.rpartition(":")[2] for line in told} == {"/"}
    # Where nobody handed cpusets down to the box, it is in one above its own: that has no name here.
    assert set(box.run(["cat", "/proc/self/cpuset"]).text.strip().split("/")) <= {"", ".."}
    assert not [at for at, _ in mounts_of(box) if "cgroup" in at]
    assert box.run(["ls", "/sys/fs/cgroup"]).code != 0


# ---- a hostile image ----------------------------------------------------------------


def odd_devices(image):
    """Whiteouts of an overlay, in the place of what a box needs, and what leads nowhere."""
    for name in "etc/hosts", "etc/resolv.conf", "etc/passwd", "var/tmp", "tmp":
        path = image / name
        path.rmdir() if path.is_dir() else path.unlink(missing_ok=True)
        os.mknod(image / name, stat.S_IFCHR | 0o666, 0)


def odd_files(image):
    for name in "etc/passwd", "etc/group":
        (image / name).unlink()
    os.mkfifo(image / "etc/passwd", 0o666)
    socket.socket(socket.AF_UNIX).bind(str(image / "etc/group"))
    for name in "etc/hosts", "etc/hostname", "etc/nsswitch.conf", "etc/resolv.conf", "etc/mtab":
        os.mkfifo(image / name, 0o666)
    (image / "a\nname\x1b[2J").touch()


def odd_marks(image):
    """Attributes by which an overlay knows what is its own."""
    for path in image, image / "etc", image / "usr", image / "etc/passwd":
        for name, value in (("opaque", b"y"), ("redirect", b"/../../etc"), ("origin", b"x" * 20), ("impure", b"y"),
                            ("whiteout", b"y"), ("upper", b"x")):
            os.setxattr(path, "user.overlay." + name, value)
            os.setxattr(path, "trusted.overlay." + name, value)


def huge_files(image):
    """The users' file is to be added to; to open it for writing is to copy it."""
    for name in "etc/passwd", "usr/sparse":
        with open(image / name, "wb") as f:
            f.truncate(1 << 40)
    with open(image / "usr/large", "wb") as f:
        f.write(os.urandom(1 << 20) * 24)


@pytest.mark.skipif(not ROOT, reason="only root makes such files")
@pytest.mark.parametrize("mode", ["range-image", "helper-image"])
@pytest.mark.parametrize("prepare", [odd_devices, odd_files, odd_marks, huge_files])
def test_whatever_is_in_an_image_a_box_of_it_is_made_or_refused(make, mode, prepare, world):
    owner = 0 if mode == "range-image" else SUBUID_USER
    image = rootfs.make(world / f"odd-{mode}-{prepare.__name__}", owner)
    prepare(image)
    rootfs.give(image, owner)
    before = {p: (p.lstat().st_mtime_ns, p.lstat().st_ctime_ns, p.lstat().st_atime_ns) for p in [image, *image.rglob("*")]}
    try:
        b = make(mode.replace("-image", ""), image=str(image), env=[*ENV[:1], "HOME=/root", "USER=root", *ENV[3:]],
                 disk=16 << 20)
    except Failed as e:
        assert e.kind in ("invalid", "unsupported", "system") and len(e.message) > 10
        b = None
    if b is not None:
        with b:
            # Not by bash, which looks for its user in what may be a pipe.
            r = b.run(["sh", "-c", "ls -A /; ls -A /.apart /.apart/host; cat /etc/hosts; (echo x >>/usr/large); "
                       "(echo y >>/usr/sparse); echo w >/workspace/w && cat /workspace/w"])
            assert "127.0.0.1 localhost" in r.text and r.text.endswith("w\n"), r.err
            assert b"'/.apart': No such file" in r.err and "/.apart" not in r.text
            assert prepare is not huge_files or b"No space left" in r.err
            assert b.usage()["disk"] <= 16 << 20 and b.run(["true"]).code == 0
    after = {p: (p.lstat().st_mtime_ns, p.lstat().st_ctime_ns, p.lstat().st_atime_ns) for p in [image, *image.rglob("*")]}
    assert after == before, "the image was written"
    shutil.rmtree(image)


def test_files_take_no_attributes_that_only_the_privileged_may_set(box):
    """Their memory is nobody's: with it a box could fill the machine, whatever its limit. Debian 12's kernel
    lets anybody set most of them."""
    r = box.run(["python3", "-c", """
import os
with open("/tmp/marked", "w") as f:
    for name in "security.x", "security.y", "trusted.x":
        for what in "/tmp/marked", f.fileno():
            try: os.setxattr(what, name, bytes(65536)); print(name)
            except OSError: pass
"""])
    assert r.text == "" and r.code == 0, r.err


@pytest.mark.parametrize("mode", [m for m in MODES if m.endswith("image")])
def test_the_root_of_an_image_cannot_mark_or_move_what_the_box_stands_on(box):
    r = box.run(["python3", "-c", """
import os, stat
def tries(name, what):
    try: what(); print(name)
    except OSError: pass
os.mkdir("/usr/d")
for name in "trusted.overlay.opaque", "security.capability", "security.x", "trusted.x":
    tries(name, lambda: os.setxattr("/usr/d", name, b"y"))
tries("whiteout", lambda: os.mknod("/usr/w", stat.S_IFCHR, 0))
tries("device", lambda: os.mknod("/usr/m", stat.S_IFCHR | 0o666, os.makedev(1, 3)))
for path in "/workspace", "/proc", "/dev", "/tmp", "/home/user", "/run", "/dev/null", "/dev/shm", "/proc/sys":
    tries("move " + path, lambda: os.rename(path, "/moved"))
    tries("remove " + path, lambda: os.rmdir(path))
for name in "root", "cwd", "exe", "fd", "ns/mnt":
    tries(name, lambda: os.listdir("/proc/1/" + name) or os.readlink("/proc/1/" + name))
for name in "redirect", "opaque":
    tries("", lambda: os.setxattr("/usr/d", "user.overlay." + name, b"/../../etc"))
print(os.listdir("/usr/d"))
"""])
    assert r.text in ("[]\n", "\n[]\n", "\n\n[]\n"), r.text + r.err.decode()
    assert box.run(["true"]).code == 0


# ---- the file tools ----------------------------------------------------------------


@pytest.mark.parametrize("target", ["/etc/hosts", "/proc/sys/kernel/core_pattern", "/proc/1/oom_score_adj",
                                    "/proc/self/oom_score_adj", "/usr/bin/new", "/dev/null", "/proc/self/mem"])
def test_the_file_tools_cannot_write_through_a_link_what_code_could_not(box, mode, target):
    if mode.endswith("image") and target in ("/etc/hosts", "/usr/bin/new"):
        pytest.skip("code could")
    box.sh(f"ln -s {target} /tmp/link; ln -s {os.path.dirname(target)} /tmp/folder")
    for path in "/tmp/link", "/tmp/folder/" + os.path.basename(target):
        with pytest.raises(Failed):
            box.write(path, "x")
    if not target.endswith("new"):
        with pytest.raises(Failed):
            box.remove("/tmp/folder/" + os.path.basename(target))


@pytest.mark.parametrize("path", ["/tmp/fifo", "/dev/zero", "/dev/tty", "/proc/kmsg", "/proc/self/mem",
                                  "/proc/1/environ", "/proc/self/fd/3", "/proc/kcore", "/tmp/socket"])
def test_reading_what_is_no_file_is_refused_at_once(box, path):
    box.run(["python3", "-c", "import os, socket; os.mkfifo('/tmp/fifo'); "
             "socket.socket(socket.AF_UNIX).bind('/tmp/socket')"])
    began = time.monotonic()
    with pytest.raises(Failed):
        box.read(path, limit=1 << 20)
    assert time.monotonic() - began < 15


def test_listing_proc_and_reading_sparse_files_is_bounded(box):
    began = time.monotonic()
    entries, more = box.list("/proc", recursive=True, limit=20000)
    assert len(entries) <= 20000 and time.monotonic() - began < 30
    box.run(["truncate", "-s", "1T", "/tmp/huge"])
    data, entry = box.read("/tmp/huge", limit=100000)
    assert len(data) == 100000 and entry.size == 1 << 40


def test_paths_that_go_through_the_first_process_lead_nowhere(box):
    for path in "/proc/1/root/etc/passwd", "/proc/1/cwd/x", "/proc/1/fd/3":
        with pytest.raises(Failed):
            box.read(path)
    with pytest.raises(Failed):
        box.run(["true"], cwd="/proc/1/root")


def test_the_file_tools_do_not_tell_where_things_lie_in_the_first_processes_memory(box):
    """A file worker is a copy of it."""
    box.sh("ln -s /proc/self/smaps /tmp/link")
    for path in "/proc/self/maps", "/proc/thread-self/maps", "/proc/self/task/../stat", "/tmp/link", "/proc/self/syscall":
        with pytest.raises(Failed) as refused:
            box.read(path)
        assert refused.value.kind == "denied", path


# ---- two boxes ----------------------------------------------------------------------


def test_boxes_do_not_see_each_other(make, mode):
    with make(mode) as a, make(mode) as b, a.connect() as c:
        c.start(["python3", "-c", """
import ctypes, socket, time
libc = ctypes.CDLL(None)
abstract = socket.socket(socket.AF_UNIX); abstract.bind("\\0shared"); abstract.listen()
tcp = socket.create_server(("127.0.0.1", 7777))
print(libc.shmget(4711, 4096, 0o1666), libc.msgget(4712, 0o1666), "ready", flush=True)
time.sleep(60)
"""], id="server")
        c.wait_output(b"ready")
        a.write("/tmp/secret", "x")
        r = b.run(["python3", "-c", """
import ctypes, os, socket
libc = ctypes.CDLL(None)
print(libc.shmget(4711, 4096, 0), libc.msgget(4712, 0), os.path.exists("/tmp/secret"))
for family, where in ((socket.AF_UNIX, "\\0shared"), (socket.AF_INET, ("127.0.0.1", 7777))):
    try: socket.socket(family).connect(where); print("connected")
    except ConnectionRefusedError: pass
print([p for p in os.listdir("/proc") if p.isdigit() and int(p) != os.getpid()
       and "python" in open(f"/proc/{p}/comm").read()])
"""])
        assert r.text == "-1 -1 False\n[]\n", r.err


WATCH = """
import ctypes, fcntl, os, select
libc = ctypes.CDLL(None)
held = open("/usr/bin/env", "rb")
watch = libc.inotify_init()
assert libc.inotify_add_watch(watch, b"/usr/bin", 0xfff) >= 0
fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
print("ready", flush=True)
print(len(select.select([watch], [], [], 1.5)[0]), flush=True)
"""
LOCK = "import fcntl; fcntl.flock(open('/usr/bin/env', 'rb'), fcntl.LOCK_EX | fcntl.LOCK_NB)"


@pytest.mark.parametrize("mode", [m for m in MODES if m.endswith("image")])
def test_boxes_of_one_image_neither_watch_nor_lock_its_files_for_others(make, mode):
    with make(mode) as a, make(mode) as b, a.connect() as c:
        a.run(["env", "true"])
        c.start(["python3", "-c", WATCH])
        c.wait_output(b"ready")
        assert b.run(["env", "python3", "-c", LOCK]).code == 0
        assert c.wait().code == 0
        assert bytes(c.out) == b"ready\n0\n"


# ---- the whole program, as each kind of user ------------------------------------------


@pytest.mark.every_tier
def test_private_keys_and_settings_with_secrets_are_not_in_etc(host):
    client = host.server()
    listing = client.bash("ls -d /etc/ssl/private /etc/pki/tls/private /etc/shadow /etc/gshadow /etc/sudoers /etc/ssh "
                          "/etc/environment /etc/fstab /etc/machine-id /etc/apt /etc/pip.conf /etc/npmrc /etc/gitconfig "
                          "/etc/crontab /etc/krb5.keytab /etc/docker /etc/kubernetes /etc/profile.d 2>/dev/null; "
                          "find /etc -name '*.key' -readable 2>/dev/null")
    assert listing["stdout"] == ""


@pytest.mark.every_tier
def test_names_cannot_hide_text_from_who_reads_the_answer(client):
    names = ["\x1b[2Jescape", "bidi\u202etxt.exe", "tag\U000e0041", "zero\u200bwidth", "c1\x9b2J", "line\nbreak"]
    client.bash("python3 -", stdin=f"for n in {ascii(names)}: open('/workspace/' + n, 'w')")
    answer = client.start_tool("list_remote_files", {"path": "/workspace"}).result(30)
    shown = answer["result"]["content"][0]["text"]
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f]", shown), \
        ascii(shown)
    # Visible, and still the name by which it can be asked for.
    assert {e["path"] for e in json.loads(shown)["entries"]} == {"/workspace/" + n for n in names}


@pytest.mark.every_tier
def test_other_users_cannot_reach_the_state_or_the_socket(host, tier):
    if not ROOT:
        pytest.skip("only root can become another user")
    host.server().tool("create_sandbox", name="b")
    sockets = list(host.home.glob("boxes/*/agent.sock"))  # the pool may have others by now
    assert len(sockets) == 1
    script = f"""
import os, socket, sys
os.setgroups([]); os.setgid(58899); os.setuid(58899)
for what in (lambda: os.listdir({str(host.home)!r}), lambda: open({str(host.home / 'anybox.db')!r}),
             lambda: socket.socket(socket.AF_UNIX).connect({str(sockets[0])!r}),
             lambda: os.kill({host.install.box_inits()[0]}, 0)):
    try: what(); print("worked")
    except PermissionError: print("refused")
"""
    done = subprocess.run(["/usr/bin/python3", "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["refused"] * 4


@pytest.mark.only_tiers("root")
def test_root_does_not_use_a_state_folder_that_another_user_made(host):
    theirs = host.folder / "theirs"
    box_folder = theirs / "boxes" / ("a" * 32)
    box_folder.mkdir(parents=True)
    (box_folder / "info").write_text(f"version=1\nname=x\npid=0\ncgroup={host.folder}/anybox/{'a' * 32}\n")
    for path in theirs, theirs / "boxes", box_folder:
        os.chown(path, 58899, 58899)
    done = host.run("ls", env={"ANYBOX_HOME": str(theirs)})
    assert done.returncode != 0 and "belongs to somebody else" in done.stderr
    assert box_folder.exists()
    shutil.rmtree(theirs)


@pytest.mark.every_tier
def test_a_hostile_environment_does_not_reach_what_starts_a_box(host):
    client = host.server()
    client.tool("create_sandbox", name="e", env={"LD_PRELOAD": "/tmp/evil.so", "HOME": "/proc/1/root",
                                                 "BASH_ENV": "/tmp/evil", "IFS": "x"})
    for pid in host.install.box_inits():
        if pid_inside(pid) == 1:
            assert pathlib.Path(f"/proc/{pid}/environ").read_bytes() == b""
    assert client.bash("echo alive")["stdout"] == "alive\n"


@pytest.mark.only_tiers("root")
def test_root_with_few_capabilities_does_not_lend_its_uid_to_a_box(host):
    """As in a container: enough to give a box ids of its own."""
    few = "-all,+setuid,+setgid"
    done = subprocess.run(["setpriv", "--bounding-set=" + few, "--inh-caps=" + few, host.install.anybox, "run", "--",
                           "cat", "/proc/self/uid_map"], env=host.env(), cwd=host.project, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=True)
    inside, outside, count = (int(n) for n in done.stdout.split())
    assert (inside, count) == (0, 65536) and outside > 65536
