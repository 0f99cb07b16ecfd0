"""Ports of a box: the agent's way to them, and `anybox forward`."""
import contextlib
import os
import pathlib
import re
import signal
import socket
import threading
import time
import urllib.request

import pytest

import agent_client
import ssh_servers
from agent_client import OK, TCP, UNIX, Box, Failed, text, u32
from host import wait_until

ECHO = """
import socket, sys, threading
s = socket.socket(socket.%s)
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind((%r, 7000))
s.listen(100)
print("ready", flush=True)
def serve(c):
    %s
while True:
    threading.Thread(target=serve, args=(s.accept()[0],)).start()
"""
BACK = """
    while True:
        data = c.recv(65536)
        if not data:
            break
        c.sendall(data)
    c.sendall(b"bye")
    c.close()
"""


@pytest.fixture
def one():
    with Box() as b:
        yield b


@contextlib.contextmanager
def listening(box, serve=BACK, family="AF_INET", address="127.0.0.1"):
    """A program in the box that listens on port 7000 and does this with each connection `c`."""
    with box.connect(timeout=60) as c:
        c.start(["python3", "-c", ECHO % (family, address, serve.strip())])
        c.wait_output(b"ready")
        yield c


def dial(box, port=7000):
    """The connection itself: a socket behind OK."""
    c = box.connect()
    c.ask(TCP, u32(port), want=OK)
    return c


def read_all(c):
    data = c.buf
    while True:
        got = c.sock.recv(1 << 20)
        if not got:
            return data
        data += got


SOCKET = """
import os, socket
os.makedirs(%r)
os.chdir(%r)
s = socket.socket(socket.AF_UNIX)
s.bind("echo")
s.listen()
open("file", "w").close()
print("ready", flush=True)
c = s.accept()[0]
c.sendall(b"hello " + c.recv(100))
c.close()
"""


def test_a_socket_is_reached_by_its_path_however_long(one):
    folder = "/home/user/" + "long/" * 40 + "folder"
    with one.connect(timeout=60) as program:
        program.start(["python3", "-c", SOCKET % (folder, folder)])
        program.wait_output(b"ready")
        for path in "~/nowhere", f"{folder}/nothing", f"{folder}/file":
            with one.connect() as c, pytest.raises(Failed) as e:
                c.ask(UNIX, text(path), want=OK)
            assert e.value.kind == "not_found" and path in e.value.message
        with one.connect() as c:
            c.ask(UNIX, text(folder.replace("/home/user", "~") + "/echo"), want=OK)
            c.sock.sendall(b"you")
            assert read_all(c) == b"hello you"


# ---- the agent's side -------------------------------------------------------


@pytest.mark.parametrize("family, address", [("AF_INET", "127.0.0.1"), ("AF_INET6", "::1")])
def test_bytes_and_the_end_of_one_direction(one, family, address):
    with listening(one, family=family, address=address), dial(one) as c:
        c.sock.sendall(b"hello")
        c.sock.shutdown(socket.SHUT_WR)
        assert read_all(c) == b"hellobye"


def test_who_listens_may_speak_first(one):
    with listening(one, serve='c.sendall(b"220 hi"); c.close()'), dial(one) as c:
        assert read_all(c) == b"220 hi"


def test_the_client_need_not_wait_for_ok(one):
    with listening(one), one.connect() as c:
        c.sock.sendall(agent_client.frame(TCP, u32(7000)) + b"early")
        c.sock.shutdown(socket.SHUT_WR)
        assert c.answer() is not None
        assert read_all(c) == b"earlybye"


def test_a_port_that_nobody_listens_on(one):
    with one.connect() as c, pytest.raises(Failed) as e:
        c.ask(TCP, u32(7001))
    assert e.value.kind == "not_found" and "7001" in e.value.message
    for port in (0, 65536, 1 << 31):
        with one.connect() as c, pytest.raises(Failed) as e:
            c.ask(TCP, u32(port))
        assert e.value.kind == "invalid" and "65535" in e.value.message


def test_it_is_the_boxs_loopback_and_not_the_hosts(one):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        with one.connect() as c, pytest.raises(Failed) as e:
            c.ask(TCP, u32(s.getsockname()[1]))
        assert e.value.kind == "not_found"


def workers(box):
    """PID 1's children that are not commands: those that share its program."""
    with contextlib.suppress(OSError):
        kids = pathlib.Path(f"/proc/{box.pid}/task/{box.pid}/children").read_text().split()
        return [p for p in kids if os.readlink(f"/proc/{p}/exe") == os.readlink(f"/proc/{box.pid}/exe")]
    return []


def settled(box):
    return len(workers(box)) <= 1  # the spare


def test_a_client_that_goes_ends_it_there(one):
    serve = 'print("open", flush=True); c.recv(1); print("closed", flush=True)'
    with listening(one, serve=serve) as program:
        c = dial(one)
        program.wait_output(b"open")
        c.close()
        program.wait_output(b"closed")
    wait_until(lambda: settled(one))


def test_a_client_that_goes_while_much_comes_ends_it_there(one):
    serve = """
    try:
        while True:
            c.sendall(b"x" * 65536)
    except OSError:
        print("broken", flush=True)
"""
    with listening(one, serve=serve) as program:
        c = dial(one)
        c.sock.recv(1000)
        c.close()
        program.wait_output(b"broken")
    wait_until(lambda: settled(one))


def test_much_is_moved_with_little_memory(one):
    with listening(one), dial(one) as c:
        size = 1 << 29
        sender = threading.Thread(target=lambda: (send_much(c.sock, size), c.sock.shutdown(socket.SHUT_WR)))
        sender.start()
        got, most = 0, 0
        while got < size + 3:
            piece = c.sock.recv(1 << 20)
            assert piece
            got += len(piece)
            if got % (1 << 25) < len(piece):
                most = max([most, *(resident_kib(p) for p in workers(one))])
        sender.join()
    assert got == size + 3 and 0 < most < 4096


def send_much(sock, size):
    piece = b"z" * (1 << 20)
    for _ in range(size // len(piece)):
        sock.sendall(piece)


def resident_kib(pid):
    with contextlib.suppress(OSError):
        found = re.search(r"VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())
        return int(found[1]) if found else 0
    return 0


def test_there_are_so_many_at_most_and_files_go_on(one):
    with listening(one), contextlib.ExitStack() as held:
        for _ in range(64):
            held.enter_context(dial(one))
        with one.connect() as c, pytest.raises(Failed) as e:
            c.ask(TCP, u32(7000))
        assert e.value.kind == "limit"
        one.write("f", b"fine")
        assert one.read("f")[0] == b"fine"
    wait_until(lambda: settled(one))


def test_traffic_keeps_a_box_from_being_idle():
    with Box(idle_ms=4000) as box:
        with box.connect() as c:
            c.start(["bash", "-c", "python3 -c '" + (ECHO % ("AF_INET", "127.0.0.1", BACK.strip())).replace("'", '"') +
                     "' > out & while ! grep -q ready out; do sleep 0.05; done"])
            assert c.wait().code == 0
        c = dial(box)
        for _ in range(11):
            c.sock.sendall(b"x")
            assert c.sock.recv(1) == b"x"
            time.sleep(0.4)
        assert box.alive()  # the last request is older than its idle time
        c.close()
        box.wait_gone()


# So slowly that the queue of the kernel is not full before the test ends.
DRIP = """
import socket, time
s = socket.create_server(("127.0.0.1", 7000))
print("ready", flush=True)
c = s.accept()[0]
while True:
    c.send(b"x")
    time.sleep(0.2)
"""


def test_a_box_that_speaks_is_only_used_by_who_reads(one):
    """Code in it could live for ever otherwise, by a connection that somebody only holds."""
    with one.connect(timeout=60) as program:
        program.start(["bash", "-c", f"python3 -c '{DRIP}' > out & while ! grep -q ready out; do sleep 0.05; done"])
        assert program.wait().code == 0
    with dial(one) as c:
        def idle_after_a_second(reads):
            end = time.monotonic() + 1
            while time.monotonic() < end:
                if reads:
                    assert c.sock.recv(1) == b"x"
                else:
                    time.sleep(0.05)
            return one.usage()["idle_ms"]
        assert wait_until(lambda: idle_after_a_second(reads=True) < 500)
        assert wait_until(lambda: idle_after_a_second(reads=False) > 900)
    assert wait_until(lambda: settled(one))


# ---- anybox forward ---------------------------------------------------------


@contextlib.contextmanager
def forwarding(host, *args, env=None):
    """`anybox forward` with its URL's port; ended by Ctrl-C."""
    process = host.popen("forward", *args, env=env, stdout=-1, stderr=-1, stdin=-3, text=True)
    try:
        line = process.stdout.readline()
        assert line.startswith("http://127.0.0.1:"), process.stderr.read()
        yield process, int(line.rsplit(":", 1)[1])
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()


def fetch(port, path=""):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}", timeout=30) as answer:
        return answer.read()


@pytest.fixture
def web(box):
    """A selected box with network none and a web server on port 8000 that shows its folder."""
    assert box.tool("exec_bash", command="""
        echo hello from the box > page.html
        head -c 50000000 /dev/urandom > big
        (python3 -u -m http.server 8000 > log 2>&1 &)
        for i in $(seq 100); do grep -q Serving log && exit 0; sleep 0.1; done; exit 1""")["exit_code"] == 0
    return box


@pytest.mark.every_tier
def test_a_web_server_in_a_box_without_network_is_seen(host, web):
    name = web.tool("list_sandboxes")["sandboxes"][0]["sandbox_id"]
    with forwarding(host, name, "0:8000") as (_, port):
        assert fetch(port, "page.html") == b"hello from the box\n"
        results = []
        threads = [threading.Thread(target=lambda: results.append(len(fetch(port, "big")))) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert results == [50000000] * 4
    with pytest.raises(OSError):
        fetch(port, "page.html")


def test_the_local_port_may_be_named(host, web):
    box = web.tool("list_sandboxes")["sandboxes"][0]["sandbox_id"]
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        free = s.getsockname()[1]
    with forwarding(host, box, f"{free}:8000") as (_, port):
        assert port == free and fetch(port, "page.html")
        taken = host.run("forward", box, f"{free}:8000")
        assert taken.returncode == 1 and "taken" in taken.stderr


def test_without_a_local_port_another_one_is_taken_where_the_same_is_not_free(host, web):
    box = web.tool("list_sandboxes")["sandboxes"][0]["sandbox_id"]
    with forwarding(host, box, "8000") as (_, first), forwarding(host, box, "8000") as (_, second):
        assert first != second
        assert fetch(first, "page.html") == fetch(second, "page.html")


def test_what_nobody_listens_on_is_told_and_waited_for(host, box):
    name = box.tool("list_sandboxes")["sandboxes"][0]["sandbox_id"]
    with forwarding(host, name, "0:8001") as (process, port):
        with pytest.raises(OSError):
            fetch(port)
        assert "nothing listens on port 8001" in process.stderr.readline()
        box.tool("exec_bash", command="(python3 -u -m http.server 8001 > log 2>&1 &) ; "
                 "until grep -q Serving log; do sleep 0.1; done")
        assert b"log" in fetch(port)


def test_it_ends_with_the_box(host, web):
    box = web.tool("list_sandboxes")["sandboxes"][0]["sandbox_id"]
    with forwarding(host, box, "0:8000") as (process, port):
        with socket.create_connection(("127.0.0.1", port)) as held:
            assert fetch(port, "page.html")
            web.tool("delete_sandbox", sandbox_id=box)
            assert process.wait(30) == 1
            assert "gone" in process.stderr.read()
            held.settimeout(30)
            with contextlib.suppress(ConnectionResetError):
                assert held.recv(1) == b""


def test_wrong_uses_are_told(host, box):
    name = box.tool("list_sandboxes")["sandboxes"][0]["sandbox_id"]
    for args, status, word in (([], 2, "BOX"), ([name], 2, "PORT"), ([name, "x"], 2, "port"),
                               ([name, "0"], 2, "port"), ([name, "70000"], 2, "port"),
                               ([name, "1:2:3"], 2, "port"), ([name, "-1:80"], 2, "port"),
                               (["no-such-box", "80"], 1, "no-such-box")):
        got = host.run("forward", *args)
        assert got.returncode == status and word in got.stderr and got.stdout == "", args


def test_a_port_of_an_ssh_host(host, world):
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        env = ssh_servers.hosts(world.entry(world.server, name="far"))
        with forwarding(host, "far", f"0:{listener.getsockname()[1]}", env=env) as (_, port):
            for _ in range(2):
                with socket.create_connection(("127.0.0.1", port), timeout=20) as near:
                    listener.settimeout(20)
                    far, _ = listener.accept()
                    with far:
                        far.settimeout(20)
                        near.sendall(b"question")
                        near.shutdown(socket.SHUT_WR)
                        assert far.recv(100) == b"question" and far.recv(100) == b""
                        far.sendall(b"answer" * 100000)
                        far.close()
                        data = b""
                        while more := near.recv(1 << 20):
                            data += more
                        assert data == b"answer" * 100000
