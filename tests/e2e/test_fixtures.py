"""What the product has no rows for yet, served by the conformance fixtures over stdio: content
of every kind, prompts, resources, completion, log messages, subscriptions, and questions of
every kind. The official suite (make conformance) says the same over HTTP."""
import json
import time

import pytest
from mcp_client import LEGACY, META, MODERN

ALL = {"elicitation": {}, "sampling": {}, "roots": {}}
ERAS = [*LEGACY, MODERN]
SINCE_ELICITATION = LEGACY[2:]


def reply(method, params):
    if method == "elicitation/create":
        name = next(iter(params["requestedSchema"]["properties"]))
        return {"action": "accept", "content": {name: f"my {name}"}}
    if method == "sampling/createMessage":
        return {"role": "assistant", "content": {"type": "text", "text": "Paris"}, "model": "m"}
    return {"roots": [{"uri": "file:///r", "name": "r"}]}


@pytest.fixture
def fixtures(host, install):
    assert install.conformance.exists(), "anybox-conformance is not built: make build-tests"
    def start(version="2025-11-25", **more):
        return host.server(program=install.conformance, version=version, **more)
    return start


def call(client, name, arguments=None, **more):
    return client.result("tools/call", {"name": name, "arguments": arguments or {}}, **more)


def call_through(client, name, arguments=None):
    """To the end, whichever way its questions come."""
    result = call(client, name, arguments)
    rounds = 0
    while result.get("resultType") == "input_required":
        result = client.come_back(name, arguments or {}, result).result(30)["result"]
        rounds += 1
    return result, rounds


@pytest.mark.parametrize("version", ERAS)
def test_content_of_every_kind(fixtures, version):
    client = fixtures(version)
    kinds = {name: [b["type"] for b in call(client, name)["content"]] for name in (
        "test_simple_text", "test_image_content", "test_audio_content", "test_embedded_resource",
        "test_multiple_content_types")}
    # Sound came with 2025-03-26; who does not know it is told so.
    assert kinds == {"test_simple_text": ["text"], "test_image_content": ["image"],
                     "test_audio_content": ["text" if version == "2024-11-05" else "audio"],
                     "test_embedded_resource": ["resource"],
                     "test_multiple_content_types": ["text", "image", "resource"]}
    failed = call(client, "test_error_handling")
    assert failed["isError"] and "intentionally" in failed["content"][0]["text"]


@pytest.mark.parametrize("version", ERAS)
def test_what_has_rows_is_declared(fixtures, host, version):
    for client, extra in ((fixtures(version), {"logging"}), (host.server(version=version), set())):
        declared = client.result("server/discover")["capabilities"] if client.modern else client.server["capabilities"]
        more = {"completions"} if version != "2024-11-05" else set()
        assert set(declared) == {"tools", "prompts", "resources"} | extra | more
        assert ("listChanged" in declared["tools"]) == bool(extra and client.modern)


@pytest.mark.parametrize("version", ERAS)
def test_prompts(fixtures, version):
    client = fixtures(version)
    listed = {p["name"]: p for p in client.result("prompts/list")["prompts"]}
    assert len(listed) == 5 and all(p["description"] for p in listed.values())
    assert [a["name"] for a in listed["test_prompt_with_arguments"]["arguments"]] == ["arg1", "arg2"]
    filled = client.result("prompts/get", {"name": "test_prompt_with_arguments", "arguments": {"arg1": "é", "arg2": "y"}})
    assert "arg1='é', arg2='y'" in filled["messages"][0]["content"]["text"]
    assert [m["content"]["type"] for m in client.result("prompts/get", {"name": "test_prompt_with_image"})["messages"]] \
        == ["image", "text"]
    for wrong in ({}, {"name": "no_such"}, {"name": "test_prompt_with_arguments"},
                  {"name": "test_prompt_with_arguments", "arguments": {"arg1": "x"}},
                  {"name": "test_prompt_with_arguments", "arguments": {"arg1": 1, "arg2": "x"}},
                  {"name": "test_simple_prompt", "arguments": []}):
        assert client.error("prompts/get", wrong)["code"] == -32602
    ref = {"type": "ref/prompt", "name": "test_prompt_with_arguments"}
    done = client.result("completion/complete", {"ref": ref, "argument": {"name": "arg1", "value": "par"}})["completion"]
    assert done == {"values": ["paris", "park", "party"], "total": 3, "hasMore": False}
    for wrong in ({"ref": ref}, {"ref": {"type": "ref/prompt", "name": "x"}, "argument": {"name": "a", "value": ""}}):
        assert client.error("completion/complete", wrong)["code"] == -32602


@pytest.mark.parametrize("version", ERAS)
def test_resources(fixtures, version):
    client = fixtures(version)
    assert {r["uri"] for r in client.result("resources/list")["resources"]} \
        == {"test://static-text", "test://static-binary", "test://watched-resource"}
    assert [t["uriTemplate"] for t in client.result("resources/templates/list")["resourceTemplates"]] \
        == ["test://template/{id}/data"]
    assert client.result("resources/read", {"uri": "test://static-binary"})["contents"][0]["blob"]
    data = client.result("resources/read", {"uri": "test://template/12 3%2F/data"})["contents"][0]
    assert json.loads(data["text"])["id"] == "12 3%2F" and data["uri"] == "test://template/12 3%2F/data"
    for missing in ("test://nothing", "test://template//data", "test://template/a/b/data", "test://template/a/data/", ""):
        error = client.error("resources/read", {"uri": missing})
        assert error["code"] == (-32602 if client.modern else -32002) and error["data"] == {"uri": missing}
    assert client.error("resources/read", {})["code"] == -32602
    assert client.error("resources/list", {"cursor": "2"})["code"] == -32602


@pytest.mark.parametrize("version", SINCE_ELICITATION + (MODERN,))
def test_questions_of_every_kind(fixtures, version):
    client = fixtures(version, capabilities=ALL, reply=reply)
    texts = {}
    for name, arguments in (
            ("test_sampling", {"prompt": "p"}), ("test_elicitation", {"message": "m"}),
            # Forms as of 2025-11-25.
            *([] if version == "2025-06-18" else [("test_elicitation_sep1034_defaults", {}),
                                                  ("test_elicitation_sep1330_enums", {})]),
            ("test_input_required_result_elicitation", {}), ("test_input_required_result_sampling", {}),
            ("test_input_required_result_list_roots", {}), ("test_input_required_result_multiple_inputs", {}),
            ("test_input_required_result_capabilities", {}), ("test_input_required_result_multi_round", {})):
        result, rounds = call_through(client, name, arguments)
        texts[name] = " ".join(b["text"] for b in result["content"])
        assert rounds == (0 if not client.modern else 2 if name.endswith("multi_round") else 1), name
    assert "Paris" in texts["test_sampling"] and "my username" in texts["test_elicitation"]
    assert "my name" in texts["test_input_required_result_multi_round"]
    assert "my color" in texts["test_input_required_result_multi_round"]
    assert all(word in texts["test_input_required_result_multiple_inputs"] for word in ("my name", "Paris", "file:///r"))


@pytest.mark.parametrize("version", ERAS)
def test_a_client_without_the_capability(fixtures, version):
    client = fixtures(version)
    if client.modern:
        error = client.error("tools/call", {"name": "test_missing_capability"})
        assert error["code"] == -32021 and error["data"] == {"requiredCapabilities": {"sampling": {}}}
        error = client.error("prompts/get", {"name": "test_input_required_result_prompt"})
        assert error["code"] == -32021 and error["data"] == {"requiredCapabilities": {"elicitation": {}}}
    else:
        assert call(client, "test_missing_capability")["isError"]
        assert client.error("prompts/get", {"name": "test_input_required_result_prompt"})["code"] < 0
    assert "nothing" in call(client, "test_input_required_result_capabilities")["content"][0]["text"]


def test_a_prompt_asks(fixtures):
    client = fixtures(MODERN, capabilities=ALL, reply=reply)
    asked = client.result("prompts/get", {"name": "test_input_required_result_prompt"})
    assert asked["resultType"] == "input_required"
    answer = {"user_context": {"action": "accept", "content": {"context": "tea"}}}
    params = {"name": "test_input_required_result_prompt", "inputResponses": answer, "requestState": asked["requestState"]}
    assert client.result("prompts/get", params)["messages"][0]["content"]["text"] == "tea"
    # The state of a prompt is none of a tool.
    assert client.error("tools/call", {**params, "name": "test_input_required_result_elicitation"})["code"] == -32602


def messages(client):
    return [n["params"] for n in client.notifications if n["method"] == "notifications/message"]


def test_log_messages_as_the_client_wants_them(fixtures):
    client = fixtures("2025-11-25")
    call(client, "test_tool_with_logging")
    assert [m["level"] for m in messages(client)] == ["info"] * 3
    assert client.result("logging/setLevel", {"level": "warning"}) == {}
    call(client, "test_tool_with_logging")
    assert len(messages(client)) == 3
    assert client.result("logging/setLevel", {"level": "debug"}) == {}
    call(client, "test_tool_with_logging")
    assert len(messages(client)) == 6
    for wrong in ({}, {"level": "loud"}, {"level": 3}):
        assert client.error("logging/setLevel", wrong)["code"] == -32602


def test_a_modern_request_says_which_messages_it_wants(fixtures):
    client = fixtures(MODERN)
    call(client, "test_logging_tool")
    assert messages(client) == []
    for level, n in (("error", 0), ("info", 3)):
        client.result("tools/call", {"name": "test_logging_tool", "_meta": client.meta(**{META + "logLevel": level})})
        assert len(messages(client)) == n
    assert client.error("logging/setLevel", {"level": "debug"})["code"] == -32601


def changes(client):
    return [n for n in client.notifications if n["method"].endswith(("list_changed", "updated", "acknowledged"))]


def test_subscriptions(fixtures):
    client = fixtures(MODERN)
    tools = client.request("subscriptions/listen", {"notifications": {"toolsListChanged": True}}, request_id="t")
    watch = client.request("subscriptions/listen", {"notifications": {
        "promptsListChanged": True, "resourcesListChanged": True,
        "resourceSubscriptions": ["test://watched-resource", "test://static-text", "x", 7]}}, request_id=70)
    client.wait_for(lambda: len(changes(client)) == 2)
    assert changes(client)[0]["params"] == {"_meta": {META + "subscriptionId": "t"},
                                            "notifications": {"toolsListChanged": True}}
    assert changes(client)[1]["params"] == {"_meta": {META + "subscriptionId": 70}, "notifications": {
        "promptsListChanged": True, "resourceSubscriptions": ["test://watched-resource"]}}
    call(client, "test_trigger_tool_change")
    call(client, "test_trigger_prompt_change")
    client.wait_for(lambda: len(changes(client)) == 5)
    assert [(n["method"], n["params"]["_meta"][META + "subscriptionId"], n["params"].get("uri"))
            for n in changes(client)[2:]] == [
        ("notifications/tools/list_changed", "t", None), ("notifications/prompts/list_changed", 70, None),
        ("notifications/resources/updated", 70, "test://watched-resource")]
    client.cancel("t")
    call(client, "test_trigger_tool_change")
    assert len(changes(client)) == 5 and not tools.done() and not watch.done()
    client.process.terminate()
    assert watch.result(30)["result"]["resultType"] == "complete"
    assert client.wait()[0] == 0 and isinstance(tools.exception(5), EOFError)


def test_what_cannot_be_subscribed_to_ends_at_once(fixtures):
    client = fixtures(MODERN)
    result = client.result("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["test://nothing"]}})
    assert result["resultType"] == "complete"
    assert changes(client)[0]["params"]["notifications"] == {}
    assert client.error("subscriptions/listen", {})["code"] == -32602


def test_legacy_subscriptions(fixtures):
    client = fixtures("2025-06-18")
    watched = {"uri": "test://watched-resource"}
    assert client.result("resources/subscribe", watched) == {}
    assert client.result("resources/subscribe", watched) == {}
    call(client, "test_trigger_prompt_change")
    assert [n["params"] for n in changes(client)] == [watched]
    assert client.result("resources/unsubscribe", watched) == {}
    call(client, "test_trigger_prompt_change")
    time.sleep(0.1)
    assert len(changes(client)) == 1
    assert client.error("resources/subscribe", {"uri": "test://static-text"})["code"] == -32002


def test_progress(fixtures):
    client = fixtures(MODERN)
    call(client, "test_tool_with_progress", progress_token="p")
    assert [p["progress"] for p in client.progress("p")] == [1, 2, 3]


def test_the_product_logs_nothing_to_clients(client):
    assert client.error("logging/setLevel")["code"] == -32601
