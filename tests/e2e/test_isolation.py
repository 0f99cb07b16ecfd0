"""What code in a box can see and do of the host: nothing but its system folders, to read."""
import contextlib
import json
import os
import pathlib
import re
import socket

import pytest
from host import FIRST_SUBUID, pid_inside, wait_until

pytestmark = pytest.mark.every_tier

POOL = 0  # what is counted is the box, and nothing that is made beside it
PROBE = r"""
import json, os, socket, ctypes
libc = ctypes.CDLL(None, use_errno=True)
intel = os.uname().machine == "x86_64"
MOUNT, UNSHARE, SETNS, KEYCTL, BPF = (165, 272, 308, 250, 321) if intel else (40, 97, 268, 219, 280)
CLONE3 = 435
def tries(what):
    try:
        what()
        return "worked"
    except OSError as e:
        return e.strerror
def call(*args):
    if libc.syscall(*args) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
status = dict(l.split(":", 1) for l in open("/proc/self/status").read().splitlines() if ":" in l)
print(json.dumps({
    "status": {k: status[k].strip() for k in ("Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb",
                                              "NoNewPrivs", "Seccomp")},
    "fds": sorted(int(f) for f in os.listdir("/proc/self/fd") if os.path.exists("/proc/self/fd/" + f)),
    "env": dict(os.environ),
    "interfaces": [n for _, n in socket.if_nameindex()],
    "pids": sorted(int(p) for p in os.listdir("/proc") if p.isdigit()),
    "hostname": socket.gethostname(),
    "mount": tries(lambda: call(MOUNT, b"none", b"/tmp", b"tmpfs", 0, None)),
    "unshare": tries(lambda: call(UNSHARE, 0x10000000)),
    "clone3": tries(lambda: call(CLONE3, None, 0)),
    "setns": tries(lambda: call(SETNS, 0, 0)),
    "keyctl": tries(lambda: call(KEYCTL, 0, -3, 0)),
    "bpf": tries(lambda: call(BPF, 0, None, 0)),
    "chroot": tries(lambda: os.chroot("/tmp")),
    "setuid": tries(lambda: os.setuid(0)),
    "usr": tries(lambda: open("/usr/bin/x", "w")),
    "etc": tries(lambda: open("/etc/x", "w")),
    "root": tries(lambda: open("/x", "w")),
    "sysrq": tries(lambda: open("/proc/sysrq-trigger", "w")),
    "sysctl": tries(lambda: open("/proc/sys/kernel/hostname", "w")),
    "mem": tries(lambda: open("/proc/1/mem", "rb")),
    "init_env": tries(lambda: open("/proc/1/environ", "rb").read()),
    "kill_init": tries(lambda: os.kill(1, 9)),
}))
"""


@pytest.fixture
def probe(box):
    answer = box.bash("python3 -", stdin=PROBE)
    assert answer["exit_code"] == 0, answer["stderr"]
    return json.loads(answer["stdout"])


def test_a_command_has_no_privileges_and_cannot_get_any(probe):
    status = probe["status"]
    assert status["NoNewPrivs"] == "1" and status["Seccomp"] == "2"
    for caps in "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb":
        assert int(status[caps], 16) == 0, caps
    assert status["Groups"] in ("", "1000", "65534")
    assert probe["setuid"] != "worked"


def test_a_command_is_an_ordinary_user_inside(box):
    assert box.bash("id -un; id -u; echo ~; whoami")["stdout"] == "user\n1000\n/home/user\nuser\n"


def test_a_command_has_only_its_three_descriptors(box):
    assert box.bash("ls /proc/self/fd | tr '\\n' ' '")["stdout"].split() in (["0", "1", "2", "3"],)
    answer = box.bash("ls /proc/$$/fd; :")
    assert set(answer["stdout"].split()) <= {"0", "1", "2", "255"}


@pytest.mark.parametrize("what", ["mount", "unshare", "setns", "keyctl", "bpf", "chroot"])
def test_system_calls_that_build_ways_out_are_refused(probe, what):
    assert probe[what] != "worked"


def test_clone3_says_that_it_does_not_exist(probe):
    assert probe["clone3"] == os.strerror(38)


@pytest.mark.parametrize("what", ["usr", "etc", "root", "sysrq", "sysctl", "mem"])
def test_system_files_cannot_be_written(probe, what):
    assert probe[what] != "worked"


def test_init_cannot_be_looked_into_or_killed(box, probe):
    assert probe["init_env"] != "worked"
    assert box.bash("echo alive")["stdout"] == "alive\n"


def test_there_is_no_network(box, probe):
    assert set(probe["interfaces"]) <= {"lo"}
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]
        answer = box.bash(f"timeout 5 bash -c 'echo hi > /dev/tcp/127.0.0.1/{port}'")
        assert answer["exit_code"] != 0
    assert box.bash("timeout 5 bash -c 'echo > /dev/tcp/1.1.1.1/53'")["exit_code"] != 0


def test_abstract_sockets_of_the_host_cannot_be_reached(box):
    name = f"anybox-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind("\0" + name)
        listening.listen()
        answer = box.bash("python3 -", stdin=f"import socket; socket.socket(socket.AF_UNIX).connect('\\0{name}')")
        assert answer["exit_code"] != 0 and "refused" in answer["stderr"]


def test_loopback_works_inside(box):
    answer = box.bash("python3 -", stdin="import socket\ns = socket.create_server(('127.0.0.1', 0))\n"
                      "c = socket.create_connection(s.getsockname())\nprint('connected')")
    assert answer["stdout"] == "connected\n", answer["stderr"]


def test_only_the_boxes_own_processes_are_seen(probe):
    assert probe["pids"][0] == 1 and len(probe["pids"]) <= 5
    assert probe["hostname"] != socket.gethostname()


def test_nothing_of_the_servers_environment_reaches_a_box(host):
    client = host.server(env={"SECRET_TOKEN": "hunter2", "AWS_SECRET_ACCESS_KEY": "hunter2", "LD_PRELOAD": "",
                              "PYTHONPATH": "/hunter2", "BASH_ENV": "/hunter2", "LD_LIBRARY_PATH": "/hunter2"})
    answer = client.bash("env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'")
    assert "hunter2" not in answer["stdout"] and "SECRET" not in answer["stdout"]
    for pid in host.install.box_processes():
        assert b"hunter2" not in pathlib.Path(f"/proc/{pid}/environ").read_bytes()


def test_nothing_of_the_hosts_files_is_there(host):
    secret = host.user_home / "secret.txt"
    secret.write_text("hunter2")
    secret.chmod(0o644)
    client = host.server()
    answer = client.bash(f"cat {secret} {host.project}/* {host.home}/*; ls -a / /home /root /home/user /tmp /workspace "
                         "/var /run /mnt /media /srv /opt 2>&1; find / -xdev -name secret.txt 2>/dev/null")
    assert "hunter2" not in answer["stdout"]
    assert str(host.folder.parent.name) not in answer["stdout"]
    listing = client.bash("ls -A /home /tmp /workspace /home/user")["stdout"]
    assert listing.split() == ["/home:", "user", "/home/user:", "/tmp:", "/workspace:"] or \
        set(listing.split()) == {"/home:", "user", "/home/user:", "/tmp:", "/workspace:"}


def test_sockets_and_keys_of_the_host_are_not_there(box):
    answer = box.bash("ls /var/run/docker.sock /run/docker.sock /run/dbus /run/systemd /etc/shadow /etc/ssh /root/.ssh "
                      "/sys/fs/cgroup /dev/kmsg /dev/mem /dev/sda /dev/fuse /dev/kvm 2>/dev/null")
    assert answer["stdout"] == ""


def test_etc_is_made_and_has_no_users_of_the_host(box):
    passwd = box.bash("cat /etc/passwd")["stdout"]
    assert "user:x:1000" in passwd
    assert len(passwd.splitlines()) <= 4
    assert box.bash("getent hosts localhost")["stdout"].split()[0] in ("127.0.0.1", "::1")


def test_dev_is_minimal(box):
    names = set(box.bash("ls /dev")["stdout"].split())
    assert {"null", "zero", "urandom"} <= names
    assert names <= {"null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "shm", "fd", "stdin", "stdout",
                     "stderr", "mqueue"}
    assert box.bash("echo x > /dev/null && head -c 4 /dev/urandom | wc -c && : > /dev/shm/x && echo ok"
                    )["stdout"].split() == ["4", "ok"]


def test_mounts_are_read_only_or_private_memory(box):
    for line in box.bash("cat /proc/self/mounts")["stdout"].splitlines():
        device, where, kind, options = line.split()[:4]
        options = options.split(",")
        if kind in ("tmpfs", "proc", "devpts", "mqueue") or where.startswith("/dev/"):
            continue
        assert "ro" in options, line
    answer = box.bash("findmnt -no OPTIONS -T /tmp; findmnt -no OPTIONS -T /workspace")
    assert "nosuid" in answer["stdout"] or answer["exit_code"] != 0


FROM_PLACE_TO_PLACE = r"""
import errno, os
open("/tmp/own", "w").close()
for what in (lambda: os.link("/etc/passwd", "/tmp/p"), lambda: os.rename("/etc/passwd", "/tmp/p"),
             lambda: os.rename("/tmp/own", "/etc/own"), lambda: os.link("/tmp/own", "/etc/own"),
             lambda: os.chmod("/etc/passwd", 0o777), lambda: os.utime("/etc/passwd"), lambda: os.unlink("/etc/passwd"),
             lambda: os.open("/tmp/../etc/passwd", os.O_WRONLY)):
    try:
        what()
        print("worked")
    except OSError as e:
        print(errno.errorcode[e.errno])
"""


def test_one_file_system_holds_what_can_be_written(box):
    """And the root, where that is not shared with other boxes. Only the mounts tell places apart, and
    nothing leads from one to the other."""
    places = {"/tmp", "/var/tmp", "/home/user", "/workspace", "/run", "/dev/shm", "/var/anybox"}
    mounts = [line.split()[1:4] for line in box.bash("cat /proc/self/mounts")["stdout"].splitlines()]
    writable = {where for where, kind, options in mounts if kind == "tmpfs" and "ro" not in options.split(",")}
    assert writable == places
    devices = box.bash("stat -c %d / /etc /etc/passwd " + " ".join(sorted(places)))["stdout"].split()
    assert len(devices) == 3 + len(places) and len(set(devices[:3])) == len(set(devices[3:])) == 1
    if devices[0] != devices[3]:
        assert re.search(" / ro,[a-z,]*idmapped ", box.bash("cat /proc/self/mountinfo")["stdout"])
    told = box.bash("python3 -", stdin=FROM_PLACE_TO_PLACE)
    assert told["exit_code"] == 0 and set(told["stdout"].split()) <= {"EROFS", "EXDEV", "EACCES", "EPERM"}, told
    assert len(told["stdout"].split()) == 8


def memory_of_its_own(init):
    """Of PID 1 in kB; the process that it keeps for the next command shares pages with it."""
    text = pathlib.Path(f"/proc/{init}/smaps_rollup").read_text()
    return sum(int(n) for n in re.findall(r"^(?:Private|Shared)_Dirty: +(\d+)", text, re.M))


@pytest.mark.long
@pytest.mark.skipif(os.geteuid() != 0, reason="only root may see the memory of PID 1")
def test_a_box_that_rests_gives_memory_back(host):
    client = host.server()
    box = client.tool("create_sandbox", name="resting")["id"]
    init = re.search(r"^pid=(\d+)$", (host.home / "boxes" / box / "info").read_text(), re.M).group(1)
    at_first = memory_of_its_own(init)
    client.tool("exec_bash", command="true")
    assert wait_until(lambda: memory_of_its_own(init) > at_first + 8, 30)
    assert wait_until(lambda: memory_of_its_own(init) <= at_first + 8, 120)


def test_the_state_folder_is_for_its_owner_only(host):
    host.server().tool("create_sandbox", name="b")
    assert host.home.stat().st_mode & 0o777 == 0o700
    for path in host.home.rglob("*"):
        assert path.lstat().st_mode & 0o077 == 0 or path.is_socket() or path.is_symlink(), path


def payload_uids(host):
    found = set()
    for p in host.install.box_processes():
        with contextlib.suppress(FileNotFoundError):
            if pid_inside(p) != 1:
                found.add(os.stat(f"/proc/{p}").st_uid)
    return found


def test_boxes_run_with_ids_that_are_nobodys(host, tier):
    client = host.server()
    client.bash("sleep 300 & true")
    wanted = {"root": lambda uid: uid >= 65536, "subuid": lambda uid: FIRST_SUBUID <= uid < FIRST_SUBUID + 65536}
    is_right = wanted.get(tier.name, lambda uid: uid == tier.uid)
    # The child that waits for the next command has PID 1's own uid for a moment.
    assert wait_until(lambda: all(is_right(uid) for uid in payload_uids(host))), payload_uids(host)
    assert payload_uids(host)


@pytest.mark.only_tiers("root")
def test_two_boxes_of_root_have_different_ids(host):
    client = host.server()
    for name in "ab":
        client.tool("create_sandbox", name=name)
        client.bash("sleep 300 & true", sandbox_name=name)
    owners = {os.stat(f"/proc/{p}").st_uid for p in host.install.box_processes() if pid_inside(p) != 1}
    # By range: a process of boxinit's own may be seen before it becomes the user of its box.
    assert len({uid // 65536 for uid in owners}) == 2


def test_threads_and_processes_work_inside(box):
    answer = box.bash("python3 -", stdin="import threading, subprocess, multiprocessing\n"
                      "t = threading.Thread(target=print, args=('thread',)); t.start(); t.join()\n"
                      "print(subprocess.run(['echo', 'child'], capture_output=True, text=True).stdout, end='')\n"
                      "q = multiprocessing.get_context('fork').Queue(); q.put('queue'); print(q.get())\n")
    assert answer["stdout"] == "thread\nchild\nqueue\n", answer["stderr"]


def test_setuid_programs_give_nothing(box):
    answer = box.bash("for p in /usr/bin/passwd /usr/bin/su /bin/mount; do [ -u $p ] && echo $p; done; "
                      "python3 -c 'import os; print(os.statvfs(\"/usr\").f_flag & os.ST_NOSUID != 0)'")
    assert answer["stdout"].splitlines()[-1] == "True"
