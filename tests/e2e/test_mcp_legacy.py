"""The revisions with an initialize handshake: 2024-11-05 to 2025-11-25."""
import json
import time

import pytest
from mcp_client import LEGACY, RpcFailed

NEWEST = LEGACY[-1]
PLAIN_TYPES = {"string", "integer", "number", "boolean", "array", "object"}
SHOWN = {"list_sandboxes", "create_sandbox", "delete_sandbox", "select_sandbox", "get_active_sandbox",
         "exec_bash", "list_remote_files", "read_remote_file", "write_remote_file",
         "check_file_transfer_task", "cancel_file_transfer_task"}


@pytest.mark.parametrize("version", LEGACY)
def test_initialize_agrees_on_the_version_that_was_asked_for(host, version):
    answer = host.server(initialize=False).initialize(version)
    assert answer["protocolVersion"] == version


@pytest.mark.parametrize("version", ["2024-10-07", "2026-07-28", "2099-01-01", "", "garbage"])
def test_initialize_with_a_version_we_do_not_have_answers_our_newest(host, version):
    assert host.server(initialize=False).initialize(version)["protocolVersion"] == NEWEST


def test_initialize_says_who_we_are_and_promises_what_it_has(client):
    assert client.server["serverInfo"]["name"] == "anybox"
    assert client.server["serverInfo"]["version"]
    assert set(client.server["capabilities"]) == {"tools", "prompts", "resources", "completions"}
    assert not client.server["capabilities"]["tools"].get("listChanged")
    assert 0 < len(client.server["instructions"]) <= 2048
    assert "resultType" not in client.server and "ttlMs" not in client.server


@pytest.mark.parametrize("toolset", ["opensandbox", "mcp-sandbox", "remote-sandbox"])
def test_the_instructions_speak_of_tools_that_are_shown(host, toolset):
    client = host.server(env={"ANYBOX_SERVER_TOOLSET": toolset})
    shown = {t["name"] for t in client.result("tools/list")["tools"]}
    every = {t["name"] for t in host.server(env={"ANYBOX_SERVER_TOOLSET": "all"}).result("tools/list")["tools"]}
    said = {name for name in every if name in client.server["instructions"]}
    assert said and said <= shown


def test_initialize_tolerates_anything_else_in_its_params(host):
    client = host.server(initialize=False)
    answer = client.result("initialize", {
        "protocolVersion": "2025-06-18", "capabilities": {"roots": {"listChanged": True}, "x": [1]},
        "clientInfo": {"name": "codex", "version": "0", "title": "Codex", "icons": []}, "extra": None})
    assert answer["protocolVersion"] == "2025-06-18"


def test_initialize_without_params_is_answered(host):
    client = host.server(initialize=False)
    message = client.request("initialize").result(30)
    assert message.get("result", {}).get("protocolVersion") == NEWEST or \
        message["error"]["code"] == -32602
    assert client.result("ping") == {}


def test_a_second_initialize_starts_over(client):
    assert client.initialize("2024-11-05")["protocolVersion"] == "2024-11-05"
    assert "annotations" not in client.result("tools/list")["tools"][0]
    assert client.initialize("2025-11-25")["protocolVersion"] == "2025-11-25"
    assert "annotations" in client.result("tools/list")["tools"][0]


def test_requests_before_initialize_are_answered(host):
    client = host.server(initialize=False)
    assert client.result("ping") == {}
    assert client.result("tools/list")["tools"]


def test_the_tool_list_is_what_the_product_promises(client):
    tools = {t["name"]: t for t in client.result("tools/list")["tools"]}
    assert SHOWN <= set(tools)
    assert "run_command" not in tools and "execute_terminal_command" not in tools, "compat names cost context"
    for tool in tools.values():
        assert len(tool["description"]) <= 2048
        assert set(tool["annotations"]) >= {"readOnlyHint", "destructiveHint", "openWorldHint"}
        check_plain_schema(tool["inputSchema"])
        assert "outputSchema" not in tool
    assert tools["list_sandboxes"]["annotations"]["readOnlyHint"] is True
    assert tools["read_remote_file"]["annotations"]["readOnlyHint"] is True
    assert tools["exec_bash"]["annotations"]["readOnlyHint"] is False
    assert tools["delete_sandbox"]["annotations"]["destructiveHint"] is True


def check_plain_schema(schema):
    """No unions, no boolean schemas, every array with items: what all bridges accept."""
    assert schema["type"] == "object"
    assert not {"anyOf", "oneOf", "allOf", "$schema"} & set(schema)
    for name, prop in schema.get("properties", {}).items():
        assert isinstance(prop, dict) and prop.get("type") in PLAIN_TYPES, (name, prop)
        assert prop["type"] != "array" or isinstance(prop["items"], dict), name
        assert all(isinstance(v, str) for v in prop.get("enum", [])), name
    assert set(schema.get("required", [])) <= set(schema.get("properties", {}))


def test_the_tool_list_is_small_and_always_the_same(client):
    lists = [json.dumps(client.result("tools/list"), ensure_ascii=False, separators=(",", ":")) for _ in range(3)]
    assert len(set(lists)) == 1
    assert len(lists[0]) <= 12 << 10


@pytest.mark.parametrize("params", [None, {}, {"_meta": {"progressToken": 0}}, {"cursor": None}])
def test_the_tool_list_needs_no_params(client, params):
    answer = client.result("tools/list", params)
    assert answer["tools"] and "nextCursor" not in answer


@pytest.mark.parametrize("version", LEGACY)
def test_each_revision_gets_only_what_it_knows(host, version):
    client = host.server(version=version)
    answer = client.result("tools/list")
    assert "ttlMs" not in answer and "resultType" not in answer
    tool = answer["tools"][0]
    assert ("annotations" in tool) == (version >= "2025-03-26")
    assert version >= "2025-06-18" or "title" not in tool
    result = client.result("tools/call", {"name": "list_sandboxes"})
    assert set(result) <= {"content", "isError"}
    assert [b["type"] for b in result["content"]] == ["text"]


def test_answers_are_one_block_of_compact_json(client):
    text = client.result("tools/call", {"name": "list_sandboxes", "arguments": {}})["content"][0]["text"]
    assert json.dumps(json.loads(text), ensure_ascii=False, separators=(",", ":")) == text


@pytest.mark.parametrize("raw", [
    "0", "-1", "1", "9007199254740993", "12345678901234567890123456789", '""', '"0"', '"a b"',
    '"\\u0041\\n\\"\\\\/"', '"\\/slash"', '"é"', '"\\ud83d\\ude00"', '"' + "x" * 1000 + '"'])
def test_an_id_comes_back_byte_for_byte(client, raw):
    seen = len(client.lines)
    client.send_line('{"jsonrpc":"2.0","id":%s,"method":"ping"}' % raw)
    client.wait_for(lambda: len(client.lines) > seen)
    line = client.lines[seen].decode()
    assert f'"id":{raw}' in line.replace('"id": ', '"id":')
    assert json.loads(line)["result"] == {}


@pytest.mark.parametrize("method", ["nonsense", "", "logging/setLevel", "tasks/list", "server/discover/x"])
def test_a_method_we_do_not_have_is_not_found(client, method):
    assert client.error(method, {})["code"] == -32601
    assert client.result("ping") == {}


def test_an_unknown_tool_is_a_protocol_error_that_names_it(client):
    error = client.error("tools/call", {"name": "no_such_tool", "arguments": {}})
    assert error["code"] == -32602
    assert "no_such_tool" in error["message"]


@pytest.mark.parametrize("params", [None, {}, {"name": 7}, {"name": None}, [], "x"])
def test_a_tool_call_without_a_name_is_refused(client, params):
    assert client.error("tools/call", params)["code"] in (-32602, -32600)
    assert client.result("ping") == {}


@pytest.mark.parametrize("line,code", [
    ('{"jsonrpc":"2.0","id":5,"method":7}', -32600),
    ('{"jsonrpc":"2.0","id":5,"method":null}', -32600),
    ('{"id":5,"method":"ping"}', -32600),
    ('{"jsonrpc":"1.0","id":5,"method":"ping"}', -32600),
    ('{"jsonrpc":"2.0","id":{},"method":"ping"}', -32600),
    ('{"jsonrpc":"2.0","id":null,"method":"ping"}', -32600),
    ('{"jsonrpc":"2.0","id":true,"method":"ping"}', -32600),
    ('"text"', -32600), ("7", -32600), ("null", -32600), ("{}", -32600),
    ("{", -32700), ("nonsense", -32700), ('{"jsonrpc":"2.0",}', -32700), ("\0\0", -32700)])
def test_a_message_that_is_none_gets_its_error_and_the_server_goes_on(client, line, code):
    seen = len(client.lines)
    client.send_line(line)
    client.wait_for(lambda: len(client.lines) > seen)
    answer = json.loads(client.lines[seen])
    assert answer["error"]["code"] == code
    assert answer["error"]["message"]
    assert answer.get("id", "absent") is not None, "null is no id"
    assert client.result("ping") == {}


@pytest.mark.parametrize("line", [
    '{"jsonrpc":"2.0","method":"notifications/initialized"}',
    '{"jsonrpc":"2.0","method":"notifications/nonsense","params":{"x":[]}}',
    '{"jsonrpc":"2.0","method":"notifications/cancelled"}',
    '{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"nobody"}}',
    '{"jsonrpc":"2.0","method":"notifications/roots/list_changed"}',
    '{"jsonrpc":"2.0","id":99,"result":{}}',
    '{"jsonrpc":"2.0","id":99,"error":{"code":-1,"message":"x"}}', "", "   "])
def test_what_needs_no_answer_gets_none(client, line):
    client.result("ping")
    seen = len(client.lines)
    client.send_line(line)
    assert client.result("ping") == {}
    assert len(client.lines) == seen + 1


@pytest.mark.parametrize("version", LEGACY[:2])
def test_old_revisions_may_send_batches(host, version):
    client = host.server(version=version)
    seen = len(client.lines)
    client.send([{"jsonrpc": "2.0", "id": "a", "method": "ping"},
                 {"jsonrpc": "2.0", "method": "notifications/initialized"},
                 {"jsonrpc": "2.0", "id": "b", "method": "tools/call",
                  "params": {"name": "list_sandboxes"}},
                 {"jsonrpc": "2.0", "id": "c", "method": "nonsense"}])
    client.wait_for(lambda: sum(a.message.get("id") in ("a", "b", "c") for a in client.answers) == 3)
    answers = json.loads(client.lines[seen])
    assert isinstance(answers, list) and len(client.lines) == seen + 1
    by_id = {a["id"]: a for a in answers}
    assert by_id["a"]["result"] == {}
    assert by_id["b"]["result"]["content"]
    assert by_id["c"]["error"]["code"] == -32601


@pytest.mark.parametrize("version", LEGACY[2:])
def test_newer_revisions_have_no_batches(host, version):
    client = host.server(version=version)
    client.send([{"jsonrpc": "2.0", "id": 1, "method": "ping"}])
    client.wait_for(client.answers_without_id)
    assert client.answers_without_id()[0]["error"]["code"] == -32600
    assert client.result("ping") == {}


@pytest.mark.parametrize("batch", ["[]", '[{"jsonrpc":"2.0","id":1,"method":"initialize","params":'
                                   '{"protocolVersion":"2025-03-26","capabilities":{}}}]'])
def test_an_empty_batch_and_one_with_initialize_are_refused(host, batch):
    client = host.server(version="2025-03-26")
    seen = len(client.lines)
    client.send_line(batch)
    client.wait_for(lambda: len(client.lines) > seen)
    answer = json.loads(client.lines[seen])
    answer = answer[0] if isinstance(answer, list) else answer
    assert answer["error"]["code"] == -32600
    assert client.result("ping") == {}


def test_a_batch_of_notifications_gets_no_answer(host):
    client = host.server(version="2025-03-26")
    seen = len(client.lines)
    client.send([{"jsonrpc": "2.0", "method": "notifications/initialized"}] * 2)
    assert client.result("ping") == {}
    assert len(client.lines) == seen + 1


@pytest.mark.parametrize("token", [0, -3, "", "0"])
def test_progress_carries_the_token_as_it_came(box, token):
    future = box.start_tool("exec_bash", {"command": "for i in 1 2 3 4; do echo step $i; sleep 0.5; done"},
                            progress_token=token)
    answer = box.finish_tool(future)
    assert answer["exit_code"] == 0
    heard = box.progress(token)
    assert heard, "two seconds of work and no progress"
    numbers = [p["progress"] for p in heard]
    assert numbers == sorted(set(numbers)), "progress only grows"
    assert any("step" in p.get("message", "") for p in heard)
    seen = len(box.notifications)
    time.sleep(0.3)
    assert len(box.notifications) == seen, "progress after the answer"


def test_no_progress_is_sent_to_who_did_not_ask(box):
    box.bash("echo a; sleep 1.5; echo b")
    assert box.notifications == []


def test_the_first_revision_gets_progress_without_a_message(host):
    client = host.server(version="2024-11-05")
    client.finish_tool(client.start_tool("exec_bash", {"command": "for i in 1 2 3 4; do echo $i; sleep 0.5; done"}, progress_token=1))
    assert client.progress(1)
    assert all("message" not in p for p in client.progress(1))


def test_a_cancelled_call_is_never_answered(box):
    future = box.start_tool("exec_bash", {"command": "sleep 30"})
    time.sleep(0.3)
    box.cancel(future.request_id)
    time.sleep(0.5)
    assert box.result("ping") == {}
    assert not future.done()
    assert box.bash("echo on")["stdout"] == "on\n"


def test_an_id_may_be_used_again_when_its_request_is_done(client):
    for _ in range(3):
        assert client.result("tools/list", request_id=5)["tools"]


def test_an_id_in_use_does_not_disturb_the_first_call(box):
    first = box.start_tool("exec_bash", {"command": "sleep 1; echo first"}, request_id="same")
    time.sleep(0.2)
    box.send({"jsonrpc": "2.0", "id": "same", "method": "ping"})
    box.wait_for(lambda: any(a.message.get("id") == "same" for a in box.answers))
    box.wait_for(lambda: any("first" in json.dumps(a.message) for a in box.answers if a.message.get("id") == "same"))
    same = [a.message for a in box.answers if a.message.get("id") == "same"]
    assert any("first" in json.dumps(a) for a in same)
    assert first.done()
    box.answers.clear()  # one id for two methods: the schema check would mix them up


def test_extra_members_everywhere_are_ignored(client):
    client.send({"jsonrpc": "2.0", "id": "x", "method": "tools/call", "surprise": [1], "params": {
        "name": "list_sandboxes", "arguments": {"unknown_argument": {"deep": []}}, "task": {"ttl": 5},
        "_meta": {"claudecode/toolUseId": "t", "x-codex-turn-metadata": {}, "progressToken": "p"}}})
    client.wait_for(lambda: any(a.message.get("id") == "x" for a in client.answers))
    answer = [a.message for a in client.answers if a.message.get("id") == "x"][0]
    assert not answer["result"].get("isError")


def test_arguments_may_be_absent_or_null_where_none_are_needed(client):
    for params in ({"name": "list_sandboxes"}, {"name": "list_sandboxes", "arguments": None}):
        assert not client.result("tools/call", params).get("isError")


@pytest.mark.parametrize("arguments", [[], "text", 7])
def test_arguments_that_are_no_object_are_refused(client, arguments):
    try:
        result = client.result("tools/call", {"name": "exec_bash", "arguments": arguments})
        assert result["isError"]
    except RpcFailed as failed:
        assert failed.code == -32602
    assert client.result("ping") == {}
