"""Clients of `anybox serve` that mean harm: what they can neither take from others nor use up."""
import re
import resource
import socket
import time

import pytest
from host import wait_until
from http_wire import Legacy, Modern, Served, call, tool_answer

POOL = 0
ONE, TWO = "key-number-one-of-two-000", "key-number-two-of-two-000"


@pytest.fixture
def serve(host):
    started = []

    def start(*args, env=None, **more):
        env = {"ANYBOX_HTTP_KEYS": f"one:{ONE},two:{TWO}", **(env or {})}
        served = Served(host, *args, env=env, **more)
        served.key = ONE
        started.append(served)
        return served

    yield start
    for served in started:
        served.close()


def metric(served, name):
    page = served.send("GET", "/metrics").body.decode()
    return int(re.search(rf"^anybox_{name} (\d+)$", page, re.M).group(1))


# ---- what a proxy would read otherwise -----------------------------------------------------------

CHECK = b"GET /check HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.mark.parametrize("headers,body", [
    (b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n"),
    (b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n", b"0\r\n\r\n"),
    (b"Content-Length: 2\r\nContent-Length: 42\r\n", b"{}"), (b"Content-Length: 42\r\nContent-Length: 2\r\n", b"{}"),
    (b"Content-Length : 43\r\n", b""), (b"Content-Length\t: 43\r\n", b""), (b"Transfer-Encoding : chunked\r\n", b"0\r\n\r\n"),
    (b"Transfer-Encoding: xchunked\r\n", b"0\r\n\r\n"), (b"Transfer-Encoding: gzip, chunked\r\n", b"0\r\n\r\n"),
    (b"Transfer-Encoding: chunked, identity\r\n", b"0\r\n\r\n"),
    (b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked\r\n", b"0\r\n\r\n")])
def test_a_body_with_two_ends_is_refused_and_nothing_behind_it_is_read(serve, headers, body):
    served = serve()
    with served.wire() as wire:
        wire.send(b"POST /mcp/tools/list_sandboxes HTTP/1.1\r\nHost: localhost\r\nX-API-Key: " + ONE.encode() +
                  b"\r\nContent-Type: application/json\r\n" + headers + b"\r\n" + body + CHECK)
        assert wire.is_closed(5)
        assert re.findall(rb"HTTP/1\.1 (\d+)", wire.buffer) == [b"400"], wire.buffer


@pytest.mark.parametrize("line", [b"GET /check", b"PUT /sandbox/file?sandbox_name=none&file_path=/x"])
def test_a_body_without_an_end_that_nobody_reads_is_cut_off(serve, line):
    served = serve(env={"ANYBOX_HTTP_MAX_UPLOAD": "1m"})
    with served.wire() as wire:
        wire.send(line + b" HTTP/1.1\r\nHost: localhost\r\nX-API-Key: " + ONE.encode() +
                  b"\r\nTransfer-Encoding: chunked\r\n\r\n")
        chunk = b"100000\r\n" + bytes(1 << 20) + b"\r\n"
        with pytest.raises(ConnectionError):
            for _ in range(64):
                wire.send(chunk)


def test_who_has_no_key_writes_no_audit_log(serve, host):
    log = host.folder / "audit.log"
    served = serve(env={"ANYBOX_AUDIT_FILE": str(log)})
    for query in ("file_path=/x&link=AAAA", "sandbox_id=0&file_path=/x&link=" + "A" * 80, "file_path=/x", "link=AAAA"):
        assert served.send("GET", "/sandbox/file?" + query, key=None).status in (401, 403)
        assert served.send("PUT", "/sandbox/file?" + query, body=b"x", key=None).status == 401
    assert served.send("POST", "/mcp/tools/list_sandboxes", key=None).status == 401
    assert not log.exists() or log.read_text() == ""


@pytest.mark.parametrize("spoil", [lambda key: key.chmod(0o644), lambda key: key.write_bytes(b"short")])
def test_a_key_for_signatures_that_is_not_good_is_told_at_the_start(serve, host, spoil):
    """Not by links and sessions, to whoever sends them."""
    assert serve().stop() == 0
    spoil(host.home / "token_key")
    done = host.run("serve", "--port", "0")
    assert done.returncode == 1 and "token_key" in done.stderr and "emove it" in done.stderr
    (host.home / "token_key").unlink()
    assert serve().stop() == 0


def test_without_keys_not_every_page_is_let_in(serve, host):
    done = host.run("serve", "--port", "0", "--no-auth", env={"ANYBOX_HTTP_CORS_ORIGINS": "https://a.example, *"})
    assert done.returncode == 1 and "cors_origins" in done.stderr and "--no-auth" in done.stderr
    served = serve(env={"ANYBOX_HTTP_CORS_ORIGINS": "*"})
    assert served.send("POST", "/mcp/tools/list_sandboxes", headers={"Origin": "https://a.example"}, key=None).status == 401
    origins = {"ANYBOX_HTTP_CORS_ORIGINS": "https://a.example"}
    assert serve("--no-auth", env={**origins, "ANYBOX_HTTP_KEYS": ""}).stop() == 0


# ---- one key against the others --------------------------------------------------------------------

def test_a_batch_is_as_many_calls_as_are_in_it(serve):
    served = serve(env={"ANYBOX_HTTP_MAX_CALLS": "4"})
    session = Legacy(served, version="2025-03-26")
    session.tool("create_sandbox", name="work")
    more = session.post([call("exec_bash", i, command="sleep 5") for i in range(5)])
    assert more.status == 429 and "http.max_calls" in more.json()["error"]["message"]
    with session.begin([call("exec_bash", i, command="sleep 1") for i in range(4)]) as wire:
        assert wait_until(lambda: metric(served, "calls_running") == 4)
        assert session.post(call("list_sandboxes", 9)).status == 429
        wire.reply()
    assert session.post([call("list_sandboxes", i) for i in range(4)]).status == 200


def test_slow_readers_of_files_leave_threads_to_others(serve):
    served = serve(env={"ANYBOX_SERVER_MAX_CALLS": "4", "ANYBOX_HTTP_MAX_CALLS": "3"})
    mine, theirs = Modern(served), Modern(served, key=TWO)
    for client in mine, theirs:
        client.tool("create_sandbox", name="work")
        client.tool("exec_bash", command="truncate -s 64M /workspace/big")
    get = "/sandbox/file?sandbox_name=work&file_path=/workspace/big"
    wires = []

    def fetch(key):
        wire = served.wire()
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        wire.send(served.request("GET", get, key=key))
        wires.append(wire)
        return wire.head()[0]
    assert [fetch(ONE) for _ in range(5)] == [200] * 3 + [429] * 2
    assert [fetch(TWO) for _ in range(2)] == [200, 429]  # four of all together
    assert theirs.tool("exec_bash", command="echo hi")["stdout"] == "hi\n"
    assert mine.tool("exec_bash", command="echo hi")["stdout"] == "hi\n"
    for wire in wires:
        wire.close()
    assert wait_until(lambda: served.send("HEAD", get).status == 200)
    theirs.tool("delete_sandbox", sandbox_name="work", force=True)


def test_bodies_of_one_key_have_a_limit_together(serve):
    served = serve()
    body, before = bytes(15 << 20), served.memory()
    wires = []
    for _ in range(12):
        wires.append(served.wire())
        wires[-1].send(served.request("POST", "/mcp/tools/list_sandboxes", headers={"Content-Length": str(len(body) + 1)}) + body)
    assert served.send("POST", "/mcp/tools/list_sandboxes", key=TWO).status == 200
    assert served.memory() - before < 160 << 20
    for wire in wires:
        wire.send(b" ")
    statuses = [wire.reply().status for wire in wires]
    assert statuses.count(429) == 12 - statuses.count(400) == 4, statuses
    for wire in wires:
        wire.close()
    assert served.send("POST", "/mcp/tools/list_sandboxes", body=b"{" + b" " * (15 << 20) + b"}").status == 200


def test_a_message_of_nothing_but_values_costs_no_memory(serve):
    served = serve()
    before = served.memory()
    for values in b"0," * 2000000, b"[],[" * 900000, b'"",' * 1300000:
        reply = served.post(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":[' + values + b"0]}}")
        assert reply.status == 400 and "too much JSON" in reply.json()["error"]["message"]
    assert served.memory() - before < 16 << 20


def test_connections_leave_descriptors_to_calls(serve):
    served = serve(preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256)))
    Modern(served).tool("create_sandbox", name="work")
    with served.wire() as wire:
        assert served.send("GET", "/check", wire=wire).status == 200
        flood = [socket.create_connection((served.address, served.port)) for _ in range(300)]
        assert wait_until(lambda: served.descriptors() > 190)
        message = call("exec_bash", command="echo hi")
        reply = served.post(Modern.message(message), headers=Modern.headers(message), wire=wire)
        assert tool_answer(reply.messages()[-1])["stdout"] == "hi\n"
    for one in flood:
        one.close()
    assert wait_until(lambda: served.descriptors() < 64)
    assert served.send("GET", "/check").status == 200


# ---- memory that nobody uses any more --------------------------------------------------------------

def test_a_stream_is_forgotten_when_its_client_is_gone(serve):
    served = serve()
    sessions = [Legacy(served) for _ in range(20)]
    streams = [session.listen() for session in sessions]
    assert metric(served, "http_streams") == 20
    for stream in streams:
        stream.close()
    assert wait_until(lambda: metric(served, "http_streams") == 0)
    with sessions[0].listen() as again:
        assert again.chunk() == b": open\n\n" and metric(served, "http_streams") == 1
        again.socket.shutdown(socket.SHUT_WR)
        assert wait_until(lambda: metric(served, "http_streams") == 0)
    assert sessions[0].post({"jsonrpc": "2.0", "id": 1, "method": "ping"}).status == 200


# ---- files that a box made to harm -----------------------------------------------------------------

@pytest.mark.parametrize("seconds", [2**63 - 1, -2**63, 2**62, -1, 10**13])
def test_times_of_files_have_no_limits(serve, seconds):
    served = serve()
    client = Modern(served)
    client.tool("create_sandbox", name="work")
    client.tool("exec_bash", command=f"echo hi > /workspace/a; touch -d @{seconds} /workspace/a")
    got = served.send("GET", "/sandbox/file?sandbox_name=work&file_path=/workspace/a")
    assert (got.status, got.body) == (200, b"hi\n")
    assert got.headers["etag"].startswith("W/") == (seconds > time.time())
    assert re.fullmatch(r"\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT", got.headers["last-modified"])
