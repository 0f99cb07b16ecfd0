"""What boxinit does, asked over its socket without a server between.

Most tests run for each way a box can have its uids: `range` (root writes the maps), `helper`
(newuidmap) and `one` (PID 1 and payload are one user).
"""
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import stat
import struct
import subprocess
import tempfile
import threading
import time

import pytest

import agent_client
from agent_client import (APPEND, ATTACH, CHUNK, DETACH, EXEC, FAIL, KILL, NEW, OK, PARENTS, STATE,
                          TASK, USAGE, WRITE, Box, Failed, Fields, Maker, failed, frame, names, text,
                          u8, u32, u64)
from host import FIRST_SUBUID, Tier, at_rest, children, is_running
from tracer import Traced

ROOT = os.geteuid() == 0
NOBODY = 65534
MODES = ["range", "shared", "helper", "one"] if ROOT else ["one"]  # "shared": by a maker
MUST_RUN = os.environ.get("ANYBOX_MUST_RUN", "").split(",")
CGROUP = pathlib.Path("/sys/fs/cgroup")


@pytest.fixture(scope="module", autouse=True)
def world():
    """A copy that every user can run, whatever folder we are built in."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="boxinit-", dir="/tmp"))
    folder.chmod(0o755)
    if not os.path.exists(agent_client.BOXINIT):
        pytest.exit(f"{agent_client.BOXINIT} is not built: run make", 2)
    before = agent_client.BOXINIT
    agent_client.BOXINIT = shutil.copy(before, folder / "boxinit")
    yield folder
    agent_client.BOXINIT = before
    left = [p for p in processes() if executable(p).startswith(str(folder))]
    shutil.rmtree(folder)
    assert left == [], "boxes are left behind"


def processes():
    return [int(p) for p in os.listdir("/proc") if p.isdigit()]


def executable(pid):
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""


def in_box(box):
    """Host pids of all processes in the box's pid namespace."""
    space = os.readlink(f"/proc/{box.pid}/ns/pid")
    found = []
    for pid in processes():
        try:
            if os.readlink(f"/proc/{pid}/ns/pid") == space:
                found.append(pid)
        except OSError:
            pass
    return found


@pytest.fixture(scope="module")
def make(world):
    def start(mode="one", **kw):
        if mode == "one":
            return Box(mode=0, run_as=NOBODY if ROOT else None, **kw)
        if mode == "range":
            return Box(mode=1, **kw)
        if mode == "shared":
            with Maker(kw.pop("prefix", ()), kw.pop("without", ())) as maker:
                return Box(mode=1, maker=maker, **kw)
        tier = Tier("subuid", pathlib.Path(tempfile.mkdtemp(dir=world)))
        if not shutil.which("newuidmap"):
            (pytest.fail if "local" in MUST_RUN else pytest.skip)("newuidmap is not installed")
        return Box(mode=2, first=FIRST_SUBUID, chown=tier.uid, prefix=tier.wrap([]), **kw)
    return start


@pytest.fixture(params=MODES)
def mode(request):
    return request.param


@pytest.fixture
def box(make, mode):
    with make(mode) as b:
        yield b


@pytest.fixture
def one(make):
    """Any box, where the uids do not matter."""
    with make(MODES[0]) as b:
        yield b


def wait_for(what, timeout=30):
    end = time.monotonic() + timeout
    while not what():
        assert time.monotonic() < end, "it did not come to be"
        time.sleep(0.01)


# ---- commands ---------------------------------------------------------------


def test_exit_codes_signals_and_streams(box):
    r = box.sh("echo out; echo err >&2; exit 7")
    assert (r.out, r.err, r.code) == (b"out\n", b"err\n", 7)
    assert not r.ending.timed_out and r.ending.oom == "no"
    r = box.sh("kill -SEGV $$")
    assert r.ending.signaled and r.ending.code == signal.SIGSEGV
    assert box.run(["/bin/true"]).code == 0
    assert box.run(["false"]).code == 1


def test_who_where_and_environment(box):
    r = box.sh("id -u; id -g; id -un; pwd; echo $HOME $USER $LANG; hostname")
    assert r.text.split() == ["1000", "1000", "user", "/workspace", "/home/user", "user",
                              "C.UTF-8", "box"]
    assert box.run(["env"]).text.splitlines() == agent_client.ENV


def test_the_calls_environment_wins(one):
    r = one.run(["env"], env=["A=1", "USER=other", "A=2", "EMPTY="])
    lines = r.text.splitlines()
    assert "USER=other" in lines and "A=2" in lines and "EMPTY=" in lines
    assert len([x for x in lines if x.startswith(("A=", "USER="))]) == 2


def test_cwd(one):
    one.mkdir("~/deep/er")
    assert one.run(["pwd"], cwd="~").text == "/home/user\n"
    assert one.run(["pwd"], cwd="~/deep").text == "/home/user/deep\n"
    assert one.run(["pwd"], cwd="/tmp").text == "/tmp\n"
    one.mkdir("sub")
    assert one.run(["pwd"], cwd="sub").text == "/workspace/sub\n"


@pytest.mark.parametrize("argv,kw,kind,words", [
    (["true"], {"cwd": "/x"}, "not_found", 'cwd "/x" does not exist in the sandbox'),
    (["true"], {"cwd": "/etc/passwd"}, "invalid", "not a folder"),
    (["foo"], {}, "not_found", '"foo": no such program in the sandbox (PATH=/usr/local/bin:'),
    (["foo"], {"env": ["PATH=/nowhere"]}, "not_found", "PATH=/nowhere"),
    (["/nope/foo"], {}, "not_found", "no such program"),
    (["/etc/passwd"], {}, "denied", "not executable"),
    (["x" * 5000], {}, "not_found", "no such program"),
    (["true", "x" * 200_000], {}, "limit", "put the text in a file"),
    ([], {}, "invalid", "argv is empty"),
    (["true"], {"env": ["novalue"]}, "invalid", "NAME=value"),
    (["tr\0ue"], {}, "invalid", "NUL"),
    (["true"], {"id": "x" * 65}, "invalid", "at most 64"),
])
def test_what_never_ran_is_told(one, argv, kw, kind, words):
    with pytest.raises(Failed) as e:
        one.run(argv, **kw)
    assert e.value.kind == kind and words in e.value.message
    assert one.run(["true"]).code == 0  # and the box goes on
    assert one.usage()["tasks"] == 0


def test_scripts_need_an_interpreter_that_is_there(one):
    one.write("bad", "#!/no/such/sh\n", mode=0o755)
    one.write("plain", "echo hi\n", mode=0o755)
    one.write("good", "#!/bin/sh\necho hi $1\n", mode=0o755)
    with pytest.raises(Failed, match="#! line"):
        one.run(["./bad"])
    with pytest.raises(Failed, match="not a program"):
        one.run(["./plain"])
    assert one.run(["./good", "you"]).text == "hi you\n"


def test_stdin(box):
    assert box.run(["cat"]).out == b""
    assert box.run(["cat"], stdin=b"").out == b""
    data = os.urandom(3_000_000)
    assert box.run(["cat"], stdin=data).out == data
    assert box.run(["head", "-c", "3"], stdin=data).out == data[:3]  # EPIPE is nobody's concern


def test_stdin_is_not_taken_faster_than_it_is_read(one):
    with one.connect() as c:
        c.start(["sh", "-c", "sleep 0.5; wc -c"], stdin=True)
        c.wait_started()
        c.sock.settimeout(0.2)
        sent = 0
        with pytest.raises(TimeoutError):
            while sent < 64 << 20:
                sent += c.sock.send(frame(agent_client.INPUT, text(b"x" * 65536)))
        assert sent < 8 << 20
    assert one.usage()["tasks"] == 1  # its stdin is open still, as for the next who attaches


def test_a_background_process_does_not_hold_the_answer(box):
    start = time.monotonic()
    r = box.sh("sleep 999 & echo done")
    assert r.out == b"done\n" and time.monotonic() - start < 30
    assert b"sleep 999" in box.run(["ps", "ax"]).out  # it lives on
    assert box.usage()["tasks"] == 0


def test_what_a_leftover_writes_later_neither_blocks_nor_kills_it(one):
    one.sh("(sleep 0.2; head -c 1000000 /dev/zero; echo > /tmp/wrote) & echo done")
    wait_for(lambda: one.sh("test -e /tmp/wrote").code == 0)


def test_only_three_descriptors_and_a_session_of_its_own(box):
    r = box.sh("ls /proc/self/fd; cut -d' ' -f6 /proc/self/stat; echo $$")
    lines = r.text.split()
    assert lines[:4] == ["0", "1", "2", "3"]  # 3 is ls's own
    assert len(lines) == 6 and lines[4] == lines[5]


def test_signals_are_as_new(box):
    r = box.run(["cat", "/proc/self/status"])
    masks = re.findall(r"^Sig(?:Pnd|Blk|Ign|Cgt):\t(\w+)$", r.text, re.M)
    assert [int(x, 16) for x in masks] == [0, 0, 0, 0]


def test_many_commands_at_once(one):
    conns = [one.connect() for _ in range(40)]
    for i, c in enumerate(conns):
        c.start(["sh", "-c", f"sleep 1; echo {i}"])
    start = time.monotonic()
    for i, c in enumerate(conns):
        assert c.wait().code == 0 and c.out == f"{i}\n".encode()
        c.close()
    assert time.monotonic() - start < 30


def test_big_output_reaches_an_attached_client_whole(box):
    r = box.sh("head -c 50000000 /dev/zero | tr '\\0' x; head -c 3000000 /dev/zero >&2")
    assert (len(r.out), len(r.err)) == (50_000_000, 3_000_000)
    assert set(r.out) == {ord("x")}


def test_a_slow_client_makes_the_command_wait_and_nobody_else(one):
    with one.connect() as c:
        c.start(["sh", "-c", "head -c 20000000 /dev/zero; touch /tmp/through"])
        c.wait_started()
        time.sleep(0.5)
        assert one.sh("test -e /tmp/through").code == 1
        assert c.wait().code == 0
    assert len(c.out) == 20_000_000 and c.lost == [0, 0]


# ---- detach and attach ------------------------------------------------------


def test_a_client_that_goes_away_leaves_the_command_running(box):
    with box.connect() as c:
        c.start(["sh", "-c", "echo one; sleep 0.5; echo two; exit 3"], id="t")
        c.wait_output(b"one")
    assert box.state("t")[0]
    with box.connect() as c:
        c.attach("t")
        assert c.wait().code == 3
    assert c.out == b"one\ntwo\n" and c.pid is not None
    with pytest.raises(Failed, match="no command"):  # delivered: forgotten
        box.state("t")


def test_detach_is_answered_by_closing(one):
    with one.connect() as c:
        c.start(["sleep", "100"], id="t")
        c.wait_started()
        c.send(DETACH)
        assert c.recv() == (None, b"")
    assert one.state("t")[0]
    one.kill_task("t")


def test_attach_goes_on_at_an_offset(one):
    with one.connect() as c:
        c.start(["sh", "-c", "sleep 0.2; printf abcdef; printf 12345 >&2; exit 4"], id="t")
        c.wait_started()
    wait_for(lambda: not one.state("t")[0])
    ending = one.state("t")[1]
    assert (ending.code, ending.out_bytes, ending.err_bytes) == (4, 6, 5)
    with one.connect() as c:
        c.attach("t", from_out=4, from_err=5)
        assert c.wait().code == 4
    assert (c.out, c.err) == (b"ef", b"")


def test_a_new_client_takes_over(one):
    with one.connect() as a, one.connect() as b:
        a.start(["cat"], id="t", stdin=True)
        a.wait_started()
        b.attach("t")
        b.wait_started()
        assert a.recv() == (None, b"")
        b.feed("hello")
        assert b.wait().code == 0 and b.out == b"hello"


def test_what_nobody_reads_is_bounded_and_the_loss_is_told(one):
    with one.connect() as c:
        c.start(["sh", "-c", "sleep 0.2; head -c 100 /dev/zero | tr '\\0' H; head -c 5000000 /dev/zero; "
                 "head -c 100 /dev/zero | tr '\\0' T"], id="t")
        c.wait_started()
    wait_for(lambda: not one.state("t")[0])
    with one.connect() as c:
        c.attach("t")
        assert c.wait().out_bytes == 5_000_200
    assert c.out[:100] == b"H" * 100 and c.out[-100:] == b"T" * 100
    kept = (64 + 960) << 10
    assert len(c.out) == kept and c.lost[0] == 5_000_200 - kept


def test_ids(one):
    with one.connect() as c:
        c.start(["sleep", "100"], id="t")
        c.wait_started()
        with pytest.raises(Failed) as e:
            one.run(["true"], id="t")
        assert e.value.kind == "exists"
        with pytest.raises(Failed) as e:
            one.state("no")
        assert e.value.kind == "not_found"
        with one.connect() as other:
            other.send(STATE, text(""))
            kind, fields = other.recv()
            assert kind == TASK and Fields(fields).text() == b"t"
            assert other.answer(OK) == b"\0"
        one.kill_task("t")
        assert c.wait().signaled


def test_only_so_many_ended_commands_are_kept(one):
    for i in range(70):
        with one.connect() as c:
            c.start(["sleep", "0.05"], id=f"t{i}")
            c.wait_started()
            c.send(DETACH)
            c.recv()
    wait_for(lambda: one.usage()["tasks"] == 0)
    with one.connect() as c:
        c.send(STATE, text(""))
        kept = 0
        while c.recv()[0] == TASK:
            kept += 1
    assert kept <= 64


# ---- killing ----------------------------------------------------------------


def test_a_timeout_ends_the_whole_session(box):
    start = time.monotonic()
    r = box.sh("sleep 500 & sleep 501 | sleep 502 & echo on; sleep 503", timeout_ms=2000)
    assert r.ending.timed_out and r.ending.signaled and r.ending.code == signal.SIGTERM
    assert r.out == b"on\n" and 2 <= time.monotonic() - start < 15
    assert b"sleep 50" not in box.run(["ps", "ax"]).out


def test_who_ignores_term_is_killed(box):
    r = box.sh("trap '' TERM; (trap '' TERM; sleep 500) & while true; do sleep 0.1; done",
               timeout_ms=2000, grace_ms=300)
    assert r.ending.timed_out and (r.ending.signaled, r.ending.code) == (True, signal.SIGKILL)
    assert r.ending.wall_ms >= 2300
    assert b"sleep 500" not in box.run(["ps", "ax"]).out


def test_a_child_that_ignores_term_does_not_survive_its_parent(box):
    r = box.sh("(trap '' TERM; exec sleep 500) & sleep 501", timeout_ms=200, grace_ms=200)
    assert r.ending.timed_out
    assert b"sleep 50" not in box.run(["ps", "ax"]).out


def test_descendants_in_other_sessions_die_too(box):
    r = box.sh("setsid sh -c 'sleep 500; true' & wait", timeout_ms=300, grace_ms=100)
    assert r.ending.timed_out
    assert b"sleep 500" not in box.run(["ps", "ax"]).out


def test_term_can_be_used_to_clean_up(box):
    r = box.sh("trap 'echo bye; exit 5' TERM; while true; do sleep 0.05; done",
               timeout_ms=2000, grace_ms=10000)
    assert r.ending.timed_out and r.code == 5 and r.out == b"bye\n"


def test_stopped_processes_die(box):
    r = box.sh("sleep 500 & kill -STOP $!; kill -STOP $$", timeout_ms=300, grace_ms=2000)
    assert r.ending.timed_out and r.ending.code == signal.SIGTERM
    assert b"sleep 500" not in box.run(["ps", "ax"]).out


def test_kill_on_the_same_and_on_another_connection(one):
    with one.connect() as c:
        c.start(["sleep", "500"], id="a")
        c.wait_started()
        c.send(KILL, text("a") + u32(1000))
        ending = c.wait()  # no answer of its own
        assert ending.signaled and ending.code == signal.SIGTERM and not ending.timed_out
    with one.connect() as c:
        c.start(["sleep", "500"], id="b")
        c.wait_started()
        one.kill_task("b", grace_ms=0)
        assert c.wait().code == signal.SIGKILL
    with pytest.raises(Failed, match="no command"):
        one.kill_task("b")


def test_other_commands_are_left_alone(one):
    with one.connect() as c:
        c.start(["sleep", "1"], id="other")
        c.wait_started()
        assert one.sh("sleep 500", timeout_ms=100).ending.timed_out
        assert c.wait().code == 0


# ---- files ------------------------------------------------------------------


def test_files_are_written_read_and_listed(box):
    data = os.urandom(300_000)
    e = box.write("a/b/c.bin", data, flags=PARENTS)
    assert (e.path, e.type, e.mode, e.size) == ("a/b/c.bin", "file", 0o644, 300_000)
    assert box.read("/workspace/a/b/c.bin")[0] == data
    assert box.read("a/b/c.bin", start=1000, limit=10)[0] == data[1000:1010]
    assert box.read("a/b/c.bin", start=1 << 40)[0] == b""
    assert box.run(["stat", "-c", "%u %g", "a/b/c.bin"]).text == "1000 1000\n"
    box.write("~/x", "home")
    assert box.sh("cat ~/x").out == b"home"
    entries, more = box.list("a", recursive=True)
    assert [(x.path, x.type) for x in entries] == [("a/b", "dir"), ("a/b/c.bin", "file")]
    assert not more


def test_listing_is_sorted_complete_and_bounded(one):
    one.sh("mkdir -p d/z d/a/deep; touch d/a/deep/f d/b d/.h; ln -s /etc d/link; mkfifo d/pipe; "
           "printf x > $'d/new\\nline'")
    paths = [(e.path, e.type) for e in one.list("d", recursive=True)[0]]
    assert paths == [("d/.h", "file"), ("d/a", "dir"), ("d/a/deep", "dir"),
                     ("d/a/deep/f", "file"), ("d/b", "file"), ("d/link", "link"),
                     ("d/new\nline", "file"), ("d/pipe", "other"), ("d/z", "dir")]
    assert [e.path for e in one.list("d")[0]] == ["d/.h", "d/a", "d/b", "d/link", "d/new\nline",
                                                  "d/pipe", "d/z"]
    some, more = one.list("d", recursive=True, limit=3)
    assert len(some) == 3 and more
    assert one.list("d/z") == ([], False)
    for path, words in ("d/b", "not a folder"), ("nope", "does not exist"):
        with pytest.raises(Failed, match=words):
            one.list(path)


def test_a_deep_tree_is_listed_without_harm(one):
    one.sh("for i in $(seq 400); do mkdir d; cd d; done")
    entries, more = one.list("/workspace", recursive=True)
    assert 200 <= len(entries) <= 400 and more


def test_write_keeps_or_sets_the_mode(one):
    one.write("f", "1", mode=0o600)
    assert one.stat("f").mode == 0o600
    one.write("f", "22")
    assert one.stat("f").mode == 0o600 and one.read("f")[0] == b"22"
    assert one.write("f", "3", mode=0o755).mode == 0o755


def test_write_flags(one):
    one.write("f", "one ", flags=APPEND)
    one.write("f", "two", flags=APPEND)
    assert one.read("f")[0] == b"one two"
    with pytest.raises(Failed) as e:
        one.write("f", "x", flags=NEW)
    assert e.value.kind == "exists" and one.read("f")[0] == b"one two"
    one.write("g", "new", flags=NEW)
    with pytest.raises(Failed) as e:
        one.write("no/such/f", "x")
    assert e.value.kind == "not_found"


def test_write_goes_through_links(one):
    one.sh("mkdir real; echo old > real/f; ln -s real/f l1; ln -s l1 l2; ln -s real/new l3; "
           "ln -s loop loop")
    one.write("l2", "new")
    one.write("l3", "made")
    assert one.sh("cat real/f real/new; readlink l2 l3").text == "newmadel1\nreal/new\n"
    with pytest.raises(Failed, match="too many links"):
        one.write("loop", "x")


def test_write_refuses_what_is_no_file(one):
    one.sh("mkdir d; mkfifo p; touch ro; chmod 444 ro")
    for path, kind in ("d", "invalid"), ("d/", "invalid"), ("p", "invalid"), ("ro", "denied"), \
            ("/usr/x", "denied"), ("/proc/sys/kernel/hostname", "denied"), ("/x", "denied"), \
            ("/etc/passwd", "denied"), ("ro/x", "invalid"):
        with pytest.raises(Failed) as e:
            one.write(path, "data" * 100_000)
        assert e.value.kind == kind, path
    assert one.read("ro")[0] == b""


def test_read_refuses_folders_and_does_not_wait_for_pipes(one):
    one.sh("mkdir d; mkfifo p")
    for path, words in ("d", "folder"), ("p", "regular"), ("/dev/zero", "regular"), \
            ("nope", "not exist"):
        with pytest.raises(Failed, match=words):
            one.read(path)
    assert b"processor" in one.read("/proc/cpuinfo")[0]


def test_a_write_that_is_given_up_leaves_nothing(one):
    one.write("f", "old")
    with one.connect() as c:
        c.send(WRITE, text("f") + u32(0) + u8(0))
        c.send(CHUNK, text(b"x" * 60000))
        time.sleep(0.1)
        assert one.read("f")[0] == b"old"
    wait_for(lambda: one.sh("ls -A").text == "f\n")
    assert one.read("f")[0] == b"old"


def test_readers_see_the_old_or_the_new_file(one):
    one.write("f", "a" * 100_000)
    stop = threading.Event()

    def replace():
        i = 0
        while not stop.is_set():
            i += 1
            one.write("f", "ab"[i % 2] * 100_000)

    thread = threading.Thread(target=replace)
    thread.start()
    try:
        for _ in range(60):
            data = one.read("f")[0]
            assert len(data) == 100_000 and len(set(data)) == 1
    finally:
        stop.set()
        thread.join()


def test_stat_mkdir_and_remove(box):
    box.mkdir("m/n/o")
    box.mkdir("m/n")  # there already
    box.sh("ln -s m l; echo hi > m/n/f")
    assert box.stat("l").type == "dir" and box.stat("l", follow=False).type == "link"
    assert box.stat("m/n/f").size == 3 and abs(box.stat("m/n/f").mtime - time.time()) < 60
    box.remove("l")
    assert box.stat("m").type == "dir"  # the link went, not what it names
    box.remove("m")
    box.remove("m")
    with pytest.raises(Failed, match="does not exist"):
        box.stat("m")
    with pytest.raises(Failed):
        box.remove("/usr/bin")
    with pytest.raises(Failed, match="not a folder|exists"):
        box.mkdir("/etc/passwd/x")


def test_several_requests_on_one_connection(one):
    with one.connect() as c:
        for i in range(20):
            c.ask(agent_client.MKDIR, text(f"d{i}"))
        with pytest.raises(Failed):
            c.ask(agent_client.STAT, text("nope") + u8(1))
        c.ask(agent_client.REMOVE, text("d0"))
        with pytest.raises(Failed) as e:
            c.ask(USAGE)
        assert e.value.kind == "protocol"


def test_a_full_disk_is_told_and_shared(make):
    with make(MODES[0], disk=8 << 20) as b:
        with pytest.raises(Failed) as e:
            b.write("big", b"x" * (9 << 20))
        assert e.value.kind == "limit" and "disk limit 8 MiB" in e.value.message
        assert b.sh("ls -A").out == b""
        b.sh("head -c 5000000 /dev/zero > /tmp/a")
        r = b.sh("head -c 5000000 /dev/zero > /dev/shm/b")  # one space for all of them
        assert r.code == 1 and b"No space left" in r.err
        assert b.usage()["disk_total"] == 8 << 20


# ---- isolation --------------------------------------------------------------


def test_payload_has_no_privileges(box):
    lines = dict(x.split(":\t") for x in box.sh("cat /proc/self/status").text.splitlines())
    for cap in "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb":
        assert int(lines[cap], 16) == 0, cap
    assert lines["NoNewPrivs"] == "1" and lines["Seccomp"] == "2"
    assert box.run(["cat", "/proc/self/oom_score_adj"]).text.strip() == "500"


def test_pid_1_has_next_to_none(box):
    with open(f"/proc/{box.pid}/status") as f:
        lines = dict(x.rstrip("\n").split(":\t", 1) for x in f)
    eff = int(lines["CapEff"], 16)
    assert eff == (0 if box.mode == 0 else (1 << 5) | (1 << 6) | (1 << 7))
    assert int(lines["CapBnd"], 16) == 0 and lines["NoNewPrivs"] == "1"
    assert lines["Seccomp"] == "2"
    with open(f"/proc/{box.pid}/oom_score_adj") as f:
        assert f.read().strip() == "0"


def test_nothing_of_the_host_is_seen(box):
    home = os.path.expanduser("~")
    r = box.sh(f"ls -d {home} /root /sys /boot /.host /.write /lost+found /work 2>/dev/null; "
               "ls /home /var/tmp /tmp /run /opt /mnt /srv /media; ls /etc")
    assert r.text.split("\n")[0] == "/home:"
    assert "user\n" in r.text
    for name in "shadow", "ssh", "sudoers", "subuid", "machine-id":
        assert f"\n{name}\n" not in r.text
    assert box.sh("cat /proc/1/cmdline | tr '\\0' ' '").text.split() == ["init", "box"]
    for secret in "environ", "mem", "exe", "root", "cwd", "fd", "maps":
        r = box.sh(f"ls -L /proc/1/{secret}/ 2>&1; cat /proc/1/{secret} 2>&1")
        assert b"denied" in r.err + r.out, secret


def test_system_folders_cannot_be_written(box):
    for path in ("/x", "/usr/x", "/etc/x", "/bin/x", "/var/x", "/dev/x", "/home/x", "/proc/sys/x",
                 "/opt/x", "/etc/passwd", "/etc/ssl/x"):
        assert box.sh(f"echo > {path}").code != 0, path
    for path in "/tmp/x", "/var/tmp/x", "/home/user/x", "/workspace/x", "/run/x", "/dev/shm/x":
        assert box.sh(f"echo > {path}").code == 0, path
    for line in box.sh("cat /proc/self/mountinfo").text.splitlines():
        where, flags = line.split()[4:6]
        if where.startswith(("/usr", "/etc", "/lib")) or where == "/":
            assert {"ro", "nosuid", "nodev"} <= set(flags.split(",")), where
        assert "nosuid" in flags, where


@pytest.mark.skipif(not agent_client.HAS_SHARED_ROOTS, reason="takes root, and a tmpfs with other owners: Linux 6.3")
def test_a_shared_root_belongs_to_the_box_and_shows_the_host_as_it_is_now(tmp_path):
    """One maker, whose /etc is a folder of this test: what is put in the place of a file of it is seen by
    the next box, although that gets its root ready made. What only the machine's root can reach is not."""
    tmp_path.chmod(0o755)
    (tmp_path / "ssl/certs").mkdir(parents=True)
    (tmp_path / "ssl").chmod(0o700)
    own_etc = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" /etc && exec "$@"', str(tmp_path)]
    names_seen = []
    names_now = "find / /etc /dev /var /home /app -maxdepth 1 ! -name proc -printf '%p %y %m %U:%G %l\\n' | sort"
    with Maker(own_etc) as maker:
        for now in "one", "two", "two":
            (tmp_path / "new").write_text(now)
            (tmp_path / "new").rename(tmp_path / "magic")
            with Box(mode=1, maker=maker, etc_binds=["magic", "ssl/certs"], hostname=f"is-{now}") as b:
                assert b.sh("cat /etc/magic /etc/hostname").text == f"{now}is-{now}\n"
                owners = b.sh("stat -c %u:%g / /etc /etc/passwd /etc/hosts /etc/mtab /dev /bin /app/results").text
                assert set(owners.split()) == {"0:0"}
                mounts = b.sh("cat /proc/self/mountinfo").text
                assert re.search(" / / ro,nosuid,nodev,[a-z,]*idmapped - tmpfs tmpfs ro,", mounts.replace(" /root ", " / ")), \
                    "nor can the file system be written by whom it is not mounted for"
                names_seen.append(b.sh(names_now).text)
    with Box(mode=1, prefix=own_etc, etc_binds=["magic", "ssl/certs"]) as alone:
        assert set(names_seen) == {alone.sh(names_now).text}
    assert "/etc/magic" in names_seen[0] and "/etc/ssl" not in names_seen[0]


def test_devices(box):
    r = box.sh("ls /dev; head -c 4 /dev/zero | od -An -tx1; echo x > /dev/null; "
               "head -c 2 /dev/urandom | wc -c; echo fd > /dev/stderr; cat < /dev/fd/0; "
               "echo > /dev/full || echo full", stdin="in")
    assert r.text.split("\n")[:13] == ["fd", "full", "null", "ptmx", "pts", "random", "shm",
                                       "stderr", "stdin", "stdout", "tty", "urandom", "zero"]
    assert "00 00 00 00" in r.text and r.err.startswith(b"fd\n") and r.text.endswith("infull\n")
    r = box.run(["python3", "-c", "import os; m, s = os.openpty(); print(os.ttyname(s))"])
    assert re.match(r"/dev/pts/\d+\n", r.text), r.err


def test_the_network_is_loopback_only(box):
    lines = box.sh("cat /proc/net/dev; cat /proc/net/route").text.splitlines()
    assert [x.split(":")[0].strip() for x in lines if ":" in x] == ["lo"]
    r = box.run(["python3", "-c", """
import socket
s = socket.create_server(("127.0.0.1", 0)); c = socket.create_connection(s.getsockname())
print(socket.gethostbyname("localhost"), socket.gethostbyname("box"))
try: socket.create_connection(("1.1.1.1", 80), 2)
except OSError as e: print(e.errno)
"""])
    assert r.text.split() == ["127.0.0.1", "127.0.0.1", "101"], r.err


SYSCALLS = """
import ctypes, errno, os, sys
libc = ctypes.CDLL(None, use_errno=True)
def call(nr, *args):
    ctypes.set_errno(0)
    rc = libc.syscall(ctypes.c_long(nr), *[ctypes.c_ulong(a & (2**64 - 1)) for a in args])
    return errno.errorcode.get(ctypes.get_errno(), "?") if rc < 0 else "ok"
for line in sys.stdin:
    print(call(*[int(x, 0) for x in line.split()]))
"""


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="numbers are those of x86_64")
def test_system_calls_that_are_refused(box):
    clone_user, sigchld = 0x10000000, 17
    wanted = [
        ("165 0 0 0 0 0", "EPERM"), ("166 0 0", "EPERM"), ("155 0 0", "EPERM"),  # mounts
        ("428 0 0 0", "EPERM"), ("429 0 0 0 0 0", "EPERM"), ("430 0 0", "EPERM"),
        ("161 0", "EPERM"), ("442 0 0 0 0 0", "EPERM"),
        ("272 0x10000000", "EPERM"), ("272 0x20000", "EPERM"), ("308 0 0", "EPERM"),
        (f"56 {clone_user | sigchld} 0 0 0 0", "EPERM"),
        (f"56 {0x40000000 | sigchld} 0 0 0 0", "EPERM"), ("435 0 0", "ENOSYS"),
        ("250 0 0 0 0 0", "EPERM"), ("248 0 0 0 0 0", "EPERM"), ("321 0 0 0", "EPERM"),
        ("298 0 0 0 0 0", "EPERM"), ("323 0", "EPERM"), ("425 1 0", "EPERM"),
        ("246 0 0 0 0", "EPERM"), ("175 0 0 0", "EPERM"), ("169 0 0 0 0", "EPERM"),
        ("304 0 0 0", "EPERM"), ("303 0 0 0 0 0", "EPERM"), ("103 3 0 0", "EPERM"),
        ("41 38 5 0", "EAFNOSUPPORT"), ("41 40 1 0", "EAFNOSUPPORT"),  # AF_ALG, AF_VSOCK
        ("41 17 3 0", "EAFNOSUPPORT"), ("41 44 3 0", "EAFNOSUPPORT"),  # AF_PACKET, AF_XDP
        ("41 0x100000026 5 0", "EAFNOSUPPORT"), ("41 16 3 9", "EPROTONOSUPPORT"),
        ("41 1 1 0", "ok"), ("41 2 1 0", "ok"), ("41 10 2 0", "ok"), ("41 16 3 0", "ok"),
        ("16 0 0x5412 0", "EPERM"), ("16 0 0x541c 0", "EPERM"),  # TIOCSTI, TIOCLINUX
        ("16 0 0x100005412 0", "EPERM"), ("16 0 0x5401 0", "ENOTTY"),
        ("135 0xffffffff", "ok"), ("135 0x40000", "ok"), ("135 0", "ok"), ("135 0x400000", "ENOSYS"),
        ("900", "ENOSYS"), ("0x40000027", "ENOSYS"),  # from the future; getpid of x32
    ]
    r = box.run(["python3", "-c", SYSCALLS], stdin="\n".join(x for x, _ in wanted) + "\n")
    got = r.text.split()
    assert list(zip([x for x, _ in wanted], got)) == wanted, r.err


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="int 0x80")
def test_32_bit_system_calls_do_not_exist(one):
    # mov eax, 20 (getpid of i386); int 0x80; ret
    r = one.run(["python3", "-c", """
import ctypes, mmap
m = mmap.mmap(-1, 4096, prot=7)
m.write(b"\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3")
print(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(m)))())
"""])
    assert r.text.strip() == "-38", r.err


def test_programs_work(box):
    box.write("a.c", '#include <stdio.h>\nint main(void) { puts("C"); return 0; }\n')
    for need, script, want in (
            ("cc", "cc a.c && ./a.out", "C\n"),
            ("git", "git init -q r && cd r && git config user.email a@b && git config user.name n "
                    "&& echo x > x && git add x && git commit -qm m && git log --oneline | wc -l",
             "1\n"),
            ("python3", "python3 -c 'import subprocess, threading, multiprocessing as m; "
                        "print(m.Pool(2).map(abs, [-1, -2]))'", "[1, 2]\n"),
            ("gdb", "gdb -q -batch -ex run -ex 'print 6*7' /bin/true 2>/dev/null | tail -1",
             "$1 = 42\n"),
            ("strace", "strace -o /tmp/s true && grep -c execve /tmp/s", "1\n"),
            ("node", "node -e 'console.log(1+1)'", "2\n")):
        if shutil.which(need, path=agent_client.PATH):
            r = box.sh(script)
            assert r.text == want, (need, r.err)


def test_pid_1_cannot_be_harmed_from_inside(box):
    r = box.sh("kill -9 1; kill -STOP 1; kill -TERM 1; kill -SEGV 1; for s in $(seq 1 64); do "
               "kill -$s 1; done 2>/dev/null; python3 -c 'import os, signal; os.kill(-1, 0)'; "
               "echo alive")
    assert r.out == b"alive\n"
    r = box.sh("gdb -q -batch -p 1 2>&1 | head -5; strace -p 1 2>&1 | head -2; "
               "echo x > /proc/1/oom_score_adj; echo x > /proc/1/mem; true")
    assert r.code == 0
    assert box.run(["true"]).code == 0


def test_stopping_everything_does_not_stop_pid_1(box):
    """A process that stops all others, also those that PID 1 has just forked."""
    with box.connect() as c:
        c.start(["python3", "-c", """
import os, signal, time
print("go", flush=True)
end = time.time() + 1.5
while time.time() < end:
    try: os.kill(-1, signal.SIGSTOP)
    except OSError: pass
"""], id="stopper")
        c.wait_output(b"go")
        conns = [box.connect() for _ in range(10)]
        for i, other in enumerate(conns):
            other.start(["true"], id=f"o{i}", timeout_ms=2500, grace_ms=0)
        assert box.usage()["tasks"] >= 1  # it answers
        assert c.wait().code == 0
        for other in conns:
            other.wait()  # ended, or killed by its time-out: nothing hangs
            other.close()


def test_the_process_kept_ready_may_be_stopped_or_killed(box):
    """PID 1 keeps a forked process for the next command. To the payload it is any other."""
    assert box.run(["true"]).code == 0
    for sig in "STOP", "KILL", "TERM", "STOP":
        time.sleep(0.05)  # for the next one to be made
        assert box.sh(f"kill -{sig} -1; echo on").out == b"on\n"
        for _ in range(3):
            assert box.sh("echo hi; id -u").out == b"hi\n1000\n"
    assert box.usage()["processes"] == 0


def traced_spare(box):
    """The process that PID 1 keeps ready, when it waits for its order."""
    assert box.run(["true"]).code == 0
    wait_for(lambda: len(children(box.pid)) == 1 and at_rest(children(box.pid)[0]))
    return Traced(children(box.pid)[0])


@pytest.mark.skipif(not ROOT, reason="only root may trace what is in boxes")
def test_a_command_told_to_a_dying_process_runs_in_another(box):
    """One that was killed but has not yet closed its pipes still gets the command."""
    spare = traced_spare(box)
    spare.die_slowly()
    with box.connect() as c:
        c.start(["sh", "-c", "cat; echo error >&2; exit 7"], stdin="input\n")
        wait_for(lambda: box.usage()["tasks"] == 1)
        assert children(box.pid) == [spare.pid]  # so it was told
        spare.end()
        ending = c.wait()
        assert (ending.signaled, ending.code) == (False, 7)
        assert (bytes(c.out), bytes(c.err)) == (b"input\n", b"error\n")


@pytest.mark.skipif(not ROOT, reason="only root may trace what is in boxes")
def test_a_command_that_a_dying_process_has_read_runs_in_another(box):
    """The kernel reads it for one that was killed: that it is gone from the pipe says nothing."""
    spare = traced_spare(box)
    spare.hold_at_syscall()
    with box.connect() as c:
        c.start(["echo", "x" * 4000])
        wait_for(lambda: box.usage()["tasks"] == 1)
        spare.die_when_it_has_read(4000)
        spare.end()
        assert c.wait().code == 0
        assert bytes(c.out) == b"x" * 4000 + b"\n"


@pytest.mark.skipif(not ROOT, reason="only root may trace what is in boxes")
def test_a_command_killed_before_a_dying_process_ran_it_does_not_run(box):
    spare = traced_spare(box)
    spare.die_slowly()
    with box.connect() as c:
        c.start(["touch", "/workspace/ran"], id="late")
        wait_for(lambda: box.usage()["tasks"] == 1)
        box.kill_task("late")
        ending = c.wait()
        assert (ending.signaled, ending.code) == (True, signal.SIGKILL)
    spare.end()
    assert box.sh("ls /workspace").out == b""


def test_commands_of_any_length(one):
    """Short ones are told to a process that waits, long ones to one that is forked for it."""
    for n in 1, 4000, 32000, 33000, 70000, 120_000:
        time.sleep(0.02)
        r = one.run(["printf", "%s|%s", "x" * n, ""], env=["A=" + "y" * n, "B="])
        assert r.out == b"x" * n + b"|"
        time.sleep(0.02)
        r = one.run(["sh", "-c", "echo ${#A}"], env=["A=" + "y" * n])
        assert r.text == f"{n}\n"


def test_the_box_cannot_connect_to_its_own_agent(make):
    """Even with the socket in reach: a peer with a pid in the box is refused."""
    with make(MODES[0]) as b:
        assert b.sh("cat /proc/net/unix | grep -c agent.sock; find / -name agent.sock "
                    "2>/dev/null").text.split() == ["0"]


# ---- limits -----------------------------------------------------------------

BOMB = """
import os, time
while True:
    try:
        if os.fork() == 0: time.sleep(1000)
    except OSError:
        print("full", flush=True); time.sleep(1000)
"""


def test_rlimits(make):
    with make(MODES[-1], memory=1 << 30, pids=30, files=100) as b:
        r = b.sh("ulimit -v; ulimit -u; ulimit -n; ulimit -c")
        assert r.text.split() == [str(1 << 20), "30", "100", "0"]
        assert b.run(["python3", "-c", "x = bytearray(2 << 30)"]).code == 1


def fill_up(box):
    """Commands until one is refused: the first has a process that was forked before, and the
    kernel counts before it changes the uid, so that two may still come through."""
    for i in range(3):
        with box.connect() as c:
            c.start(["sleep", "1000"], id=f"last{i}")
            try:
                c.wait_started()
            except Failed as e:
                return e
    raise AssertionError("the limit does not hold")


@pytest.mark.skipif(not ROOT, reason="uids of a range")
def test_a_fork_bomb_is_told_and_survived(make):
    with make("range", pids=40) as b:
        with b.connect() as c:
            c.start(["python3", "-c", BOMB], id="bomb")
            c.wait_output(b"full")
            e = fill_up(b)
            assert e.kind == "limit" and "(limit 40)" in e.message
            assert b.usage()["processes"] >= 40
            b.kill_task("bomb")
            assert c.wait().code == signal.SIGKILL
        assert b.run(["true"]).code == 0
        assert b.usage()["processes"] <= 4


@pytest.fixture
def cgroup():
    """A cgroup v1 with 64 MiB and 32 processes."""
    if not ROOT or not (CGROUP / "memory/cgroup.procs").exists():
        pytest.skip("needs root and cgroup v1")
    with open("/proc/self/cgroup") as f:
        own = {x.split(":")[1]: x.strip().split(":")[2] for x in f}
    made = {}
    for name in "memory", "pids":
        made[name] = CGROUP / name / own[name].lstrip("/") / f"anybox-test-{os.getpid()}"
        made[name].mkdir()
    (made["memory"] / "memory.limit_in_bytes").write_text(str(64 << 20))
    (made["pids"] / "pids.max").write_text("32")
    yield made
    for folder in made.values():
        wait_for(lambda f=folder: (f / "cgroup.procs").read_text() == "")
        folder.rmdir()


def test_cgroups_oom_and_process_limit(make, cgroup):
    with make("range", cgroups=[str(f / "cgroup.procs") for f in cgroup.values()],
              oom_file=str(cgroup["memory"] / "memory.oom_control"),
              memory_file=str(cgroup["memory"] / "memory.usage_in_bytes"),
              pids_file=str(cgroup["pids"] / "pids.events"), memory_limit=64 << 20, pids_limit=24) as b:
        r = b.run(["python3", "-c", "x = bytearray(500 << 20)"])
        assert r.ending.oom == "yes" and r.ending.code == signal.SIGKILL
        assert r.ending.limits == ["memory"] and b.sh("true").ending.limits == []
        r = b.sh("python3 -c 'x = bytearray(500 << 20)'; exit $?")
        assert r.code == 137 and r.ending.oom == "yes"
        assert b.sh("kill -9 $$").ending.oom == "no"
        usage = b.usage()
        assert 0 < usage["memory"] <= 64 << 20 and usage["memory_limit"] == 64 << 20
        with b.connect() as c:
            c.start(["python3", "-c", BOMB], id="t")
            c.wait_output(b"full")
            refused = fill_up(b)
            assert refused.kind == "limit" and "(limit 24)" in refused.message
            with pytest.raises(Failed) as e:
                b.stat("/")
            assert e.value.kind == "limit"
            b.kill_task("t")
            assert c.wait().limits == ["pids"]
            b.shutdown()  # needs no process
        b.wait_gone()


# ---- the end ----------------------------------------------------------------


def test_idle(make):
    with make(MODES[0], idle_ms=2000) as b:
        assert b.sh("sleep 3; echo on").out == b"on\n"  # a command is not idle
        assert b.usage()["idle_ms"] < 1900
        quiet = b.connect()  # an open connection does not count
        start = time.monotonic()
        b.sh("sleep 999 &")  # nor what was left in the background
        b.wait_gone()
        assert time.monotonic() - start >= 1.9 and b.ended() == "idle"
        quiet.close()


def test_file_requests_are_use(make):
    with make(MODES[0], idle_ms=4000) as b:
        with b.connect() as c:
            for _ in range(10):
                c.ask(agent_client.MKDIR, text("d"))
                time.sleep(0.5)
            assert b.alive()
        b.wait_gone()
        assert b.ended() == "idle"


def test_lifetime_is_hard_and_can_be_extended(make):
    with make(MODES[0], lifetime_ms=4000) as b:
        left = b.usage()["left_ms"]
        assert 0 < left <= 4000
        b.extend(lifetime_ms=9000)
        time.sleep(4.2)
        assert b.alive()
        with b.connect() as c:
            c.start(["sleep", "100"])
            c.wait_started()
            b.wait_gone()
            assert b.ended() == "lifetime"
            assert c.recv() == (None, b"")


@pytest.mark.skipif(not ROOT, reason="only root sees which processes are in boxes")
def test_shutdown_leaves_nothing(box):
    box.sh("sleep 999 & setsid sleep 998 & (setsid sleep 997 &)")
    with box.connect() as c:
        c.start(["sleep", "996"])
        c.wait_started()
        assert len(in_box(box)) >= 4
        space = os.readlink(f"/proc/{box.pid}/ns/pid")
        box.shutdown()
        box.wait_gone()
    assert box.ended() == "shutdown"
    for pid in set(processes()) - {box.pid}:  # itself may wait for the host's init
        try:
            assert os.readlink(f"/proc/{pid}/ns/pid") != space
        except OSError:
            pass


@pytest.mark.skipif(not ROOT, reason="only root sees which processes are in boxes")
def test_when_pid_1_is_killed_everything_goes(box):
    pids = []
    box.sh("sleep 999 & setsid sleep 998 &")
    pids = in_box(box)
    assert len(pids) >= 3
    os.kill(box.pid, signal.SIGKILL)
    box.wait_gone()
    wait_for(lambda: not any(map(is_running, pids)))
    with pytest.raises(OSError):
        box.connect()
    assert box.ended() == ""


def test_a_box_leaves_no_mounts_on_the_host(box):
    with open("/proc/self/mountinfo") as f:
        text_ = f.read()
    assert ".write" not in text_ and ".host" not in text_
    mounts = box.run(["cat", "/proc/self/mountinfo"]).text
    assert ".host" not in mounts and ".write" not in mounts


# ---- bad input --------------------------------------------------------------


@pytest.mark.parametrize("junk", [
    b"\0\0\0\0", b"\xff\xff\xff\xff", b"GET / HTTP/1.1\r\n\r\n", frame(99), frame(EXEC),
    frame(EXEC, b"\xff" * 100), frame(USAGE, b"x"), frame(ATTACH, text("x")),
    frame(EXEC, text("i") + u32(0xffffffff)), frame(agent_client.STAT, text("x") * 3),
    frame(CHUNK, text("x")),
])
def test_garbage_ends_only_its_conversation(one, junk):
    with one.connect() as c:
        c.sock.sendall(junk)
        kind, fields = c.recv()
        assert kind == FAIL and failed(fields).kind == "protocol"
        assert c.recv() == (None, b"")
    assert one.run(["true"]).code == 0


def test_frames_may_come_byte_by_byte(one):
    request = frame(EXEC, text("slow") + names(["echo", "hi"]) + text("") + names([]) + u8(0) +
                    u64(0) + u32(0))
    with one.connect() as c:
        for i in range(len(request)):
            c.sock.sendall(request[i:i + 1])
        assert c.wait().code == 0 and c.out == b"hi\n"


def test_a_request_on_an_attached_connection_is_refused(one):
    with one.connect() as c:
        c.start(["sleep", "100"], id="t")
        c.wait_started()
        c.send(USAGE)
        with pytest.raises(Failed, match="open another"):
            c.next()
    assert one.state("t")[0]
    one.kill_task("t")


def test_more_connections_than_there_may_be(one):
    conns = [one.connect() for _ in range(320)]
    for c in conns:
        c.ask(USAGE, want=agent_client.USAGE_IS)
    with one.connect() as c:
        kind, fields = c.recv()
        assert kind == FAIL and failed(fields).kind == "limit"
    for c in conns:
        c.close()
    wait_for(lambda: can_ask(one))


def can_ask(box):
    try:
        box.usage()
        return True
    except (Failed, AssertionError):
        return False


@pytest.mark.skipif(not ROOT, reason="limits of another process")
def test_pid_1_without_descriptors_drops_and_goes_on(one):
    open_now = len(os.listdir(f"/proc/{one.pid}/fd"))
    resource.prlimit(one.pid, resource.RLIMIT_NOFILE, (open_now + 5, 4096))
    conns = [one.connect() for _ in range(30)]
    dropped = sum(is_closed(c) for c in conns)
    assert dropped >= 20
    before = cpu_ticks(one.pid)
    time.sleep(0.5)
    assert cpu_ticks(one.pid) - before < 20  # it does not spin
    resource.prlimit(one.pid, resource.RLIMIT_NOFILE, (open_now + 12, 4096))
    with pytest.raises(Failed, match=r"no descriptor left for another command \(limit \d+\)"):
        for _ in range(10):  # a command needs eight
            with one.connect() as c:
                c.start(["sleep", "100"])
                c.wait_started()
    resource.prlimit(one.pid, resource.RLIMIT_NOFILE, (4096, 4096))
    for c in conns:
        c.close()
    assert one.run(["true"]).code == 0


def is_closed(conn):
    """HELLO comes at once, or the end."""
    try:
        return not conn.fill()
    except ConnectionError:
        return True


def cpu_ticks(pid):
    with open(f"/proc/{pid}/stat") as f:
        return sum(map(int, f.read().rsplit(")", 1)[1].split()[11:13]))


def test_connections_that_come_and_go(one):
    for i in range(300):
        c = one.connect()
        if i % 3:
            c.sock.sendall(frame(EXEC, text(f"x{i}") + names(["true"]))[: i % 40])
        c.close()
    assert one.run(["true"]).code == 0


@pytest.mark.parametrize("kw,words", [
    ({"hostname": "a/b"}, "hostname"), ({"hostname": ""}, "hostname"),
    ({"disk": 1000}, "disk_bytes"), ({"network": 3}, "network"),
    ({"ro_binds": ["/"]}, "its own"), ({"ro_binds": ["/proc/1"]}, "/proc"),
    ({"ro_binds": ["/home"]}, "its own"), ({"ro_binds": ["/usr/../root"]}, "clean"),
    ({"ro_binds": ["usr"]}, "absolute"), ({"ro_binds": ["/dev/null"]}, "/dev"),
    ({"etc_binds": ["../root"]}, "clean"), ({"etc_binds": ["passwd"]}, "its own"),
    ({"etc_binds": ["/etc/ssl"]}, "clean"), ({"env": ["x"]}, "NAME=value"),
    ({"cgroups": ["/no/such/cgroup.procs"]}, "cgroup"), ({"oom_file": "/no/such"}, "/no/such"),
    ({"raw_spec": b""}, "version"), ({"raw_spec": b"\xff" * 50}, "version"),
    ({"keep_fd": True}, "descriptor 6"),
])
def test_a_spec_that_cannot_be_met_is_refused(make, world, kw, words):
    with pytest.raises(Failed) as e:
        make("one", **kw).close()
    assert words in e.value.message
    wait_for(lambda: not inits_of(world))


def test_missing_and_odd_binds(make, world):
    shared = world / "shared"
    (shared / "sub").mkdir(parents=True)
    (shared / "sub/f").write_text("hi")
    (shared / "abs").symlink_to("/etc/hostname")
    with make("one", ro_binds=agent_client.RO_BINDS + ["/no/such", str(shared / "sub"),
                                                      str(shared / "abs")]) as b:
        assert b.run(["cat", str(shared / "sub/f")]).out == b"hi"
        assert b.run(["cat", str(shared / "abs")]).out == b"box\n"  # the box's own, not the host's
        assert b.sh(f"echo > {shared}/sub/x").code != 0
    shutil.rmtree(shared)


@pytest.mark.skipif(not ROOT, reason="needs a mount")
def test_mounts_below_a_bind_are_read_only_too(make, world):
    top = world / "top"
    (top / "inner").mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=777", "tmpfs", top / "inner"], check=True)
    try:
        (top / "inner/f").write_text("x")
        for without in [], [442], [428]:  # mount_setattr, open_tree: as before 5.12 and 5.2
            with make("range", ro_binds=agent_client.RO_BINDS + [str(top)], without=without) as b:
                assert b.run(["cat", str(top / "inner/f")]).out == b"x"
                r = b.sh(f"echo > {top}/inner/g; echo > {top}/g; echo > /usr/g")
                assert r.err.count(b"Read-only") == 3
    finally:
        subprocess.run(["umount", top / "inner"], check=True)


def prepared(world, control):
    """boxinit started by hand with a spec; it has no order yet."""
    folder = os.open(tempfile.mkdtemp(dir=world), os.O_PATH)
    spec_file = os.memfd_create("spec")
    spec = frame(agent_client.SPEC, u8(1 if ROOT else 0) + u32(10**9) + u32(10**9) + u32(65536) +
                 names(agent_client.RO_BINDS) + names([]) + names([]) + text("") + text("") +
                 text("") + u8(0) + u8(0) + u8(0) + text(""))
    os.write(spec_file, spec)
    os.lseek(spec_file, 0, os.SEEK_SET)

    def place():
        agent_client.place_fds([spec_file, control.fileno(), folder])

    p = subprocess.Popen([agent_client.BOXINIT, "box"], preexec_fn=place, close_fds=False)
    for fd in spec_file, folder:
        os.close(fd)
    control.close()
    return p


def inits_of(world):
    return {p for p in processes() if executable(p).startswith((str(world), "/memfd:boxinit"))}


def test_a_server_that_dies_takes_the_unborn_box_with_it(world):
    """The other end of the control is gone: nobody knows of this box, so it must not be."""
    before = inits_of(world)
    ours, theirs = socket.socketpair()
    ours.close()
    with prepared(world, theirs) as p:
        assert p.wait(30) == 1
    wait_for(lambda: inits_of(world) == before)


@pytest.mark.parametrize("when", ["prepared", "half an order", "a bad order", "the order"])
def test_a_server_that_dies_takes_the_prepared_box_with_it(world, when):
    before = inits_of(world)
    ours, theirs = socket.socketpair()
    order = frame(agent_client.ORDER, text("box") + names([]) + u64(1 << 20) + u64(0) + u32(0) +
                  u32(0) + u64(0) + u64(0) + u64(0))
    with prepared(world, theirs) as p:
        said = b""
        while len(said) < 14:  # BORN and PREPARED
            said += ours.recv(100)
        assert p.wait(30) == 0 and len(inits_of(world)) == len(before) + 1
        assert said[4] == agent_client.BORN and said[13] == agent_client.PREPARED
        if when == "half an order":
            ours.sendall(order[:10])
        elif when == "a bad order":
            ours.sendall(frame(agent_client.ORDER))
            assert b"one version" in ours.recv(1000)
        elif when == "the order":
            # Nobody takes the word that it serves.
            os.kill(struct.unpack("<I", said[5:9])[0], signal.SIGSTOP)
            ours.sendall(order)
            pid = struct.unpack("<I", said[5:9])[0]
            ours.close()
            os.kill(pid, signal.SIGCONT)
        ours.close()
    wait_for(lambda: inits_of(world) == before)


def test_the_program_alone_says_what_it_is():
    r = subprocess.run([agent_client.BOXINIT], capture_output=True, text=True, check=False)
    assert r.returncode == 2 and "started by anybox" in r.stderr
    r = subprocess.run([agent_client.BOXINIT, "--version"], capture_output=True, text=True,
                       check=False)
    assert r.returncode == 0 and "protocol 3" in r.stdout


def test_the_socket_and_the_folder_are_private(one):
    path = os.path.join(one.folder, "agent.sock")
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(os.path.join(one.folder, "end")).st_mode) == 0o600
    with pytest.raises(OSError), socket.socket(socket.AF_UNIX) as s:
        s.connect(path + "x")


def unified():
    """Where cgroups of version 2 are, alone or beside those of version 1."""
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        if " - cgroup2 " in line:
            return pathlib.Path(line.split()[4])
    return None


@pytest.mark.parametrize("without", [[], [435]], ids=["clone3", "no clone3"])
def test_it_is_born_into_a_cgroup_of_version_2(make, without):
    """With clone3 nobody has to join it, without it joins; the box sees it as the root."""
    top = unified()
    if not ROOT or top is None or not os.access(top, os.W_OK):
        pytest.skip("no cgroup of version 2 to be had")
    own = top / f"anybox-test-{os.getpid()}"
    own.mkdir()
    try:
        with make("range", cgroups=[str(own / "cgroup.procs")], without=without) as b:
            assert str(b.pid) in (own / "cgroup.procs").read_text().split()
            assert "0::/\n" in b.run(["cat", "/proc/self/cgroup"]).text
            line = [x for x in pathlib.Path(f"/proc/{b.pid}/cgroup").read_text().splitlines() if x.startswith("0::")]
            assert line and line[0].endswith(own.name)
    finally:
        wait_for(lambda: (own / "cgroup.procs").read_text() == "")
        own.rmdir()
