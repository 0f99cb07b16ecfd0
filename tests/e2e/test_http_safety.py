"""Keys, owners, read-only mode, audit and log lines, over HTTP."""
import json
import re
import time

import pytest

from http_server import KEY, OTHER, HttpServer


@pytest.fixture
def serve(host):
    """Starts servers; their boxes are deleted and they are stopped at the end."""
    running = []

    def start(**more):
        running.append(HttpServer(host, **more))
        return running[-1]

    yield start
    try:
        for server in running:
            server.close()
    finally:
        for server in running:
            server.kill()


def names(web, key):
    return sorted(box["name"] for box in web.tool("list_sandboxes", key=key)["sandboxes"])


def test_two_keys_see_nothing_of_each_other(serve):
    web = serve()
    mine = web.tool("create_sandbox", name="web")["sandbox_id"]
    theirs = web.tool("create_sandbox", key=OTHER, name="web")["sandbox_id"]
    assert mine != theirs and names(web, KEY) == names(web, OTHER) == ["web"]
    secret = web.tool("create_sandbox", name="secret-name")["sandbox_id"]
    web.tool("write_remote_file", remote_path="/workspace/a", content="hunter2", sandbox_id=secret)
    output = web.tool("exec_bash", command="seq 100000", max_output_chars=100, sandbox_id=secret)["stdout"]
    output = re.search(r"output:[0-9a-f]{12}", output).group(0)
    assert web.tool("read_remote_file", remote_path=output)["content"].startswith("1\n2\n")
    for which in ({"sandbox_id": secret}, {"sandbox_id": secret[:12]}, {"sandbox_name": "secret-name"},
                  {"sandbox_id": "local:" + secret}):
        for tool, arguments in (("exec_bash", {"command": "true"}), ("delete_sandbox", {}),
                                ("select_sandbox", {}), ("read_remote_file", {"remote_path": "/workspace/a"}),
                                ("write_remote_file", {"remote_path": "/x", "content": ""}),
                                ("list_remote_files", {"remote_path": "/"})):
            status, answer = web.call(tool, {**arguments, **which}, key=OTHER)
            assert status == 404 and answer["code"] == "not_found", (tool, which, answer)
            assert "secret-name" not in json.dumps(answer).replace(json.dumps(which), "").replace(
                which.get("sandbox_name", "\0"), "")
    assert web.call("read_remote_file", {"remote_path": output}, key=OTHER)[0] == 404
    assert web.get(web.file_path("/workspace/a", sandbox_id=secret)).body == b"hunter2"
    assert web.get(web.file_path("/workspace/a", sandbox_id=secret), key=OTHER).status == 404
    assert web.request("PUT", web.file_path("/workspace/b", sandbox_id=secret), b"x", key=OTHER).status == 404
    assert names(web, KEY) == ["secret-name", "web"]


def test_boxes_of_the_user_are_not_a_keys(serve, host):
    mine = host.server().tool("create_sandbox", name="mine")["sandbox_id"]
    web = serve()
    assert names(web, KEY) == []
    assert web.call("exec_bash", {"command": "true", "sandbox_id": mine})[0] == 404


def test_a_selection_belongs_to_its_key(serve):
    web = serve()
    web.tool("create_sandbox", name="a")
    web.tool("create_sandbox", key=OTHER, name="b")
    web.tool("select_sandbox", sandbox_name="a")
    assert web.tool("get_active_sandbox", key=OTHER)["active_sandbox"] == "b"
    assert web.tool("get_active_sandbox")["active_sandbox"] == "a"


def test_the_operator_sees_boxes_of_keys(serve, host):
    web = serve()
    web.tool("create_sandbox", name="theirs")
    assert "theirs" not in host.run("ls").stdout
    assert re.search(r"^key:tests +theirs ", host.run("ls", "--all").stdout, re.M)
    assert host.run("exec", "--owner", "key:tests", "theirs", "echo", "hi").stdout == "hi\n"


def test_a_key_that_is_removed_ends_at_once(serve, host):
    web = serve()
    key = host.run("key", "add", "short-lived").stdout.strip()
    assert web.tool("list_sandboxes", key=key)["sandboxes"] == []
    web.tool("create_sandbox", key=key, name="work")
    web.request("PUT", web.file_path("/workspace/a"), b"\0", key=key)
    link = web.tool("read_remote_file", key=key, remote_path="/workspace/a")["file_link"]
    link = link[link.index("/sandbox/file"):]
    assert web.get(link, key=None).body == b"\0"
    assert host.run("key", "rm", "short-lived").returncode == 0
    assert web.get(link, key=None).status == 403
    assert web.request("POST", "/mcp/tools/list_sandboxes", key=key).status == 401
    assert web.request("POST", "/mcp/tools/list_sandboxes", key=key[:-1]).status == 401
    assert web.tool("list_sandboxes")["sandboxes"] == []
    assert host.run("rm", "--owner", "key:short-lived", "--all").stdout == "work\n"


def test_a_read_only_server_refuses_what_changes(serve):
    writer = serve()
    writer.tool("create_sandbox", name="work")
    writer.tool("write_remote_file", remote_path="/workspace/a", content="hello")
    reader = serve(env={"ANYBOX_SERVER_READ_ONLY": "true"})
    paths = json.loads(reader.get("/openapi.json").body)["paths"]
    assert "/mcp/tools/read_remote_file" in paths and "/mcp/tools/exec_bash" not in paths
    assert reader.get(reader.file_path("/workspace/a", sandbox_name="work")).body == b"hello"
    status, answer = reader.call("exec_bash", {"command": "true"})
    assert status == 403 and answer["code"] == "denied" and "read-only" in answer["error"]
    put = reader.request("PUT", reader.file_path("/workspace/a", sandbox_name="work"), b"x")
    assert put.status == 403 and b"read-only" in put.body
    assert writer.tool("read_remote_file", remote_path="/workspace/a")["content"] == "hello"
    reader.stop()  # it could not delete the boxes, and need not


def test_calls_and_files_are_recorded(serve, host):
    log = host.folder / "audit.log"
    env = {"ANYBOX_AUDIT_FILE": str(log)}
    web = serve(env=env)
    made = web.tool("create_sandbox", name="work")["sandbox_id"]
    web.request("PUT", web.file_path("/workspace/a", sandbox_id=made), b"hunter2")
    assert web.get(web.file_path("/workspace/a", sandbox_id=made)).body == b"hunter2"
    web.get(web.file_path("/workspace/none", sandbox_id=made), key=OTHER)
    body = {"jsonrpc": "2.0", "id": "r 7", "method": "tools/call", "params": {
        "name": "exec_bash", "arguments": {"command": "echo hunter2"},
        "_meta": {"io.modelcontextprotocol/protocolVersion": "2026-07-28",
                  "io.modelcontextprotocol/clientCapabilities": {}}}}
    response = web.request("POST", "/mcp", json.dumps(body), {
        "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "exec_bash"})
    assert response.status == 200 and b"hunter2" in response.body
    deadline = time.monotonic() + 5
    while len(log.read_text().splitlines()) < 5 and time.monotonic() < deadline:
        time.sleep(0.02)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    # A file's line comes when all of it is sent, perhaps behind the next request's.
    assert sorted((x["who"], x["tool"], x["outcome"], x.get("box")) for x in lines) == sorted([
        ("key:tests", "create_sandbox", "ok", made), ("key:tests", "put_file", "ok", made),
        ("key:tests", "get_file", "ok", made), ("key:tests", "exec_bash", "ok", made),
        ("key:other", "get_file", "not_found", None)])
    assert all(x["transport"] == "http" for x in lines)
    assert [x["request"] for x in lines if x["tool"] == "exec_bash"] == ['"r 7"']
    assert "hunter2" not in log.read_text() and KEY not in log.read_text()
    assert "5 good lines" in host.run("audit", "verify", env=env).stdout


def test_the_log_has_a_line_for_each_request_and_no_secrets(serve):
    web = serve(env={"ANYBOX_LOG": "info"})
    web.tool("create_sandbox", name="work")
    web.tool("exec_bash", command="echo hunter2")
    web.get("/sandbox/file?sandbox_name=work&file_path=/etc/passwd&link=hunter2")
    web.request("POST", "/mcp/tools/list_sandboxes", key="hunter2hunter2hunter2")
    web.close()
    web._drain.join(30)
    log = "".join(web.log)
    assert "hunter2" not in log and KEY not in log
    assert re.search(r'area=http method=POST path="/mcp/tools/exec_bash" owner="key:tests" status=200 '
                     r"received=\d+ ms=\d+$", log, re.M)
    assert re.search(r'area=http method=GET path="/sandbox/file" owner="key:tests" status=200', log)
    assert re.search(r'area=http method=POST path="/mcp/tools/list_sandboxes" owner="" status=401', log)
    assert re.search(r'area=call call=[0-9a-f]{16} transport=http owner="key:tests" request="" '
                     r"tool=exec_bash box=[0-9a-f]{32} ms=\d+ outcome=ok$", log, re.M)
    assert "via=rest" not in log
