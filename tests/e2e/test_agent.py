"""`boxinit serve` and `boxinit relay`: the agent where there is no box of ours, as an SSH host has
it. As root and as an ordinary user; the channel is a pair of pipes."""
import contextlib
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

import pytest

import agent_client
from agent_client import DETACH, FAIL, INPUT, OK, SHUTDOWN, TCP, Failed, failed, text, u32
from agent_relay import GIVE, OPEN, Relay, mux_frame, wait_for

ROOT = os.geteuid() == 0
PLAIN_UID = 58803
NODE = os.uname().nodename.replace("/", "_").replace(".", "_")


class Site:
    """A user's account: home folder, environment, and where its agent is met."""

    def __init__(self, folder, uid):
        self.uid = uid
        self.home = folder / "home"
        self.home.mkdir()
        self.place = self.home / ".cache/agent"
        self.boxinit = agent_client.BOXINIT = shutil.copy(agent_client.BOXINIT, folder / "boxinit")
        if uid is not None:
            os.chown(self.home, uid, uid)
        self.relays = contextlib.ExitStack()

    def argv(self):
        if self.uid is None:
            return []
        return ["setpriv", "--reuid", str(self.uid), "--regid", str(self.uid), "--clear-groups", "--"]

    def env(self):
        return {"HOME": str(self.home), "PATH": "/usr/local/bin:/usr/bin:/bin", "USER": "someone",
                "LANG": "C.UTF-8", "SHLVL": "1", "SSH_CONNECTION": "1 2 3 4", "FROM_LOGIN": "yes"}

    def relay(self, **more):
        return self.relays.enter_context(
            Relay(self.place, argv=self.argv(), env=self.env(), cwd="/", **more))

    def pids(self, word=None):
        found = []
        for pid in os.listdir("/proc"):
            try:
                if pid.isdigit() and os.readlink(f"/proc/{pid}/exe") == str(self.boxinit):
                    line = pathlib.Path("/proc", pid, "cmdline").read_bytes().split(b"\0")
                    if word is None or word.encode() in line:
                        found.append(int(pid))
            except OSError:
                pass
        return found

    def daemon(self):
        """The agent itself; its file workers and spare have the same command line."""
        ours = self.pids("serve")
        heads = [p for p in ours if parent(p) not in ours]
        assert len(heads) == 1, heads
        return heads[0]

    def end(self):
        self.relays.close()
        for pid in self.pids() + self.of_place():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        wait_for(lambda: self.pids() == [])

    def of_place(self):
        """Agents of another program in our folder."""
        word = str(self.place).encode()
        return [int(p) for p in os.listdir("/proc") if p.isdigit() and word in cmdline(p).split(b"\0")]


def parent(pid):
    try:
        return int(pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[1])
    except OSError:
        return 0


def is_running(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture(params=["root", "plain"] if ROOT else ["self"])
def site(request):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="abx-agent-", dir="/tmp"))
    folder.chmod(0o755)
    before = agent_client.BOXINIT
    s = Site(folder, PLAIN_UID if request.param == "plain" else None)
    yield s
    s.end()
    agent_client.BOXINIT = before
    shutil.rmtree(folder)


@pytest.fixture
def relay(site):
    return site.relay()


# ---- what it does -----------------------------------------------------------


def test_a_command_runs_as_the_user_at_home(site, relay):
    r = relay.sh("pwd; id -u; echo $HOME; echo err >&2; exit 3")
    assert r.text.split() == [str(site.home), str(os.getuid() if site.uid is None else site.uid), str(site.home)]
    assert (r.err, r.code) == (b"err\n", 3)


def test_the_environment_is_the_logins_without_what_was_only_its_own(relay):
    lines = relay.run(["env"], env=["A=1"]).text.splitlines()
    assert "FROM_LOGIN=yes" in lines and "A=1" in lines
    assert not [x for x in lines if x.startswith(("SHLVL=", "SSH_CONNECTION=", "PWD="))]


def test_limits_are_the_users_own(site):
    with_limits = ["prlimit", "--nofile=300:2000", "--core=4096:4096"]
    with Relay(site.place, argv=[*site.argv(), *with_limits], env=site.env(), cwd="/") as relay:
        assert relay.sh("ulimit -Sn; ulimit -Hn; ulimit -c").text.split() == ["300", "2000", "4"]


def test_files_are_the_users(site, relay):
    assert relay.write("a/b.txt", b"hello", flags=agent_client.PARENTS).size == 5
    assert (site.home / "a/b.txt").read_bytes() == b"hello"
    assert relay.read("~/a/b.txt")[0] == b"hello"
    assert relay.stat(str(site.home / "a")).type == "dir"
    assert [e.path for e in relay.list("a")[0]] == ["a/b.txt"]
    relay.remove("a")
    assert not (site.home / "a").exists()
    with pytest.raises(Failed) as e:
        relay.read("a/b.txt")
    assert e.value.kind == "not_found"


def test_what_a_user_may_not_is_told_without_a_boxs_places(site):
    if site.uid is None:
        pytest.skip("root may")
    with pytest.raises(Failed) as e:
        site.relay().write("/etc/no", b"x")
    assert e.value.kind == "denied" and "workspace" not in e.value.message


def test_usage_is_told(relay):
    usage = relay.usage()
    assert usage["disk_total"] > 0 and usage["processes"] > 0 and usage["left_ms"] == 0


def test_what_was_kept_goes_with_the_word_of_its_end(site, relay):
    """Not when something else happens: the client's next request would find it still running."""
    kept = site.home / ".anybox/exec/abc"
    with relay.connect() as c:
        c.start(["bash", "-c", "seq 1 300000; until [ -e go ]; do sleep 0.1; done"], id="abc", keep=True)
        c.wait_output(b"\n300000\n")
        assert (kept / "started").exists()
        (site.home / "go").touch()
        assert c.wait().code == 0
        wait_for(lambda: not kept.exists())  # while the conversation is still open


def test_many_at_once_and_a_flood_beside_them(relay):
    with relay.connect() as flood:
        flood.start(["bash", "-c", "head -c 200000000 /dev/zero"])
        drain = threading.Thread(target=flood.wait)
        drain.start()
        took = []
        for i in range(20):
            begin = time.monotonic()
            assert relay.sh(f"echo {i}").text == f"{i}\n"
            took.append(time.monotonic() - begin)
        drain.join()
        assert len(flood.out) == 200000000
    conns = [relay.connect(timeout=60) for _ in range(100)]
    for i, c in enumerate(conns):
        c.start(["bash", "-c", f"sleep 0.2; echo {i}"])
    for i, c in enumerate(conns):
        assert c.wait().code == 0 and c.out == b"%d\n" % i
        c.close()


def test_one_that_nobody_reads_stops_nobody(relay):
    stuck = relay.connect()
    stuck.start(["bash", "-c", "head -c 100000000 /dev/zero"])
    s = stuck.sock
    s.recv = None  # nobody ever will
    for i in range(10):
        assert relay.sh(f"echo {i}").text == f"{i}\n"


def test_a_timeout_ends_the_whole_tree(site, relay):
    with relay.connect() as c:
        c.start(["bash", "-c", "setsid bash -c 'sleep 1000; true' & echo $!; sleep 1002"],
                timeout_ms=3000, grace_ms=100)
        ending = c.wait()
        assert ending.timed_out
        assert not is_running(int(c.out))
    wait_for(lambda: [p for p in descendants(site.daemon()) if b"sleep" in cmdline(p)] == [])


def descendants(pid):
    kids = {}
    for p in os.listdir("/proc"):
        if p.isdigit():
            kids.setdefault(parent(int(p)), []).append(int(p))
    found, look = [], [pid]
    while look:
        more = kids.get(look.pop(), [])
        found += more
        look += more
    return found


def cmdline(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_input_reaches_the_command(relay):
    data = os.urandom(3_000_000)
    r = relay.run(["sha256sum"], stdin=data)
    import hashlib
    assert r.text.split()[0] == hashlib.sha256(data).hexdigest()


def test_a_port_of_the_host(relay):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        c = relay.connect()
        c.send(TCP, u32(port))
        peer = s.accept()[0]
        with peer:
            peer.settimeout(30)
            c.answer()
            c.sock.sendall(b"ping")
            assert peer.recv(10) == b"ping"
            peer.sendall(b"pong" * 100000)
            c.sock.finish()
            assert peer.recv(10) == b""
            peer.shutdown(socket.SHUT_WR)
            got = c.buf
            while more := c.sock.recv(1 << 20):
                got += more
            assert got == b"pong" * 100000
        c.close()
    with relay.connect() as c, pytest.raises(Failed) as e:
        c.ask(TCP, u32(port))
    assert e.value.kind == "not_found"


# ---- who lives how long -----------------------------------------------------


@pytest.mark.parametrize("how", ["end", "kill"])
def test_a_command_outlives_its_relay(site, how):
    relay = site.relay()
    with relay.connect() as c:
        c.start(["bash", "-c", "echo one; read -r < go; echo two; exit 5"], id="long")
        os.mkfifo(site.home / "go")
        os.chown(site.home / "go", site.uid or -1, -1)
        c.wait_started()
    if how == "end":
        assert relay.end() == 0
    else:
        relay.process.kill()
        relay.process.wait()
    wait_for(lambda: site.pids("relay") == [])
    again = site.relay()
    assert again.state("long")[0]
    (site.home / "go").write_text("\n")
    with again.connect() as c:
        c.attach("long")
        assert c.wait().code == 5
        assert c.out == b"one\ntwo\n"


def test_two_relays_have_one_agent(site):
    done, failures = [], []

    def one():
        try:
            r = site.relay()
            done.append(r.sh("echo $PPID").text)
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=one) for _ in range(8)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert failures == [] and len(done) == 8 and len(set(done)) == 1
    assert int(done[0]) == site.daemon()


def test_the_agent_holds_nothing_of_its_relay(site, relay):
    daemon = site.daemon()
    ends = {os.readlink(f"/proc/{relay.process.pid}/fd/{i}") for i in (0, 1, 2)}
    held = {os.readlink(f"/proc/{daemon}/fd/{i}") for i in os.listdir(f"/proc/{daemon}/fd")}
    assert not ends & held
    assert os.getsid(daemon) == daemon and os.readlink(f"/proc/{daemon}/cwd") == "/"


def test_an_agent_that_was_killed_is_missed_and_started_again(site, relay):
    with relay.connect() as c:
        c.start(["sleep", "1000"])
        c.wait_started()
        victim = c.pid
        daemon = site.daemon()
        os.kill(daemon, signal.SIGKILL)
        assert c.recv() == (None, b"")
        os.kill(victim, signal.SIGKILL)
        wait_for(lambda: not is_running(daemon))  # its socket goes last
    assert relay.sh("echo again").text == "again\n"


def test_why_it_cannot_be_started_again_is_told(site, relay):
    os.kill(site.daemon(), signal.SIGKILL)
    wait_for(lambda: site.pids("serve") == [])
    os.chmod(site.place / NODE, 0o755)
    for _ in range(2):
        with relay.connect() as c, pytest.raises(Failed) as e:
            c.answer()
        assert e.value.kind == "unreachable" and "chmod 700" in e.value.message
    os.chmod(site.place / NODE, 0o700)
    time.sleep(1.1)
    assert relay.sh("echo again").text == "again\n"


def test_it_leaves_when_idle_and_comes_back(site):
    relay = site.relay(idle=1)
    with relay.connect() as c:  # somebody is there
        c.start(["sleep", "1.5"])
        c.wait_started()
        first = site.daemon()
        assert c.wait().code == 0
        time.sleep(1.2)
        assert is_running(first)
    wait_for(lambda: not is_running(first))
    assert not (site.place / NODE / "agent.sock").exists()
    assert relay.sh("echo again").text == "again\n"
    assert site.daemon() != first


def test_leaving_and_coming_do_not_miss_each_other(site):
    relay = site.relay(idle=1)
    for _ in range(3):
        assert relay.sh("echo x").text == "x\n"
        time.sleep(0.98)


@pytest.mark.parametrize("how", ["signal", "asked"])
def test_it_ends_with_everything_that_ran(site, relay, how):
    with relay.connect() as c:
        c.start(["bash", "-c", "setsid sleep 1000 & echo $!; sleep 1001"])
        c.wait_started()
        c.wait_output(b"\n")
        daemon, left = site.daemon(), int(c.out)
        if how == "signal":
            os.kill(daemon, signal.SIGTERM)
        else:
            relay.shutdown()
        wait_for(lambda: not is_running(daemon) and not is_running(left) and not is_running(c.pid))


def test_it_leaves_no_descriptor_and_no_process_behind(site, relay):
    def held():
        return len(os.listdir(f"/proc/{site.daemon()}/fd")), len(os.listdir(f"/proc/{relay.process.pid}/fd"))

    relay.sh("true")
    wait_for(lambda: len(descendants(site.daemon())) <= 1)
    before = held()
    for i in range(30):
        relay.sh("echo x")
        relay.write("f", b"x" * 100000)
        relay.read("f")
        with relay.connect() as c:
            c.start(["sleep", "1000"], id=f"t{i}")
            c.wait_started()
        relay.kill_task(f"t{i}")
        with relay.connect() as c:
            c.attach(f"t{i}")
            c.wait()
    wait_for(lambda: held()[0] <= before[0] + 8 and held()[1] <= before[1])  # a spare has some
    wait_for(lambda: len(descendants(site.daemon())) <= 1)


@pytest.mark.skipif(not ROOT, reason="makes a pid namespace")
def test_as_the_first_process_it_reaps_what_nobody_waits_for(site):
    if site.uid is not None:
        pytest.skip("once is enough")
    with subprocess.Popen(["unshare", "--pid", "--fork", "--mount-proc", site.boxinit, "serve", "--socket",
                           str(site.place)], env=site.env(), stdin=subprocess.DEVNULL) as process:
        wait_for((site.place / NODE / "agent.sock").exists)

        # As an engine starts it in a container: its parent is outside.
        inside = ["nsenter", f"--pid=/proc/{site.daemon()}/ns/pid"]
        relay = site.relays.enter_context(Relay(site.place, argv=inside, env=site.env(), cwd="/"))
        assert relay.sh("echo $PPID").text == "1\n"
        relay.sh("for i in $(seq 20); do (sleep 0.1 &) ; done")
        wait_for(lambda: "sleep" not in relay.sh("cat /proc/[0-9]*/stat").text)
        with relay.connect() as c:
            c.start(["sleep", "1000"])
            c.wait_started()
            c.send(SHUTDOWN)
            assert c.recv()[0] == FAIL  # not on a connection that is attached
        with relay.connect() as c:
            c.send(SHUTDOWN)
            assert c.recv()[0] in (OK, None)  # the relay ends with it
        assert process.wait(30) == 0  # it was told to; other reasons have other numbers


# ---- who may ----------------------------------------------------------------


def start_fails(site, folder, word):
    with pytest.raises(RuntimeError) as e:
        Relay(folder, argv=site.argv(), env=site.env(), cwd="/")
    assert word in str(e.value)


def test_a_folder_that_others_may_use_is_refused(site):
    (site.place / NODE).mkdir(parents=True)
    for path in (site.place, site.place.parent, site.place / NODE):
        os.chown(path, site.uid or -1, -1)
    os.chmod(site.place / NODE, 0o755)
    start_fails(site, site.place, "chmod 700")
    start_fails(site, "relative/path", "absolute")
    start_fails(site, "/proc/nowhere", "make the folder")
    assert site.pids() == []


@pytest.mark.skipif(not ROOT, reason="needs two users")
def test_another_users_folder_is_refused(site):
    if site.uid is None:
        pytest.skip("root may enter it")
    (site.place / NODE).mkdir(parents=True)
    for path in (site.place, site.place.parent):
        os.chown(path, site.uid, -1)
    os.chmod(site.place / NODE, 0o700)
    start_fails(site, site.place, "")
    assert site.pids() == []


@pytest.mark.skipif(not ROOT, reason="needs two users")
def test_another_user_is_not_served(site, relay):
    place = site.place / NODE
    os.chmod(place, 0o777)
    for path in (site.home, site.place.parent, site.place):
        os.chmod(path, 0o755)
    os.chmod(place / "agent.sock", 0o777)
    code = ("import sys; sys.path.insert(0, sys.argv[1]); import agent_client; "
            "c = agent_client.Conn(agent_client.dial(sys.argv[2])); print(c.fill())")
    got = subprocess.run(["setpriv", "--reuid", "65534", "--clear-groups", "--", "/usr/bin/python3", "-c", code,
                          str(pathlib.Path(__file__).parent), str(place)], capture_output=True, text=True)
    assert got.stdout == "False\n", got.stderr
    os.chmod(place, 0o700)
    assert relay.sh("echo still").text == "still\n"


def test_wrong_arguments_are_told(site):
    for args, word in (([], "--socket"), (["--socket"], "value"), (["--socket", "/x", "--idle", "0"], "0"),
                       (["--socket", "/x", "--marker", "not hex"], "hex"), (["--what", "x"], "--what")):
        got = subprocess.run([site.boxinit, "relay", *args], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        assert got.returncode == 2 and word in got.stderr and got.stdout == ""


# ---- neither trusts the other -----------------------------------------------


@pytest.mark.parametrize("lie", [
    b"\xff" * 64,
    mux_frame(OPEN, 600),
    mux_frame(GIVE, 3, 5, b"hello"),
    mux_frame(OPEN, 0) + mux_frame(OPEN, 0),
    mux_frame(OPEN, 0) + mux_frame(GIVE, 0, 1 << 31),
])
def test_a_client_that_lies_loses_its_relay_and_nothing_else(site, lie):
    other = site.relay()
    relay = site.relay()
    with relay.connect() as c:
        c.start(["sleep", "1000"], id="kept")
        c.wait_started()
        if lie[:1] == b"\1" and lie[2] == 0:
            relay.connect()  # 0 is taken, so that it is a second one
        relay.send(lie)
        assert relay.process.wait(30) == 1
    assert b"sent" in relay.process.stderr.read()
    assert other.state("kept")[0]
    other.kill_task("kept")


def test_frames_that_cannot_be_read_end_one_conversation(relay):
    for bad in (b"\xff\xff\xff\xff\x01", struct.pack("<I", 0), struct.pack("<IB", 1, 200)):
        with relay.connect() as c:
            c.sock.sendall(bad)
            kind, fields = c.recv()
            assert kind == FAIL and failed(fields).kind == "protocol"
            assert c.recv() == (None, b"")
    assert relay.sh("echo fine").text == "fine\n"


def test_a_client_that_leaves_in_the_middle_leaves_the_command(site, relay):
    with relay.connect() as c:
        c.start(["cat"], id="cat", stdin=True)
        c.wait_started()
        c.send(INPUT, text(b"x" * 60000))
    with relay.connect() as c:
        c.start(["bash", "-c", "sleep 1000"], id="deaf", stdin=True)
        c.wait_started()
        with contextlib.suppress(AssertionError, BrokenPipeError):
            c.sock.timeout = 1
            c.sock.sendall(b"".join(agent_client.frame(INPUT, text(b"y" * 65536)) for _ in range(100)))
    with relay.connect() as c:  # taken over, so the first client's end was not needed for it
        c.attach("deaf")
        relay.kill_task("deaf")
        assert c.wait().signaled
    relay.kill_task("cat")


def test_a_marker_is_found_behind_what_a_login_shell_prints(site):
    argv = [*site.argv(), "sh", "-c", 'echo "Welcome! c0ffe"; exec "$@"', "sh"]
    process = subprocess.Popen([*argv, site.boxinit, "relay", "--socket", str(site.place), "--marker", "abc123"],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=site.env())
    out, _ = process.communicate(mux_frame(OPEN, 0), timeout=30)
    assert out.startswith(b"Welcome! c0ffe\nabc123\n")
    assert process.returncode == 0


def test_detach_is_heard(relay):
    with relay.connect() as c:
        c.start(["sleep", "1000"], id="left")
        c.wait_started()
        c.send(DETACH)
        assert c.recv() == (None, b"")
    assert relay.state("left")[0]
    relay.kill_task("left")


QEMU = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
ARM = pathlib.Path(agent_client.BUILD, "boxinit-aarch64").resolve()


@pytest.mark.skipif(not (QEMU and ARM.exists()), reason="make agents, and qemu-user")
def test_the_one_for_arm_speaks_the_same(site):
    if site.uid is not None:
        pytest.skip("once is enough")
    argv = [QEMU, ARM, "serve", "--socket", site.place, "--idle", "30"]
    subprocess.run([str(a) for a in argv], env=site.env(), check=True, timeout=60)
    agent_client.BOXINIT = str(ARM)
    with Relay(site.place, argv=[QEMU], env=site.env(), cwd="/") as relay:
        r = relay.sh("echo out; exit 3")
        assert (r.text, r.code) == ("out\n", 3)
        relay.write("f", b"data" * 100000)
        assert relay.read("f")[0] == b"data" * 100000
        with relay.connect() as c:
            c.start(["sleep", "1000"], timeout_ms=300)
            assert c.wait().timed_out
        relay.shutdown()
