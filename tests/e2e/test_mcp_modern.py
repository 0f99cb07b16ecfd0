"""2026-07-28: no handshake, every request carries its version and capabilities."""
import json
import time

import pytest
from mcp_client import LEGACY, META, MODERN


@pytest.fixture
def modern(host):
    return host.server(version=MODERN)


def raw(client, method, meta, request_id="r", **params):
    """A request whose _meta is exactly this."""
    if meta is not None:
        params["_meta"] = meta
    future = client.expect(request_id, method)
    client.send({"jsonrpc": "2.0", "id": request_id, "method": method, "params": params})
    return future.result(30)


def complete(result):
    """What every modern result has."""
    assert result["resultType"] == "complete"
    info = result["_meta"][META + "serverInfo"]
    assert info["name"] == "anybox" and info["version"]
    return result


def test_discover_tells_versions_capabilities_and_how_long_that_holds(modern):
    answer = complete(modern.result("server/discover"))
    assert answer["supportedVersions"] == [MODERN, *reversed(LEGACY)]
    assert set(answer["capabilities"]) == {"tools", "prompts", "resources", "completions"}
    assert answer["capabilities"]["resources"] == {"subscribe": True}
    assert not answer["capabilities"]["tools"].get("listChanged")
    assert 0 < len(answer["instructions"]) <= 2048
    assert answer["ttlMs"] >= 0 and answer["cacheScope"] in ("public", "private")
    assert "serverInfo" not in answer


def test_the_tool_list_may_be_cached_by_anybody(modern):
    answer = complete(modern.result("tools/list"))
    assert answer["cacheScope"] == "public" and answer["ttlMs"] >= 0
    assert {"exec_bash", "create_sandbox"} <= {t["name"] for t in answer["tools"]}


def test_a_tool_call_is_complete_and_carries_no_cache_hints(modern):
    answer = complete(modern.result("tools/call", {"name": "list_sandboxes"}))
    assert "ttlMs" not in answer and "cacheScope" not in answer and "structuredContent" not in answer
    assert [b["type"] for b in answer["content"]] == ["text"]


def test_a_tool_that_fails_is_complete_too(modern):
    answer = complete(modern.result("tools/call", {"name": "exec_bash", "arguments": {}}))
    assert answer["isError"] is True


def test_exec_works_as_the_first_message_of_a_process(modern):
    assert modern.bash("echo hello")["stdout"] == "hello\n"


@pytest.mark.parametrize("method", ["initialize", "ping", "logging/setLevel", "resources/subscribe",
                                    "resources/unsubscribe", "tasks/list", "tasks/result", "nonsense"])
def test_removed_and_unknown_methods_are_not_found(modern, method):
    error = modern.error(method)
    assert error["code"] == -32601
    assert "resultType" not in error


@pytest.mark.parametrize("meta", [
    {META + "protocolVersion": MODERN},
    {META + "protocolVersion": MODERN, META + "clientCapabilities": []},
    {META + "protocolVersion": MODERN, META + "clientCapabilities": None},
    {META + "protocolVersion": 20260728, META + "clientCapabilities": {}},
    {META + "protocolVersion": None, META + "clientCapabilities": {}},
    {META + "protocolVersion": MODERN, META + "clientCapabilities": {}, META + "logLevel": "loud"}])
def test_ill_typed_meta_is_invalid_params(modern, meta):
    answer = raw(modern, "tools/list", meta)
    assert answer["error"]["code"] == -32602
    assert "resultType" not in answer and answer["id"] == "r"


@pytest.mark.parametrize("version", ["2099-01-01", "2025-11-25", "1", ""])
def test_a_version_we_do_not_have_is_refused_with_those_we_have(modern, version):
    error = raw(modern, "tools/list", {META + "protocolVersion": version,
                                       META + "clientCapabilities": {}})["error"]
    assert error["code"] == -32022
    assert error["data"]["requested"] == version
    assert MODERN in error["data"]["supported"]
    assert set(error["data"]["supported"]) <= {MODERN, *LEGACY}


def test_a_bad_meta_is_told_before_a_bad_version_and_that_before_a_bad_method(modern):
    bad = {META + "protocolVersion": "2099-01-01"}
    assert raw(modern, "nonsense", bad)["error"]["code"] == -32602
    bad[META + "clientCapabilities"] = {}
    assert raw(modern, "nonsense", bad)["error"]["code"] == -32022
    bad[META + "protocolVersion"] = MODERN
    assert raw(modern, "nonsense", bad)["error"]["code"] == -32601


def test_client_info_is_not_needed_and_extra_keys_are_ignored(modern):
    meta = {META + "protocolVersion": MODERN, "callId": "c", "claudecode/toolUseId": "t",
            META + "clientCapabilities": {"roots": {"listChanged": True}, "elicitation": {"form": {}, "url": {}}},
            META + "logLevel": "debug", "traceparent": "00-0-0-00", "x-codex-turn-metadata": {"a": 1}}
    assert raw(modern, "server/discover", meta)["result"]["resultType"] == "complete"


def test_an_unknown_tool_is_invalid_params(modern):
    error = modern.error("tools/call", {"name": "no_such_tool"})
    assert error["code"] == -32602 and "no_such_tool" in error["message"]


@pytest.mark.parametrize("request_id", ["listen:0", 0, 7, "é"])
@pytest.mark.parametrize("wanted", [{}, {"toolsListChanged": True}, {"resourceSubscriptions": ["sandbox://x"]}])
def test_a_subscription_to_nothing_is_acknowledged_and_closed(modern, request_id, wanted):
    answer = modern.request("subscriptions/listen", {"notifications": wanted}, request_id=request_id).result(30)
    assert json.loads(modern.lines[0])["method"] == "notifications/subscriptions/acknowledged"
    acknowledged = modern.notifications[0]["params"]
    assert acknowledged["notifications"] == {}
    key = META + "subscriptionId"
    assert acknowledged["_meta"][key] == request_id
    assert answer["result"]["resultType"] == "complete"
    assert answer["result"]["_meta"][key] == request_id
    assert type(answer["result"]["_meta"][key]) is type(request_id)


@pytest.mark.parametrize("params", [{}, {"notifications": None}, {"notifications": []}, {"notifications": "all"}])
def test_a_subscription_without_a_filter_is_refused(modern, params):
    assert modern.error("subscriptions/listen", params)["code"] == -32602
    assert modern.notifications == []


def test_there_are_no_batches(modern):
    modern.send([{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"_meta": modern.meta()}}])
    modern.wait_for(modern.answers_without_id)
    assert modern.answers_without_id()[0]["error"]["code"] == -32600
    assert modern.result("tools/list")["tools"]


def test_both_eras_live_on_one_connection(host):
    client = host.server(version="2025-06-18")
    client.modern = True
    assert client.result("server/discover")["supportedVersions"][0] == MODERN
    client.modern = False
    assert client.result("ping") == {}
    answer = client.result("tools/list")
    assert "resultType" not in answer
    client.modern = True
    assert complete(client.result("tools/list"))
    client.answers.clear()  # of two eras: no one schema fits


def test_initialize_is_answered_after_modern_requests(host):
    client = host.server(version=MODERN)
    client.result("server/discover")
    client.modern = False
    assert client.initialize("2025-11-25")["protocolVersion"] == "2025-11-25"
    assert client.result("ping") == {}
    client.answers.clear()


@pytest.mark.parametrize("token", [0, "p", 41])
def test_progress_carries_the_token_as_it_came(modern, token):
    future = modern.start_tool("exec_bash", {"command": "for i in 1 2 3 4; do echo $i; sleep 0.5; done"}, progress_token=token)
    assert modern.finish_tool(future)["exit_code"] == 0
    assert modern.progress(token)
    assert all("_meta" not in p or META + "subscriptionId" not in p["_meta"] for p in modern.progress(token))


def test_a_cancelled_call_is_never_answered(modern):
    modern.bash("true")
    future = modern.start_tool("exec_bash", {"command": "sleep 30"})
    time.sleep(0.3)
    modern.cancel(future.request_id)
    time.sleep(0.5)
    assert modern.result("tools/list")["tools"]
    assert not future.done()


@pytest.mark.parametrize("identifier", ["0", "-9223372036854775809", '"\\u0031"', '"x\\ty"'])
def test_an_id_comes_back_byte_for_byte(modern, identifier):
    modern.send_line('{"jsonrpc":"2.0","id":%s,"method":"server/discover","params":{"_meta":%s}}'
                     % (identifier, json.dumps(modern.meta())))
    modern.wait_for(lambda: modern.lines)
    assert f'"id":{identifier}' in modern.lines[0].decode()


def test_the_server_logs_nothing_over_the_wire_even_when_asked(modern):
    answer = modern.result("tools/call", {"name": "list_sandboxes", "_meta": {META + "logLevel": "debug"}})
    assert answer["resultType"] == "complete"
    assert modern.notifications == []
