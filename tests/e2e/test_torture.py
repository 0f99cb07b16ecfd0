"""Stress: what dies, stops, floods, runs out or is taken away, and what has to hold then:
every call is answered in bounded time, memory is bounded, and nothing is left behind."""
import contextlib
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import threading
import time

import pytest

from host import cgroups, command_line, is_running, pid_inside, wait_until
from mcp_client import ToolFailed

POOL = 0
DICE = random.Random(20261115)
PING = b'{"jsonrpc":"2.0","id":"p%d","method":"ping"}\n'
LIST_TOOLS = b'{"jsonrpc":"2.0","id":"l","method":"tools/list"}\n'


def listed(client):
    return {b["name"]: b for b in client.tool("list_sandboxes")["sandboxes"]}


def hostname_in(pid):
    return pathlib.Path("/proc", str(pid), "root", "etc", "hostname").read_text().strip()


def init_of(host, name):
    """The host's pid of a box's PID 1."""
    for pid in host.install.box_inits():
        if pid_inside(pid) == 1 and hostname_in(pid) == name:
            return pid
    raise AssertionError(f"no init of {name}")


def inits(host):
    return {pid for pid in host.install.box_inits() if pid_inside(pid) == 1}


def commands(host, word):
    """Processes in boxes with this in their command line."""
    return [pid for pid in host.install.box_processes() if word in command_line(pid) and is_running(pid)]


def outcome(client, call, timeout=30):
    """The answer's JSON, of a failure too, and how long it took from now."""
    began = time.monotonic()
    try:
        answer = client.finish_tool(call, timeout)
    except ToolFailed as failed:
        answer = failed.answer
    return answer, time.monotonic() - began


def peak_mib(pid):
    return int(re.search(r"VmHWM:\s*(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text()).group(1)) / 1024


def is_small(host, pid, mib):
    """Never more than so much memory; sanitizers need a multiple of it for themselves."""
    program = host.install.anybox.read_bytes()
    return peak_mib(pid) < (mib if b"__asan_" not in program and b"__tsan_" not in program else 8 * mib)


def with_limit(host, limit):
    """A server with a limit of the shell's `ulimit`."""
    return host.server("-c", f'ulimit {limit}; exec "$0"', host.install.anybox, program="bash")


@contextlib.contextmanager
def small_disk(host, size):
    host.home.mkdir(mode=0o700)
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=700", "none", host.home], check=True)
    try:
        yield
    finally:
        for client in host.clients:
            client.close()
        host.note_ids()
        host.clients.clear()
        subprocess.run(["umount", "-l", host.home], check=True)


# ---- who dies --------------------------------------------------------------------------


def one_life(host, number):
    """A server that is killed in the middle of something."""
    client = host.server()
    what = DICE.choice(("create", "exec", "write", "delete", "auto", "all"))
    if what in ("create", "all"):
        for i in range(2):
            client.start_tool("create_sandbox", {"name": f"n{number}-{i}"})
    if what in ("exec", "all"):
        client.start_tool("exec_bash", {"command": "seq 1000; sleep 2", "sandbox_name": "keep", "timeout_s": 3})
    if what in ("write", "all"):
        client.start_tool("write_remote_file", {"path": f"/workspace/f{number}", "content": "x" * 500000,
                                                "sandbox_name": "keep"})
    if what == "delete":
        client.tool("create_sandbox", name=f"n{number}-0")
        client.start_tool("delete_sandbox", {"sandbox_name": f"n{number}-0"})
    if what == "auto":
        client.start_tool("exec_bash", {"command": "echo auto"})
    time.sleep(abs(DICE.gauss(0, 0.02)))
    client.kill(signal.SIGKILL)
    host.note_ids()
    host.clients.remove(client)


@pytest.mark.every_tier
def test_after_a_hundred_killed_servers_nothing_leaks_and_names_are_free(host, tier):
    host.server().tool("create_sandbox", name="keep")
    rounds = 110 if tier.name != "plain" and tier.name != "subuid" else 25
    for number in range(rounds):
        one_life(host, number)
    client = host.server()
    assert wait_until(lambda: all(b["connection_alive"] for b in listed(client).values())), listed(client)
    boxes = listed(client)
    assert len(inits(host)) == len(boxes) == len(list((host.home / "boxes").iterdir()))
    for number in range(rounds):
        if f"n{number}-1" not in boxes and number % 10 == 0:
            client.tool("create_sandbox", name=f"n{number}-1")
    sizes = client.bash("cd /workspace; wc -c f* | grep -v total; ls -A | grep -v '^f'; true", sandbox_name="keep")
    assert set(re.findall(r"(\d+) f", sizes["stdout"])) <= {"500000"}, "a file is whole or not there"
    assert re.search(r"^[^ \d]", sizes["stdout"], re.M) is None, "no temporary files"
    for name in listed(client):
        client.tool("delete_sandbox", sandbox_name=name)
    client.tool("list_sandboxes")
    assert wait_until(lambda: not host.residue()), host.residue()
    client.close()
    with contextlib.closing(sqlite3.connect(host.home / "anybox.db")) as database:
        assert database.execute("pragma integrity_check").fetchall() == [("ok",)]
        assert database.execute("select count(*) from boxes where state <> 2").fetchone() == (0,)


def test_whatever_runs_when_init_is_killed_is_answered_at_once(host):
    client = host.server()
    calls = (("exec_bash", {"command": "seq 100000; sleep 5"}), ("exec_bash", {"command": "yes"}),
             ("write_remote_file", {"path": "/workspace/f", "content": "x" * 3000000}),
             ("read_remote_file", {"path": "/workspace/big"}),
             ("list_remote_files", {"path": "/workspace", "recursive": True}), ("delete_sandbox", {}))
    for number in range(4 * len(calls)):
        name = f"k{number}"
        client.tool("create_sandbox", name=name)
        client.bash("cd /workspace; head -c 900000 /dev/zero > big; touch $(seq 2000)", sandbox_name=name)
        tool, arguments = calls[number % len(calls)]
        init = init_of(host, name)
        call = client.start_tool(tool, {**arguments, "sandbox_name": name})
        time.sleep(DICE.choice((0, 0.001, 0.003, 0.01)))
        with contextlib.suppress(ProcessLookupError):
            os.kill(init, signal.SIGKILL)
        answer, took = outcome(client, call)
        assert took < 15, (tool, answer)
        if "error" in answer:
            assert answer["code"] in ("gone", "unreachable", "not_found") and "end" in answer["error"], answer
        assert wait_until(lambda n=name: n not in listed(client))
    assert client.bash("echo on")["stdout"] == "on\n"


def test_a_box_that_is_stopped_keeps_nobody_waiting_and_can_be_deleted(host):
    client = host.server()
    for name in "asleep", "awake":
        client.tool("create_sandbox", name=name)
    early = client.start_tool("exec_bash", {"command": "sleep 63", "sandbox_name": "asleep", "timeout_s": 6})
    assert wait_until(lambda: commands(host, "sleep 63"))
    os.kill(init_of(host, "asleep"), signal.SIGSTOP)
    began = time.monotonic()
    late = client.start_tool("exec_bash", {"command": "echo x", "sandbox_name": "asleep", "timeout_s": 1})
    read = client.start_tool("read_remote_file", {"path": "/etc/passwd", "sandbox_name": "asleep"})
    shown = client.tool("list_sandboxes", check_resources=True)["sandboxes"]
    assert time.monotonic() - began < 20 and len(shown) == 2
    assert client.bash("echo awake", sandbox_name="awake")["stdout"] == "awake\n"
    for call in late, read, early:
        answer, _ = outcome(client, call)
        assert answer["code"] == "unreachable" and "stopped" in answer["error"], answer
    assert time.monotonic() - began < 50
    assert client.tool("delete_sandbox", sandbox_name="asleep")["status"] == "deleted"
    assert list(listed(client)) == ["awake"]


def test_a_client_that_vanishes_takes_all_its_commands_with_it(host):
    """With input each kill needs a connection of its own, beside the one of its command."""
    for more in {}, {"stdin": "x" * 100000}:
        client = host.server()
        for _ in range(60):
            client.start_tool("exec_bash", {"command": "trap '' HUP; sleep 987; sleep 988", **more})
        assert wait_until(lambda: len(commands(host, "sleep 987")) >= 60)
        client.kill(signal.SIGTERM)
        assert client.wait()[0] == 0
        assert wait_until(lambda: not commands(host, "sleep 98")), len(commands(host, "sleep 98"))


# ---- many at once ----------------------------------------------------------------------


def test_sixty_four_calls_run_at_once_and_the_next_is_told(box):
    calls = [box.start_tool("exec_bash", {"command": f"sleep 5; echo {i}"}) for i in range(80)]
    answers = [outcome(box, c)[0] for c in calls]
    ran = [i for i, a in enumerate(answers) if "error" not in a]
    assert ran == list(range(64)) and all(answers[i]["stdout"] == f"{i}\n" for i in ran)
    assert all(a["code"] == "limit" and "64 calls" in a["error"] for a in answers[64:])


def test_a_storm_of_cancellations_leaves_no_command_and_no_answer(host, box):
    sent = []
    for number in range(150):
        call = box.start_tool("exec_bash", {"command": "sleep 986"})
        time.sleep(DICE.choice((0, 0, 0.002, 0.01)))
        box.cancel(call.request_id)
        box.cancel(call.request_id)
        box.cancel(f"never-{number}")
        sent.append(call)

    def is_calm():  # some of them may not even have begun
        return outcome(box, box.start_tool("exec_bash", {"command": "echo calm"}))[0].get("stdout") == "calm\n"
    assert wait_until(is_calm)
    assert wait_until(lambda: not commands(host, "sleep 986"))
    answered = [c.result() for c in sent if c.done()]
    assert all("64 calls" in str(a) for a in answered), "only what was refused at once has an answer"


@pytest.mark.every_tier
def test_creations_that_are_taken_back_leave_whole_boxes_or_none(host, client):
    """Where there are no cgroups, a PID 1 whose report nobody read has to be asked to end."""
    for number in range(80):
        call = client.start_tool("create_sandbox", {"name": f"c{number}"})
        time.sleep(DICE.uniform(0, 0.02))
        client.cancel(call.request_id)
    assert wait_until(lambda: all(b["connection_alive"] for b in listed(client).values()))
    for name in listed(client):
        assert client.bash("true", sandbox_name=name)["exit_code"] == 0
    assert wait_until(lambda: len(inits(host)) == len(listed(client)))


def test_thirty_servers_share_one_folder(host):
    servers = [host.server() for _ in range(30)]
    problems = []
    all_have_it = threading.Barrier(len(servers))

    def live(i, client):
        try:
            assert client.bash("hostname")["stdout"].startswith("default-")
            all_have_it.wait(60)
            for k in range(3):
                client.tool("create_sandbox", name=f"w{i}-{k}")
                assert client.bash("echo x", sandbox_name=f"w{i}-{k}")["stdout"] == "x\n"
                client.tool("delete_sandbox", sandbox_name=f"w{i}-{k}")
        except Exception as problem:  # pylint: disable=broad-except
            problems.append(repr(problem))

    threads = [threading.Thread(target=live, args=a) for a in enumerate(servers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not problems
    assert len(listed(servers[0])) == len(inits(host)) == 1, "one default box for all of them"


def test_two_hundred_boxes_live_at_once(host, client):
    for first in range(0, 200, 20):
        calls = [client.start_tool("create_sandbox", {"name": f"b{first + i}"}) for i in range(20)]
        for call in calls:
            client.finish_tool(call)
    assert len(listed(client)) == len(inits(host)) == 200
    assert is_small(host, client.pid, 64)
    for i in range(0, 200, 20):
        assert client.bash("true", sandbox_name=f"b{i}")["exit_code"] == 0
    for i in range(200):
        client.tool("delete_sandbox", sandbox_name=f"b{i}")
    assert not inits(host)


# ---- what commands do ------------------------------------------------------------------


def test_floods_and_endless_lines_cost_no_memory(host, box):
    init = init_of(host, "work")
    answer = box.bash("timeout 2 yes & timeout 2 yes 1>&2 & wait; head -c 300M /dev/zero | tr '\\0' x", timeout_s=60)
    assert answer["exit_code"] == 0 and answer["truncated"]
    assert len(answer["stdout"]) < 200000 and len(answer["stderr"]) < 200000
    assert is_small(host, box.pid, 48) and peak_mib(init) < 48
    answer = box.bash("head -c 400000 /dev/urandom | tee /dev/stderr")
    assert answer["exit_code"] == 0 and "\0" not in answer["stdout"]


def test_commands_that_close_or_hold_their_streams_end_on_time(host, box):
    for command, code in (("exec >&- 2>&-; exit 3", 3), ("exec <&- >&-; exit 4", 4), ("sleep 985 & exit 5", 5),
                          ("kill -9 -1; exit 6", 6), ("kill -STOP 1; exit 7", 7)):
        began = time.monotonic()
        assert box.bash(command)["exit_code"] == code
        assert time.monotonic() - began < 15, command
    answer = box.bash("trap '' TERM INT HUP; kill -STOP $$; while :; do sleep 984; done", timeout_s=1)
    assert answer["timed_out"] and answer["exit_code"] == 124
    assert wait_until(lambda: not commands(host, "sleep 984"))


def test_input_that_nobody_reads_is_nobodys_problem(box):
    much = "x" * 4000000
    assert box.bash("sleep 0.3; echo done", stdin=much)["stdout"] == "done\n"
    assert box.bash("exit 9", stdin=much)["exit_code"] == 9
    assert box.bash("exec <&-; sleep 0.1; echo k", stdin=much)["stdout"] == "k\n"
    assert box.bash("wc -c", stdin=much)["stdout"].strip() == "4000000"
    assert box.bash("sleep 30", stdin=much, timeout_s=1)["timed_out"]


def test_orphans_and_zombies_are_taken_care_of(box):
    script = ("import os\nfor i in range(1000):\n  if os.fork() == 0:\n    if os.fork() == 0: os._exit(0)\n"
              "    os._exit(0)\n  os.wait()\n")
    assert box.bash(f"python3 -c '{script}'")["exit_code"] == 0
    assert wait_until(lambda: box.bash("ps aux | grep -c '[d]efunct'")["stdout"] == "0\n")
    endless = "import os\nwhile 1:\n  if os.fork() == 0: os._exit(0)\n"
    assert box.bash(f"python3 -c '{endless}' 2>/dev/null; echo over", timeout_s=20)["stdout"] == "over\n"
    assert box.bash("echo fine")["stdout"] == "fine\n"


def test_a_command_that_kills_all_others_does_not_end_the_box(host, box):
    """Code in a box may kill what serves its files: that is told as what it is."""
    killer = ("import os, signal, time\nend = time.time() + 2\nwhile time.time() < end:\n"
              "  for pid in os.listdir('/proc'):\n    try:\n"
              "      if int(pid) not in (1, os.getpid()): os.kill(int(pid), signal.SIGKILL)\n"
              "    except (OSError, ValueError): pass\n")
    box.tool("write_remote_file", path="/workspace/killer.py", content=killer)
    box.bash("setsid python3 /workspace/killer.py > /dev/null 2>&1 &")
    init, failures = init_of(host, "work"), 0
    end = time.monotonic() + 2
    while time.monotonic() < end:
        assert box.bash("echo ok", sandbox_name="work")["exit_code"] in (0, 137)
        answer, _ = outcome(box, box.start_tool("write_remote_file", {"path": "/workspace/w", "content": "x",
                                                                      "sandbox_name": "work"}))
        if "error" in answer:
            failures += 1
            assert answer["code"] == "unreachable" and "killed" in answer["error"], answer
    assert failures > 0
    assert wait_until(lambda: box.bash("echo ok")["stdout"] == "ok\n")
    assert init_of(host, "work") == init


# ---- a difficult client ----------------------------------------------------------------


def test_a_client_that_does_not_read_loses_nothing(host):
    client = host.server()
    client.tool("create_sandbox", name="work")
    with client._changed:  # pylint: disable=protected-access
        # The reading thread waits for this lock: the pipe fills up.
        for i in range(1000):
            client.send_bytes(PING % i)
        for i in range(40):
            client.send_line('{"jsonrpc":"2.0","id":"e%d","method":"tools/call","params":{"name":"exec_bash",'
                             '"arguments":{"command":"seq 90000","max_output_chars":200000}}}' % i)
        time.sleep(3)
        assert is_small(host, client.pid, 160)
    client.wait_for(lambda: len(client.answers) >= 1042)
    ids = {a.message["id"] for a in client.answers}
    assert ids >= {f"p{i}" for i in range(1000)} | {f"e{i}" for i in range(40)}


def test_a_client_that_leaves_with_everything_unread_is_noticed(host):
    argv = host.tier.wrap([host.install.anybox])
    with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=host.env(), cwd=host.project) as p:
        os.set_blocking(p.stdin.fileno(), False)
        blocked = 0
        while blocked < 20:
            try:
                os.write(p.stdin.fileno(), LIST_TOOLS * 100)
                blocked = 0
            except BlockingIOError:
                blocked += 1
                time.sleep(0.05)
        assert is_small(host, p.pid, 128), "what nobody reads is bounded"
        p.stdin.close()
        assert p.wait(30) == 0


def test_messages_may_come_byte_by_byte_and_end_in_the_middle(host):
    client = host.server()
    for byte in b'{"jsonrpc":"2.0","id":"slow","method":"ping"}\n{"jsonrpc":"2.0","id":"cut","me':
        client.send_bytes(bytes([byte]))
    client.wait_for(lambda: any(a.message.get("id") == "slow" for a in client.answers))
    assert client.close() == 0
    assert not any(a.message.get("id") == "cut" for a in client.answers)


# ---- a difficult machine ---------------------------------------------------------------


def test_a_moment_without_descriptors_ends_no_box(host):
    """What cannot be looked at for EMFILE was once taken for dead, and swept."""
    owner = host.server()
    for i in range(6):
        owner.tool("create_sandbox", name=f"p{i}")
    alive = inits(host)
    for _ in range(3):
        poor = with_limit(host, "-n 40")
        calls = []
        for i in range(60):
            calls.append(poor.start_tool("exec_bash", {"command": "sleep 0.05", "sandbox_name": f"p{i % 6}"}))
            calls.append(poor.start_tool("list_sandboxes"))
            if i % 10 == 0:
                calls.append(poor.start_tool("create_sandbox"))
        answers = [outcome(poor, c)[0] for c in calls]
        assert {a["code"] for a in answers if "error" in a} <= {"limit", "system"}
        assert not any("64 calls" in a["error"] for a in answers if "error" in a)
        assert poor.bash("echo better", sandbox_name="p0")["stdout"] == "better\n"
        poor.close()
    assert alive <= inits(host)
    assert {f"p{i}" for i in range(6)} <= set(listed(owner))


def test_the_soft_limit_of_descriptors_is_raised(host):
    if resource.getrlimit(resource.RLIMIT_NOFILE)[1] < 200:
        pytest.skip("the hard limit is low here")
    client = with_limit(host, "-S -n 40")
    calls = [client.start_tool("exec_bash", {"command": "sleep 0.5"}) for _ in range(60)]
    assert all(outcome(client, c)[0].get("exit_code") == 0 for c in calls)


@pytest.mark.only_tiers("root")
@pytest.mark.parametrize("size", ("64k", "1m"))
def test_a_small_disk_is_told_and_survived(host, size):
    with small_disk(host, size):
        client = host.server()
        if size == "1m":
            client.tool("create_sandbox", name="work")
        (host.home / "fill").write_bytes(b"")
        with contextlib.suppress(OSError), open(host.home / "fill", "wb", buffering=0) as fill:
            while True:
                fill.write(bytes(4096))
        error = client.tool_error("create_sandbox", name="more")
        assert error["code"] == "limit" and "space" in error["error"], error
        if size == "1m":
            assert client.bash("seq 100000", sandbox_name="work")["exit_code"] == 0
            client.tool("delete_sandbox", sandbox_name="work")
            assert not inits(host)
        (host.home / "fill").unlink()
        if size == "1m":
            client.tool("create_sandbox", name="more")
            client.tool("delete_sandbox", sandbox_name="more")


def test_boxes_end_with_a_state_folder_that_is_taken_away(host):
    client = host.server()
    made = client.tool("create_sandbox", name="lost")["sandbox_id"]
    before = host.install.box_processes()
    host.note_ids()
    shutil.rmtree(host.home)
    error = client.tool_error("exec_bash", command="true", sandbox_id=made)
    assert error["code"] in ("gone", "not_found")
    assert wait_until(lambda: not any(is_running(p) for p in before)), "nobody could ever end it"
    client.tool("create_sandbox", name="next")
    assert client.bash("echo on", sandbox_name="next")["stdout"] == "on\n"
    for cgroup in cgroups():
        if made in cgroup.name:
            cgroup.rmdir()  # it is empty; anybox waits for two minutes before it is sure


def test_a_damaged_database_is_told_with_what_to_do(host):
    client = host.server()
    client.tool("create_sandbox", name="work")
    client.tool("delete_sandbox", sandbox_name="work")
    client.close()
    (host.home / "anybox.db").write_bytes(os.urandom(8192))
    client = host.server()
    error = client.tool_error("list_sandboxes")
    assert "damaged" in error["error"] and "move it away" in error["error"]
    assert client.result("ping") == {}
    (host.home / "anybox.db").unlink()
    assert listed(client) == {}


def test_long_and_strange_paths_of_the_state_folder_work(host):
    home = host.folder / ("d" * 120) / ("e" * 120) / "with spaces, é and 日本"
    client = host.server(env={"ANYBOX_HOME": str(home)})
    client.tool("create_sandbox", name="far")
    assert client.bash("echo away", sandbox_name="far")["stdout"] == "away\n"
    client.tool("delete_sandbox", sandbox_name="far")


def test_a_server_starts_with_next_to_nothing(host):
    folder = host.folder / "gone"
    folder.mkdir()
    os.chown(folder, host.tier.uid, -1)
    client = host.server("-c", f'rmdir "{folder}"; exec 2>&-; unset HOME PATH; exec "$0"', host.install.anybox,
                         program="/bin/bash", cwd=folder)
    assert client.bash("echo here")["stdout"] == "here\n"
