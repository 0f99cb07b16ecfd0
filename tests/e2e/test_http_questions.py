"""Questions and subscriptions over HTTP: a question travels on the stream of its call, its
answer comes by another request, and what a client brings back is its own."""
import json
import time

import pytest
from http_wire import META, Legacy, Modern, Served, call, events, request, tool_answer

POOL = 0
CAN = {"elicitation": {}}
YES = {"action": "accept", "content": {"ok": True}}
KEYS = {"ANYBOX_HTTP_KEYS": "one:key-of-one-0123456789ab,two:key-of-two-0123456789ab"}
ONE, TWO = "key-of-one-0123456789ab", "key-of-two-0123456789ab"


@pytest.fixture
def serve(host):
    running = []

    def start(*args, **more):
        running.append(Served(host, *args, env=KEYS, **more))
        running[-1].key = ONE
        return running[-1]
    yield start
    for served in running:
        served.close()


def tool(client, name, /, **arguments):
    return tool_answer(client.post(call(name, **arguments)).messages()[-1])


def make_busy(client):
    tool(client, "create_sandbox", name="busy")
    tool(client, "exec_bash", command="setsid sleep 4321 >/dev/null 2>&1 </dev/null &", sandbox_name="busy")


def names(client):
    return {b["name"] for b in tool(client, "list_sandboxes")["sandboxes"]}


def next_message(wire):
    """The next message of a stream that is open; a chunk may have several, or a comment."""
    while not getattr(wire, "read", None):
        wire.read = events(wire.chunk())
    return wire.read.pop(0)


def ask_to_delete(client):
    """The connection of a call that asks, and its question."""
    wire = client.begin(call("delete_sandbox", 7, sandbox_name="busy"))
    status, headers = wire.head()
    assert (status, headers["content-type"]) == (200, "text/event-stream")
    question = next_message(wire)
    assert question["method"] == "elicitation/create" and len(question["id"]) >= 32
    return wire, question


def answer(question, result):
    return {"jsonrpc": "2.0", "id": question["id"], "result": result}


@pytest.mark.parametrize("version", ["2025-06-18", "2025-11-25"])
def test_a_question_on_the_stream_is_answered_by_another_request(serve, version):
    client = Legacy(serve(), version, capabilities=CAN)
    make_busy(client)
    wire, question = ask_to_delete(client)
    assert client.post(answer(question, {"action": "decline"})).status == 202
    result = next_message(wire)
    assert result["id"] == 7 and tool_answer(result)["status"] == "not_deleted"
    assert wire.chunk() == b""
    wire, question = ask_to_delete(client)
    # Late, unknown and foreign answers change nothing, and nobody hears whether they could.
    assert client.post(answer({"id": "0" * 32}, YES)).status == 202
    assert client.post({"jsonrpc": "2.0", "id": question["id"], "error": {"code": 1, "message": "no"}}).status == 202
    assert tool_answer(next_message(wire))["status"] == "not_deleted"
    assert client.post(answer(question, YES)).status == 202
    wire, question = ask_to_delete(client)
    assert client.post(answer(question, YES)).status == 202
    assert tool_answer(next_message(wire))["status"] == "deleted"


def test_only_the_one_who_was_asked_can_answer(serve):
    served = serve()
    client = Legacy(served, capabilities=CAN)
    stranger = Legacy(served, capabilities=CAN, key=TWO)
    make_busy(client)
    wire, question = ask_to_delete(client)
    assert stranger.post(answer(question, YES)).status == 202
    assert names(client) == {"busy"} and names(stranger) == set()
    assert client.post(answer(question, {"action": "cancel"})).status == 202
    assert tool_answer(next_message(wire))["status"] == "not_deleted"
    assert tool(client, "delete_sandbox", sandbox_name="busy", force=True)["status"] == "deleted"


def test_who_takes_no_events_or_never_said_it_could_is_not_asked(serve):
    served = serve()
    for client, headers in ((Legacy(served, capabilities=CAN), {"Accept": "application/json"}), (Legacy(served), {})):
        make_busy(client)
        reply = client.post(call("delete_sandbox", sandbox_name="busy"), headers=headers)
        assert tool_answer(reply.messages()[-1])["status"] == "deleted"


def test_a_call_that_asks_is_taken_back(serve):
    client = Legacy(serve(), capabilities=CAN)
    make_busy(client)
    wire, question = ask_to_delete(client)
    assert client.post({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 7}}).status == 202
    assert wire.chunk() == b""  # the stream ends without an answer
    client.post(answer(question, YES))
    assert names(client) == {"busy"}


def test_a_server_with_an_open_question_leaves_at_once(serve):
    served = serve()
    client = Legacy(served, capabilities=CAN)
    make_busy(client)
    wire, _ = ask_to_delete(client)
    tool(Legacy(served), "delete_sandbox", sandbox_name="busy")
    began = time.monotonic()
    assert served.stop() == 0
    assert time.monotonic() - began < 20
    wire.close()


# ---- 2026-07-28 ---------------------------------------------------------------------------------


def delete(state=None, responses=None, can=CAN):
    message = call("delete_sandbox", 3, sandbox_name="busy")
    message["params"]["_meta"] = {META + "clientCapabilities": can}
    if state is not None:
        message["params"].update(requestState=state, inputResponses=responses)
    return message


def test_a_state_survives_the_server_but_not_another_key(serve):
    served = serve()
    client, stranger = Modern(served), Modern(served, TWO)
    make_busy(client)
    make_busy(stranger)
    asked = client.post(delete()).json()["result"]
    assert asked["resultType"] == "input_required"
    back = delete(asked["requestState"], {"confirm": YES})
    refused = stranger.post(back)
    assert refused.status == 200 and refused.code == -32602
    assert names(stranger) == {"busy"}
    tool(stranger, "delete_sandbox", sandbox_name="busy")
    served.process.kill()
    served.process.wait()
    again = Modern(serve())
    assert tool_answer(again.post(back).json())["status"] == "deleted"
    assert names(again) == set()


def test_a_forged_state_is_an_error_in_band(serve):
    client = Modern(serve())
    make_busy(client)
    asked = client.post(delete()).json()["result"]
    refused = client.post(delete(asked["requestState"] + "-TAMPERED", {"confirm": YES}))
    assert refused.status == 200 and refused.code == -32602
    assert client.post(delete(can={})).json()["result"]["resultType"] == "complete"


# ---- with the fixtures --------------------------------------------------------------------------


@pytest.fixture
def fixtures(serve, host, install, monkeypatch):
    assert install.conformance.exists(), "anybox-conformance is not built: make build-tests"
    monkeypatch.setattr(install, "anybox", install.conformance)
    return serve()


def listen(client, **filters):
    wire = client.begin(request("subscriptions/listen", "s", notifications=filters))
    status, headers = wire.head()
    assert (status, headers["content-type"]) == (200, "text/event-stream")
    acknowledged = next_message(wire)
    assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
    assert acknowledged["params"]["_meta"] == {META + "subscriptionId": "s"}
    return wire, acknowledged["params"]["notifications"]


def trigger(client, what):
    return client.post(call(f"test_trigger_{what}_change"))


def test_subscriptions_hear_what_they_asked_for(fixtures):
    client = Modern(fixtures)
    tools, honoured = listen(client, toolsListChanged=True)
    assert honoured == {"toolsListChanged": True}
    prompts, honoured = listen(client, promptsListChanged=True, resourceSubscriptions=["test://watched-resource"])
    assert honoured == {"promptsListChanged": True, "resourceSubscriptions": ["test://watched-resource"]}
    trigger(client, "tool")
    trigger(client, "prompt")
    assert next_message(tools)["method"] == "notifications/tools/list_changed"
    assert [next_message(prompts)["method"] for _ in range(2)] \
        == ["notifications/prompts/list_changed", "notifications/resources/updated"]
    tools.close()
    trigger(client, "tool")
    fixtures.process.terminate()
    last = next_message(prompts)
    assert last["id"] == "s" and last["result"]["resultType"] == "complete"
    assert prompts.chunk() == b""


def test_subscriptions_that_nobody_reads_any_more_are_let_go(fixtures):
    client = Modern(fixtures)
    trigger(client, "tool")
    before = fixtures.descriptors()
    wires = [listen(client, toolsListChanged=True)[0] for _ in range(20)]
    assert fixtures.descriptors() >= before + 15  # what was before may have ended since
    for wire in wires:
        wire.close()
    deadline = time.monotonic() + 30
    while fixtures.descriptors() > before + 2:
        assert time.monotonic() < deadline, "connections of clients that left are still open"
        time.sleep(0.1)
    assert trigger(client, "tool").status == 200


def test_a_missing_capability_is_told_by_the_status_too(fixtures):
    reply = Modern(fixtures).post(call("test_missing_capability"))
    assert reply.status == 400 and reply.code == -32021
    assert reply.json()["error"]["data"] == {"requiredCapabilities": {"sampling": {}}}
    assert json.loads(reply.body)["id"] == 1
