"""Background tasks: on local boxes, on hosts with tmux and on hosts without."""
import os
import pathlib
import shlex
import shutil
import signal
import subprocess
import threading
import time

import pytest

import ssh_servers
from host import SYSTEM_PATH, wait_until
from mcp_client import ToolFailed

pytestmark = pytest.mark.only_tiers("root")
WHERE = ("local", "tmux", "plain")
TMP = f"/tmp/abx-task-{os.getpid()}"  # on a host, where every user sees it


def path_without_tmux(folder):
    """A PATH that has everything but tmux."""
    folder.mkdir()
    for place in SYSTEM_PATH.split(":"):
        if pathlib.Path(place).is_dir():
            for program in pathlib.Path(place).iterdir():
                if program.name != "tmux" and not (folder / program.name).is_symlink():
                    (folder / program.name).symlink_to(program)
    return folder


@pytest.fixture(scope="module")
def servers(world):
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    bare = path_without_tmux(world.folder / "bare")
    return {"tmux": world.server, "plain": world.sshd(SetEnv=f"PATH={bare}")}


class Spot:
    """A client whose active box is a place for tasks."""

    def __init__(self, host, where, world=None, server=None):
        self.host, self.where, self.world, self.server = host, where, world, server
        self.env = ssh_servers.hosts(world.entry(server)) if server else {}
        self.client = self.new_client()
        if not server:
            self.client.tool("create_sandbox", name="work")

    def new_client(self):
        return self.host.server(env=self.env)

    def start(self, command, name="", **more):
        """Without a watch: those are test_watchdog.py's."""
        return self.client.tool("exec_bash_background", command=command, session_name=name, watch=False, **more)

    def check(self, name="", **more):
        if name:
            more["tmux_session"] = name
        return self.client.tool("check_background_task", **more)

    def end(self, name, **more):
        answer = self.check(name, wait_s=30, **more)
        assert answer["running"] is False, answer
        return answer

    def bash(self, command):
        return self.client.bash(command, timeout_s=30)["stdout"]

    def ps(self, pattern):
        """`pattern` must not match itself: [s]leep."""
        return self.bash(f"pgrep -f -- '{pattern}' || true").split()


@pytest.fixture(params=WHERE)
def spot(request, host):
    if request.param == "local":
        yield Spot(host, "local")
        return
    servers = request.getfixturevalue("servers")
    world = request.getfixturevalue("world")
    yield Spot(host, request.param, world, servers[request.param])
    subprocess.run(["pkill", "-KILL", "-u", world.user.name], check=False)
    for name in ".codex_logs", ".anybox", "wd":
        shutil.rmtree(world.user.home / name, ignore_errors=True)


# ---- starting -------------------------------------------------------------------------------


def test_a_task_runs_in_the_background_and_tells_its_end(spot):
    began = spot.start("echo one; sleep 0.3; echo two >&2; exit 3", "train")
    assert began["status"] == "started" and began["tmux_session"] == "train"
    assert began["log_file"].endswith("/.codex_logs/train.log") and began["log_file"][0] == "/"
    assert "launch_recovered" not in began
    answer = spot.end("train")
    assert (answer["exit_code"], answer["status"], answer["task_id"]) == (3, "exited", began["task_id"])
    lines = answer["log_tail"].splitlines()
    assert lines[0] == "== session: train" and lines[1].startswith("== started_at: 20")
    assert lines[2:] == ["== command: echo one; sleep 0.3; echo two >&2; exit 3", "one", "two", "EXIT_CODE=3"]
    assert answer["cursor"] == answer["log_size"] == len(spot.bash(f"cat {began['log_file']}"))


def test_in_tmux_where_there_is_one(spot):
    if spot.where == "local":
        pytest.skip("a box is no host")
    spot.start("sleep 60", "seen")
    sessions = spot.bash("tmux list-sessions -F '#{session_name}' 2>&1 || true")
    assert ("seen" in sessions) == (spot.where == "tmux")
    if spot.where == "tmux":
        spot.start("echo shown; sleep 60", "shown")
        deadline = time.monotonic() + 30
        while "shown\n" not in spot.bash("tmux capture-pane -p -t =shown:"):
            assert time.monotonic() < deadline, "somebody who attaches sees nothing"


ENDINGS = [
    ("printf 'no newline'", 0, None),
    ("exit 3", 3, None),
    ("exec sh -c 'exit 4'", 4, None),
    ("set -e; false; echo unreached", 1, None),
    ("set -u; echo $not_set_at_all", 1, None),
    ("echo $not_set_at_all", 0, None),
    ("false | true", 0, None),
    ("kill -9 $$", 137, "SIGKILL"),
    ("kill -TERM $$", 143, "SIGTERM"),
    ("exit 137", 137, None),
    ("ulimit -c 0; kill -SEGV $$", 139, "SIGSEGV"),
    ("no_such_program_here", 127, None),
    ("if", 2, None),
]


def test_exit_status_is_the_true_one(spot):
    for n, (command, _, _) in enumerate(ENDINGS):
        spot.start(command, f"ends{n}")
    for n, (command, code, sig) in enumerate(ENDINGS):
        answer = spot.end(f"ends{n}")
        assert (answer["exit_code"], answer.get("signal")) == (code, sig), command
        assert answer["log_tail"].splitlines()[-1] == f"EXIT_CODE={code}", command


def test_what_a_task_is_given(spot):
    spot.bash("mkdir wd")
    spot.start('pwd | sed s,.*/,,; umask; trap "echo int" INT; kill -INT $$; test -t 0 && echo tty || wc -c', "given", cwd="wd")
    told = spot.end("given")["log_tail"].splitlines()
    # In tmux a person who attaches can type.
    assert told[3:-1] == ["wd", spot.bash("umask").strip(), "int", "tty" if spot.where == "tmux" else "0"]


def test_no_text_reaches_a_shell_unquoted(spot):
    for text in ("it's", "$(touch evil)", "`touch evil`", "a b;touch evil", "\"q\" \\ \\n", "%s%n", "-n", "*",
                 "\u00e4\u20ac"):
        spot.bash(f"mkdir -p -- {shlex.quote('wd/' + text)}")
        began = spot.start(f"printf '%s\\n' {shlex.quote(text)}; pwd", text, cwd=f"wd/{text}",
                           log_file=f"logs {text}/a.log")
        lines = spot.end(text)["log_tail"].splitlines()
        assert lines[3] == text and lines[4].endswith("/wd/" + text)
        assert began["log_file"].endswith(f"/wd/{text}/logs {text}/a.log")
    assert spot.bash("find . -name evil") == ""


def test_a_missing_folder_is_an_error_and_nothing_is_made(spot):
    before = spot.bash("ls -a . ~")
    failed = spot.client.tool_error("exec_bash_background", command="echo", session_name="x", cwd="not/there")
    assert failed["code"] == "not_found" and "not/there" in failed["error"]
    assert spot.bash("ls -a . ~") == before
    assert spot.client.tool_error("check_background_task", tmux_session="x")["code"] == "not_found"


def test_where_the_log_goes(spot):
    spot.bash("mkdir -p wd")
    for name, more, log in [("a", {"cwd": "wd"}, "wd/.codex_logs/a.log"),
                            ("b", {"cwd": "wd", "log_file": "wd/logs/b.log"}, "wd/logs/b.log"),
                            ("c", {"cwd": "wd", "log_file": "logs/c.log"}, "wd/logs/c.log"),
                            ("d", {"log_file": f"{TMP}/d.log"}, f"{TMP}/d.log"),
                            ("e", {"log_file": "~/wd/e.log"}, "wd/e.log")]:
        began = spot.start("echo", name, **more)
        assert began["log_file"].endswith(log), began
        assert spot.end(name)["exit_code"] == 0
    spot.bash(f"rm -rf {TMP}")


@pytest.mark.parametrize("log", ["/proc/nowhere/a.log", "/"])
def test_a_log_that_cannot_be_written(spot, log):
    failed = spot.client.tool_error("exec_bash_background", command="touch ran", log_file=log)
    assert failed["code"] in ("denied", "invalid") and "log" in failed["error"]
    assert spot.bash("ls -a ran 2>/dev/null || true") == ""


# ---- names ----------------------------------------------------------------------------------


def test_a_running_name_is_refused_before_anything_is_touched(spot):
    began = spot.start("sleep 0.2; echo the first; sleep 60", "twice")
    failed = spot.client.tool_error("exec_bash_background", command="echo the second", session_name="twice")
    assert failed["code"] == "exists" and began["task_id"] in failed["error"]
    elsewhere = spot.client.tool_error("exec_bash_background", command="echo", session_name="twice",
                                        log_file=f"{TMP}-else.log")
    assert elsewhere["code"] == "exists"
    assert spot.bash(f"ls {TMP}-else.log 2>/dev/null || true") == ""
    assert "the first" in spot.check("twice", wait_s=30, until="^the first", **{"from": 0})["log_tail"]
    spot.client.tool("cancel_background_task", tmux_session="twice")
    assert spot.end("twice")["status"] == "cancelled"
    spot.start("echo the third", "twice")
    answer = spot.end("twice")
    assert answer["exit_code"] == 0 and "the third" in answer["log_tail"]


def test_only_one_of_many_that_start_the_same_name(spot):
    clients = [spot.client] + [spot.new_client() for _ in range(3)]
    if spot.where == "local":
        for other in clients[1:]:
            other.tool("select_sandbox", sandbox_name="work")
    done = []

    def go(client):
        try:
            done.append(client.tool("exec_bash_background", command="echo x >>ran; sleep 30", session_name="race",
                                    watch=False))
        except ToolFailed as failed:
            done.append(failed.answer)

    threads = [threading.Thread(target=go, args=(c,)) for c in clients]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert sum("task_id" in d for d in done) == 1, done
    assert {d["code"] for d in done if "code" in d} == {"exists"}
    deadline = time.monotonic() + 30
    while spot.bash("cat ran 2>/dev/null || true") != "x\n" and time.monotonic() < deadline:
        time.sleep(0.1)
    assert spot.bash("cat ran; rm ran") == "x\n"
    spot.client.tool("cancel_background_task", tmux_session="race")


def test_names_are_exact(spot):
    spot.start("sleep 60", "train-001")
    assert spot.client.tool_error("check_background_task", tmux_session="train")["code"] == "not_found"
    assert spot.client.tool_error("cancel_background_task", tmux_session="train")["code"] == "not_found"
    spot.start("exit 5", "train")
    assert spot.end("train")["exit_code"] == 5
    assert spot.check("train-001")["running"] is True
    spot.client.tool("cancel_background_task", tmux_session="train-001")


ODD_NAMES = [("v1.2", "v1_2"), ("a:b", "a_b"), ("two words", "two_words"),
                                        ("it's \"so\"", "it_s__so_"), ("-x", "_x"), ("=eq", "_eq"),
                                        ("../up", "___up"), ("$(x)", "__x_")]


def test_odd_names_are_made_safe_and_told(spot):
    for name, used in ODD_NAMES:
        began = spot.start("sleep 0.2; exit 6", name)
        assert began["tmux_session"] == used and used in began["note"]
    for name, used in ODD_NAMES:
        assert spot.end(name)["exit_code"] == 6
        assert spot.end(used)["exit_code"] == 6


def test_a_name_is_made_up_where_none_is_given(spot):
    names = {spot.start("true")["tmux_session"] for _ in range(3)}
    assert len(names) == 3 and all(n.startswith("bg-") for n in names)


def test_a_reused_log_shows_no_old_result(spot):
    spot.start("echo old; exit 9", "again", log_file=f"{TMP}/again.log")
    old = spot.end("again")
    new = spot.start("until [ -e go ]; do sleep 0.1; done; printf new", "again", log_file=f"{TMP}/again.log")
    now = spot.check("again")
    assert now["running"] is True and "exit_code" not in now and "old" not in now["log_tail"]
    spot.bash("touch go")
    assert spot.end("again")["exit_code"] == 0
    first = spot.check(task_id=old["task_id"])
    assert (first["exit_code"], first["running"]) == (9, False)
    assert spot.check(task_id=new["task_id"])["exit_code"] == 0
    log = spot.bash(f"cat {TMP}/again.log; rm -rf {TMP} go")
    assert log.count("== session: again") == 2 and log.endswith("\nnew\nEXIT_CODE=0\n")


# ---- how it ends ----------------------------------------------------------------------------


def job_pid(spot, name):
    """Waits until it is there."""
    return spot.bash(f"f=.codex_logs/.anybox/{name}/job; until [ -s $f ]; do sleep 0.1; done; cut -d' ' -f2 $f").strip()


def test_the_job_is_killed(spot):
    spot.start("sleep 99", "victim")
    spot.bash(f"kill -9 {job_pid(spot, 'victim')}")
    answer = spot.end("victim")
    assert (answer["exit_code"], answer["signal"], answer["status"]) == (137, "SIGKILL", "killed")


def test_the_supervisor_is_killed(spot):
    spot.start("until [ -e go ]; do sleep 0.1; done; echo done >finished", "orphan")
    job_pid(spot, "orphan")
    spot.bash("kill -9 $(cut -d' ' -f2 .codex_logs/.anybox/orphan/pid)")
    if spot.where != "tmux":  # there the session ends with it, and the job with the session
        now = spot.check("orphan")
        assert now["running"] is True and "killed" in now["note"]
        failed = spot.client.tool_error("exec_bash_background", command="echo", session_name="orphan")
        assert failed["code"] == "exists"  # it must not run twice
    spot.bash("touch go")
    answer = spot.end("orphan")
    spot.bash("rm go")
    assert (answer["status"], "exit_code" in answer) == ("interrupted", False)


def test_the_session_or_its_server_is_killed(spot):
    if spot.where != "tmux":
        pytest.skip("is about tmux")
    for how in "tmux kill-session -t =dies", "tmux kill-server":
        began = spot.start("sleep 98", "dies")
        job_pid(spot, "dies")
        spot.bash(f"sleep 0.2; {how}")
        answer = spot.end("dies")
        assert (answer["status"], "exit_code" in answer) == ("interrupted", False)
        assert answer["task_id"] == began["task_id"]
        assert wait_until(lambda: spot.ps("[s]leep 98") == [])


def test_the_machine_restarts(spot):
    if spot.where == "local":
        pytest.skip("a box does not restart")
    began = spot.start("echo up; sleep 97", "reboot")
    spot.check("reboot", wait_s=30, until="up", **{"from": 0})
    subprocess.run(["pkill", "-KILL", "-u", spot.world.user.name], check=False)
    answer = ssh_servers.until_back(lambda: spot.check(task_id=began["task_id"]))
    assert (answer["status"], answer["running"]) == ("interrupted", False)
    assert spot.start("exit 0", "reboot")["status"] == "started"
    assert spot.end("reboot")["exit_code"] == 0


def test_sshd_restarts_and_the_task_goes_on(spot):
    if spot.where == "local":
        pytest.skip("is about ssh")
    spot.start("sleep 1; echo survived", "survivor")
    spot.server.signal_all(signal.SIGKILL)
    spot.server.stop()
    spot.server.start()
    answer = ssh_servers.until_back(lambda: spot.check("survivor", wait_s=30))
    assert answer["exit_code"] == 0 and "survived" in answer["log_tail"]


def test_memory_runs_out(host):
    client = host.server()
    client.tool("create_sandbox", name="small", memory="64m")
    client.tool("exec_bash_background", session_name="eats", watch=False,
                command="exec python3 -c 'x = [bytearray(1 << 20) for _ in range(4096)]'")
    answer = client.tool("check_background_task", tmux_session="eats", wait_s=30)
    assert answer["running"] is False
    assert (answer["status"], answer["exit_code"]) in (("killed", 137), ("exited", 1)), answer


def test_a_full_disk_costs_output_and_never_the_end(spot, request):
    if spot.where == "local":
        spot.client.tool("create_sandbox", name="small", disk="1m")
        spot.client.tool("select_sandbox", sandbox_name="small")
        where = {}
    else:
        spot.bash("mkdir -p wd/small")
        folder = str(spot.world.user.home / "wd" / "small")
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size=256k,mode=700,uid={spot.world.user.uid}", "none", folder],
                       check=True)
        request.addfinalizer(lambda: subprocess.run(["umount", "-l", folder], check=False))
        where = {"cwd": "wd/small"}
    spot.start("head -c 3000000 /dev/zero | tr '\\0' x; until [ -e ~/wd-go ]; do sleep 0.1; done; exit 9", "chatty", **where)
    deadline = time.monotonic() + 30
    while "is full" not in spot.check("chatty").get("note", ""):
        assert time.monotonic() < deadline, spot.check("chatty")
        if where:  # a file that was replaced meanwhile may have left a page
            spot.bash("head -c 100000 /dev/zero >>wd/small/rest 2>/dev/null; true")
        time.sleep(0.2)
    spot.bash("touch ~/wd-go")
    answer = spot.end("chatty")
    spot.bash("rm ~/wd-go")
    assert (answer["exit_code"], answer["status"]) == (9, "exited")
    assert answer["log_incomplete"] is True and "disk was full" in answer["note"]


def test_jobs_that_others_started(spot):
    if spot.where != "tmux":
        pytest.skip("they are in tmux")
    script = ("mkdir -p .codex_logs; tmux new-session -d -s theirs "
              "\"bash -c '{ echo == session: theirs; echo hello; until [ -e wd-go ]; do sleep 0.1; done; echo EXIT_CODE=%s; } | "
              "tee -a .codex_logs/theirs.log'\"")
    spot.bash(script % 7)
    now = spot.check("theirs")
    assert now["running"] is True and "task_id" not in now
    spot.bash("touch wd-go")
    answer = spot.end("theirs")
    assert (answer["exit_code"], answer["status"]) == (7, "exited")
    spot.bash("rm wd-go; " + script % 0)
    spot.bash("until [ $(grep -c hello .codex_logs/theirs.log) -eq 2 ]; do sleep 0.1; done")
    assert "exit_code" not in spot.check("theirs")  # of the run before
    assert spot.client.tool("cancel_background_task", tmux_session="theirs")["result"] == "cancelled"
    answer = spot.end("theirs")
    assert (answer["status"], "exit_code" in answer) == ("interrupted", False)


TRAIN = """
import json, os, sys, time
state, shards = "run_state.json", 6
done = json.load(open(state))["done"] if "--resume" in sys.argv and os.path.exists(state) else 0
while done < shards:
    time.sleep(0.2)
    while done == 3 and "--resume" not in sys.argv:
        time.sleep(0.1)  # until it is killed
    open("trained", "a").write(f"{done}\\n")
    done += 1
    json.dump({"done": done, "shards": shards}, open(state + ".new", "w"))
    os.replace(state + ".new", state)
    print("shard", done, "of", shards, flush=True)
"""


def test_training_in_shards_goes_on_from_its_checkpoint(spot):
    """The example of remote-sandbox-mcp's documents: interrupted, resumed under the same name."""
    spot.bash("mkdir -p wd")
    spot.client.tool("write_remote_file", remote_path="wd/train.py", content=TRAIN)
    spot.start("python3 train.py", "train-001", cwd="wd")
    spot.check("train-001", wait_s=30, until="^shard 2 of 6$", **{"from": 0})
    spot.bash("kill -9 $(cut -d' ' -f2 wd/.codex_logs/.anybox/train-001/pid)")
    spot.bash("pkill -KILL -f '[t]rain.py' || true")
    assert spot.end("train-001")["status"] == "interrupted"
    spot.start("python3 train.py --resume", "train-001", cwd="wd")
    answer = spot.end("train-001")
    assert answer["exit_code"] == 0 and answer["log_tail"].endswith("shard 6 of 6\nEXIT_CODE=0\n")
    assert sorted(set(spot.bash("cat wd/trained").split())) == list("012345")
    assert spot.bash("cat wd/run_state.json").strip() == '{"done": 6, "shards": 6}'


# ---- looking --------------------------------------------------------------------------------


def test_huge_lines_and_binary_output(spot):
    spot.start("head -c 1048576 /dev/zero | tr '\\0' x; printf '\\0\\377\\033[31mred\\n'; exit 11", "wide")
    answer = spot.end("wide")
    assert answer["exit_code"] == 11 and answer["truncated"] is True
    assert answer["log_tail"].endswith("red\nEXIT_CODE=11\n") and "\x1b" not in answer["log_tail"]
    assert answer["log_size"] > 1 << 20


def test_lines_and_cursor(spot):
    spot.start("seq 1 20000", "many")
    answer = spot.end("many", last_n_lines=3)
    assert answer["log_tail"] == "19999\n20000\nEXIT_CODE=0\n"
    text, cursor = "", 0
    while cursor < answer["log_size"]:
        part = spot.check("many", **{"from": cursor})
        assert part["cursor"] > cursor and part.get("truncated", False) == (part["cursor"] < answer["log_size"])
        text, cursor = text + part["log_tail"], part["cursor"]
    assert text.split("\n", 3)[3] == "".join(f"{i}\n" for i in range(1, 20001)) + "EXIT_CODE=0\n"
    assert spot.check("many", **{"from": cursor + 100})["log_tail"] == ""


def test_waiting(spot):
    spot.start("sleep 0.5; echo step 1; sleep 0.5; echo step 2; sleep 60", "slow")
    answer = spot.check("slow", wait_s=30, until="^step [2-9]$", **{"from": 0})
    assert answer["match"] == "step 2" and answer["running"] is True
    assert "match" not in spot.check("slow", wait_s=1, until="step 2")  # only what is new
    assert spot.check("slow", wait_s=1, until="step 1", **{"from": 0})["match"] == "step 1"
    began = time.monotonic()
    assert spot.check("slow", wait_s=2)["running"] is True
    assert time.monotonic() - began > 0.5
    spot.client.tool("cancel_background_task", tmux_session="slow")


def test_a_list_without_arguments(spot):
    first = spot.start("exit 2", "first")
    spot.end("first")
    second = spot.start("sleep 60", "second")
    tasks = {t["tmux_session"]: t for t in spot.check()["tasks"]}
    assert set(tasks) == {"first", "second"}
    assert (tasks["first"]["exit_code"], tasks["first"]["task_id"]) == (2, first["task_id"])
    assert (tasks["second"]["running"], tasks["second"]["task_id"]) == (True, second["task_id"])
    assert "runtime_s" in tasks["second"] and "log_tail" not in tasks["second"]
    spot.client.tool("cancel_background_task", task_id=second["task_id"])


def test_by_log_file(spot):
    began = spot.start("exit 8", "logged")
    assert spot.check(log_file=began["log_file"], wait_s=30)["exit_code"] == 8


def test_another_server_answers_after_a_kill(spot):
    began = spot.start("sleep 1; echo ok; exit 12", "left")
    spot.client.kill()
    other = spot.new_client()
    answer = other.tool("check_background_task", task_id=began["task_id"], wait_s=30)
    assert answer["exit_code"] == 12


def test_another_user_of_the_host_finds_it_by_name(spot, host):
    """Somebody with another state folder knows the task's name only."""
    if spot.where == "local":
        pytest.skip("boxes are private")
    spot.start("sleep 0.5; exit 13", "shared")
    other = host.server(env={**spot.env, "ANYBOX_HOME": str(host.folder / "other")})
    answer = other.tool("check_background_task", tmux_session="shared", wait_s=30)
    assert answer["exit_code"] == 13
    listed = other.tool("check_background_task")["tasks"]
    assert [t["tmux_session"] for t in listed] == ["shared"]


def test_a_task_of_a_box_that_ended(host):
    client = host.server()
    client.tool("create_sandbox", name="short")
    done = client.tool("exec_bash_background", command="exit 4", session_name="done", watch=False)
    client.tool("check_background_task", task_id=done["task_id"], wait_s=30)
    cut = client.tool("exec_bash_background", command="sleep 99", session_name="cut", watch=False)
    client.tool("delete_sandbox", sandbox_name="short")
    assert client.tool("check_background_task", task_id=done["task_id"])["exit_code"] == 4
    answer = client.tool("check_background_task", task_id=cut["task_id"])
    assert (answer["status"], answer["running"]) == ("interrupted", False) and answer["note"]


@pytest.mark.long
def test_a_running_task_keeps_its_box(host):
    client = host.server(env={"ANYBOX_LOCAL_IDLE": "10"})
    client.tool("create_sandbox", name="idle")
    began = client.tool("exec_bash_background", command="sleep 15; echo awake", session_name="busy", watch=False)
    time.sleep(14)
    answer = client.tool("check_background_task", task_id=began["task_id"], wait_s=30)
    assert answer["exit_code"] == 0 and "awake" in answer["log_tail"]


# ---- ending ---------------------------------------------------------------------------------


def test_cancel_ends_all_of_it(spot):
    spot.start("trap '' TERM; (trap '' TERM; exec sleep 4801) & "
                "setsid sh -c 'trap \"\" TERM; sleep 4802 & sleep 4802' & "
                "(setsid nohup sleep 4803 >/dev/null 2>&1 &); sleep 4804; sleep 4804", "tree")
    deadline = time.monotonic() + 30
    while len(spot.ps("[p] 480[1-4]")) < 4 and time.monotonic() < deadline:
        time.sleep(0.1)
    answer = spot.client.tool("cancel_background_task", tmux_session="tree", grace_s=1)
    assert (answer["result"], answer["status"], answer["running"]) == ("cancelled", "cancelled", False)
    assert spot.ps("[p] 480[1-4]") == []
    again = spot.client.tool("cancel_background_task", tmux_session="tree")
    assert again["result"] == "already_ended"
    if spot.where == "tmux":
        assert "tree" not in spot.bash("tmux list-sessions 2>&1 || true")


def test_cancel_lets_it_tidy_up(spot):
    spot.start("trap 'echo tidy; exit 0' TERM; echo ready; while :; do sleep 0.1; done", "gentle")
    assert spot.check("gentle", wait_s=30, until="^ready$", **{"from": 0})["match"] == "ready"
    answer = spot.client.tool("cancel_background_task", tmux_session="gentle", grace_s=10)
    assert (answer["result"], answer["exit_code"]) == ("cancelled", 0)
    assert "tidy\n" in spot.check("gentle")["log_tail"]


# ---- wrong use ------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments, word", [
    ({"command": " "}, "command"), ({"command": "x", "interval_s": 0}, "interval_s"),
    ({"command": "x", "max_log_lines": 0}, "max_log_lines"),
    ({"command": "x", "max_resume_attempts": -1}, "max_resume_attempts"),
    ({"command": "x", "alert_after_failures": 0}, "alert_after_failures"),
    ({"command": "x", "resume_delay_s": -1}, "resume_delay_s"),
    ({"command": "x", "metadata_json": "{"}, "metadata_json"),
    ({"command": "x", "resume_plan_json": "[1]"}, "resume_plan_json"),
    ({"command": "x", "auto_resume": True}, "resume_command"),
    ({"command": "x", "session_name": "n" * 101}, "101"), ({"command": "x", "cwd": "a\nb"}, "cwd"),
])
def test_wrong_arguments_are_told_and_nothing_starts(client, arguments, word):
    failed = client.tool_error("exec_bash_background", **arguments)
    assert failed["code"] in ("invalid", "unsupported") and word in failed["error"]
    assert client.tool("list_sandboxes")["sandboxes"] == []


@pytest.mark.parametrize("tool, arguments, word", [
    ("check_background_task", {"tmux_session": "x", "last_n_lines": 0}, "last_n_lines"),
    ("check_background_task", {"tmux_session": "x", "wait_s": 1, "until": "("}, "until"),
    ("check_background_task", {"tmux_session": "x", "until": "a"}, "wait_s"),
    ("check_background_task", {"watch_id": 3}, "watch_id"),
    ("cancel_background_task", {}, "task_id"), ("cancel_background_task", {"task_id": "0" * 16}, "0000"),
    ("check_background_task", {"task_id": "zzz"}, "zzz"),
])
def test_wrong_questions(client, tool, arguments, word):
    assert word in client.tool_error(tool, **arguments)["error"]


def test_an_empty_list_makes_no_box(client):
    assert client.tool("check_background_task")["tasks"] == []
    assert client.tool("list_sandboxes")["sandboxes"] == []


def test_a_long_command(spot):
    spot.start("true " + "x" * 300000 + "\nexit 7", "long")
    assert spot.end("long")["exit_code"] == 7


def test_a_connection_that_breaks_while_starting_starts_once(host, world, servers):
    """Whatever moment the connection is cut at: the task runs once, and it is told so, or it is
    told that it did not start, and then it did not."""
    home = world.user.home
    for pause in 0.05, 0.1, 0.15, 0.2, 0.3:
        proxy = world.proxy(servers["tmux"].port)
        client = host.server(env=ssh_servers.hosts(world.entry(proxy)))
        client.tool("exec_bash", command="true")
        name = f"cut{int(pause * 100)}"
        call = client.start_tool("exec_bash_background", {"command": f"echo ran >>{name}.ran", "session_name": name,
                                                           "watch": False})
        time.sleep(pause)
        proxy.drop()
        try:
            told = client.finish_tool(call)["status"] == "started"
        except ToolFailed as failed:
            told = None if "may have been" in failed.answer["error"] else False
        if told:
            assert wait_until((home / f"{name}.ran").exists)
        time.sleep(1)  # for what is not to happen
        ran = (home / f"{name}.ran").exists() and (home / f"{name}.ran").read_text()
        assert ran in (False, "ran\n")
        assert told is None or told == (ran == "ran\n"), (pause, told, ran)
        proxy.close()
    subprocess.run(["pkill", "-KILL", "-u", world.user.name], check=False)
    os.system(f"rm -rf {home}/.codex_logs {home}/.anybox {home}/*.ran")


# ---- for people -----------------------------------------------------------------------------


def test_logs(spot):
    began = spot.start("printf 'a\\033[1mb\\n'; seq 1 60000; sleep 1; echo last", "told")
    followed = spot.host.run("logs", "-f", "told", env=spot.env)
    body = followed.stdout.split("\n", 3)[3]
    assert followed.returncode == 0
    assert body == "a\033[1mb\n" + "".join(f"{i}\n" for i in range(1, 60001)) + "last\nEXIT_CODE=0\n"
    assert spot.host.run("logs", began["task_id"], env=spot.env).stdout == followed.stdout
    unknown = spot.host.run("logs", "no-such-task", env=spot.env)
    assert unknown.returncode == 1 and "no-such-task" in unknown.stderr
    assert "anybox logs" in unknown.stderr and "check_background_task" not in unknown.stderr
    listed = spot.host.run("logs", env=spot.env)
    row, = [line.split() for line in listed.stdout.splitlines() if began["task_id"] in line]
    assert row[1] == "told" and row[3] == "exited" and listed.stdout.startswith("TASK")


def test_attach(spot):
    spot.start(f"echo here; sleep {60 if spot.where == 'tmux' else 3}", "seen")
    ssh = spot.host.folder / "ssh"
    ssh.write_text('#!/bin/sh\nprintf "[%s]" "$@"\n')
    ssh.chmod(0o755)
    got = spot.host.run("attach", "seen", env={**spot.env, "PATH": f"{ssh.parent}:{SYSTEM_PATH}"})
    if spot.where == "tmux":
        assert got.stdout.startswith(f"[-t][-p][{spot.server.port}][-i]")
        assert got.stdout.endswith("[--][127.0.0.1][exec tmux attach-session -t '=seen']")
    else:
        assert "not in tmux" in got.stderr and got.stdout.endswith("here\nEXIT_CODE=0\n")
