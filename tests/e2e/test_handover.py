"""A command without a time-out becomes a task when its call has waited long enough, or when
the server dies: nothing of it is lost, and it runs once."""
import os
import shutil
import signal
import subprocess
import time

import pytest

import ssh_servers
from host import is_running, wait_until

pytestmark = pytest.mark.only_tiers("root")
WINDOW = {"ANYBOX_DEFAULTS_EXEC_WINDOW": "2"}
HELD = "until [ -e ~/go ]; do sleep 0.1; done"  # by let_go(): however late the window's end is seen


class Spot:
    def __init__(self, host, env):
        self.host, self.env = host, env
        self.client = self.new_client()

    def new_client(self, **more):
        return self.host.server(env={**self.env, **more})

    def end(self, task_id, client=None):
        answer = (client or self.client).tool("check_background_task", task_id=task_id, wait_s=30)
        assert answer["running"] is False, answer
        return answer

    def let_go(self):
        self.client.bash("touch ~/go", timeout_s=30)

    def same(self, command, path):
        """Does the file hold exactly what the command prints?"""
        return self.client.bash(f"{command} | cmp - {path} && echo same", timeout_s=60)["stdout"] == "same\n"


@pytest.fixture(params=("local", "ssh", "bare"))
def spot(request, host):
    if request.param == "local":
        made = Spot(host, WINDOW)
        made.client.tool("create_sandbox", name="work")
        yield made
        return
    world = request.getfixturevalue("world")
    agent = {} if request.param == "ssh" else {"ANYBOX_DEFAULTS_HOST_AGENT": "false"}
    made = Spot(host, {**WINDOW, **agent, **ssh_servers.hosts(world.entry(world.server))})
    deadline = time.monotonic() + 60
    while request.param == "ssh" and not world.user.processes("boxinit"):
        made.client.bash("true", timeout_s=30)  # after the first call there is an agent
        assert time.monotonic() < deadline, "no agent came"
        time.sleep(0.2)
    made.client.bash("true", timeout_s=30)  # who connects first uses up the window
    yield made
    subprocess.run(["pkill", "-KILL", "-u", world.user.name], check=False)
    shutil.rmtree(world.user.home / ".anybox", ignore_errors=True)
    (world.user.home / "go").unlink(missing_ok=True)


def test_all_of_both_streams_before_and_after(spot):
    began = time.monotonic()
    answer = spot.client.bash(f"seq 1 9 >&2; seq 1 1000000; {HELD}; seq 1000001 1500000; seq 10 19 >&2; exit 3")
    assert time.monotonic() - began < 60
    assert answer["running"] is True and "exit_code" not in answer
    assert answer["stdout"].startswith("1\n2\n") and answer["stderr"] == "".join(f"{i}\n" for i in range(1, 10))
    spot.let_go()
    ended = spot.end(answer["task_id"])
    assert (ended["exit_code"], ended["status"], ended["log_file"]) == (3, "exited", answer["log_file"])
    assert ended["log_tail"].endswith("1499999\n1500000\n")
    assert ended["stderr_tail"] == "".join(f"{i}\n" for i in range(1, 20))
    assert spot.same("seq 1 1500000", answer["log_file"])
    assert spot.same("seq 1 19", answer["stderr_file"])


def test_a_command_that_ends_in_time_leaves_nothing(spot):
    assert spot.client.bash("seq 1 300000; exit 4")["exit_code"] == 4
    assert spot.client.tool("check_background_task")["tasks"] == []
    assert spot.client.bash("ls /var/anybox ~/.anybox/exec 2>/dev/null | grep -v : || true", timeout_s=30)["stdout"].strip() == ""


def test_a_time_out_that_was_given_is_waited_for(spot):
    assert spot.client.bash("sleep 3; echo done", timeout_s=30)["stdout"] == "done\n"


def test_it_runs_once(spot):
    answer = spot.client.bash(f"echo x >>count; {HELD}")
    spot.let_go()
    assert spot.end(answer["task_id"])["exit_code"] == 0
    assert spot.client.bash("cat count; rm count", timeout_s=30)["stdout"] == "x\n"


def test_with_progress_too(spot):
    future = spot.client.start_tool("exec_bash", {"command": f"echo a; {HELD}; echo b"}, progress_token="p")
    answer = spot.client.finish_tool(future)
    assert answer["running"] is True and answer["stdout"] == "a\n"
    spot.let_go()
    assert spot.end(answer["task_id"])["log_tail"] == "a\nb\n"


def test_input_is_not_cut(spot):
    text = "x" * (3 << 20)
    answer = spot.client.bash("sleep 3; wc -c", stdin=text)
    out = answer["stdout"] if "exit_code" in answer else spot.end(answer["task_id"])["log_tail"]
    assert out.strip() == str(len(text))


def test_input_that_is_on_its_way_is_not_cut(spot):
    """It has left the server when the window is over, and the command has not taken it yet."""
    text = "x" * (1280 << 10)  # more than the agent takes, and less than with all the pipes
    answer = spot.client.bash("sleep 5; wc -c", stdin=text)
    out = answer["stdout"] if "exit_code" in answer else spot.end(answer["task_id"])["log_tail"]
    assert out.strip() == str(len(text))


def test_it_can_be_cancelled(spot):
    answer = spot.client.bash("trap '' TERM; sleep 4901 & sleep 4901; sleep 4901")
    cut = spot.client.tool("cancel_background_task", task_id=answer["task_id"], grace_s=1)
    assert (cut["result"], cut["running"]) == ("cancelled", False)
    assert spot.client.bash("pgrep -f '[s]leep 4901' || true", timeout_s=30)["stdout"] == ""


def test_the_server_is_killed_before(spot):
    command = f"seq 1 400000; echo e >&2; touch begun; {HELD}; seq 400001 800000; echo f >&2; exit 5"
    spot.client.start_tool("exec_bash", {"command": command})
    assert wait_until(lambda: spot.client.bash("rm begun", timeout_s=30)["exit_code"] == 0, pause=0.1)
    spot.client.kill()
    spot.client = spot.new_client()
    task, = spot.client.tool("check_background_task")["tasks"]
    assert task["command"].startswith("seq 1 400000")
    if not spot.env.get("REMOTE_SANDBOX_LIST"):
        spot.client.tool("select_sandbox", sandbox_name="work")
    spot.let_go()
    ended = spot.end(task["task_id"])
    assert ended["exit_code"] == 5 and ended["stderr_tail"] == "e\nf\n"
    assert spot.same("seq 1 800000", ended["log_file"])


def test_the_server_is_killed_after(spot):
    answer = spot.client.bash(f"{HELD}; echo late; exit 6")
    spot.client.kill()
    spot.client = spot.new_client()
    if not spot.env.get("REMOTE_SANDBOX_LIST"):
        spot.client.tool("select_sandbox", sandbox_name="work")
    spot.let_go()
    ended = spot.end(answer["task_id"])
    assert (ended["exit_code"], ended["log_tail"]) == (6, "late\n")


def test_servers_are_killed_at_any_moment(spot):
    """Many commands, each counted by itself: every one runs once and to its end."""
    clients = [spot.new_client(ANYBOX_DEFAULTS_EXEC_WINDOW="1") for _ in range(4)]
    for n, client in enumerate(clients):
        if not spot.env.get("REMOTE_SANDBOX_LIST"):
            client.tool("select_sandbox", sandbox_name="work")
        client.start_tool("exec_bash", {"command": f"echo {n} >>ran; sleep 2; seq 1 1000; echo {n} >>done"})
    time.sleep(0.4)
    clients[0].kill()  # perhaps before it began
    for n, client in enumerate(clients[1:], 1):
        assert wait_until(lambda n=n: str(n) in spot.client.bash("cat ran", timeout_s=30)["stdout"].split())
        time.sleep(n / 3)
        client.kill()
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        got = spot.client.bash("sort ran | tr -d '\\n'; echo; sort done 2>/dev/null | tr -d '\\n'", timeout_s=30)["stdout"]
        ran, done = (got.split("\n") + [""])[:2]
        if ran == done:
            break
        time.sleep(0.3)
    assert ran == done and len(set(ran)) == len(ran) >= 3
    spot.client.bash("rm -f ran done", timeout_s=30)


def test_a_dead_command_is_not_interrupted_while_the_agent_has_yet_to_tell_its_end(host, world):
    env = {**WINDOW, **ssh_servers.hosts(world.entry(world.server))}
    client = host.server(env=env)
    ssh_servers.wait_for_agent(client)
    answer = client.bash("echo $$; until [ -e go ]; do sleep 0.1; done; exit 7")
    agents = [int(pid) for pid in world.user.processes("boxinit serve")]
    assert agents
    for pid in agents:
        os.kill(pid, signal.SIGSTOP)
    other = host.server(env={**env, "ANYBOX_DEFAULTS_HOST_AGENT": "false"})
    (world.user.home / "go").touch()
    assert wait_until(lambda: not is_running(int(answer["stdout"])))
    assert other.tool("check_background_task", task_id=answer["task_id"])["running"] is True
    for pid in agents:
        os.kill(pid, signal.SIGCONT)
    ended = other.tool("check_background_task", task_id=answer["task_id"], wait_s=30)
    assert (ended["running"], ended["exit_code"]) == (False, 7)
    (world.user.home / "go").unlink()


def test_other_names_hand_over_too(spot):
    for tool in "run_command", "execute_terminal_command":
        answer = spot.client.tool(tool, command=f"{HELD}; rm ~/go; exit 7")
        assert answer["running"] is True
        spot.let_go()
        assert spot.end(answer["task_id"])["exit_code"] == 7
