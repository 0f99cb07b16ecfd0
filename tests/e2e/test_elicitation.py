"""Questions in the middle of a call: delete_sandbox of a busy box asks who can be asked,
by a request of its own up to 2025-11-25 and by its result from 2026-07-28 on."""
import time

import pytest
from mcp_client import MODERN, RpcFailed, ToolFailed

pytestmark = pytest.mark.every_tier
POOL = 0
CAN = {"elicitation": {"form": {}, "url": {}}}
ERAS = ["2025-06-18", "2025-11-25", MODERN]


def reply_with(action, **content):
    return lambda method, params: {"action": action, **({"content": content} if content else {})}


def busy_box(client, name="busy"):
    box = client.tool("create_sandbox", name=name)
    client.bash("setsid sleep 4321 >/dev/null 2>&1 </dev/null &", sandbox_name=name)
    return box["sandbox_id"]


def names(client):
    return {b["name"] for b in client.tool("list_sandboxes")["sandboxes"]}


@pytest.mark.parametrize("version", ERAS)
def test_a_busy_box_goes_only_with_a_yes(host, version):
    client = host.server(version=version, capabilities=CAN, reply=reply_with("decline"))
    box = busy_box(client)
    kept = client.tool("delete_sandbox", sandbox_name="busy")
    assert kept["status"] == "not_deleted" and "declined" in kept["reason"]
    assert kept["sandbox_id"] == box and kept["processes"] >= 1
    assert names(client) == {"busy"}
    question = client.questions[0]
    assert question["method"] == "elicitation/create"
    assert '"busy"' in question["params"]["message"] and "running" in question["params"]["message"]
    assert question["params"]["requestedSchema"]["required"] == ["ok"]
    client.reply = reply_with("accept", ok=True)
    assert client.tool("delete_sandbox", sandbox_name="busy")["status"] == "deleted"
    assert names(client) == set() and len(client.questions) == 2


@pytest.mark.parametrize("version", ERAS)
def test_a_running_command_counts_and_a_closed_form_is_no_yes(host, version):
    client = host.server(version=version, capabilities={"elicitation": {}}, reply=reply_with("cancel"))
    client.tool("create_sandbox", name="work")
    running = client.start_tool("exec_bash", {"command": "touch up; sleep 30"})
    client.bash("until [ -e up ]; do sleep 0.02; done")
    kept = client.tool("delete_sandbox", sandbox_name="work")
    assert kept["status"] == "not_deleted" and "force" in kept["reason"]
    client.reply = reply_with("accept", ok=False)
    assert "declined" in client.tool("delete_sandbox", sandbox_name="work")["reason"]
    assert not running.done()
    assert client.tool("delete_sandbox", sandbox_name="work", force=True)["status"] == "deleted"
    assert len(client.questions) == 2
    with pytest.raises(ToolFailed):
        client.finish_tool(running)


@pytest.mark.parametrize("version", ERAS)
def test_an_idle_box_is_deleted_without_a_question(host, version):
    client = host.server(version=version, capabilities=CAN, reply=reply_with("decline"))
    client.tool("create_sandbox", name="idle")
    assert client.bash("echo 1", sandbox_name="idle")["exit_code"] == 0
    assert client.tool("delete_sandbox", sandbox_name="idle")["status"] == "deleted"
    assert client.questions == []


@pytest.mark.parametrize("version, capabilities", [
    ("2024-11-05", CAN), ("2025-03-26", CAN), ("2025-11-25", {}), ("2025-11-25", {"elicitation": {"url": {}}}),
    (MODERN, {}), (MODERN, {"sampling": {}})])
def test_who_cannot_be_asked_is_served_as_ever(host, version, capabilities):
    client = host.server(version=version, capabilities=capabilities)
    busy_box(client)
    assert client.tool("delete_sandbox", sandbox_name="busy")["status"] == "deleted"
    assert client.questions == []


def test_a_client_that_fails_to_ask_keeps_its_box(host):
    def fail(method, params):
        raise RpcFailed({"code": -32603, "message": "no window"})
    client = host.server(capabilities=CAN, reply=fail)
    busy_box(client)
    assert client.tool("delete_sandbox", sandbox_name="busy")["status"] == "not_deleted"
    client.reply = lambda method, params: {"what": "is this"}
    assert client.tool("delete_sandbox", sandbox_name="busy")["status"] == "not_deleted"
    assert names(client) == {"busy"}


def test_other_calls_go_on_while_a_question_is_open(host):
    client = host.server(capabilities=CAN, reply=lambda method, params: None)
    busy_box(client)
    asking = client.start_tool("delete_sandbox", {"sandbox_name": "busy"})
    client.wait_for(lambda: client.questions)
    assert client.bash("echo meanwhile", sandbox_name="busy")["stdout"] == "meanwhile\n"
    assert client.result("ping") == {}
    client.send({"jsonrpc": "2.0", "id": "not-" + client.questions[0]["id"],
                 "result": {"action": "accept", "content": {"ok": True}}})
    client.send({"jsonrpc": "2.0", "id": 0, "result": {"action": "accept", "content": {"ok": True}}})
    assert names(client) == {"busy"} and not asking.done()
    client.send({"jsonrpc": "2.0", "id": client.questions[0]["id"],
                 "result": {"action": "accept", "content": {"ok": True}}})
    assert client.finish_tool(asking)["status"] == "deleted"


def test_a_call_that_is_taken_back_while_it_asks_does_nothing(host):
    client = host.server(capabilities=CAN, reply=lambda method, params: None)
    busy_box(client)
    asking = client.start_tool("delete_sandbox", {"sandbox_name": "busy"})
    client.wait_for(lambda: client.questions)
    client.cancel(asking.request_id)
    client.send({"jsonrpc": "2.0", "id": client.questions[0]["id"],
                 "result": {"action": "accept", "content": {"ok": True}}})
    assert names(client) == {"busy"}
    time.sleep(0.3)
    assert not asking.done()


def test_the_server_leaves_at_once_with_a_question_open(host):
    client = host.server(capabilities=CAN, reply=lambda method, params: None)
    busy_box(client)
    client.start_tool("delete_sandbox", {"sandbox_name": "busy"})
    client.wait_for(lambda: client.questions)
    client.end_input()
    code, took = client.wait()
    assert code == 0 and took < 15


# ---- 2026-07-28: what comes back ------------------------------------------------------------


@pytest.fixture
def modern(host):
    client = host.server(version=MODERN, capabilities=CAN, reply=reply_with("accept", ok=True))
    client.busy = busy_box(client)
    client.question = client.result("tools/call", {"name": "delete_sandbox",
                                                   "arguments": {"sandbox_name": "busy"}})
    return client


def come_back(client, state, answers, **arguments):
    params = {"name": "delete_sandbox", "arguments": arguments or {"sandbox_name": "busy"}}
    if state is not None:
        params["requestState"] = state
    if answers is not None:
        params["inputResponses"] = answers
    return client.request("tools/call", params).result(30)


YES = {"confirm": {"action": "accept", "content": {"ok": True}}}


def test_the_question_is_a_result(modern):
    question = modern.question
    assert question["resultType"] == "input_required"
    assert list(question["inputRequests"]) == ["confirm"] and "content" not in question
    assert question["inputRequests"]["confirm"]["method"] == "elicitation/create"
    assert isinstance(question["requestState"], str)
    answer = come_back(modern, question["requestState"], {**YES, "more": {"action": "decline"}, "x": 1})
    assert '"deleted"' in answer["result"]["content"][0]["text"]


def test_a_state_that_is_not_ours_is_refused(modern):
    state = modern.question["requestState"]
    forged = [state + "-TAMPERED", state[:-1], state[1:], state.swapcase(), "A" + state, "", "x", "é", "a" * 70000,
              7, None, {}, ["1"]]
    for wrong in forged:
        answer = modern.request("tools/call", {
            "name": "delete_sandbox", "arguments": {"sandbox_name": "busy"},
            "inputResponses": YES, "requestState": wrong}).result(30)
        assert answer["error"]["code"] == -32602, wrong
    assert names(modern) == {"busy"}


def test_a_state_is_good_for_the_same_request_only(modern):
    state = modern.question["requestState"]
    modern.tool("create_sandbox", name="other")
    assert come_back(modern, state, YES, sandbox_name="other")["error"]["code"] == -32602
    assert come_back(modern, state, YES, sandbox_id=modern.busy)["error"]["code"] == -32602
    answer = modern.request("tools/call", {"name": "exec_bash", "arguments": {"sandbox_name": "busy"},
                                           "requestState": state}).result(30)
    assert answer["error"]["code"] == -32602
    assert names(modern) == {"busy", "other"}


def test_a_yes_is_good_for_the_same_box_only(modern):
    state = modern.question["requestState"]
    assert modern.tool("delete_sandbox", sandbox_name="busy", force=True)["status"] == "deleted"
    busy_box(modern)  # another one of that name
    assert come_back(modern, state, YES)["result"]["resultType"] == "input_required"
    assert names(modern) == {"busy"}


def test_what_is_not_answered_is_asked_again(modern):
    state = modern.question["requestState"]
    for answers in (None, {}, {"other": {"action": "accept"}}, {"confirm": 1}, {"confirm": {}},
                    {"confirm": {"action": "perhaps"}}):
        assert come_back(modern, state, answers)["result"]["resultType"] == "input_required", answers
    # A yes to a question that was never asked is none.
    assert come_back(modern, None, YES)["result"]["resultType"] == "input_required"
    for answers in (7, [], "yes"):
        assert come_back(modern, state, answers)["error"]["code"] == -32602
    declined = come_back(modern, state, {"confirm": {"action": "decline"}})["result"]
    assert declined["resultType"] == "complete" and "not_deleted" in declined["content"][0]["text"]
    assert "isError" not in declined


def test_a_client_that_cannot_be_asked_any_more_is_not(modern):
    modern.capabilities = {}
    answer = come_back(modern, modern.question["requestState"], None)
    assert '"deleted"' in answer["result"]["content"][0]["text"]
