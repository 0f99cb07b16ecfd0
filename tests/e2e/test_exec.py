"""exec_bash and its other names: what a command gets, and how its end is told."""
import json
import re
import time

import pytest
from host import wait_until

pytestmark = pytest.mark.every_tier


def test_the_answer_has_all_its_fields(box):
    answer = box.bash("echo out; echo err >&2; exit 3")
    assert (answer["exit_code"], answer["stdout"], answer["stderr"]) == (3, "out\n", "err\n")
    assert 0 <= answer["duration"] < 30
    assert not answer.get("timed_out") and not answer.get("connection_error")
    silent = box.bash("true")
    assert (silent["exit_code"], silent["stdout"], silent["stderr"]) == (0, "", "")


@pytest.mark.parametrize("code", [0, 1, 2, 124, 126, 127, 137, 255])
def test_exit_codes_are_the_commands_own(box, code):
    answer = box.bash(f"exit {code}")
    assert answer["exit_code"] == code
    assert not answer.get("timed_out") and not answer.get("signal")


def test_a_command_that_fails_is_no_error_of_the_tool(box):
    result = box.result("tools/call", {"name": "exec_bash", "arguments": {"command": "false"}})
    assert not result.get("isError")


def test_a_missing_program_is_bashs_business(box):
    answer = box.bash("no-such-program-here")
    assert answer["exit_code"] == 127 and "not found" in answer["stderr"]


def test_a_signal_is_told_apart_from_an_exit(box):
    answer = box.bash("kill -9 $$")
    assert answer["exit_code"] == 137
    assert "KILL" in str(answer["signal"]) or answer["signal"] == 9
    assert not answer.get("timed_out") and not answer.get("oom_killed")
    answer = box.bash("kill -SEGV $$")
    assert answer["exit_code"] == 139 and answer["signal"]


def test_it_is_bash_and_not_a_login_shell(box):
    answer = box.bash('[[ -n $BASH_VERSION ]] && echo bash; shopt -q login_shell && echo login; echo "$-"')
    assert answer["stdout"].splitlines()[0] == "bash"
    assert "login" not in answer["stdout"]


def test_env_and_stdin_reach_the_command(box):
    answer = box.bash('echo "$GREETING"; cat', env={"GREETING": "hé llo"}, stdin="line 1\nline 2")
    assert answer["stdout"] == "hé llo\nline 1\nline 2"


def test_env_holds_for_one_call_only(box):
    box.bash("true", env={"ONLY": "once"})
    assert box.bash('echo "[${ONLY-}]"')["stdout"] == "[]\n"


def test_without_stdin_reading_ends_at_once(box):
    answer = box.bash("cat; read x; echo $?", timeout_s=20)
    assert answer["stdout"] == "1\n" and answer["duration"] < 5


def test_a_megabyte_of_stdin_arrives_whole(box):
    text = "0123456789abcde\n" * 65536
    assert box.bash("md5sum; wc -c", stdin=text)["exit_code"] == 0
    assert box.bash("wc -c", stdin=text)["stdout"].strip() == str(len(text))


def test_stdin_that_nobody_reads_does_no_harm(box):
    assert box.bash("echo done", stdin="x" * 500000)["stdout"] == "done\n"


def test_the_environment_is_ours_and_small(box):
    env = dict(line.split("=", 1) for line in box.bash("env")["stdout"].splitlines())
    assert env["HOME"] == "/home/user" and env["LANG"] == "C.UTF-8" and env["TERM"] == "dumb"
    assert env["USER"] == "user"
    assert set(env) <= {"HOME", "LANG", "TERM", "USER", "LOGNAME", "SHELL", "PATH", "PWD", "SHLVL", "_", "OLDPWD",
                        "TMPDIR", "TZ"}


@pytest.mark.parametrize("cwd,expected", [
    (None, "/workspace"), ("", "/workspace"), ("/tmp", "/tmp"), ("~", "/home/user"), ("~/sub dir", "/home/user/sub dir"),
    ("rel", "/workspace/rel"), ("/", "/"), ("/workspace/é", "/workspace/é")])
def test_the_working_folder(box, cwd, expected):
    box.bash("mkdir -p '/home/user/sub dir' /workspace/rel /workspace/é")
    assert box.bash("pwd", cwd=cwd)["stdout"] == expected + "\n"


def test_a_working_folder_that_is_not_there_is_an_error_that_names_it(box):
    error = box.tool_error("exec_bash", command="echo ran", cwd="/no/such/folder")
    assert error["code"] == "not_found" and "/no/such/folder" in error["error"]


def test_a_working_folder_is_not_read_by_a_shell(box):
    error = box.tool_error("exec_bash", command="true", cwd="/tmp; touch /tmp/broken")
    assert error["code"] == "not_found"
    assert box.bash("ls /tmp/broken")["exit_code"] == 2


def test_unicode_goes_through(box):
    assert box.bash("echo 'grüße 你好 🎉'; echo 'ü' >&2")["stdout"] == "grüße 你好 🎉\n"


def test_binary_output_becomes_valid_text(box):
    answer = box.bash("printf 'a\\377\\000b\\xc3\\n'; head -c 2000 /dev/urandom")
    assert answer["exit_code"] == 0
    assert "\0" not in answer["stdout"] and "�" in answer["stdout"]
    assert answer["stdout"].startswith("a") and "b" in answer["stdout"]


def test_escapes_are_stripped_and_progress_bars_collapse(box):
    answer = box.bash("printf '\\033[31mred\\033[0m \\033]0;title\\007plain\\n'; "
                      "for i in 1 2 3; do printf '\\r%d0%%' $i; done; echo")
    assert answer["stdout"] == "red plain\n30%\n"


def test_windows_line_ends_are_kept_readable(box):
    assert box.bash("printf 'one\\r\\ntwo\\r\\n'")["stdout"].split() == ["one", "two"]


def test_long_output_keeps_head_and_tail_and_the_whole_is_readable(box):
    answer = box.bash("seq 1 100000")
    text = answer["stdout"]
    assert text.startswith("1\n2\n") and text.endswith("99999\n100000\n")
    assert len(text) < 21000
    reference = re.search(r"output:[0-9a-zA-Z-]+", json.dumps(answer))
    assert reference, "the marker says how to get the rest"
    whole = "".join(f"{i}\n" for i in range(1, 100001))
    got = ""
    while True:
        part = box.tool("read_remote_file", remote_path=reference.group(), offset=len(got))
        got += part.get("content", "")
        if not part["truncated"]:
            break
    assert got == whole


def test_max_output_chars_counts_characters(box):
    answer = box.bash("for i in $(seq 500); do printf é; done", max_output_chars=100)
    assert answer["stdout"].count("é") in range(90, 101)
    assert box.bash("printf %05000d 7", max_output_chars=6000)["stdout"] == "7".zfill(5000)


def test_endless_output_costs_bounded_memory(box):
    answer = box.bash("timeout 3 yes", timeout_s=20)
    assert answer["stdout"].startswith("y\n") and len(answer["stdout"]) < 21000
    with open(f"/proc/{box.pid}/status", encoding="ascii") as status:
        assert int(status.read().split("VmRSS:")[1].split()[0]) < 150 * 1024


def test_a_timeout_kills_and_says_so(box):
    began = time.monotonic()
    answer = box.bash("echo before; sleep 60", timeout_s=1)
    assert 0.9 < time.monotonic() - began < 6
    assert answer["timed_out"] is True and answer["exit_code"] == 124
    assert answer["stdout"] == "before\n"
    assert box.bash("pgrep -x sleep || echo none")["stdout"] == "none\n" or \
        "sleep 60" not in box.bash("cat /proc/[0-9]*/cmdline | tr '\\0' ' '")["stdout"]


def test_a_timeout_kills_what_ignores_term_and_what_left_the_session(box):
    began = time.monotonic()
    answer = box.bash("trap '' TERM; setsid sleep 3001 & (trap '' TERM; sleep 3002) & sleep 3003", timeout_s=1)
    assert answer["timed_out"] is True and time.monotonic() - began < 10
    left = wait_until(lambda: "sleep 300" not in processes(box), 5) and True
    assert left, processes(box)


def processes(client):
    return client.bash("for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done 2>/dev/null")["stdout"]


def test_a_background_process_neither_hangs_the_answer_nor_dies_with_it(box):
    began = time.monotonic()
    answer = box.bash("sleep 999 & echo started")
    assert answer["stdout"] == "started\n" and time.monotonic() - began < 5
    assert "sleep 999" in processes(box)


def test_output_written_before_the_end_is_complete(box):
    for _ in range(20):
        answer = box.bash("seq 1 2000; echo last >&2")
        assert answer["stdout"].endswith("\n2000\n") and answer["stderr"] == "last\n"


def test_a_cancelled_call_kills_the_command_in_the_box(box):
    future = box.start_tool("exec_bash", {"command": "trap '' TERM; sleep 4001 & sleep 4002; wait"})
    assert wait_until(lambda: "sleep 4002" in processes(box), 5)
    box.cancel(future.request_id)
    assert wait_until(lambda: "sleep 400" not in processes(box), 6, 0.1), processes(box)
    assert not future.done()


def test_a_command_of_one_mebibyte_runs(box):
    command = "true '" + "x" * (1 << 20) + "'; echo ran"
    try:
        answer = box.bash(command)
        assert answer["stdout"] == "ran\n"
    except Exception as failed:
        assert failed.answer["code"] in ("limit", "invalid")
        assert len(failed.answer["error"]) < 1000
    assert box.bash("echo on")["stdout"] == "on\n"


def test_a_command_of_100_kib_runs(box):
    assert box.bash("echo " + "y" * 100000 + " | wc -c")["stdout"].strip() == "100001"


def test_calls_run_side_by_side_in_one_box(box):
    began = time.monotonic()
    calls = [box.start_tool("exec_bash", {"command": "sleep 1; echo $$"}) for _ in range(10)]
    pids = {box.finish_tool(c)["stdout"] for c in calls}
    assert len(pids) == 10 and time.monotonic() - began < 6


def test_a_long_command_is_handed_over_as_a_task_only_when_no_timeout_was_given(box):
    answer = box.bash("sleep 2; echo waited", timeout_s=50)
    assert answer["stdout"] == "waited\n"


@pytest.mark.parametrize("name,arguments", [("run_command", {}), ("execute_terminal_command", {})])
def test_the_compat_names_run_commands_too(box, name, arguments):
    answer = box.tool(name, command="echo out; echo err >&2; exit 5", sandbox_id=box.box_id, **arguments)
    assert (answer["exit_code"], answer["stdout"], answer["stderr"]) == (5, "out\n", "err\n")


def test_run_command_takes_the_timeout_of_its_seed(box):
    answer = box.tool("run_command", command="sleep 60", sandbox_id=box.box_id, timeout=1)
    assert answer["timed_out"] is True and answer["exit_code"] == 124


def test_numbers_may_come_as_text(box):
    answer = box.tool("exec_bash", command="sleep 60", timeout_s="1", max_output_chars="100")
    assert answer["timed_out"] is True


def test_python_and_the_usual_tools_are_there(box):
    answer = box.bash("python3 -c 'import sys, json, ssl; print(sys.version_info[0])'; grep -c . /etc/passwd; sed --version | head -1")
    assert answer["exit_code"] == 0, answer["stderr"]
    assert answer["stdout"].startswith("3\n")
