"""exec_bash in local boxes, and its other names. What every kind of sandbox does alike is in
test_behaviours.py."""
import time

import pytest
from host import wait_until

pytestmark = pytest.mark.every_tier


def test_the_environment_is_ours_and_small(box):
    env = dict(line.split("=", 1) for line in box.bash("env")["stdout"].splitlines())
    assert env["HOME"] == "/home/user" and env["LANG"] == "C.UTF-8" and env["TERM"] == "dumb"
    assert env["USER"] == "user"
    assert set(env) <= {"HOME", "LANG", "TERM", "USER", "LOGNAME", "SHELL", "PATH", "PWD", "SHLVL", "_", "OLDPWD",
                        "TMPDIR", "TZ"}


def test_a_timeout_kills_what_ignores_term_and_what_left_the_session(box):
    began = time.monotonic()
    answer = box.bash("trap '' TERM; setsid sleep 3001 & (trap '' TERM; sleep 3002) & sleep 3003", timeout_s=1)
    assert answer["timed_out"] is True and time.monotonic() - began < 30
    left = wait_until(lambda: "sleep 300" not in processes(box)) and True
    assert left, processes(box)


def processes(client):
    return client.bash("for p in /proc/[0-9]*; do tr '\\0' ' ' < $p/cmdline; echo; done 2>/dev/null")["stdout"]


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
