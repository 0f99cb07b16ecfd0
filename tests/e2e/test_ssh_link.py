"""SSH hosts behind a slow link, and behind one that goes silent: no packet comes any more, and
nobody says so."""
import pathlib
import sys
import time

import pytest
import ssh_servers
from mcp_client import ToolFailed

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import link  # noqa: E402

pytestmark = [pytest.mark.only_tiers("root"),
              pytest.mark.skipif(link.why_not() is not None, reason=str(link.why_not()))]


@pytest.fixture
def line():
    with link.Link(25) as made:
        yield made


@pytest.fixture
def far(line, world):
    """A server at the far end."""
    return world.sshd(address=line.address, wrap=line.far)


def near(host, line, *entries):
    """A client of a server at the near end."""
    return host.server(program=line.near([host.install.anybox])[0],
                       *line.near([host.install.anybox])[1:], env=ssh_servers.hosts(*entries))


def test_commands_and_files_over_a_round_trip_of_50_ms(host, world, line, far):
    client = near(host, line, world.entry(far))
    assert client.bash("true")["exit_code"] == 0
    assert client.bash("echo $SSH_CONNECTION")["stdout"].split()[2] == line.address
    client.tool("write_remote_file", remote_path="far.txt", content="x" * 900_000)
    assert client.tool("read_remote_file", remote_path="far.txt", max_bytes=300_000)["size"] == 300_000
    calls = [client.start_tool("exec_bash", {"command": f"sleep 0.2; echo {i}"}) for i in range(20)]
    assert [client.finish_tool(c)["stdout"] for c in calls] == [f"{i}\n" for i in range(20)]


ROUND_TRIP_S = 0.6


def trips(act):
    """Round trips that a call takes: whole ones, for what else it costs is far less than one."""
    times = []
    for n in range(3):
        began = time.monotonic()
        act(n)
        times.append(time.monotonic() - began)
    return int(min(times) / ROUND_TRIP_S)


@pytest.mark.parametrize("agent", ["never", "auto"])
def test_a_task_starts_in_two_round_trips_at_most_and_is_checked_in_one(host, world, agent):
    with link.Link(int(ROUND_TRIP_S * 500)) as line:
        far = world.sshd(address=line.address, wrap=line.far)
        client = near(host, line, world.entry(far, agent=agent, connect_timeout=60))
        client.bash("true", timeout_s=60)
        if agent == "auto":
            ssh_servers.wait_for_agent(client, seconds=120)
        ran = trips(lambda n: client.bash("true", timeout_s=60))
        assert ran == 1, "an exec is the measure"
        started = trips(lambda n: client.tool("exec_bash_background", command="sleep 300", session_name=f"t{n}", watch=False))
        assert 1 <= started <= ran + 1
        for task in {"tmux_session": "t0"}, {"task_id": client.tool("check_background_task", tmux_session="t1")["task_id"]}:
            assert trips(lambda n: client.tool("check_background_task", **task)) == 1  # noqa: B023
        client.close()
    world.user.kill_all()


def test_a_host_that_nobody_can_reach_costs_one_time_out(host, world, line, far):
    line.cut()
    dead = [world.entry(far, f"dead{i}", connect_timeout=5) for i in range(8)]
    client = near(host, line, *dead)
    began = time.monotonic()
    boxes = client.tool("list_sandboxes", check_resources=True)["sandboxes"]
    assert 4.5 < time.monotonic() - began < 30
    assert [b["connection_alive"] for b in boxes] == 8 * [False]
    assert all("no answer" in b["connection_error"] for b in boxes), boxes
    began = time.monotonic()
    said = client.tool_error("exec_bash", command="true")
    assert time.monotonic() - began < 4 and said["code"] == "unreachable"


def go_silent(client, world, line, command, **more):
    """A call under way whose first output has come when the link goes silent."""
    call = client.start_tool("exec_bash", {"command": f"echo once >> silent; echo part; {command}", **more})
    while not world.user.processes(command):
        time.sleep(0.05)
    client.bash("true", timeout_s=30)  # it comes behind that line
    time.sleep(1)
    line.cut()
    return call


def test_a_time_out_holds_on_a_link_that_went_silent(host, world, line, far):
    client = near(host, line, world.entry(far))
    client.bash("true")
    call = go_silent(client, world, line, "sleep 4720", timeout_s=10)
    began = time.monotonic()
    with pytest.raises(ToolFailed) as failed:
        client.finish_tool(call)
    answer = failed.value.answer
    assert time.monotonic() - began < 60
    assert (answer["timed_out"], answer["connection_error"], answer["exit_code"], answer["stdout"]) == \
        (True, True, -1, "part\n")
    assert ssh_servers.wait_gone(world.user, "sleep 4720"), "the host keeps the time, too"
    line.mend()
    again = ssh_servers.until_back(lambda: client.bash("cat silent; rm silent"), 60)
    assert again["stdout"] == "once\n"


@pytest.mark.long
def test_a_link_that_goes_silent_is_noticed_and_told_with_what_came(host, world, line, far):
    client = near(host, line, world.entry(far))
    client.bash("true")
    call = go_silent(client, world, line, "sleep 4721", timeout_s=110)
    began = time.monotonic()
    with pytest.raises(ToolFailed) as failed:
        client.finish_tool(call, 100)
    assert time.monotonic() - began < 90
    assert (failed.value.answer["connection_error"], failed.value.answer["stdout"]) == (True, "part\n")
    line.mend()
    again = ssh_servers.until_back(lambda: client.bash("cat silent; rm silent; pkill -f 'sleep 472[1]'"), 60)
    assert again["stdout"] == "once\n"
