"""Commands on SSH hosts: what is not alike everywhere (test_behaviours.py)."""
import contextlib
import os
import signal
import time

import pytest

import ssh_servers
from mcp_client import ToolFailed

pytestmark = pytest.mark.only_tiers("root")


def test_a_command_runs_as_the_user_in_its_home(ssh, world):
    answer = ssh.tool("exec_bash", command="id -un; pwd; echo oops >&2; exit 3")
    assert answer["stdout"] == f"{world.user.name}\n{world.user.home}\n"
    assert (answer["stderr"], answer["exit_code"], answer["connection_error"]) == ("oops\n", 3, False)


def test_nothing_that_came_is_slept_over(host, world):
    """A channel that is opened in advance reads the socket as well: what came for the first
    command was looked at five seconds later."""
    def median():
        took = []
        for _ in range(5):
            client = host.server(env=ssh_servers.hosts(world.entry(world.server)))
            began = time.monotonic()
            assert client.bash("echo first")["stdout"] == "first\n"
            took.append(time.monotonic() - began)
        return sorted(took)[2]

    assert any(median() < 4.5 for _ in range(3)), "thrice in a row it took too long"


def test_a_lost_connection_is_told_with_what_came(host, world):
    proxy = world.proxy(world.server.port)
    client = host.server(env=ssh_servers.hosts(world.entry(proxy)))
    client.tool("exec_bash", command="true")
    call = client.start_tool("exec_bash", {"command": "echo once >> count; echo part; sleep 4715"})
    while not world.user.processes("sleep 4715"):
        time.sleep(0.05)
    client.bash("true")  # it comes behind what was printed
    time.sleep(1)
    proxy.drop()
    with pytest.raises(ToolFailed) as failed:
        client.finish_tool(call)
    answer = failed.value.answer
    assert (answer["connection_error"], answer["stdout"]) == (True, "part\n")
    # The connection that comes next may be dropped with it; what did not begin may be tried again.
    assert ssh_servers.until_back(lambda: client.bash("cat count; pkill sleep"))["stdout"] == "once\n"


def test_killed_server_processes_cost_one_reconnect(host, world):
    server = world.sshd()
    client = host.server(env=ssh_servers.hosts(world.entry(server)))
    client.tool("exec_bash", command="true")
    server.signal_all(signal.SIGKILL)
    time.sleep(0.3)
    assert ssh_servers.until_back(lambda: client.bash("echo back"))["stdout"] == "back\n"


@contextlib.contextmanager
def stopped(processes):
    """They do nothing in here."""
    for pid in processes:
        os.kill(int(pid), signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in processes:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGCONT)


def fails_in_time(client, command):
    """The time is over and nobody answers: both are told, soon."""
    began = time.monotonic()
    with pytest.raises(ToolFailed, match="has not answered") as failed:
        client.tool("exec_bash", command=command, timeout_s=1)
    assert time.monotonic() - began < 25
    answer = failed.value.answer
    assert (answer["timed_out"], answer["connection_error"], answer["exit_code"]) == (True, True, -1)
    assert "[TIMEOUT]" in answer["stderr"] and "[CONNECTION ERROR]" in answer["stderr"]
    return answer


@pytest.mark.parametrize("way", ["channels", "agent"])
def test_a_stopped_host_runs_nothing_later(host, world, way):
    server = world.sshd()
    entry = world.entry(server, agent="never" if way == "channels" else "auto")
    client = host.server(env=ssh_servers.hosts(entry))
    client.tool("exec_bash", command="true")
    if way == "agent":
        ssh_servers.wait_for_agent(client)
    with stopped(server.children()):
        # The agent reads the command and the order to end it at the same time.
        fails_in_time(client, "touch late" if way == "channels" else "sleep 2; touch late")
    assert client.tool("exec_bash", command="echo on; sleep 3", timeout_s=60)["stdout"] == "on\n"
    assert not (world.user.home / "late").exists()


@pytest.mark.parametrize("way", ["channels", "agent"])
def test_a_host_that_stops_while_a_command_runs(host, world, way):
    server = world.sshd()
    entry = world.entry(server, agent="never" if way == "channels" else "auto")
    client = host.server(env=ssh_servers.hosts(entry))
    client.tool("exec_bash", command="true")
    if way == "agent":
        ssh_servers.wait_for_agent(client)
    call = client.start_tool("exec_bash", {"command": "echo once >>ran; sleep 4733", "timeout_s": 10})
    while not world.user.processes("sleep 4733"):
        time.sleep(0.05)
    with stopped(server.children()), pytest.raises(ToolFailed) as failed:
        client.finish_tool(call)
    answer = failed.value.answer
    assert (answer["timed_out"], answer["connection_error"], answer["exit_code"]) == (True, True, -1)
    assert answer["duration"] < 40
    assert ssh_servers.wait_gone(world.user, "sleep 4733", 60), "the host keeps the time, too"
    assert ssh_servers.until_back(lambda: client.bash("cat ran; rm ran"), 60)["stdout"] == "once\n"


def test_a_stopped_agent_is_told_in_time(host, world):
    client = host.server(env=ssh_servers.hosts(world.entry(world.sshd())))
    client.tool("exec_bash", command="true")
    ssh_servers.wait_for_agent(client)
    with stopped(world.user.processes("boxinit serve")):
        fails_in_time(client, "echo never")
    assert ssh_servers.until_back(lambda: client.bash("echo on", timeout_s=20), 60)["stdout"] == "on\n"


def test_many_calls_at_once(ssh, world):
    ssh.tool("exec_bash", command="true")
    began = time.monotonic()
    calls = [ssh.start_tool("exec_bash", {"command": f"sleep 1; echo {i}"}) for i in range(64)]
    assert [ssh.finish_tool(c)["stdout"] for c in calls] == [f"{i}\n" for i in range(64)]
    assert time.monotonic() - began < 30
    assert len(world.server.children()) <= 24  # at most 8 connections, up to 3 processes each


def test_max_sessions_1(host, world):
    client = host.server(env=ssh_servers.hosts(world.entry(world.sshd(MaxSessions=1))))
    calls = [client.start_tool("exec_bash", {"command": f"sleep 0.3; echo {i}"}) for i in range(12)]
    assert [client.finish_tool(c)["stdout"] for c in calls] == [f"{i}\n" for i in range(12)]
    assert client.tool("exec_bash", command="sleep 60", timeout_s=1)["timed_out"] is True
    client.tool("write_remote_file", remote_path="one.txt", content="1")


def test_dead_hosts_cost_one_time_out_and_are_remembered(host, world):
    quiet = [world.proxy(world.server.port) for _ in range(3)]
    for proxy in quiet:
        proxy.stalled.set()
    entries = [world.entry(p, f"dead{i}", connect_timeout=5) for i, p in enumerate(quiet)]
    client = host.server(env=ssh_servers.hosts(world.entry(world.server), *entries))
    began = time.monotonic()
    boxes = {b["name"]: b for b in client.tool("list_sandboxes")["sandboxes"]}
    took = time.monotonic() - began
    assert boxes["box"]["connection_alive"] is True
    assert all(not boxes[f"dead{i}"]["connection_alive"] for i in range(3))
    assert took < 14  # of fifteen, one after the other
    before = quiet[1].accepted
    with pytest.raises(ToolFailed, match="handshake"):
        client.tool("exec_bash", command="true", sandbox_name="dead1")
    assert quiet[1].accepted == before
    assert client.tool("exec_bash", command="echo fine")["stdout"] == "fine\n"


def test_a_host_that_is_not_there_ran_nothing_and_one_that_was_lost_may_have(host, world):
    proxy = world.proxy(world.server.port)
    client = host.server(env=ssh_servers.hosts({**world.entry(proxy), "port": ssh_servers.free_port()}))
    with pytest.raises(ToolFailed, match="the command did not run") as failed:
        client.tool("exec_bash", command="true")
    assert failed.value.answer["code"] == "unreachable"
    client = host.server(env=ssh_servers.hosts(world.entry(proxy)))
    client.tool("exec_bash", command="true")
    call = client.start_tool("exec_bash", {"command": "sleep 4716"})
    while not world.user.processes("sleep 4716"):
        time.sleep(0.05)
    proxy.drop()
    with pytest.raises(ToolFailed, match="may have run in part"):
        client.finish_tool(call)
    ssh_servers.until_back(lambda: client.bash("pkill -f 'sleep 471[6]'"))
