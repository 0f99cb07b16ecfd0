"""Resources: what there is to read under sandbox:// addresses, and who is told when it changes."""
import base64
import json
import urllib.parse

import pytest
from host import wait_until
from http_server import KEY, OTHER, HttpServer
from mcp_client import MODERN

UPDATED = "notifications/resources/updated"


@pytest.fixture
def client(host):
    return host.server()


def read(client, uri):
    contents = client.result("resources/read", {"uri": uri})["contents"]
    assert [c["uri"] for c in contents] == [uri]
    return contents[0]


def read_json(client, uri):
    content = read(client, uri)
    assert content["mimeType"] == "application/json"
    return json.loads(content["text"])


def not_found(client, uri):
    error = client.error("resources/read", {"uri": uri})
    assert error["data"]["uri"] == uri
    return error["code"]


def updates(client, uri):
    return [n for n in client.notifications if n["method"] == UPDATED and n["params"]["uri"] == uri]


def wait_for_update(client, uri, n=1):
    client.wait_for(lambda: len(updates(client, uri)) >= n)


# ---- reading -------------------------------------------------------------------------


def test_the_list_is_what_list_sandboxes_answers(client):
    assert read_json(client, "sandbox://list")["sandboxes"] == []
    client.tool("create_sandbox", name="one")
    answer = read_json(client, "sandbox://list")
    assert answer == client.tool("list_sandboxes")
    assert [b["name"] for b in answer["sandboxes"]] == ["one"]


@pytest.mark.parametrize("by", ["sandbox_id", "name"])
def test_the_status_of_a_box(client, by):
    box = client.tool("create_sandbox", name="one", memory="256m")
    status = read_json(client, f"sandbox://{box[by]}/status")
    assert status["id"] == box["sandbox_id"] and status["name"] == "one"
    assert status["status"] == "running" and status["provider"] == "local"
    client.tool("delete_sandbox", sandbox_name="one")
    status = read_json(client, f"sandbox://{box['sandbox_id']}/status")
    assert status["status"] == "ended" and "deleted" in status["reason"]


def test_logs_have_commands_and_what_they_printed(client):
    client.tool("create_sandbox", name="one")
    assert "== task" not in read(client, "sandbox://one/logs")["text"]
    client.bash("echo first; echo wrong >&2; exit 3")
    client.bash("printf 'no newline'")
    text = read(client, "sandbox://one/logs")["text"]
    assert "$ echo first; echo wrong >&2; exit 3\nfirst\nwrong\n== exit code 3, " in text
    assert "$ printf 'no newline'\nno newline\n== exit code 0, " in text
    assert text.index("first") < text.index("no newline")
    last = read(client, "sandbox://one/logs?lines=2")["text"]
    assert last.splitlines()[0] == "no newline" and len(last.splitlines()) == 2


def test_logs_since_a_time(client):
    client.tool("create_sandbox", name="one")
    client.bash("echo first")
    began = read(client, "sandbox://one/logs")["text"].split()[1]
    for since in (began, began[:10], began[:4]):
        assert "first" in read(client, f"sandbox://one/logs?since={since}")["text"]
    assert read(client, "sandbox://one/logs?since=2999-01-01")["text"] == ""


def test_what_was_in_a_box_that_ended_is_not_found_with_the_reason(client):
    box = client.tool("create_sandbox", name="one")["sandbox_id"]
    client.tool("delete_sandbox", sandbox_id=box)
    error = client.error("resources/read", {"uri": f"sandbox://{box}/files/etc/hostname"})
    assert error["code"] == -32002 and "deleted" in error["message"]


def test_logs_of_a_task_by_its_name_and_its_id(client):
    client.tool("create_sandbox", name="one")
    task = client.tool("exec_bash_background", command="echo out of the task; sleep 600", session_name="my job")
    name = urllib.parse.quote(task["tmux_session"])
    client.tool("check_background_task", task_id=task["task_id"], wait_s=30, until="out of", **{"from": 0})
    for word in (name, task["task_id"]):
        assert "out of the task" in read(client, f"sandbox://one/logs?task={word}")["text"]
    assert f"== task {task['task_id']}" in read(client, "sandbox://one/logs")["text"]
    assert not_found(client, "sandbox://one/logs?task=none")


def test_the_journal_is_harmless_text(client):
    client.tool("create_sandbox", name="one")
    client.bash("printf '\\033]0;title\\a\\342\\200\\256abc'; echo \x1b[31m")
    text = read(client, "sandbox://one/logs")["text"]
    assert "\x1b" not in text and "\x07" not in text and "\u202e" not in text


@pytest.mark.parametrize("content, mime, name", [
    (b"plain text\n", "text/plain", "a.txt"), (b"a,b\n1,2\n", "text/csv", "t.csv"),
    (b"#!/bin/sh\n", "text/plain", "Makefile"), (b"\x89PNG\x00\xff", "image/png", "p.png"),
    (b"\xff\xfe", "application/octet-stream", "unknown"), (b"", "text/plain", "empty"),
    ("Übung\n".encode(), "text/markdown", "ü ?#%.md")])
def test_a_file(client, content, mime, name):
    box = client.tool("create_sandbox")["sandbox_id"]
    client.tool("write_remote_file", remote_path=f"/workspace/{name}", encoding="base64",
                content=base64.b64encode(content).decode())
    uri = f"sandbox://{box}/files/workspace/{urllib.parse.quote(name)}"
    found = read(client, uri)
    assert found["mimeType"] == mime
    got = found["text"].encode() if "text" in found else base64.b64decode(found["blob"])
    assert got == content


def test_a_folder_lists_addresses_that_can_be_read(client):
    client.tool("create_sandbox", name="one")
    client.bash("mkdir -p 'd/sub dir'; echo 1 > d/a; ln -s a d/link")
    folder = read_json(client, "sandbox://one/files/workspace/d")
    assert [(e["path"], e["type"]) for e in folder["entries"]] == [
        ("/workspace/d/a", "file"), ("/workspace/d/link", "link"), ("/workspace/d/sub dir", "folder")]
    assert read(client, folder["entries"][0]["uri"])["text"] == "1\n"
    assert read_json(client, folder["entries"][2]["uri"])["entries"] == []


def test_a_file_that_is_too_large_is_told_with_a_way_out(client):
    client.tool("create_sandbox", name="one")
    client.bash("head -c 600001 /dev/zero > big")
    error = client.error("resources/read", {"uri": "sandbox://one/files/workspace/big"})
    assert "600001" in error["message"] and "read_remote_file" in error["message"]


@pytest.mark.parametrize("uri", ["sandbox://nobody/status", "sandbox://nobody/logs", "sandbox://nobody/files/x",
                                 "sandbox://", "sandbox://x", "sandbox://a/b/c", "file:///etc/passwd", "",
                                 "sandbox://watches/999999"])
@pytest.mark.parametrize("version, code", [("2025-11-25", -32002), (MODERN, -32602)])
def test_what_is_not_there(host, uri, version, code):
    assert not_found(host.server(version=version), uri) == code


@pytest.mark.parametrize("uri, said", [
    ("sandbox://one/logs?lines=0", "lines"),
    ("sandbox://one/logs?since=now", "since"), ("sandbox://one/logs?lines=x", "lines"),
    ("sandbox://one/logs?lines=1&lines=2", "more than once"), ("sandbox://one/files/%zz", "%25"),
    ("sandbox://one/files/a%00b", "NUL"), ("sandbox://watches/x", "watch_id")])
def test_bad_addresses_are_told_what_is_wrong(client, uri, said):
    client.tool("create_sandbox", name="one")
    assert said in client.error("resources/read", {"uri": uri})["message"]


# ---- lists ---------------------------------------------------------------------------


def test_the_list_of_resources_has_the_boxes_there_are(client):
    def names():
        return {r["uri"] for r in client.result("resources/list")["resources"]}

    assert names() == {"sandbox://list", "sandbox://watches"}
    client.tool("create_sandbox", name="one")
    assert names() == {"sandbox://list", "sandbox://watches", "sandbox://one/status", "sandbox://one/logs"}
    for uri in names():
        assert read(client, uri)["text"] is not None
    client.tool("delete_sandbox", sandbox_name="one")
    assert names() == {"sandbox://list", "sandbox://watches"}
    templates = {t["uriTemplate"] for t in client.result("resources/templates/list")["resourceTemplates"]}
    assert templates == {"sandbox://{id}/status", "sandbox://{id}/logs{?lines,since,task}", "sandbox://watches/{id}",
                         "sandbox://{id}/files/{+path}"}


def test_completion_of_a_template_knows_the_boxes(client):
    client.tool("create_sandbox", name="alpha")
    client.tool("create_sandbox", name="beta")

    def complete(start):
        return client.result("completion/complete", {
            "ref": {"type": "ref/resource", "uri": "sandbox://{id}/status"},
            "argument": {"name": "id", "value": start}})["completion"]["values"]

    assert sorted(complete("")) == ["alpha", "beta"]
    assert complete("al") == ["alpha"] and complete("x") == []
    assert client.error("completion/complete", {
        "ref": {"type": "ref/resource", "uri": "sandbox://{id}/nothing"},
        "argument": {"name": "id", "value": ""}})["code"] == -32602


# ---- who is told ---------------------------------------------------------------------


def test_a_subscriber_hears_of_boxes_commands_and_files(client):
    client.tool("create_sandbox", name="one")
    uris = ["sandbox://list", "sandbox://one/status", "sandbox://one/logs", "sandbox://one/files/workspace/f"]
    for uri in uris:
        assert client.result("resources/subscribe", {"uri": uri}) == {}
    client.bash("echo hello")
    wait_for_update(client, "sandbox://one/logs")
    client.tool("create_sandbox", name="two")
    wait_for_update(client, "sandbox://list")
    client.bash("echo 1 > f", sandbox_name="one")
    wait_for_update(client, "sandbox://one/files/workspace/f")
    assert not updates(client, "sandbox://one/status")
    client.tool("delete_sandbox", sandbox_name="one")
    wait_for_update(client, "sandbox://one/status")
    assert client.result("resources/unsubscribe", {"uri": "sandbox://list"}) == {}
    before = len(updates(client, "sandbox://list"))
    client.tool("create_sandbox", name="three")
    client.result("resources/subscribe", {"uri": "sandbox://two/logs"})
    client.bash("true", sandbox_name="two")
    wait_for_update(client, "sandbox://two/logs")
    assert len(updates(client, "sandbox://list")) == before


def test_what_another_process_does_is_told_too(host, client):
    box = client.tool("create_sandbox", name="one")["sandbox_id"]
    client.result("resources/subscribe", {"uri": "sandbox://list"})
    client.result("resources/subscribe", {"uri": f"sandbox://{box}/status"})
    assert host.run("rm", "one").returncode == 0
    wait_for_update(client, f"sandbox://{box}/status")
    wait_for_update(client, "sandbox://list")
    assert read_json(client, f"sandbox://{box}/status")["status"] == "ended"


def test_a_box_that_ends_by_itself_is_told_and_looking_does_not_keep_it(client):
    client.tool("create_sandbox", name="short", timeout=5)
    client.result("resources/subscribe", {"uri": "sandbox://short/status"})
    wait_for_update(client, "sandbox://short/status")
    assert read_json(client, "sandbox://short/status")["status"] == "ended"


def test_a_watched_task_that_ends_is_told(host):
    client = host.server(env={"ANYBOX_SERVER_TOOLSET": "all"})
    client.tool("create_sandbox", name="one")
    client.result("resources/subscribe", {"uri": "sandbox://watches"})
    task = client.tool("exec_bash_background_watch", command="sleep 1; exit 4", session_name="job", interval_s=1,
                       notify_local=False)
    wait_for_update(client, "sandbox://watches")
    one = f"sandbox://watches/{task['watch_id']}"
    client.result("resources/subscribe", {"uri": one})
    assert wait_until(lambda: read_json(client, one)["watch"]["status"] == "completed", 60)
    wait_for_update(client, "sandbox://watches", 2)
    assert read_json(client, one)["watch"]["last_exit_code"] == 4


def test_a_modern_subscription_carries_its_id(host):
    client = host.server(version=MODERN)
    client.tool("create_sandbox", name="one")
    client.request("subscriptions/listen", {"notifications": {
        "resourceSubscriptions": ["sandbox://one/logs", "sandbox://x"]}}, request_id="l1")
    client.wait_for(lambda: any(n["method"].endswith("acknowledged") for n in client.notifications))
    ack = next(n for n in client.notifications if n["method"].endswith("acknowledged"))
    assert ack["params"]["notifications"] == {"resourceSubscriptions": ["sandbox://one/logs"]}
    client.bash("true", sandbox_name="one")
    wait_for_update(client, "sandbox://one/logs")
    assert updates(client, "sandbox://one/logs")[0]["params"]["_meta"][
        "io.modelcontextprotocol/subscriptionId"] == "l1"


def test_over_http_each_key_sees_its_own_boxes_only(host):
    server = HttpServer(host)
    try:
        server.tool("create_sandbox", name="mine")

        def rpc(method, params, key):
            body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": {
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientCapabilities": {}}}}
            headers = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
                       "MCP-Protocol-Version": MODERN, "Mcp-Method": method}
            if "uri" in params:
                headers["Mcp-Name"] = params["uri"]
            answer = server.request("POST", "/mcp", json.dumps(body), headers, key=key)
            return json.loads(answer.body)

        for key, count in ((KEY, 4), (OTHER, 2)):
            found = rpc("resources/list", {}, key)["result"]
            assert len(found["resources"]) == count and found["cacheScope"] == "private"
        assert "result" in rpc("resources/read", {"uri": "sandbox://mine/status"}, KEY)
        assert rpc("resources/read", {"uri": "sandbox://mine/status"}, OTHER)["error"]["code"] == -32602
    finally:
        server.close()
        server.kill()
