"""`anybox serve` as a program: how it is started, what it prints, what it refuses; and clients
that are slow, many, or half gone."""
import contextlib
import json
import re
import resource
import socket
import stat
import time

import pytest
from host import free_port, wait_until
from http_wire import Legacy, Modern, Served, Wire, call, request

POOL = 0


@pytest.fixture
def serve(host):
    started = []

    def start(*args, **more):
        started.append(Served(host, *args, **more))
        return started[-1]

    yield start
    for served in started:
        served.close()


# ---- starting ---------------------------------------------------------------------------------

def test_the_first_start_makes_a_key_and_shows_it_once(serve, host):
    served = serve()
    assert served.address == "127.0.0.1" and len(served.key) >= 32
    assert stat.S_IMODE((host.home / "http_keys").stat().st_mode) == 0o600
    assert served.key not in (host.home / "http_keys").read_text()
    assert Modern(served).post(request("server/discover")).status == 200
    key = served.key
    assert served.stop() == 0
    again = serve()
    assert again.key is None and key not in again.log
    assert Modern(again, key).post(request("server/discover")).status == 200


def test_without_keys_it_listens_on_this_machine_only(serve, host):
    served = serve("--no-auth")
    assert Legacy(served).post(request("ping")).status == 200
    assert not (host.home / "http_keys").exists()
    for words, env in ((["--no-auth", "--host", "0.0.0.0"], {}), (["--host", "::"], {"ANYBOX_AUTH_REQUIRE_AUTH": "false"})):
        done = host.run("serve", "--port", "0", *words, env=env)
        assert done.returncode == 1 and "--host 127.0.0.1" in done.stderr and "--no-auth" in done.stderr


def test_keys_are_off_by_the_old_setting(serve):
    served = serve(env={"ANYBOX_AUTH_REQUIRE_AUTH": "false"})
    assert Legacy(served).post(request("ping")).status == 200


@pytest.mark.parametrize("words,says", [
    (["--host", "no.such.host.invalid"], "no address of this machine"), (["--host", "192.0.2.1"], "not an address of this machine"),
    (["--port", "65536"], "--port must be"), (["--port", "x"], "--port must be"), (["extra"], "takes options only")])
def test_what_cannot_be_served_is_told(host, words, says):
    done = host.run("serve", *(["--port", "0"] if "--port" not in words else []), *words)
    assert done.returncode in (1, 2) and says in done.stderr


def test_a_port_in_use_is_told_with_what_to_do(serve, host):
    served = serve("--no-auth")
    done = host.run("serve", "--port", str(served.port))
    assert done.returncode == 1 and "in use" in done.stderr and "--port" in done.stderr


def test_the_old_ways_to_start_it(serve, host):
    port = free_port()
    served = serve("--port", str(port), words=["--mode", "http"])
    assert served.port == port and Modern(served).post(request("tools/list"), path="/").status == 200
    served.stop()
    port = free_port()
    settings = host.user_home / "m.toml"
    settings.write_text(f'[server]\nhost = "localhost"\nport = {port}\n[auth]\nrequire_auth = false\n')
    served = serve(words=["--config", str(settings), "serve"])
    assert served.port == port and Legacy(served).post(request("ping")).status == 200


def test_started_as_mcp_sandbox_it_serves(host):
    import subprocess
    port = free_port()
    argv = host.tier.wrap([host.install.anybox.parent / "mcp-sandbox"])
    process = subprocess.Popen(argv, env=host.env(APP_HOST="127.0.0.1", APP_PORT=str(port)), cwd=host.project,
                               stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    key = re.search(r"key (\S+)", process.stderr.readline()).group(1)
    assert any(f":{port}/mcp" in process.stderr.readline() for _ in range(3))
    with Wire(port) as wire:
        body = json.dumps(request("initialize", protocolVersion="2025-06-18", capabilities={})).encode()
        wire.send(b"POST /mcp HTTP/1.1\r\nHost: localhost:%d\r\nX-API-Key: %s\r\nContent-Type: application/json\r\n"
                  b"Content-Length: %d\r\n\r\n" % (port, key.encode(), len(body)) + body)
        reply = wire.reply()
    session = {"Mcp-Session-Id": reply.headers["mcp-session-id"]}
    with Wire(port) as wire:
        body = json.dumps(request("tools/list")).encode()
        wire.send(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-API-Key: %s\r\nContent-Type: application/json\r\n"
                  b"Mcp-Session-Id: %s\r\nContent-Length: %d\r\n\r\n"
                  % (key.encode(), session["Mcp-Session-Id"].encode(), len(body)) + body)
        assert "execute_terminal_command" in {t["name"] for t in wire.reply().json()["result"]["tools"]}
    process.terminate()
    assert process.wait(30) == 0


def test_other_names_must_be_listed(serve):
    served = serve("--no-auth", env={"ANYBOX_HTTP_HOSTS": "box.example.com"})
    hello = request("initialize", protocolVersion="2025-06-18", capabilities={})
    assert served.post(hello, headers={"Host": "box.example.com"}).status == 200
    assert served.post(hello, headers={"Host": "other.example.com"}).status == 403
    assert served.post(hello, headers={"Host": "box.example.com", "Origin": "https://box.example.com"}).status == 200


# ---- slow, many, half gone -----------------------------------------------------------------------

def test_slow_clients_are_let_go_and_others_do_not_notice(serve):
    served = serve("--no-auth", env={"ANYBOX_HTTP_REQUEST_TIMEOUT": "4", "ANYBOX_HTTP_IDLE_TIMEOUT": "5"})
    session = Legacy(served)
    head = served.request(body=b"x" * 100, headers=session.headers)[:-100]
    wires = {
        "silent": served.wire(),
        "headers": served.wire(),
        "body": served.wire(),
        "idle": served.wire(),
    }
    wires["headers"].send(b"POST /mcp HTTP/1.1\r\nHost: localhost\r\n")
    wires["body"].send(head)
    assert served.post(request("ping"), headers=session.headers, wire=wires["idle"]).status == 200
    stream = session.listen()
    assert stream.chunk() == b": open\n\n"
    assert session.post(request("ping")).status == 200
    assert not any(wire.is_closed(0.01) for wire in wires.values()), "it was answered after the slow ones"
    ended, started = {}, time.monotonic()
    while len(ended) < len(wires) and time.monotonic() < started + 60:
        for name, wire in wires.items():
            if name in ended:
                continue
            try:
                if name == "headers":
                    wire.send(b"X-Slow: 1\r\n")
                elif name == "body":
                    wire.send(b"x")
            except OSError:
                ended[name] = time.monotonic() - started
                continue
            if wire.is_closed(0.01):
                ended[name] = time.monotonic() - started
        assert session.post(request("ping")).status == 200
        time.sleep(0.1)
    assert set(ended) == set(wires), ended
    # A stream that only waits is no slow client.
    stream.socket.settimeout(0.5)
    with pytest.raises(TimeoutError):
        stream.chunk()


def test_a_client_that_does_not_read_is_let_go(serve):
    served = serve("--no-auth", env={"ANYBOX_HTTP_IDLE_TIMEOUT": "1"})
    session = Legacy(served)
    before = served.descriptors()
    wires = []
    for _ in range(3):
        wire = served.wire()
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        wire.socket.setblocking(False)
        data = served.request(body=json.dumps(request("tools/list")).encode(), headers=session.headers)
        try:
            for _ in range(2000):
                wire.socket.send(data)
        except BlockingIOError:
            pass
        wires.append(wire)
    assert wait_until(lambda: served.descriptors() <= before)
    assert session.post(request("ping")).status == 200


def test_what_is_no_http_ends_the_connection(serve):
    served = serve("--no-auth", env={"ANYBOX_HTTP_REQUEST_TIMEOUT": "1"})
    for junk in (b"\0" * 100 + b"\r\n\r\n", b"hello\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", b"GET /mcp HTTP/9.9\r\n\r\n",
                 b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
                 b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999999999999999\r\n\r\n",
                 b"GET " + b"/x" * 5000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
                 b"GET /mcp HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 20000 + b"\r\n\r\n"):
        with served.wire() as wire:
            try:
                wire.send(junk)
                wire.socket.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            assert wire.is_closed(30), junk[:60]
            # 505: the version is not HTTP's, which is the one thing that is told so.
            assert not wire.buffer or re.match(rb"HTTP/1\.[01] (4\d\d|505) ", wire.buffer), wire.buffer
    assert Legacy(served).post(request("ping")).status == 200


def test_connections_have_their_limit(serve):
    served = serve("--no-auth", env={"ANYBOX_HTTP_MAX_CONNECTIONS": "8"})
    wires = [served.wire() for _ in range(8)]
    time.sleep(0.2)
    one_more = served.wire(timeout=0.5)
    one_more.send(served.request("GET", "/nothing"))
    with pytest.raises((TimeoutError, ConnectionError, EOFError)):
        one_more.reply()
    for wire in wires:
        wire.close()
    one_more.close()

    def has_room():
        with contextlib.suppress(ConnectionError, EOFError, TimeoutError):  # it has not seen them leave yet
            return served.send("GET", "/nothing").status == 404

    assert wait_until(has_room)


def test_two_thousand_idle_streams_cost_ten_kilobytes_each(serve):
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 4096:
        pytest.skip("this machine does not allow so many connections")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 4096), hard))
    served = serve("--no-auth")
    for _ in range(20):
        Legacy(served).listen().close()
    sessions = [Legacy(served) for _ in range(2000)]
    descriptors, before, threads = served.descriptors(), served.memory(), n_threads(served)
    streams = [session.listen() for session in sessions]
    for stream in streams:
        assert stream.chunk() == b": open\n\n"
    each = (served.memory() - before) / len(streams)
    assert each <= 10 * 1000, f"{each:.0f} bytes each"
    assert n_threads(served) <= threads + 1
    assert Modern(served).post(call("list_sandboxes")).status == 200
    for stream in streams:
        stream.close()
    assert wait_until(lambda: served.descriptors() <= descriptors + 4)


def n_threads(served):
    with open(f"/proc/{served.process.pid}/status", encoding="ascii") as status:
        return int(re.search(r"Threads:\s+(\d+)", status.read()).group(1))


@pytest.mark.long
def test_an_idle_stream_gets_a_comment_every_fifteen_seconds(serve):
    served = serve("--no-auth", env={"ANYBOX_HTTP_IDLE_TIMEOUT": "5"})
    stream = Legacy(served).listen()
    stream.socket.settimeout(60)
    assert stream.chunk() == b": open\n\n"
    for _ in range(2):
        started = time.monotonic()
        assert stream.chunk() == b": keepalive\n\n"
        assert 14 <= time.monotonic() - started < 30


def test_without_the_library_it_says_which_package_is_missing(host):
    """The stdio server does not need it, and does not open it."""
    client = host.server()
    maps = open(f"/proc/{client.process.pid}/maps", encoding="ascii").read()
    assert "microhttpd" not in maps
