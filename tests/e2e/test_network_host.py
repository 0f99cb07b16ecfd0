"""Network "host": only where the operator has said so, and then without the one thing that a
network namespace hides beside the network: abstract sockets, which have no permissions."""
import contextlib
import ctypes
import os
import pathlib
import socket
import threading

import pytest

pytestmark = pytest.mark.every_tier

MUST_RUN = os.environ.get("ANYBOX_MUST_RUN", "").split(",")
ALLOWED = "[local]\nallow_host_network = true\n"

TALK = """
import socket, sys
family, address = (socket.AF_UNIX, "\\0" + sys.argv[1][1:]) if sys.argv[1].startswith("@") else \
    (socket.AF_INET, ("127.0.0.1", int(sys.argv[1])))
with socket.socket(family) as s:
    s.settimeout(5)
    try:
        s.connect(address)
        print(s.recv(100).decode())
    except OSError as e:
        print("error", e.errno)
"""

ABSTRACT_INSIDE = """
import os, socket
server = socket.socket(socket.AF_UNIX)
server.bind("\\0of-this-box")
server.listen()
if os.fork() == 0:
    with socket.socket(socket.AF_UNIX) as s:
        s.connect("\\0of-this-box")
        s.send(b"met")
    os._exit(0)
print(server.accept()[0].recv(10).decode())
"""


def landlock():
    return ctypes.CDLL(None).syscall(444, None, 0, 1)


@pytest.fixture(autouse=True)
def scopes():
    if landlock() < 6:
        pytest.skip("this kernel's Landlock has no scopes")


@contextlib.contextmanager
def serving(family, address):
    """A server of the host that says "host" to everyone."""
    with socket.socket(family) as server:
        server.bind(address)
        server.listen()

        def serve():
            with contextlib.suppress(OSError):
                while True:
                    with server.accept()[0] as one:
                        one.send(b"host")

        threading.Thread(target=serve, daemon=True).start()
        yield server.getsockname()
        server.shutdown(socket.SHUT_RDWR)


@pytest.fixture
def allowed(host):
    file = host.folder / "allowed.toml"
    file.write_text(ALLOWED)
    file.chmod(0o644)
    host.config = ("--config", str(file))
    return host.server(*host.config)


@pytest.fixture
def box(allowed):
    made = allowed.tool("create_sandbox", name="open", network="host")
    assert made["network"] == "host" and "Landlock" in made["isolation"], made
    return allowed


def talk(box, where, **more):
    answer = box.bash(f"python3 - {where}", stdin=TALK, **more)
    assert answer["exit_code"] == 0, answer
    return answer["stdout"].strip()


def test_it_is_refused_unless_the_operator_allows_it(host):
    client = host.server()
    error = client.tool_error("create_sandbox", network="host")
    file = host.user_home / ".config/anybox/anybox.toml"
    assert error["code"] == "denied" and "allow_host_network = true" in error["error"], error
    assert "[local]" in error["error"] and str(file) in error["error"], error
    assert client.tool("list_sandboxes")["sandboxes"] == []


def test_it_is_refused_when_the_operator_says_no(host):
    file = host.folder / "no.toml"
    file.write_text(ALLOWED.replace("true", "false"))
    file.chmod(0o644)
    error = host.server("--config", str(file)).tool_error("create_sandbox", network="host")
    assert error["code"] == "denied" and str(file) in error["error"]


def test_it_reaches_a_server_on_the_hosts_loopback(box):
    with serving(socket.AF_INET, ("127.0.0.1", 0)) as (_, port):
        assert talk(box, port) == "host"
    assert [s["network"] for s in box.tool("list_sandboxes")["sandboxes"]] == ["host"]


def test_the_others_do_not(allowed):
    allowed.tool("create_sandbox", name="closed")
    with serving(socket.AF_INET, ("127.0.0.1", 0)) as (_, port):
        assert talk(allowed, port).startswith("error")


def test_it_does_not_reach_an_abstract_socket_of_the_host(box):
    name = f"anybox-test-{os.getpid()}"
    with serving(socket.AF_UNIX, "\0" + name):
        with socket.socket(socket.AF_UNIX) as s:  # without this, what follows would prove nothing
            s.connect("\0" + name)
            assert s.recv(10) == b"host"
        assert talk(box, "@" + name) == "error 1"


SEND = """
import array, os, socket, sys
name = "\\0" + sys.argv[1]
def tries(what, f):
    try: f(); print(what)
    except OSError: pass
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
tries("sent", lambda: s.sendto(b"x", name))
tries("message", lambda: s.sendmsg([b"x"], [], 0, name))
tries("descriptor", lambda: s.sendmsg([b"x"], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", [0]))], 0, name))
tries("connected", lambda: s.connect(name))
bound = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM); bound.bind("")
tries("from a bound one", lambda: bound.sendto(b"x", name))
if os.fork() == 0:
    tries("from a child", lambda: socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"x", name))
    os._exit(0)
os.wait()
"""


def test_it_sends_nothing_to_an_abstract_socket_of_the_host(box):
    """A message needs no connection: as to the journal or to who supervises services."""
    name = f"anybox-test-datagrams-{os.getpid()}"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as host:
        host.bind("\0" + name)
        host.settimeout(0.2)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:  # without this, what follows would prove nothing
            s.sendto(b"host", "\0" + name)
        assert host.recv(10) == b"host"
        answer = box.bash(f"python3 - {name}", stdin=SEND)
        assert answer["stdout"] == "" and answer["exit_code"] == 0, answer
        with pytest.raises(TimeoutError):
            host.recv(10)


def test_no_named_socket_of_the_host_is_in_it(box):
    """Beside those in /usr and /opt, which a read-only mount cannot close."""
    answer = box.bash("find / -xdev -type s 2>/dev/null; find /run /tmp /var /home /etc /dev -type s")
    assert answer["stdout"] == ""


def test_a_file_in_the_project_does_not_allow_it(host):
    """Whoever writes the project is not the operator."""
    for path in ("anybox.toml", ".anybox.toml", ".config/anybox/anybox.toml", "anybox/anybox.toml", ".anybox/anybox.toml"):
        file = host.project / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(ALLOWED)
    for more in {}, {"XDG_CONFIG_HOME": ".config"}:
        client = host.server(env=more)
        assert client.tool_error("create_sandbox", network="host")["code"] == "denied"
        client.close()
    assert host.run("run", "--network", "host", "true").returncode != 0


def test_abstract_sockets_work_within_it(box):
    answer = box.bash("python3 -", stdin=ABSTRACT_INSIDE)
    assert answer["stdout"] == "met\n", answer


def test_two_of_them_do_not_meet_on_an_abstract_socket(box):
    box.tool("create_sandbox", name="other", network="host")
    serve = ("import socket\ns = socket.socket(socket.AF_UNIX)\ns.bind('\\0between')\ns.listen()\nprint('ready', "
             "flush=True)\nwhile True: s.accept()[0].send(b'other')\n")
    box.bash("cat > serve.py; setsid python3 serve.py > said 2>&1 & "
             "until grep -q ready said; do sleep 0.05; done", stdin=serve, sandbox_name="other")
    assert talk(box, "@between", sandbox_name="other") == "other"
    assert talk(box, "@between", sandbox_name="open") == "error 1"


def test_it_has_the_hosts_interfaces_and_cannot_change_them(box):
    names = sorted(name for _, name in socket.if_nameindex())
    answer = box.bash("python3 -c 'import socket; print(*sorted(n for _, n in socket.if_nameindex()))'")
    assert answer["stdout"].split() == names
    for command in ("ip link set lo down", "ip address add 192.0.2.9/32 dev lo", "ip route add 192.0.2.8 dev lo"):
        answer = box.bash(f"PATH=/usr/sbin:/sbin:$PATH; {command}")
        assert answer["exit_code"] != 0, (command, answer)
    code = "import socket; socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)"
    assert "Socket type not supported" in box.bash(f"python3 -c '{code}'")["stderr"]


def test_names_are_resolved_as_the_host_does(box):
    resolv = pathlib.Path("/etc/resolv.conf")
    if resolv.exists():
        assert box.bash("cat /etc/resolv.conf")["stdout"] == resolv.read_text()
    inside = box.bash("cat /etc/hosts")["stdout"].splitlines()
    assert set(pathlib.Path("/etc/hosts").read_text().splitlines()) <= set(inside)
    assert "127.0.0.1" in inside[0] and "open" in inside[0].split()
    assert "hosts: files dns" in box.bash("cat /etc/nsswitch.conf")["stdout"]


def test_it_still_has_its_other_namespaces(box):
    answer = box.bash("for n in net mnt pid ipc uts user; do readlink /proc/self/ns/$n; done")
    inside = answer["stdout"].split()
    ours = [os.readlink(f"/proc/self/ns/{n}") for n in ("net", "mnt", "pid", "ipc", "uts", "user")]
    assert inside[0] == ours[0] and all(a != b for a, b in zip(inside[1:], ours[1:]))


def test_the_command_line_and_doctor_know_it(host, allowed):
    with serving(socket.AF_INET, ("127.0.0.1", 0)) as (_, port):
        got = host.run(*host.config, "run", "--network", "host", "python3", "-c", TALK, str(port))
    assert got.stdout.strip() == "host", got.stderr
    assert "allow_host_network" in host.run(*host.config, "doctor").stdout
    assert "host" in next(line for line in host.run(*host.config, "doctor").stdout.splitlines() if "network:" in line)


def test_every_box_has_the_second_wall(allowed):
    made = allowed.tool("create_sandbox", name="closed")
    assert made["isolation"].endswith(", Landlock"), made
    answer = allowed.bash("python3 -", stdin=ABSTRACT_INSIDE)
    assert answer["stdout"] == "met\n", answer
