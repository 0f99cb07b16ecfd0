"""SSH hosts that lack something, say too much, stop, drop or lie: they work or say exactly what
is wrong, and the others go on."""
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

import pytest
import ssh_servers
from host import wait_until
from mcp_client import ToolFailed

pytestmark = pytest.mark.only_tiers("root")
SECRET = "Geheimnis-4711-xyz"


def client_of(host, *entries, **env):
    return host.server(env={**ssh_servers.hosts(*entries), **env})


def few_tools(world, name, *without):
    """A server whose users find only these programs: sh is dash, and there is no bash."""
    folder = world.folder / name
    if not folder.exists():
        folder.mkdir()
        folder.chmod(0o755)
        for tool in {"cat", "kill", "sleep", "ls", "mkdir", "rm", "id", "env", "head", "tr", "sed", "grep", "df",
                     "uname", "timeout", "nproc", "seq", "wc"} - set(without):
            (folder / tool).symlink_to(shutil.which(tool))
        (folder / "sh").symlink_to("/bin/dash")
    return world.sshd(SetEnv=f"PATH={folder}")


# ---- what is missing ------------------------------------------------------------------------

@pytest.mark.parametrize("without", [(), ("timeout",), ("timeout", "sleep", "kill", "nproc", "df")])
def test_a_host_without_bash_and_gnu_tools(host, world, without):
    server = few_tools(world, f"tools{len(without)}", *without)
    with world.user.shell("/bin/dash"):
        client = client_of(host, world.entry(server))
        answer = client.bash('echo "${BASH_VERSION:-none}"; pwd; echo oops >&2; exit 3', env={"V": "it's"})
        assert answer["stdout"] == f"none\n{world.user.home}\n"
        assert (answer["stderr"], answer["exit_code"]) == ("oops\n", 3)
        if "sleep" not in without:
            began = time.monotonic()
            slow = client.bash("echo part; sleep 4731 & sleep 4731", timeout_s=3)
            assert (slow["timed_out"], slow["stdout"]) == (True, "part\n") and time.monotonic() - began < 30
            assert ssh_servers.wait_gone(world.user, "sleep 4731")
        client.tool("write_remote_file", remote_path="plain.txt", content="x")
        assert client.tool("read_remote_file", remote_path="plain.txt")["content"] == "x"
        box, = client.tool("list_sandboxes", check_resources=True)["sandboxes"]
        assert box["connection_alive"] is True and "no bash" in box["isolation"], json.dumps(box)
        assert box["resources"].get("memory", {}).get("total_mb", 0) > 0, box


@pytest.mark.parametrize("shell", ["/usr/sbin/nologin", "/bin/false", "/bin/true"])
def test_an_account_that_may_run_nothing_is_told(host, world, shell):
    with world.user.shell(shell):
        client = client_of(host, world.entry(world.server), world.entry(world.server, "same"))
        said = client.tool_error("exec_bash", command="true")
        assert "shell" in said["error"] and said["code"] != "bug", said
        boxes = client.tool("list_sandboxes")["sandboxes"]
        assert [b["connection_alive"] for b in boxes] == [False, False]


@pytest.mark.parametrize("subsystem", ["sftp /bin/false", "sftp /no/such/program", "other /bin/true"])
def test_a_host_without_sftp_runs_commands_and_says_what_files_need(host, world, subsystem):
    client = client_of(host, world.entry(world.sshd(Subsystem=subsystem)))
    assert client.bash("echo on")["stdout"] == "on\n"
    said = client.tool_error("read_remote_file", remote_path=".bashrc")["error"]
    assert "sftp" in said and ("sshd_config" in said or "subsystem" in said)
    assert client.bash("echo on")["stdout"] == "on\n"


def test_an_exhausted_disk_stops_writing_and_nothing_else(host, world):
    home = world.user.home
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size=256k,mode=755,uid={world.user.uid}", "none", str(home)],
                   check=True)
    try:
        with contextlib.suppress(OSError), open(home / "fill", "wb") as f:
            f.write(b"x" * 1_000_000)
        client = client_of(host, world.entry(world.server))
        assert client.bash("pwd; cat", stdin="x" * 100_000)["exit_code"] == 0
        said = client.tool_error("write_remote_file", remote_path="f", content="x" * 100_000)["error"]
        assert "full" in said and "f" in said
        assert set(os.listdir(home)) - {".anybox"} == {"fill"}  # that one is the agent's
        client.bash("rm fill")
        client.tool("write_remote_file", remote_path="f", content="fits")
    finally:
        subprocess.run(["umount", "-l", str(home)], check=True)


# ---- who says too much ------------------------------------------------------------------------

@pytest.mark.parametrize("noise", ["head -c 300000 /dev/urandom", "yes | head -c 200000; yes | head -c 200000 >&2",
                                   "printf 'no newline'", "echo ${RANDOM} && false", "stty -a; mesg n"])
def test_a_login_that_prints_is_no_output(host, world, noise):
    world.user.write(".bashrc", f"{noise}\n")
    try:
        client = client_of(host, world.entry(world.server))
        answer = client.bash("echo mine; echo too >&2; exit 4")
        assert (answer["stdout"], answer["stderr"], answer["exit_code"]) == ("mine\n", "too\n", 4)
        client.tool("write_remote_file", remote_path="noisy.txt", content="x" * 100_000)
        assert client.tool("read_remote_file", remote_path="noisy.txt")["size"] == 100_000
        box, = client.tool("list_sandboxes", check_resources=True)["sandboxes"]
        assert box["resources"]["memory"]["total_mb"] > 0
    finally:
        (world.user.home / ".bashrc").unlink()


def test_a_login_that_never_ends_is_told(host, world):
    world.user.write(".bashrc", "sleep 4732\n")
    try:
        client = client_of(host, world.entry(world.server, connect_timeout=2))
        began = time.monotonic()
        said = client.tool_error("exec_bash", command="touch late", timeout_s=2)
        assert said["code"] == "unreachable" and time.monotonic() - began < 30
        box, = client.tool("list_sandboxes")["sandboxes"]
        assert box["connection_alive"] is False and "login shell" in box["connection_error"]
    finally:
        (world.user.home / ".bashrc").unlink()
    assert not (world.user.home / "late").exists()


@pytest.mark.parametrize("shell", ["/bin/dash", "/bin/tcsh", "/usr/bin/fish", "stand-in"])
def test_login_shells(host, world, shell):
    if shell == "stand-in":  # one that nobody knows
        shell = world.folder / "odd-shell"
        shell.write_text("#!/bin/bash\nexec /bin/bash \"$@\"\n")
        shell.chmod(0o755)
    if not os.path.exists(shell):
        pytest.skip(f"{shell} is not installed")
    folder = "it's a $(folder) with \"all\" !!"
    with world.user.shell(shell):
        client = client_of(host, world.entry(world.server))
        text = "it's\n!! \\n $HOME `x` \"q\" \t ~ {a,b} *"
        answer = client.bash("echo ${BASH_VERSION:+bash}; printf %s \"$V\"; cat; exit 5", env={"V": text}, stdin=text)
        assert (answer["stdout"], answer["exit_code"]) == (f"bash\n{text}{text}", 5)
        client.tool("write_remote_file", remote_path=f"{folder}/f", content="x")
        assert client.bash("cat f; pwd", cwd=folder)["stdout"] == f"x{world.user.home}/{folder}\n"
        assert client.bash("sleep 4733", timeout_s=1)["timed_out"] is True
        assert ssh_servers.wait_gone(world.user, "sleep 4733")
        client.bash('rm -r "$D"', env={"D": folder})


def test_a_banner_and_a_message_of_the_day(host, world):
    banner = world.folder / "banner"
    banner.write_text("AUTHORIZED USE ONLY\n" * 200)
    client = client_of(host, world.entry(world.sshd(Banner=banner, PrintMotd="yes", PrintLastLog="yes")))
    answer = client.bash("echo mine; echo too >&2")
    assert (answer["stdout"], answer["stderr"]) == ("mine\n", "too\n")


# ---- who is no SSH server -----------------------------------------------------------------------

@pytest.fixture
def impostor():
    """A port that answers each connection with what `says` gives, piece by piece."""
    made = []

    def start(says):
        listener = socket.create_server(("127.0.0.1", 0))

        def serve(s):
            with contextlib.suppress(OSError), s:
                for piece in says():
                    s.sendall(piece)

        def accept():
            with contextlib.suppress(OSError):
                while True:
                    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        made.append(listener)
        return listener.getsockname()[1]

    yield start
    for listener in made:
        with contextlib.suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def forever(piece, pause=0.0):
    while True:
        yield piece
        time.sleep(pause)


@pytest.mark.parametrize("says", [
    lambda: [], lambda: [b"HTTP/1.1 400 Bad Request\r\n\r\n"], lambda: [b"\0" * 100_000],
    lambda: forever(b"x" * 65536), lambda: forever(b"line\r\n" * 1000),
    lambda: [b"SSH-2.0-Nonsense\r\n"], lambda: [b"SSH-1.5-Old\r\n"],
    lambda: [b"SSH-2.0-Nonsense\r\n", b"\xff" * 100_000], lambda: forever(b"S", 0.1)],
    ids=["nothing", "http", "zeros", "endless", "lines", "stops", "old", "garbage", "slow"])
def test_whoever_else_answers_is_told_in_time(host, world, impostor, says):
    client = client_of(host, world.entry(impostor(says), "odd", connect_timeout=2), world.entry(world.server, "good"))
    began = time.monotonic()
    said = client.tool_error("exec_bash", command="true")
    assert said["code"] == "unreachable" and "127.0.0.1" in said["error"]
    assert time.monotonic() - began < 30
    assert client.bash("echo on", sandbox_name="good")["stdout"] == "on\n"
    with open(f"/proc/{client.pid}/status", encoding="ascii") as status:
        assert int(status.read().split("VmRSS:")[1].split()[0]) < 150 * 1024


# ---- who goes away ------------------------------------------------------------------------------

def test_a_server_process_that_is_killed_in_a_command(host, world):
    server = world.sshd()
    client = client_of(host, world.entry(server))
    client.bash("true")
    call = client.start_tool("exec_bash", {"command": "echo once >> killed; echo part; sleep 4734"})
    assert wait_until(lambda: world.user.processes("sleep 4734"))
    client.bash("true")  # it comes behind what was printed
    time.sleep(1)
    server.signal_all(signal.SIGKILL)
    with pytest.raises(ToolFailed) as failed:
        client.finish_tool(call)
    answer = failed.value.answer
    assert (answer["connection_error"], answer["stdout"]) == (True, "part\n")
    again = ssh_servers.until_back(lambda: client.bash("cat killed; rm killed; pkill -f 'sleep 473[4]'"))
    assert again["stdout"] == "once\n"


def test_a_host_that_drops_connections_runs_nothing_twice(host, world):
    proxy = world.proxy(world.server.port)
    client = client_of(host, world.entry(proxy))
    stop = threading.Event()

    def drop():
        while not stop.wait(0.35):
            proxy.drop()

    thread = threading.Thread(target=drop)
    thread.start()
    known = 0
    try:
        for i in range(25):
            try:
                known += client.bash(f"echo {i} >> drops; sleep 0.1; echo done")["stdout"] == "done\n"
            except ToolFailed as failed:
                assert failed.answer["code"] == "unreachable" and failed.answer["error"], failed.answer
            time.sleep(0.05)
    finally:
        stop.set()
        thread.join()
    lines = ssh_servers.until_back(lambda: client.bash("cat drops 2>/dev/null; rm -f drops"))["stdout"].split()
    assert len(lines) == len(set(lines)) and len(lines) >= known


def test_a_stopped_listener_costs_one_time_out(host, world):
    server = world.sshd()
    server.process.send_signal(signal.SIGSTOP)
    try:
        client = client_of(host, world.entry(server, "stopped", connect_timeout=5), world.entry(world.server, "good"))
        began = time.monotonic()
        assert client.tool_error("exec_bash", command="true")["code"] == "unreachable"
        assert 4.5 < time.monotonic() - began < 30
        began = time.monotonic()
        assert client.tool_error("exec_bash", command="true")["code"] == "unreachable"
        assert time.monotonic() - began < 4
        assert client.bash("echo on", sandbox_name="good")["stdout"] == "on\n"
    finally:
        server.process.send_signal(signal.SIGCONT)
    assert ssh_servers.until_back(lambda: client.bash("echo back"))["stdout"] == "back\n"


def test_ten_hosts_are_looked_at_in_the_time_of_the_slowest(host, world):
    relay = world.folder / "slow-way.py"
    relay.write_text(ssh_servers.RELAY)
    entries = [world.entry(world.server, f"host{i}", proxy_command=f"sh -c 'sleep 4; exec /usr/bin/python3 {relay} %h %p'")
               for i in range(10)]
    client = client_of(host, *entries)
    began = time.monotonic()
    boxes = client.tool("list_sandboxes", check_resources=True)["sandboxes"]
    took = time.monotonic() - began
    assert [b["connection_alive"] for b in boxes] == [True] * 10
    assert all(b["resources"]["idle_score"] is not None for b in boxes)
    assert 4 < took < 38, took  # of forty, one after the other


# ---- what is configured wrongly --------------------------------------------------------------------

EVIL = ["$(touch evil)", "`touch evil`", "a;touch evil", "a|touch evil", "a\ntouch evil", "-oProxyCommand=touch evil",
        "a b", "../../etc/passwd", "a'b", 'a"b', "a\\b", "%h", "x" * 5000, "\u0000"]


def no_evil(host):
    found = [p for folder in (host.project, host.user_home, host.folder) for p in folder.rglob("evil*")]
    assert not found and not os.path.exists("evil")


@pytest.mark.parametrize("field", ["host", "user", "name", "host_key_alias", "proxy_jump"])
def test_evil_texts_reach_nothing(host, world, field):
    bad = [{**world.entry(world.server, f"bad{i}", connect_timeout=2), field: text} for i, text in enumerate(EVIL)]
    client = client_of(host, *bad, world.entry(world.server, "good"))
    listed = client.tool("list_sandboxes")
    boxes = {b["name"]: b for b in listed["sandboxes"]}
    assert boxes["good"]["connection_alive"] is True
    assert "REMOTE_SANDBOX_LIST entry" in listed["error"] and field in listed["error"]
    assert not any(b["connection_alive"] for n, b in boxes.items() if n != "good")
    assert client.bash("echo on", sandbox_name="good")["stdout"] == "on\n"
    no_evil(host)


def test_evil_names_of_files_are_only_names(host, world):
    texts = [t for t in EVIL if "\0" not in t]
    bad = [world.entry(world.server, f"bad{i}", key_file=text) for i, text in enumerate(texts)]
    client = client_of(host, *bad, world.entry(world.server, "good"))
    for i in range(len(texts)):
        assert client.tool_error("exec_bash", command="true", sandbox_name=f"bad{i}")["code"] in \
            ("not_found", "denied", "invalid", "system", "limit")
    assert client.bash("echo on", sandbox_name="good")["stdout"] == "on\n"
    no_evil(host)


@pytest.mark.parametrize("port", [0, -1, 65536, 22.5, "22; touch evil", "x", "", None, [], {}, True])
def test_a_port_that_is_none(host, world, port):
    client = client_of(host, {**world.entry(world.server, "bad"), "port": port}, world.entry(world.server, "good"))
    listed = client.tool("list_sandboxes")
    names = [b["name"] for b in listed["sandboxes"]]
    if port in ("", None):
        assert names == ["bad", "good"], "nothing given is the usual one"
    else:
        assert names == ["good"] and "port" in listed["error"] and "65535" in listed["error"]
    assert client.bash("echo on", sandbox_name="good")["stdout"] == "on\n"
    no_evil(host)


@pytest.mark.parametrize("line", ['host = "$(touch evil)"', 'user = "a;touch evil"', "port = 70000", 'port = "x"',
                                  'name = "a b"', 'hots = "x"', "host = 5", 'proxy_jump = "a b"', 'trust = "maybe"'])
def test_an_ssh_table_that_is_wrong_is_told_with_its_line(host, world, line):
    key = line.split()[0]
    good = {"name": '"bad"', "host": '"127.0.0.1"', "user": '"me"'}
    good.pop(key, None)
    config = host.folder / "a.toml"
    config.write_text("\n".join(["[[ssh]]", line, *(f"{k} = {v}" for k, v in good.items()), "", "[[ssh]]",
                                 'name = "good"', f'host = "127.0.0.1"\nport = {world.server.port}',
                                 f'user = "{world.user.name}"\nkey_file = "{world.key}"', ""]))
    client = host.server("--config", str(config))
    listed = client.tool("list_sandboxes")
    assert re.search("a.toml:[12]:", listed["error"]) and key in listed["error"], listed["error"]
    assert [b["name"] for b in listed["sandboxes"] if b["connection_alive"]] == ["good"]
    assert client.bash("echo on", sandbox_name="good")["stdout"] == "on\n"
    no_evil(host)


@pytest.mark.parametrize("text, where", [
    ('[{"host": "a", "password": "' + SECRET + '",}]', "line 1, column"),
    ('[\n {"host": "a"},\n {"host" "b"}\n]', "line 3, column"), ("[", "line 1, column"), ("nonsense", "line 1, column"),
    ('"text"', "JSON list"), ("[[]]", "entry 1"), ('[{"host": "a"}, 5]', "entry 2"),
    ('[{"host": "a", "hots": "b"}]', '"host"')])
def test_a_malformed_list_is_told_with_its_place(host, text, where):
    client = host.server(env={"REMOTE_SANDBOX_LIST": text})
    listed = client.tool("list_sandboxes")
    assert where in listed["error"] and SECRET not in json.dumps(listed)


def test_two_hosts_of_one_name_a_wrong_password_and_a_closed_port(host, world):
    client = client_of(host, world.entry(world.server, "good"), world.entry(ssh_servers.free_port(), "good"),
                       world.entry(world.server, "wrong", password=SECRET),
                       world.entry(ssh_servers.free_port(), "closed"))
    listed = client.tool("list_sandboxes")
    boxes = {b["name"]: b for b in listed["sandboxes"]}
    assert "entry 2" in listed["error"] and '"good"' in listed["error"] and "first one counts" in listed["error"]
    assert boxes["good"]["port"] == world.server.port and boxes["good"]["connection_alive"] is True
    assert "password" in boxes["wrong"]["connection_error"] and "refused" in boxes["closed"]["connection_error"]
    assert SECRET not in json.dumps(listed)
    assert client.bash("echo on")["stdout"] == "on\n"


# ---- secrets -------------------------------------------------------------------------------------

class Watch:
    """Looks at every child of a process, for as long as it runs: arguments and environments."""

    def __init__(self, pid):
        self.pid, self.seen, self.stop = pid, {}, threading.Event()
        self.exe = os.readlink(f"/proc/{pid}/exe")
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _children(self, pid):
        with contextlib.suppress(OSError):
            for task in os.listdir(f"/proc/{pid}/task"):
                with open(f"/proc/{pid}/task/{task}/children", encoding="ascii") as f:
                    for child in f.read().split():
                        yield child
                        yield from self._children(child)

    def _look(self, child):
        for name in "cmdline", "environ":
            with open(f"/proc/{child}/{name}", "rb") as f:
                self.seen.setdefault(f.read().replace(b"\0", b" "), name)

    def _run(self):
        while not self.stop.is_set():
            for child in self._children(self.pid):
                with contextlib.suppress(OSError):
                    if os.readlink(f"/proc/{child}/exe") != self.exe:  # else it is just being made
                        self._look(child)

    def end(self):
        self.stop.set()
        self.thread.join()
        return b"\n".join(self.seen)


def test_secrets_are_in_no_child_log_database_or_answer(host, world):
    locked = ssh_servers.keygen(host.folder / "locked", passphrase=SECRET)
    world.server.let_in(locked)
    relay = world.folder / "relay.py"
    relay.write_text(ssh_servers.RELAY)
    kept = host.folder / "kept"
    kept.write_text(SECRET)
    kept.chmod(0o600)
    config = host.folder / "a.toml"
    where = f'host = "127.0.0.1"\nport = {world.server.port}\nuser = "{world.user.name}"'
    way = f'proxy_command = "sh -c \'sleep 0.3; exec /usr/bin/python3 {relay} %h %p\'"'
    config.write_text(f'[log]\nlevel = "debug"\nfile = "{host.folder}/server.log"\n'
                      f'[[ssh]]\nname = "key"\n{where}\nkey_file = "{locked}"\nkey_passphrase = "{SECRET}"\n{way}\n'
                      f'[[ssh]]\nname = "wrong"\n{where}\npassword = "{SECRET}"\n{way}\n'
                      f'[[ssh]]\nname = "command"\n{where}\npassword_command = "sleep 0.3; cat {kept}"\n{way}\n'
                      f'[[ssh]]\nname = "variable"\n{where}\npassword_env = "MY_SECRET"\n{way}\n')
    config.chmod(0o600)
    client = host.server("--config", str(config), env={"MY_SECRET": SECRET, "REMOTE_PASSWORD": SECRET})
    watch = Watch(client.pid)
    try:
        seen = client.bash("env; cat /proc/*/cmdline /proc/*/environ 2>/dev/null | tr '\\0' ' '")["stdout"]
        client.tool("list_sandboxes", check_resources=True)
        for name in "wrong", "command", "variable":
            client.tool_error("exec_bash", command="true", sandbox_name=name)
        client.tool("write_remote_file", remote_path="x", content="y")
    finally:
        text = watch.end()
    assert b"relay.py" in text, "the proxies were seen"
    assert b"HOME=" in text, "and their environments"
    assert SECRET.encode() not in text and SECRET not in seen
    client.close()
    assert SECRET not in host.stderr()
    assert not [line for line in client.lines if SECRET.encode() in line]
    log = host.folder / "server.log"
    assert log.exists() and SECRET not in log.read_text()
    for path in host.home.rglob("*"):
        assert not path.is_file() or SECRET.encode() not in path.read_bytes(), path
