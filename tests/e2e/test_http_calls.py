"""Calls over HTTP: JSON or events, progress, cancelling, clients that go away, who sees whose
boxes, and what a restart leaves of a session."""
import concurrent.futures
import json
import signal
import socket
import time

import pytest
from host import command_line, free_port, wait_until
from http_wire import Legacy, Modern, Served, call, request, tool_answer

POOL = 0
KEYS = "one:key-of-one-0123456789,two:key-of-two-0123456789"
ONE, TWO = "key-of-one-0123456789", "key-of-two-0123456789"


@pytest.fixture
def served(host):
    server = Served(host, env={"ANYBOX_HTTP_KEYS": KEYS}, port=free_port())
    server.key = ONE
    yield server
    server.close()
    server.key = TWO
    assert server.process.returncode in (0, -signal.SIGKILL)


@pytest.fixture(params=[Legacy, Modern])
def client(served, request):
    return request.param(served)


def runs(host, marker):
    return [pid for pid in host.install.box_processes() if marker in command_line(pid)]


# ---- JSON or events -------------------------------------------------------------------------

def test_a_call_is_answered_in_json_when_it_is_quick(client):
    reply = client.post(call("exec_bash", "quick", command="echo hello"))
    assert reply.status == 200 and reply.json()["id"] == "quick"
    assert tool_answer(reply.json())["stdout"] == "hello\n"


def test_a_call_that_takes_time_becomes_a_stream_before_it_ends(client):
    client.tool("exec_bash", command="true")
    with client.begin(call("exec_bash", 5, command="until [ -e go ]; do sleep 0.1; done; echo late")) as wire:
        status, headers = wire.head()
        client.tool("exec_bash", command="touch go")  # not before that
        assert (status, headers["content-type"]) == (200, "text/event-stream")
        assert wire.chunk() == b": open\n\n"
        [message] = [json.loads(line[6:]) for line in wire.chunk().splitlines() if line.startswith(b"data: ")]
        assert message["id"] == 5 and tool_answer(message)["stdout"] == "late\n"
        assert wire.chunk() == b""


def test_who_takes_only_json_waits_for_it(client):
    reply = client.post(call("exec_bash", command="sleep 1.7; echo late"), headers={"Accept": "application/json"})
    assert tool_answer(reply.json())["stdout"] == "late\n"


def test_progress_comes_on_the_stream_of_its_call(client):
    message = call("exec_bash", 8, token="t0", command="for i in 1 2 3; do echo $i; sleep 1; done")
    with client.begin(message) as wire:
        status, headers = wire.head()
        assert (status, headers["content-type"]) == (200, "text/event-stream")
        body = b""
        while True:
            chunk = wire.chunk()
            if not chunk:
                break
            body += chunk
    *progress, answer = [json.loads(line[6:]) for line in body.splitlines() if line.startswith(b"data: ")]
    assert answer["id"] == 8 and tool_answer(answer)["stdout"] == "1\n2\n3\n"
    assert progress and {p["params"]["progressToken"] for p in progress} == {"t0"}
    numbers = [p["params"]["progress"] for p in progress]
    assert numbers == sorted(set(numbers))


def test_many_calls_of_one_session_are_under_way_at_once(served):
    session = Legacy(served)
    session.tool("exec_bash", command="true")
    each = "touch side-$$; until set -- side-*; [ $# -eq 16 ]; do sleep 0.1; done"  # waits for the others
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        replies = list(pool.map(lambda i: session.post(call("exec_bash", i, command=f"{each}; echo {i}")), range(16)))
    for i, reply in enumerate(replies):
        [message] = reply.messages()
        assert message["id"] == i and tool_answer(message)["stdout"] == f"{i}\n"


def test_two_requests_sent_at_once_are_answered_in_their_order(served):
    session = Legacy(served)
    with served.wire() as wire:
        wire.send(b"".join(served.request(body=json.dumps(request("ping", i)).encode(), headers=session.headers)
                           for i in range(3)))
        assert [wire.reply().json()["id"] for _ in range(3)] == [0, 1, 2]


def test_calls_of_one_key_have_their_limit(host):
    served = Served(host, env={"ANYBOX_HTTP_KEYS": KEYS, "ANYBOX_HTTP_MAX_CALLS": "1"})
    served.key = ONE
    session, other = Legacy(served), Legacy(served, key=TWO)
    session.tool("exec_bash", command="true")
    with session.begin(call("exec_bash", "long", command="sleep 68")) as wire:
        assert wait_until(lambda: runs(host, "sleep 68"))
        reply = session.post(call("exec_bash", 2, command="true"))
        assert reply.status == 429 and reply.headers["retry-after"] == "1" and reply.json()["id"] == 2
        assert session.post(request("ping")).status == 200
        assert other.post(call("list_sandboxes")).status == 200
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "long"}}
        assert session.post(cancel).status == 202
        wire.reply()
    served.close()


# ---- taking a call back -------------------------------------------------------------------------

def test_a_session_takes_a_call_back_by_another_post(served, host):
    session, stranger = Legacy(served), Legacy(served)
    session.tool("exec_bash", command="true")
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": "long"}}
    with session.begin(call("exec_bash", "long", command="sleep 61")) as wire:
        assert wait_until(lambda: runs(host, "sleep 61"))
        # Ids belong to their sessions.
        assert stranger.post(cancel).status == 202
        time.sleep(0.3)
        assert runs(host, "sleep 61")
        assert session.post(cancel).status == 202
        reply = wire.reply()
        assert (reply.status, reply.messages()) == (200, [])
    assert wait_until(lambda: not runs(host, "sleep 61"))


def test_a_modern_client_that_goes_away_takes_its_call_back(served, host):
    client = Modern(served)
    client.tool("exec_bash", command="true")
    wire = client.begin(call("exec_bash", command="sleep 62"))
    assert wait_until(lambda: runs(host, "sleep 62"))
    wire.close()
    assert wait_until(lambda: not runs(host, "sleep 62"))
    # And one whose stream was open already.
    wire = client.begin(call("exec_bash", token=1, command="sleep 63"))
    wire.head()
    assert wait_until(lambda: runs(host, "sleep 63"))
    wire.close()
    assert wait_until(lambda: not runs(host, "sleep 63"))


def test_a_session_that_goes_away_does_not(served, host):
    session = Legacy(served)
    session.tool("exec_bash", command="true")
    wires = [session.begin(call("exec_bash", i, token=token, command=f"until [ -e go ]; do sleep 0.1; done; echo done > done{i}"))
             for i, token in enumerate((None, 1))]
    assert wait_until(lambda: len(runs(host, "done0")) == 1 and len(runs(host, "done1")) == 1)
    for wire in wires:
        wire.close()
    session.tool("exec_bash", command="touch go")
    assert wait_until(lambda: not runs(host, "echo done"))
    assert session.tool("exec_bash", command="cat done0 done1")["stdout"] == "done\ndone\n"


@pytest.mark.parametrize("seconds", [0.3, 1.7])
def test_who_only_stops_sending_still_gets_its_answer(served, seconds):
    session = Legacy(served)
    with session.begin(call("exec_bash", command=f"sleep {seconds}; echo here")) as wire:
        wire.socket.shutdown(socket.SHUT_WR)
        reply = wire.reply()
    assert tool_answer(reply.messages()[-1])["stdout"] == "here\n"


def test_nothing_is_kept_of_clients_that_went_away(host):
    """Also when the answer became a stream only after that."""
    served = Served(host, "--no-auth")
    for client in Modern(served), Legacy(served):
        client.tool("exec_bash", command="true")
        wires = [client.begin(call("exec_bash", i, token=token, command="sleep 2.4"))
                 for i, token in enumerate([None] * 12 + [1, 1])]
        assert wait_until(lambda: runs(host, "sleep 2.4"))
        for wire in wires:
            wire.close()
    assert wait_until(lambda: not runs(host, "sleep 2.4"))
    assert served.stop() == 0
    assert "not freed" not in served.log


def test_ending_a_session_ends_what_runs_in_it(served, host):
    session = Legacy(served)
    session.tool("exec_bash", command="true")
    with session.begin(call("exec_bash", command="sleep 64")) as wire, session.listen() as stream:
        assert stream.chunk() == b": open\n\n"
        assert wait_until(lambda: runs(host, "sleep 64"))
        assert served.send("DELETE", headers=session.headers).status == 204
        assert wait_until(lambda: not runs(host, "sleep 64"))
        assert stream.chunk() == b""
        assert wire.reply().status == 200


# ---- whose ------------------------------------------------------------------------------------

def test_two_keys_see_nothing_of_each_other(served):
    one, two = Legacy(served), Legacy(served, key=TWO)
    box = one.tool("create_sandbox", name="mine")["sandbox_id"]
    assert [b["name"] for b in one.tool("list_sandboxes")["sandboxes"]] == ["mine"]
    assert two.tool("list_sandboxes")["sandboxes"] == []
    for stranger in two, Modern(served, TWO):
        for name in {"sandbox_id": box}, {"sandbox_name": "mine"}:
            result = stranger.post(call("exec_bash", command="id", **name)).messages()[-1]["result"]
            assert result["isError"] and json.loads(result["content"][0]["text"])["code"] == "not_found"
    # A session belongs to its key.
    reply = served.post(request("ping"), headers=one.headers, key=TWO)
    assert reply.status == 404
    # The same name is free for the other.
    theirs = two.tool("create_sandbox", name="mine")["sandbox_id"]
    assert theirs != box
    two.tool("delete_sandbox", sandbox_id=theirs)
    assert len(one.tool("list_sandboxes")["sandboxes"]) == 1


def test_sessions_of_one_key_select_for_themselves(served):
    first, second = Legacy(served), Legacy(served)
    first.tool("create_sandbox", name="a")
    second.tool("create_sandbox", name="b")
    first.tool("select_sandbox", sandbox_name="a")
    second.tool("select_sandbox", sandbox_name="b")
    assert first.tool("exec_bash", command="hostname")["stdout"] == "a\n"
    assert second.tool("exec_bash", command="hostname")["stdout"] == "b\n"


# ---- restarts and the end ----------------------------------------------------------------------

def test_a_session_survives_a_killed_server(host):
    served = Served(host, env={"ANYBOX_HTTP_KEYS": KEYS})
    served.key = ONE
    session = Legacy(served, "2025-06-18")
    session.tool("exec_bash", command="echo kept > file")
    with session.begin(call("exec_bash", token=1, command="sleep 65")) as wire:
        wire.head()
        assert wait_until(lambda: runs(host, "sleep 65"))
        served.process.kill()
        served.process.wait()
    again = Served(host, env={"ANYBOX_HTTP_KEYS": KEYS}, port=served.port)
    again.key = ONE
    session.served = again
    assert session.post(request("ping")).json()["result"] == {}
    assert session.tool("exec_bash", command="cat file")["stdout"] == "kept\n"
    assert "title" in session.post(request("tools/list")).json()["result"]["tools"][0]  # still 2025-06-18
    again.close()


def test_a_signal_ends_calls_and_streams_in_order(host):
    served = Served(host, env={"ANYBOX_HTTP_KEYS": KEYS})
    served.key = ONE
    session = Legacy(served)
    session.tool("exec_bash", command="true")
    with session.listen() as stream, session.begin(call("exec_bash", "soon", command="sleep 1; echo soon")) as soon, \
            session.begin(call("exec_bash", "never", command="sleep 66")) as never:
        assert stream.chunk() == b": open\n\n"
        assert wait_until(lambda: runs(host, "sleep 66"))
        started = time.monotonic()
        served.process.send_signal(signal.SIGTERM)
        assert stream.chunk() == b""
        assert tool_answer(soon.reply().messages()[-1])["stdout"] == "soon\n"
        last = never.reply().messages()[-1]
        assert last["id"] == "never" and last["result"]["isError"]
        assert served.process.wait(30) == 0 and time.monotonic() - started < 20
    assert wait_until(lambda: not runs(host, "sleep 66"))
    again = Served(host, env={"ANYBOX_HTTP_KEYS": KEYS})
    again.key = ONE
    again.close()


def test_an_idle_server_ends_at_once_and_a_second_signal_hurries(host):
    served = Served(host, "--no-auth")
    started = time.monotonic()
    assert served.stop(signal.SIGINT) == 0 and time.monotonic() - started < 15
    served = Served(host, "--no-auth")
    session = Legacy(served)
    session.tool("exec_bash", command="true")
    with session.begin(call("exec_bash", command="sleep 67")):
        assert wait_until(lambda: runs(host, "sleep 67"))
        served.process.send_signal(signal.SIGTERM)
        time.sleep(0.2)
        started = time.monotonic()
        # Two that come before it looks are one.
        assert wait_until(lambda: served.process.poll() is not None or served.process.send_signal(signal.SIGTERM), pause=0.5)
        assert served.process.returncode == 1 and time.monotonic() - started < 15
