"""Who we are to a host, whether it is the right one, and the ways to it."""
import os
import pathlib
import re
import subprocess
import time

import pytest
import ssh_servers
from host import is_running, wait_until
from mcp_client import ToolFailed

pytestmark = pytest.mark.only_tiers("root")


def log_in(host, entry, *others, **env):
    client = host.server(env={**ssh_servers.hosts(entry, *others), **env})
    return client.tool("exec_bash", command="id -un")["stdout"].strip()


def refusal(host, entry, *others, **env):
    with pytest.raises(ToolFailed) as failed:
        log_in(host, entry, *others, **env)
    return failed.value.answer["error"]


KINDS = [("ed25519", ()), ("rsa", ()), ("rsa", ("-m", "PEM")), ("ecdsa", ()), ("ecdsa", ("-m", "PEM"))]


@pytest.mark.parametrize("kind,format", KINDS)
def test_keys_with_and_without_a_passphrase(host, world, kind, format):
    where = host.folder / "keys"
    where.mkdir()
    plain = ssh_servers.keygen(where / "plain", kind, "", *format)
    locked = ssh_servers.keygen(where / "locked", kind, "a b'c", *format)
    server = world.sshd([plain, locked])
    assert log_in(host, world.entry(server, key_file=str(plain))) == world.user.name
    entry = world.entry(server, key_file=str(locked))
    assert log_in(host, {**entry, "key_passphrase": "a b'c"}) == world.user.name
    assert "no passphrase is given" in refusal(host, {**entry, "key_passphrase": ""})
    said = refusal(host, {**entry, "key_passphrase": "sesame-4711"})
    assert "does not fit" in said and "sesame-4711" not in said


def test_a_key_that_was_named_is_tried_before_anything_is_asked(host, world):
    """To ask what a server offers is a round trip of the first call."""
    server = world.sshd(LogLevel="DEBUG1")
    assert log_in(host, world.entry(server)) == world.user.name
    said = server.log.read_text()
    assert "method publickey" in said and "method none" not in said


def test_password(host, world):
    assert log_in(host, world.entry(world.server, password=world.user.password)) == world.user.name
    said = refusal(host, world.entry(world.server, password="sesame-1234"))
    assert "refused the password" in said and "sesame-1234" not in said


def test_the_password_follows_a_key_only_when_allowed(host, world):
    """Whatever is wrong with the key."""
    stranger = ssh_servers.keygen(host.folder / "stranger")
    locked = ssh_servers.keygen(host.folder / "locked", passphrase="x y z")
    junk = host.folder / "junk"
    junk.write_text("hello\n")
    for key, why in ((stranger, "refused the key"), (locked, "no passphrase"), (junk, "not a private key"),
                     ("/nonexistent/key", "cannot be read"), (host.folder, "cannot be read")):
        entry = world.entry(world.server, key_file=str(key), password=world.user.password)
        assert why in refusal(host, entry)
        assert log_in(host, {**entry, "fallback": True}) == world.user.name
        both = refusal(host, {**entry, "fallback": True, "password": "wrong-4711"})
        assert "the password" in both and "wrong-4711" not in both


def test_a_server_that_wants_the_key_and_the_password_gets_both(host, world):
    server = world.sshd(AuthenticationMethods="publickey,password")
    entry = world.entry(server, key_file=str(world.key))
    assert log_in(host, {**entry, "password": world.user.password}) == world.user.name
    said = refusal(host, entry)
    assert "wants more" in said and "password" in said


def test_keyboard_interactive_by_pam(host, world):
    if not os.path.exists("/etc/pam.d/sshd"):
        pytest.skip("there is no PAM service of sshd")
    server = world.sshd(UsePAM="yes", PasswordAuthentication="no", KbdInteractiveAuthentication="yes",
                        PubkeyAuthentication="no")
    entry = world.entry(server, password=world.user.password)
    assert log_in(host, entry) == world.user.name
    assert "Accepted keyboard-interactive/pam" in server.log.read_text()
    said = refusal(host, {**entry, "password": "wrong-4711"})
    assert "refused the password" in said and "keyboard-interactive" in said and "wrong-4711" not in said


def test_a_user_that_is_not_there_and_one_that_may_not(host, world):
    assert "refused the key" in refusal(host, world.entry(world.server, user="nobody-of-that-name"))
    assert "refused the key" in refusal(host, world.entry(world.server, user="root"))


def test_bad_keys(host, world):
    assert "no-such-key" in refusal(host, world.entry(world.server, key_file="/nonexistent/no-such-key"))
    junk = world.folder / "junk"
    junk.write_text("hello\n")
    assert "not a private key" in refusal(host, world.entry(world.server, key_file=str(junk)))
    junk.write_text("-----BEGIN DSA PRIVATE KEY-----\nAAAA\n-----END DSA PRIVATE KEY-----\n")
    said = refusal(host, world.entry(world.server, key_file=str(junk)))
    assert "DSS" in said and "ssh-keygen -t ed25519" in said


@pytest.fixture
def agent(host):
    """An ssh-agent of the test's own: its socket."""
    sock = host.folder / "agent.sock"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(sock)], stdout=subprocess.DEVNULL)
    assert wait_until(sock.exists)
    yield str(sock)
    process.terminate()
    process.wait()


def add_to(agent, key):
    subprocess.run(["ssh-add", "-q", str(key)], env={"SSH_AUTH_SOCK": agent}, check=True, stdin=subprocess.DEVNULL)


def test_agent(host, world, agent):
    add_to(agent, world.key)
    entry = world.entry(world.server)
    del entry["key_file"]
    assert log_in(host, entry, SSH_AUTH_SOCK=agent) == world.user.name
    assert "none is configured" in refusal(host, {**entry, "ssh_agent": False}, SSH_AUTH_SOCK=agent)
    assert "ssh-agent" in refusal(host, {**entry, "user": "nobody-of-that-name"}, SSH_AUTH_SOCK=agent)
    assert "none is configured" in refusal(host, entry)


def test_the_agent_has_a_key_that_we_cannot_read(host, world, agent):
    locked = ssh_servers.keygen(host.folder / "locked", passphrase="x y z")
    unlocked = host.folder / "unlocked"
    unlocked.write_bytes(locked.read_bytes())
    unlocked.chmod(0o600)
    subprocess.run(["ssh-keygen", "-q", "-p", "-P", "x y z", "-N", "", "-f", str(unlocked)], check=True)
    add_to(agent, unlocked)
    entry = world.entry(world.sshd([locked]), key_file=str(locked))
    assert log_in(host, entry, SSH_AUTH_SOCK=agent) == world.user.name
    assert "no passphrase is given" in refusal(host, entry)


# ---- certificates ------------------------------------------------------------------------

@pytest.fixture
def authority(host, world):
    """Signs keys for the user; its `server` lets in who has such a certificate."""
    ca = ssh_servers.keygen(host.folder / "ca")

    def sign(key, name=world.user.name, validity="+1h"):
        subprocess.run(["ssh-keygen", "-q", "-s", str(ca), "-I", "test", "-n", name, "-V", validity,
                        f"{key}.pub"], check=True, stderr=subprocess.DEVNULL)
        return pathlib.Path(f"{key}-cert.pub")

    sign.server = world.sshd([world.key], TrustedUserCAKeys=f"{ca}.pub")
    return sign


@pytest.mark.parametrize("kind", ["ed25519", "rsa", "ecdsa"])
def test_a_certificate_beside_the_key(host, world, authority, kind):
    key = ssh_servers.keygen(host.folder / "id", kind)
    entry = world.entry(authority.server, key_file=str(key))
    assert "refused the key" in refusal(host, entry)
    authority(key, "somebody-else")
    assert "certificate of" in refusal(host, entry)
    authority(key)
    assert log_in(host, entry) == world.user.name
    assert re.search("Accepted publickey.* ID test", authority.server.log.read_text())


def test_a_certificate_that_ended_does_not_hide_the_key(host, world, authority):
    key = ssh_servers.keygen(host.folder / "id")
    authority.server.let_in(key)
    authority(key, validity="-2h:-1h")
    assert log_in(host, world.entry(authority.server, key_file=str(key))) == world.user.name


def test_a_certificate_of_another_key_is_left_alone(host, world, authority):
    key, other = ssh_servers.keygen(host.folder / "id"), ssh_servers.keygen(host.folder / "other")
    authority(other).rename(f"{key}-cert.pub")
    said = refusal(host, world.entry(authority.server, key_file=str(key)))
    assert "refused the key" in said and "certificate" not in said


# ---- ~/.ssh/config -------------------------------------------------------------------------

def place_of(world, server, *lines):
    return "\n  ".join([f"HostName {server.address}", f"Port {server.port}", f"User {world.user.name}", *lines]) + "\n"


def log_in_by_name(host, text, name="gpu", **env):
    client = host.server(env={"REMOTE_HOST": name, **ssh_servers.use_ssh_config(host, text), **env})
    return client.bash("id -un")["stdout"].strip()


def test_all_keys_of_the_ssh_configuration_are_tried_in_order(host, world):
    locked = ssh_servers.keygen(host.folder / "locked", passphrase="x y z")
    stranger = ssh_servers.keygen(host.folder / "stranger")
    server = world.sshd()
    text = "Host gpu\n  " + place_of(world, server, f"IdentityFile {host.folder}/none", f"IdentityFile {locked}",
                                     f"IdentityFile {stranger}", f"IdentityFile {world.key}")
    assert log_in_by_name(host, text) == world.user.name
    with pytest.raises(ToolFailed) as failed:
        log_in_by_name(host, text.replace(str(world.key), "/nonexistent"))
    said = failed.value.answer["error"]
    assert str(stranger) in said and "no passphrase" in said and str(locked) in said


def test_a_certificate_file_of_the_ssh_configuration(host, world, authority):
    key = ssh_servers.keygen(host.folder / "id")
    moved = authority(key).rename(host.folder / "elsewhere.pub")
    text = "Host gpu\n  " + place_of(world, authority.server, f"IdentityFile {key}", f"CertificateFile {moved}")
    assert log_in_by_name(host, text) == world.user.name


def test_another_agent_and_identities_only(host, world, agent):
    add_to(agent, world.key)
    stranger = ssh_servers.keygen(host.folder / "stranger")
    text = "Host gpu\n  " + place_of(world, world.server, f"IdentityAgent {agent}", f"IdentityFile {stranger}")
    assert log_in_by_name(host, text) == world.user.name
    with pytest.raises(ToolFailed) as failed:
        log_in_by_name(host, text + "  IdentitiesOnly yes\n")
    assert "ssh-agent" not in failed.value.answer["error"]
    with pytest.raises(ToolFailed):
        log_in_by_name(host, text.replace(f"IdentityAgent {agent}", "IdentityAgent none"), SSH_AUTH_SOCK=agent)


def test_jumps_of_the_ssh_configuration(host, world):
    """A chain of two, once in one line and once because the gate has a gate of its own."""
    inner = ssh_servers.keygen(host.folder / "inner")
    first, second = world.sshd(), world.sshd()
    target = world.sshd([inner])
    known = f"UserKnownHostsFile {host.folder}/known"
    gates = (f"Host first\n  {place_of(world, first, f'IdentityFile {world.key}', known)}"
             f"Host second\n  {place_of(world, second, f'IdentityFile {world.key}', known)}")
    gpu = "Host gpu\n  " + place_of(world, target, f"IdentityFile {inner}", known)
    for text in (gates + gpu + "  ProxyJump first,second\n",
                 gates + "  ProxyJump first\n" + gpu + "  ProxyJump second\n"):
        before = [s.log.read_text().count("Accepted publickey") for s in (first, second, target)]
        assert log_in_by_name(host, text) == world.user.name
        after = [s.log.read_text().count("Accepted publickey") for s in (first, second, target)]
        assert [a - b for a, b in zip(after, before)] == [1, 1, 1], "each is logged in to once"
    with pytest.raises(ToolFailed) as failed:
        log_in_by_name(host, gates + "  ProxyJump gpu\n" + gpu + "  ProxyJump second\n")
    assert "circle" in failed.value.answer["error"]


def test_a_proxy_command_of_the_ssh_configuration(host, world):
    text = "Host gpu\n  " + place_of(world, world.server, f"IdentityFile {world.key}",
                                     f"ProxyCommand /usr/bin/python3 {relay(world)} %h %p")
    assert log_in_by_name(host, text) == world.user.name


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


def test_many_new_hosts_at_once_are_all_remembered(host, world):
    """They all find that there is no folder for known_hosts."""
    names = [f"n{i}" for i in range(8)]
    client = host.server(env=ssh_servers.hosts(*(world.entry(world.server, name) for name in names)))
    calls = [client.start_tool("exec_bash", {"command": "true", "sandbox_name": name}) for name in names]
    assert all(client.finish_tool(call)["exit_code"] == 0 for call in calls)
    lines = (host.user_home / ".ssh/known_hosts").read_text().splitlines()
    assert lines and all(line.startswith(f"[127.0.0.1]:{world.server.port} ") for line in lines)
    assert (host.user_home / ".ssh").stat().st_mode & 0o777 == 0o700


def test_trust_known_refuses_a_new_host(host, world):
    toml = host.folder / "a.toml"
    toml.write_text(f'[[ssh]]\nname = "box"\nhost = "127.0.0.1"\nport = {world.server.port}\n'
                    f'user = "{world.user.name}"\nkey_file = "{world.key}"\ntrust = "known"\n')
    client = host.server("--config", str(toml))
    with pytest.raises(ToolFailed) as failed:
        client.tool("exec_bash", command="true", sandbox_name="box")
    assert "not in known_hosts" in failed.value.answer["error"] and "SHA256:" in failed.value.answer["error"]


# ---- the way -----------------------------------------------------------------------------

def relay(world):
    (world.folder / "relay.py").write_text(ssh_servers.RELAY)
    return world.folder / "relay.py"


def test_jumps(host, world):
    jump = world.sshd(AllowTcpForwarding="yes", PermitOpen=f"127.0.0.1:{world.server.port}")
    via = f"{world.user.name}@127.0.0.1:{jump.port}"
    assert log_in(host, world.entry(world.server, proxy_jump=via)) == world.user.name
    assert log_in(host, world.entry(world.server, proxy_jump="first"),
                  world.entry(jump, "first")) == world.user.name
    outer = world.sshd()
    chain = f"{world.user.name}@127.0.0.1:{outer.port},{via}"
    assert log_in(host, world.entry(world.server, proxy_jump=chain)) == world.user.name
    assert "Accepted publickey" in outer.log.read_text()
    assert "cannot reach" in refusal(host, world.entry(ssh_servers.free_port(), proxy_jump=via))
    assert "through" in refusal(host, world.entry(world.server, proxy_jump=f"127.0.0.1:{ssh_servers.free_port()}"))


def test_a_proxy_command(host, world):
    command = f"/usr/bin/python3 {relay(world)} %h %p"
    assert log_in(host, world.entry(world.server, proxy_command=command)) == world.user.name
    assert refusal(host, world.entry(world.server, proxy_command="exit 3"))
    assert refusal(host, world.entry(world.server, proxy_command="/no/such/program %h"))
    began = time.monotonic()
    assert refusal(host, world.entry(world.server, proxy_command="sleep 60", connect_timeout=1))
    assert time.monotonic() - began < 30


def test_a_command_for_the_password_does_not_hold_the_end(host, world):
    pid_file = host.folder / "pid"
    toml = host.folder / "a.toml"
    toml.write_text(f'[[ssh]]\nname = "box"\nhost = "127.0.0.1"\nport = {world.server.port}\n'
                    f'user = "{world.user.name}"\npassword_command = "echo $$ > {pid_file}; exec sleep 60"\n')
    client = host.server("--config", str(toml))
    client.start_tool("exec_bash", {"command": "true"})
    assert wait_until(lambda: pid_file.exists() and pid_file.read_text().strip())
    client.end_input()
    code, took = client.wait()
    assert code == 0 and took < 20
    assert wait_until(lambda: not is_running(int(pid_file.read_text())))
