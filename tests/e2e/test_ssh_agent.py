"""The agent on an SSH host: how it gets there, what is not trusted, and what happens without it.
That commands and files are alike both ways is in test_behaviours.py."""
import contextlib
import json
import os
import shutil
import signal
import stat
import subprocess
import time

import pytest

import ssh_servers
from host import wait_until
from mcp_client import ToolFailed
from ssh_servers import via, wait_for_agent

pytestmark = pytest.mark.only_tiers("root")


def start(host, world, where=None, **settings):
    return host.server(env=ssh_servers.hosts(world.entry(where or world.server, **settings)))


@pytest.fixture
def fresh(world):
    """A server for which no agent was put anywhere yet."""
    cache = world.folder / f"cache{world.n}"
    cache.mkdir()
    world.user.own(cache)
    server = world.sshd(SetEnv=f"XDG_CACHE_HOME={cache}")
    server.cache = cache / "anybox"
    yield server
    world.user.kill_all()


def agents(folder):
    return sorted(folder.glob("agent-*"))


def kill(world, pattern):
    for pid in world.user.processes(pattern):
        os.kill(int(pid), signal.SIGKILL)


def away(server, world):
    """Nobody listens any more, then connections end."""
    server.process.kill()
    server.process.wait(30)
    kill(world, "^sshd: ")


def isolation(client):
    return next(b["isolation"] for b in client.tool("list_sandboxes")["sandboxes"] if "via" in b)


def settled(client, seconds=60):
    """Waits until the agent was tried and is not there; what the list says about it."""
    until = time.monotonic() + seconds
    while "no agent" not in isolation(client):
        assert time.monotonic() < until, isolation(client)
        client.bash("true")
        time.sleep(0.05)
    assert via(client) == "channels"
    return isolation(client)


# ---- putting it there ------------------------------------------------------------------------

def version(host, n):
    """An anybox whose agent is another program than that of other versions."""
    folder = host.folder / f"version{n}"
    folder.mkdir()
    program = shutil.copy(host.install.anybox, folder / "anybox")
    shutil.copy(host.install.boxinit, folder / "boxinit")
    with open(folder / "boxinit", "ab") as f:
        f.write(b"x" * n)
    return program


def serving(world, agent):
    """The processes of the daemon that this program is."""
    found = []
    for pid in world.user.processes("boxinit serve"):
        with contextlib.suppress(FileNotFoundError):
            if os.readlink(f"/proc/{pid}/exe") == agent:
                found.append(int(pid))
    return found


def test_an_upgrade_has_its_own_agent_at_once_and_what_nobody_uses_goes(host, world, fresh):
    env = ssh_servers.hosts(world.entry(fresh))

    def start_version(n):
        client = host.server(env=env, program=version(host, n))
        wait_for_agent(client)
        return client, lambda: client.bash("readlink /proc/$PPID/exe", timeout_s=60)["stdout"].strip()

    old, old_agent = start_version(1)
    new, new_agent = start_version(2)
    first, second = old_agent(), new_agent()
    assert {first, second} == set(map(str, agents(fresh.cache))) and first != second

    old.close()
    for pid in serving(world, first):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not serving(world, first))
    for place in fresh.cache.glob("at-*"):
        os.utime(place, (0, 0))  # long ago
    _, third_agent = start_version(3)
    third = third_agent()
    assert wait_until(lambda: set(map(str, agents(fresh.cache))) == {second, third})
    assert wait_until(lambda: len(list(fresh.cache.glob("at-*"))) == 2)
    assert new_agent() == second


def test_it_is_put_there_once_and_for_the_user_alone(host, world, fresh):
    first = start(host, world, fresh)
    assert via(first) == "channels"
    wait_for_agent(first)
    (agent,) = agents(fresh.cache)
    made = agent.stat()
    assert stat.S_IMODE(made.st_mode) == 0o700 and stat.S_IMODE(fresh.cache.stat().st_mode) == 0o700
    assert made.st_uid == world.user.uid and not list(fresh.cache.glob(".agent*"))
    second = start(host, world, fresh)
    wait_for_agent(second)
    assert agents(fresh.cache) == [agent]
    assert (agent.stat().st_ino, agent.stat().st_ctime_ns) == (made.st_ino, made.st_ctime_ns)


@pytest.mark.parametrize("wrong", [b"#!/bin/sh\ntouch ~/evil\n", b"", None], ids=["script", "empty", "bit"])
def test_a_file_that_is_not_what_its_name_says_does_not_run(host, world, fresh, wrong):
    wait_for_agent(start(host, world, fresh))
    (agent,) = agents(fresh.cache)
    right = agent.read_bytes()
    agent.unlink()
    agent.write_bytes(right[:-1] + bytes([right[-1] ^ 1]) if wrong is None else wrong)
    agent.chmod(0o700)
    world.user.own(agent)
    wait_for_agent(start(host, world, fresh))
    assert agents(fresh.cache) == [agent] and agent.read_bytes() == right
    assert not (world.user.home / "evil").exists()


def test_a_link_in_its_place_does_not_run(host, world, fresh):
    wait_for_agent(start(host, world, fresh))
    (agent,) = agents(fresh.cache)
    elsewhere = fresh.cache / "elsewhere"
    agent.rename(elsewhere)
    agent.symlink_to(elsewhere)
    wait_for_agent(start(host, world, fresh))
    assert not agent.is_symlink()


def test_never_puts_nothing_on_the_host(host, world, fresh):
    client = start(host, world, fresh, agent="never")
    for _ in range(3):
        assert client.bash("echo hi")["stdout"] == "hi\n"
    assert 'agent = "never"' in settled(client)
    assert not fresh.cache.exists() and not world.user.processes("boxinit")


def test_the_setting_for_all_hosts(host, world, fresh):
    config = host.folder / "never.toml"
    config.write_text("[defaults]\nhost_agent = false\n")
    env = ssh_servers.hosts(world.entry(fresh), world.entry(fresh, "other", agent="auto"))
    client = host.server("--config", str(config), env=env)
    wait_for_agent(client, "other")
    assert via(client, "box") == "channels"


# ---- hosts that have none --------------------------------------------------------------------

@pytest.fixture
def mounted(fresh, world):
    def mount(options):
        fresh.cache.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"{options},uid={world.user.uid},mode=700", "none",
                        str(fresh.cache)], check=True)
    yield mount
    world.user.kill_all()
    subprocess.run(["umount", "-l", str(fresh.cache)], check=False, stderr=subprocess.DEVNULL)


def works(client):
    client.tool("write_remote_file", remote_path="plain.txt", content="x")
    assert client.bash("cat plain.txt; rm plain.txt")["stdout"] == "x"


def test_a_folder_that_runs_no_programs(host, world, fresh, mounted):
    mounted("noexec")
    client = start(host, world, fresh)
    assert "noexec" in settled(client)
    works(client)


def test_a_full_disk(host, world, fresh, mounted):
    mounted("size=64k")
    client = start(host, world, fresh)
    assert "space" in settled(client)
    works(client)
    assert wait_until(lambda: not agents(fresh.cache) and not list(fresh.cache.glob(".agent*")))


def test_a_start_that_was_killed_is_told_and_tried_again_soon(host, world, fresh):
    folder = world.folder / f"killed{world.n}"
    folder.mkdir()
    (folder / "on").touch()
    (folder / "login").write_text(
        f'#!/bin/sh\n[ -e {folder}/on ] && case $SSH_ORIGINAL_COMMAND in *" relay --socket "*) kill -KILL $$;; esac\n'
        'exec /bin/bash -c "$SSH_ORIGINAL_COMMAND"\n')
    (folder / "login").chmod(0o755)
    server = world.sshd(SetEnv=f"XDG_CACHE_HOME={fresh.cache}", ForceCommand=f"exec {folder}/login")
    client = start(host, world, server)
    assert "signal KILL" in settled(client)
    works(client)
    (folder / "on").unlink()
    wait_for_agent(client)


def test_another_processor(host, world, fresh):
    tools = world.folder / f"uname{world.n}"
    tools.mkdir()
    (tools / "uname").write_text("#!/bin/sh\necho Linux riscv64\n")
    (tools / "uname").chmod(0o755)
    server = world.sshd(SetEnv=f"XDG_CACHE_HOME={fresh.cache} PATH={tools}:/usr/bin:/bin")
    client = start(host, world, server)
    assert "riscv64" in settled(client)
    works(client)
    assert not agents(fresh.cache)


def test_a_host_without_sftp(host, world, fresh):
    server = world.sshd(SetEnv=f"XDG_CACHE_HOME={fresh.cache}", Subsystem="sftp /bin/false")
    client = start(host, world, server)
    wait_for_agent(client)
    works(client)


def test_doctor_tells_which_way_and_why(host, world, fresh, mounted):
    def found(**settings):
        got = host.run("doctor", "--json", env=ssh_servers.hosts(world.entry(fresh, **settings)))
        return next(c["found"] for c in json.loads(got.stdout) if c["what"] == "box")

    assert found().endswith("ssh host, agent")
    assert 'agent = "never"' in found(agent="never")
    world.user.kill_all()
    shutil.rmtree(fresh.cache)
    mounted("noexec")
    assert "noexec" in found()


# ---- when it is killed -----------------------------------------------------------------------

def running(client, world, name):
    """A command that writes a line when it begins and ends when it may."""
    call = client.start_tool("exec_bash", {
        "command": f"echo part; echo begun >> {name}; while [ ! -e {name}.go ]; do sleep 0.05; done; echo rest"})
    assert wait_until(lambda: (world.user.home / name).exists())
    client.bash("true")  # it comes behind what was printed
    return call


def finished(client, world, call, name):
    """What it answers once it may end, and that it was begun once."""
    (world.user.home / f"{name}.go").touch()
    try:
        return client.finish_tool(call)
    finally:
        assert (world.user.home / name).read_text() == "begun\n"


def test_a_command_outlives_the_relay(host, world):
    client = start(host, world)
    wait_for_agent(client)
    call = running(client, world, "relay")
    kill(world, "agent-.* relay")
    answer = finished(client, world, call, "relay")
    assert (answer["stdout"], answer["exit_code"], answer["connection_error"]) == ("part\nrest\n", 0, False)
    wait_for_agent(client)


def test_a_command_outlives_its_connection(host, world):
    server = world.sshd()
    client = start(host, world, server)
    wait_for_agent(client)
    call = running(client, world, "connection")
    away(server, world)
    server.start()
    answer = finished(client, world, call, "connection")
    assert (answer["stdout"], answer["exit_code"], answer["connection_error"]) == ("part\nrest\n", 0, False)


def test_a_command_ends_with_the_agent_and_is_told_so(host, world):
    client = start(host, world)
    wait_for_agent(client)
    call = running(client, world, "serve")
    kill(world, "boxinit serve")
    with pytest.raises(ToolFailed) as failed:
        finished(client, world, call, "serve")
    answer = failed.value.answer
    assert (answer["connection_error"], answer["stdout"]) == (True, "part\n")
    assert client.bash("echo next")["stdout"] == "next\n"
    wait_for_agent(client)


def test_a_host_that_goes_away_takes_nobody_for_long(host, world):
    server = world.sshd()
    client = start(host, world, server)
    wait_for_agent(client)
    call = running(client, world, "away")
    away(server, world)
    began = time.monotonic()
    with pytest.raises(ToolFailed) as failed:
        finished(client, world, call, "away")
    assert failed.value.answer["connection_error"] is True and failed.value.answer["stdout"] == "part\n"
    assert time.monotonic() - began < 60


# ---- one channel for everything --------------------------------------------------------------

def test_max_sessions_1_is_enough(host, world):
    server = world.sshd(MaxSessions=1)
    proxy = world.proxy(server.port)
    client = start(host, world, proxy)
    wait_for_agent(client)
    before = proxy.accepted
    began = time.monotonic()
    calls = [client.start_tool("exec_bash", {"command": f"sleep 1; echo {i}"}) for i in range(64)]
    assert [client.finish_tool(c)["stdout"] for c in calls] == [f"{i}\n" for i in range(64)]
    assert time.monotonic() - began < 60 and proxy.accepted == before  # of 64, one after the other


def test_a_flood_stalls_nobody(host, world):
    client = start(host, world)
    wait_for_agent(client)
    flood = client.start_tool("exec_bash", {"command": "head -c 300000000 /dev/zero; echo end >&2"})
    for _ in range(10):
        began = time.monotonic()
        assert client.bash("echo hi")["stdout"] == "hi\n"
        assert time.monotonic() - began < 20
    assert client.finish_tool(flood)["stderr"] == "end\n"


def test_the_environment_is_the_same_both_ways(host, world):
    world.user.write(".bashrc", "export FROM_BASHRC=yes; PATH=$PATH:/opt/mine\n")
    try:
        seen = "env | grep -v -e ^SSH_ -e ^SHLVL= -e ^_= | sort; pwd; umask; ulimit -n"
        plain = start(host, world, agent="never").bash(seen)["stdout"]
        client = start(host, world)
        wait_for_agent(client)
        kill(world, "boxinit serve")  # it had another environment
        wait_until(lambda: not world.user.processes("boxinit serve"))
        wait_for_agent(client)
        assert client.bash(seen)["stdout"] == plain and "FROM_BASHRC=yes" in plain
    finally:
        (world.user.home / ".bashrc").unlink()


def test_one_command_leaves_the_host_as_it_is(host, world, fresh):
    for _ in range(3):
        done = host.run("exec", "box", "--", "echo", "hi", env=ssh_servers.hosts(world.entry(fresh)))
        assert done.stdout == "hi\n"
    assert not fresh.cache.exists()
