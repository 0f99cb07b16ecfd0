"""Who we are to a host, whether it is the right one, and the ways to it."""
import os
import pathlib
import re
import subprocess

import pytest

import ssh_servers
from mcp_client import ToolFailed

pytestmark = pytest.mark.only_tiers("root")


def log_in(host, entry, *others, **env):
    client = host.server(env={**ssh_servers.hosts(entry, *others), **env})
    return client.tool("exec_bash", command="id -un")["stdout"].strip()


def refusal(host, entry, *others, **env):
    with pytest.raises(ToolFailed) as failed:
        log_in(host, entry, *others, **env)
    return failed.value.answer["error"]


@pytest.mark.parametrize("kind,passphrase", [("ed25519", "a b'c"), ("rsa", ""), ("ecdsa", "x y")])
def test_keys(host, world, kind, passphrase):
    key = ssh_servers.keygen(world.folder / f"key-{kind}", kind, passphrase)
    entry = world.entry(world.sshd([key]), key_file=str(key), key_passphrase=passphrase)
    assert log_in(host, entry) == world.user.name
    if passphrase:
        assert "passphrase" in refusal(host, {**entry, "key_passphrase": ""})
        assert "does not fit" in refusal(host, {**entry, "key_passphrase": "wrong"})


def test_password(host, world):
    assert log_in(host, world.entry(world.server, password=world.user.password)) == world.user.name
    said = refusal(host, world.entry(world.server, password="sesame-1234"))
    assert "refused the password" in said and "sesame-1234" not in said


def test_the_password_follows_a_key_only_when_allowed(host, world):
    other = ssh_servers.keygen(world.folder / "stranger")
    entry = world.entry(world.server, key_file=str(other), password=world.user.password)
    assert "refused the key" in refusal(host, entry)
    assert log_in(host, {**entry, "fallback": True}) == world.user.name


def test_bad_keys(host, world):
    assert "no-such-key" in refusal(host, world.entry(world.server, key_file="/nonexistent/no-such-key"))
    junk = world.folder / "junk"
    junk.write_text("hello\n")
    assert "not a private key" in refusal(host, world.entry(world.server, key_file=str(junk)))
    junk.write_text("-----BEGIN DSA PRIVATE KEY-----\nAAAA\n-----END DSA PRIVATE KEY-----\n")
    said = refusal(host, world.entry(world.server, key_file=str(junk)))
    assert "DSS" in said and "ssh-keygen -t ed25519" in said


def test_agent(host, world):
    text = subprocess.run(["ssh-agent", "-s"], capture_output=True, text=True, check=True).stdout
    sock = re.search("SSH_AUTH_SOCK=([^;]+)", text)[1]
    pid = int(re.search("SSH_AGENT_PID=([0-9]+)", text)[1])
    try:
        subprocess.run(["ssh-add", "-q", str(world.key)], env={"SSH_AUTH_SOCK": sock}, check=True)
        toml = host.folder / "a.toml"
        toml.write_text(f'[[ssh]]\nname = "box"\nhost = "127.0.0.1"\nport = {world.server.port}\n'
                        f'user = "{world.user.name}"\n')
        client = host.server("--config", str(toml), env={"SSH_AUTH_SOCK": sock})
        assert client.tool("exec_bash", command="id -un", sandbox_name="box")["stdout"].strip() == \
            world.user.name
    finally:
        os.kill(pid, 15)


# ---- known_hosts ------------------------------------------------------------------------

def test_a_new_host_is_remembered_and_a_changed_one_refused(host, world):
    known = host.user_home / ".ssh/known_hosts"
    assert log_in(host, world.entry(world.server)) == world.user.name
    line = known.read_text().strip()
    assert f"[127.0.0.1]:{world.server.port}" in line
    other = pathlib.Path(f"{ssh_servers.keygen(host.folder / 'other')}.pub").read_text().split()
    known.write_text(f"# mine\n[127.0.0.1]:{world.server.port} {other[0]} {other[1]}\n")
    said = refusal(host, world.entry(world.server))
    assert "CHANGED" in said and said.count("SHA256:") == 2
    assert "line 2 of" in said and "ssh-keygen -f" in said


def test_trust_known_refuses_a_new_host(host, world):
    toml = host.folder / "a.toml"
    toml.write_text(f'[[ssh]]\nname = "box"\nhost = "127.0.0.1"\nport = {world.server.port}\n'
                    f'user = "{world.user.name}"\nkey_file = "{world.key}"\ntrust = "known"\n')
    client = host.server("--config", str(toml))
    with pytest.raises(ToolFailed) as failed:
        client.tool("exec_bash", command="true", sandbox_name="box")
    assert "not in known_hosts" in failed.value.answer["error"] and "SHA256:" in failed.value.answer["error"]


# ---- the way -----------------------------------------------------------------------------

def test_jump_and_proxy_command(host, world):
    jump = world.sshd(AllowTcpForwarding="yes", PermitOpen=f"127.0.0.1:{world.server.port}")
    via = f"{world.user.name}@127.0.0.1:{jump.port}"
    assert log_in(host, world.entry(world.server, proxy_jump=via)) == world.user.name
    assert log_in(host, world.entry(world.server, proxy_jump="first"),
                  world.entry(jump, "first")) == world.user.name
    relay = world.folder / "relay.py"
    relay.write_text("import socket,sys,threading,os\ns=socket.create_connection((sys.argv[1],int(sys.argv[2])))\n"
                     "def f():\n    while True:\n        d=s.recv(65536)\n        if not d: os._exit(0)\n"
                     "        os.write(1,d)\n"
                     "threading.Thread(target=f,daemon=True).start()\n"
                     "while True:\n    d=os.read(0,65536)\n    if not d: break\n    s.sendall(d)\n")
    assert log_in(host, world.entry(world.server, proxy_command=f"/usr/bin/python3 {relay} %h %p")) == \
        world.user.name
    assert "cannot reach" in refusal(host, world.entry(ssh_servers.free_port(), proxy_jump=via))


def test_secrets_are_nowhere(host, world):
    secret = world.user.password
    client = host.server(env=ssh_servers.hosts(world.entry(world.server, password=secret)))
    client.tool("exec_bash", command="true")
    env = client.tool("exec_bash", command="env; ps axww -o args")["stdout"]
    assert secret not in env
    for path in host.home.rglob("*"):
        assert not path.is_file() or secret.encode() not in path.read_bytes(), path
    assert secret not in host.stderr()
