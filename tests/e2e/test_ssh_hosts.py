"""SSH hosts as the configuration names them: which is meant, how busy they are, what is wrong."""
import json
import os
import re
import socket
import stat
import subprocess
import time

import pytest
import ssh_servers
from mcp_client import ToolFailed

POOL = 0
ANY_USER = True
SECRET = "Geheimnis-4711-xyz"


@pytest.fixture
def server(host, world):
    """The world's server; server.entry(name) is how REMOTE_SANDBOX_LIST has it, with a key and
    known_hosts that whoever runs anybox can read."""
    key = ssh_servers.keygen(host.folder / "key", owner=host.tier.uid)
    world.server.let_in(key)

    def entry(name, **more):
        return world.entry(world.server, name, **{
            "key_file": str(key), "known_hosts": str(host.user_home / "known_hosts"), **more})

    world.server.entry, world.server.user = entry, world.user.name
    return world.server


@pytest.fixture
def silent():
    """A port that takes connections and never says a word."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen(64)
        yield s.getsockname()[1]


def start(host, *entries, **env):
    return host.server(env={"REMOTE_SANDBOX_LIST": json.dumps(entries), **env})


def listed(client, **args):
    answer = client.tool("list_sandboxes", **args)
    return answer, {b["name"]: b for b in answer["sandboxes"]}


def test_hosts_are_listed_with_what_they_do(host, server):
    client = start(host, server.entry("one"), {**server.entry("dead"), "port": 1}, server.entry("two"))
    answer, boxes = listed(client, check_resources=True)
    assert list(boxes) == ["one", "dead", "two"] and answer["active_sandbox"] == "one"
    one, dead = boxes["one"], boxes["dead"]
    assert one["sandbox_id"] == "ssh:one" and one["provider"] == "ssh" and one["is_active"] is True
    assert (one["host"], one["port"], one["user"]) == ("127.0.0.1", server.port, server.user)
    assert one["connection_alive"] is True and "connection_error" not in one
    seen = one["resources"]
    assert seen["cpu"]["count"] == os.sysconf("SC_NPROCESSORS_ONLN")
    assert 0 <= seen["cpu"]["load_1m"] and seen["memory"]["total_mb"] > 0
    assert seen["memory"]["used_mb"] + seen["memory"]["free_mb"] <= seen["memory"]["total_mb"] + 1
    assert seen["disk"]["total_mb"] > 0 and isinstance(seen["gpu"], list)
    assert 0 <= seen["idle_score"] <= 1
    assert dead["connection_alive"] is False and "refused" in dead["connection_error"]
    assert (dead["host"], dead["port"], dead["user"]) == ("127.0.0.1", 1, server.user)
    assert dead["resources"]["idle_score"] is None and "refused" in dead["resources"]["error"]


def test_the_first_host_is_meant_until_another_is_selected(host, server):
    client = start(host, server.entry("one"), server.entry("two"))
    assert str(server.port) in client.bash("echo $SSH_CONNECTION")["stdout"]
    assert client.tool("get_active_sandbox")["active_sandbox"] == "one"
    chosen = client.tool("select_sandbox", sandbox_name="two")
    assert chosen["active_sandbox"] == "two" and chosen["status"] == "selected"
    assert client.tool("get_active_sandbox")["sandbox_id"] == "ssh:two"
    assert client.tool("exec_bash", command="echo $((6*7))", sandbox_id="ssh:one")["stdout"] == "42\n"
    with pytest.raises(ToolFailed) as e:
        client.tool("select_sandbox", sandbox_name="tw")
    assert e.value.answer["available"] == ["one", "two"]
    client.close()
    again = start(host, server.entry("one"), server.entry("two"))
    assert again.tool("get_active_sandbox")["active_sandbox"] == "two"


def test_the_idlest_only_when_asked(host, server):
    client = start(host, {**server.entry("dead"), "port": 1}, server.entry("one"))
    assert client.tool("get_active_sandbox")["connection_alive"] is False
    chosen = client.tool("select_sandbox", sandbox_name="auto")
    assert chosen["active_sandbox"] == "one" and 0 <= chosen["idle_score"] <= 1
    assert client.bash("echo here")["stdout"] == "here\n"


def test_eight_dead_hosts_take_the_time_of_one(host, server, silent):
    dead = [{"name": f"d{i}", "host": "127.0.0.1", "port": silent, "user": "x", "connect_timeout": 2}
            for i in range(8)]
    client = start(host, *dead, server.entry("one"))
    began = time.monotonic()
    _, boxes = listed(client, check_resources=True)
    assert time.monotonic() - began < 14  # of sixteen, one after the other
    assert [b["connection_alive"] for b in boxes.values()] == 8 * [False] + [True]
    assert boxes["one"]["resources"]["idle_score"] is not None


def test_what_is_wrong_does_not_hide_what_is_right(host, server):
    client = start(host, {"host": "a b"}, server.entry("one"), server.entry("one", port=5), 7)
    answer, boxes = listed(client)
    assert list(boxes) == ["one"] and boxes["one"]["connection_alive"] is True
    assert "REMOTE_SANDBOX_LIST entry 1: host:" in answer["error"] and "2 more" in answer["error"]
    assert answer["hint"] and answer["diagnostics"]["REMOTE_SANDBOX_LIST_set"] is True
    assert client.bash("echo works")["stdout"] == "works\n"


@pytest.mark.parametrize("env, why", [
    ({"REMOTE_SANDBOX_LIST": '[{"host": "a", "password": "' + SECRET + '" x}]'}, "line 1, column"),
    ({"REMOTE_SANDBOX_LIST": '{"host": "a"}'}, "JSON list"),
    ({"REMOTE_HOST": "gpu", "REMOTE_PORT": "0"}, "REMOTE_PORT"),
    ({"REMOTE_HOST": "$(touch /tmp/x)", "REMOTE_PASSWORD": SECRET}, "REMOTE_HOST"),
])
def test_nothing_runs_here_in_place_of_a_host(host, env, why):
    client = host.server(env=env)
    answer, boxes = listed(client)
    assert boxes == {} and why in answer["error"] and SECRET not in json.dumps(answer)
    with pytest.raises(ToolFailed) as e:
        client.bash("true")
    assert why in e.value.text and SECRET not in e.value.text


def test_boxes_are_made_beside_hosts(host, server):
    client = start(host, server.entry("one"))
    with pytest.raises(ToolFailed, match="name of a host"):
        client.tool("create_sandbox", name="one")
    with pytest.raises(ToolFailed, match="host of the configuration"):
        client.tool("delete_sandbox", sandbox_name="one")
    with pytest.raises(ToolFailed, match="only has those that its configuration names"):
        client.tool("create_sandbox", provider="ssh")
    made = client.tool("create_sandbox", name="mine", provider="local")
    assert client.tool("get_active_sandbox")["sandbox_id"] == made["sandbox_id"]
    assert list(listed(client)[1]) == ["one", "mine"]
    client.tool("delete_sandbox", sandbox_name="mine")
    assert client.tool("get_active_sandbox")["active_sandbox"] == "one"


@pytest.mark.skipif(not os.path.exists("/usr/bin/ssh"), reason="there is no ssh")
def test_a_host_of_the_ssh_configuration_by_its_name(host, server):
    one = server.entry("one")
    path = ssh_servers.use_ssh_config(
        host, f"Host my*\n  HostName 127.0.0.1\n  Port {server.port}\n  User {server.user}\n"
              f"  IdentityFile {one['key_file']}\n  UserKnownHostsFile {one['known_hosts']}\n")
    config = host.folder / "anybox.toml"
    config.write_text('[[ssh]]\nname = "mygpu"\n')
    client = host.server("--config", str(config), env=path)
    assert str(server.port) in client.bash("echo $SSH_CONNECTION")["stdout"]
    assert listed(client)[1]["mygpu"]["port"] == server.port


@pytest.mark.parametrize("how", ["value", "file", "command", "env"])
def test_a_secret_is_found_nowhere(host, server, how):
    key = ssh_servers.keygen(host.folder / "locked", passphrase=SECRET, owner=host.tier.uid)
    server.let_in(key)
    secret_file = host.folder / "secret"
    secret_file.write_text(SECRET + "\n")
    secret_file.chmod(0o600)
    os.chown(secret_file, host.tier.uid, -1)
    given = {"value": f'key_passphrase = "{SECRET}"', "env": 'key_passphrase_env = "MY_SECRET"',
             "file": f'key_passphrase_file = "{secret_file}"',
             "command": f'key_passphrase_command = "cat {secret_file}"'}[how]
    config = host.folder / "anybox.toml"
    config.write_text(f'[[ssh]]\nname = "one"\nhost = "127.0.0.1"\nport = {server.port}\n'
                      f'user = "{server.user}"\nkey_file = "{key}"\nssh_agent = false\n'
                      f'known_hosts = "{host.user_home}/known_hosts"\n{given}\n')
    config.chmod(0o600)
    os.chown(config, host.tier.uid, -1)
    env = {"ANYBOX_LOG": "debug", **({"MY_SECRET": SECRET} if how == "env" else {})}
    client = host.server("--config", str(config), env=env)
    assert "HOME=" in client.bash("env; ps -e -o args")["stdout"]
    listed(client, check_resources=True)
    children = subprocess.run(["ps", "--ppid", str(client.process.pid), "-o", "args="],
                              capture_output=True, text=True, check=False).stdout
    texts = [children, host.stderr()]
    for command in ("doctor", "config", "list"):
        done = host.run(command, "--config", str(config), env=env)
        texts += [done.stdout, done.stderr]
    texts += [line.decode() for line in client.lines]
    texts += [p.read_text(errors="replace") for p in host.home.rglob("*") if p.is_file()]
    assert not [t for t in texts if SECRET in t]


def test_a_file_with_a_secret_that_others_can_read_is_refused(host, server):
    config = host.folder / "anybox.toml"
    config.write_text(f'[[ssh]]\nname = "one"\nhost = "h"\npassword = "{SECRET}"\n'
                      '[[ssh]]\nname = "two"\nhost = "127.0.0.1"\nport = 1\nuser = "me"\n')
    config.chmod(0o644)
    client = host.server("--config", str(config))
    answer, boxes = listed(client)
    assert list(boxes) == ["two"]
    assert f"{config}:4:1: password is a secret" in answer["error"] and SECRET not in answer["error"]
    assert stat.S_IMODE(config.stat().st_mode) == 0o644


def test_doctor_says_which_hosts_let_us_in(host, server, silent):
    entries = [server.entry("one"), server.entry("dead", port=silent, connect_timeout=2),
               server.entry("other", port=1)]
    began = time.monotonic()
    done = host.run("doctor", "--json", env={"REMOTE_SANDBOX_LIST": json.dumps(entries)})
    assert time.monotonic() - began < 30
    lines = {x["what"]: x for x in json.loads(done.stdout) if x["section"] == "provider ssh"}
    assert lines["one"]["state"] == "ok" and "lets us in" in lines["one"]["found"]
    assert lines["dead"]["state"] == "warn" and lines["other"]["state"] == "warn"
    assert "refused" in lines["other"]["found"]


def test_the_command_line_lists_hosts_once(host, server):
    client = start(host, server.entry("one"))
    client.tool("create_sandbox", name="mine", provider="local")
    for args in (), ("--all",):
        done = host.run("ls", *args, env={"REMOTE_SANDBOX_LIST": json.dumps([server.entry("one")])})
        assert len([x for x in done.stdout.splitlines() if "one" in x.split()]) == 1, done.stdout
        assert done.stdout.count("mine") == 1
        line = next(x.split() for x in done.stdout.splitlines() if "one" in x.split())
        assert "ssh:one" in line and "-" in line
    client.tool("delete_sandbox", sandbox_name="mine")


def test_output_that_is_too_long_can_be_read_as_from_any_sandbox(host, server):
    client = start(host, server.entry("one"))
    cut = client.tool("exec_bash", command="seq 1 20000", max_output_chars=500)["stdout"]
    kept = re.search(r"output:[0-9a-f]{12}", cut).group()
    whole = client.tool("read_remote_file", remote_path=kept, max_bytes=200000)
    assert "\n12345\n" in whole["content"]
