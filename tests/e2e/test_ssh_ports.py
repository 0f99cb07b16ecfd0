"""Ports of an SSH host: by a channel, or over the agent where the server lets nobody through."""
import contextlib
import re
import signal
import socket
import subprocess
import threading

import pytest

import ssh_servers

pytestmark = pytest.mark.only_tiers("root")
BIG = bytes(range(256)) * 40000


@contextlib.contextmanager
def listening(family=socket.AF_INET, address="127.0.0.1"):
    """Says back what it hears, and says goodbye when it has heard all; the port."""
    listener = socket.socket(family)
    listener.bind((address, 0))
    listener.listen(64)

    def serve(s):
        with s:
            while True:
                data = s.recv(65536)
                if not data:
                    break
                s.sendall(data)
            s.sendall(b"bye")

    def accept():
        with contextlib.suppress(OSError):
            while True:
                threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()


@contextlib.contextmanager
def forwarded(host, entry, port):
    with host.popen("forward", entry["name"], f"0:{port}", env=ssh_servers.hosts(entry),
                    stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as p:
        try:
            p.near = int(re.search(r":(\d+)", p.stdout.readline()).group(1))
            yield p
        finally:
            p.send_signal(signal.SIGTERM)


def talk(port, data):
    """Says all, closes its direction, and hears the rest."""
    with socket.create_connection(("127.0.0.1", port), 30) as s:
        def say():
            s.sendall(data)
            s.shutdown(socket.SHUT_WR)
        speaker = threading.Thread(target=say)
        speaker.start()
        heard = b""
        while True:
            got = s.recv(1 << 20)
            if not got:
                break
            heard += got
        speaker.join()
        return heard


WAYS = {"channels": ({}, "never"), "agent": ({"AllowTcpForwarding": "no"}, "auto")}


@pytest.fixture(params=WAYS)
def entry(request, world):
    settings, agent = WAYS[request.param]
    return world.entry(world.sshd(**settings), "there", agent=agent)


def test_bytes_both_ways_and_the_end_of_one(host, entry):
    with listening() as port, forwarded(host, entry, port) as p:
        assert talk(p.near, b"hello") == b"hellobye"
        assert talk(p.near, BIG) == BIG + b"bye"


def test_many_connections_at_once(host, entry):
    heard = []
    with listening() as port, forwarded(host, entry, port) as p:
        threads = [threading.Thread(target=lambda i=i: heard.append(talk(p.near, b"%d" % i))) for i in range(30)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    assert sorted(heard) == sorted(b"%dbye" % i for i in range(30))


def test_what_listens_on_the_other_family(host, entry):
    try:
        with listening(socket.AF_INET6, "::1"):
            pass
    except OSError:
        pytest.skip("there is no IPv6 loopback here")
    with listening(socket.AF_INET6, "::1") as port, forwarded(host, entry, port) as p:
        assert talk(p.near, b"six") == b"sixbye"


def test_nothing_listens_there(host, entry):
    with listening() as port:
        pass
    with forwarded(host, entry, port) as p:
        with socket.create_connection(("127.0.0.1", p.near), 30) as s:
            with contextlib.suppress(ConnectionResetError):
                assert s.recv(1) == b""
        assert "listens" in p.stderr.readline()


def test_a_server_that_lets_nobody_through(host, world):
    entry = world.entry(world.sshd(AllowTcpForwarding="no"), "there", agent="never")
    with listening() as port, forwarded(host, entry, port) as p:
        with socket.create_connection(("127.0.0.1", p.near), 30) as s:
            with contextlib.suppress(ConnectionResetError):
                assert s.recv(1) == b""
        assert "AllowTcpForwarding" in p.stderr.readline()
