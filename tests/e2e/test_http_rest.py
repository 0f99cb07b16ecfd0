"""Tools, health, metrics and documentation over plain HTTP."""
import base64
import hashlib
import json
import os
import re
import socket
import time

import jsonschema
import pytest
from host import command_line, pids, wait_until
from http_server import KEY, OTHER, HttpServer


@pytest.fixture
def web(host):
    server = HttpServer(host)
    yield server
    try:
        server.close()
    finally:
        server.kill()


@pytest.fixture
def web_with(host):
    """A function that starts a server with options and environment."""
    servers = []

    def start(*args, **more):
        servers.append(HttpServer(host, *args, **more))
        return servers[-1]
    yield start
    try:
        for server in servers:
            server.close()
    finally:
        for server in servers:
            server.kill()


def error_of(response, status, code):
    """Checks that it is this error; gives its sentence."""
    assert response.status == status, response.body
    answer = json.loads(response.body)
    assert answer["code"] == code and answer["error"], answer
    return answer["error"]


# ---- calls ----------------------------------------------------------------------


def test_a_tool_is_one_post(web):
    status, made = web.call("create_sandbox", {"name": "a"})
    assert status == 200 and made["name"] == "a"
    answer = web.tool("exec_bash", command="echo out; echo err >&2; exit 3")
    assert (answer["stdout"], answer["stderr"], answer["exit_code"]) == ("out\n", "err\n", 3)
    for body in (None, "", " \n", "{}"):
        response = web.request("POST", "/mcp/tools/list_sandboxes", body,
                               {"Content-Type": "application/json"} if body else {})
        assert response.status == 200
        assert [b["name"] for b in json.loads(response.body)["sandboxes"]] == ["a"]
        assert response.headers["Cache-Control"] == "no-store"
        assert response.headers["X-Content-Type-Options"] == "nosniff"


def test_a_connection_serves_many_calls(web):
    connection = web.connect()
    for _ in range(20):
        connection.request("POST", "/mcp/tools/list_sandboxes", headers=web.headers())
        response = connection.getresponse()
        assert response.status == 200 and json.loads(response.read())["sandboxes"] == []
    connection.close()


def test_the_status_says_what_the_code_says(web):
    assert web.call("exec_bash", {})[0] == 400
    assert web.call("exec_bash", {"command": "true", "sandbox_name": "none"})[0] == 404
    assert web.call("delete_sandbox", {"sandbox_id": "0" * 32})[0] == 404
    assert web.call("delete_sandbox", {})[0] == 400
    web.tool("create_sandbox", name="a")
    assert web.call("create_sandbox", {"name": "a"})[0] == 409
    assert web.call("create_sandbox", {"name": "b", "image": "no-such-image"})[0] in (400, 404, 422)
    assert web.call("read_remote_file", {"remote_path": "/none"})[0] == 404
    assert web.call("read_remote_file", {"remote_path": "/tmp"})[0] == 400
    made = web.tool("create_sandbox", name="short")
    web.call("exec_bash", {"command": "kill -9 -1", "sandbox_name": "short"})
    web.tool("delete_sandbox", sandbox_id=made["sandbox_id"])
    status, answer = web.call("exec_bash", {"command": "true", "sandbox_id": made["sandbox_id"]})
    assert (status, answer["code"]) == (410, "gone")


def test_a_command_that_fails_is_an_answer(web):
    web.tool("create_sandbox", name="a")
    answer = web.tool("exec_bash", command="sleep 9", timeout_s=1)
    assert answer["timed_out"] is True


def test_what_is_wrong_is_said(web):
    unknown = web.request("POST", "/mcp/tools/no_such_tool", "{}", {"Content-Type": "application/json"})
    assert "no_such_tool" in error_of(unknown, 404, "not_found")
    assert "exec_bash" in json.loads(unknown.body)["available"]
    wrong_method = web.get("/mcp/tools/exec_bash")
    error_of(wrong_method, 405, "invalid")
    assert "POST" in wrong_method.headers["Allow"]
    json_type = {"Content-Type": "application/json"}
    path = "/mcp/tools/list_sandboxes"
    for headers in ({"Content-Type": "text/plain"}, {"Content-Type": "application/x-www-form-urlencoded"}, {}):
        assert "application/json" in error_of(web.request("POST", path, "{}", headers), 415, "invalid")
    for body in ("{", "{'a': 1}", "nonsense", "{}{}"):
        assert "JSON" in error_of(web.request("POST", path, body, json_type), 400, "invalid")
    for body in ("[]", "null", "1", '"x"'):
        assert "object" in error_of(web.request("POST", path, body, json_type), 400, "invalid")
    assert web.request("POST", path, "{}", {"Content-Type": 'Application/JSON; charset="utf-8"'}).status == 200
    error_of(web.get("/mcp/tools/"), 404, "not_found")
    error_of(web.request("POST", "/mcp/tools/a%00b", "{}", json_type), 400, "invalid")


def test_a_body_has_its_limit(web):
    connection = web.connect()
    connection.putrequest("POST", "/mcp/tools/exec_bash")
    for name, value in web.headers(**{"Content-Type": "application/json", "Content-Length": str(17 << 20)}).items():
        connection.putheader(name, value)
    connection.endheaders()
    response = connection.getresponse()
    assert response.status == 413 and json.loads(response.read())["code"] == "limit"
    connection.close()


def test_a_key_is_needed(web):
    for path, method in (("/mcp/tools/list_sandboxes", "POST"), ("/sandbox/file?file_path=x", "GET"),
                         ("/sandbox/file?file_path=x", "PUT"), ("/metrics", "GET")):
        for key in (None, "wrong-key-0123456789"):
            response = web.request(method, path, key=key)
            error_of(response, 401, "denied")
            assert response.headers["WWW-Authenticate"].startswith("Bearer")
    assert web.request("POST", "/mcp/tools/list_sandboxes", key=None, headers={"X-API-Key": KEY}).status == 200


def test_keys_see_nothing_of_each_other(web):
    mine = web.tool("create_sandbox", name="same")
    theirs = web.tool("create_sandbox", key=OTHER, name="same")
    assert mine["sandbox_id"] != theirs["sandbox_id"]
    web.tool("exec_bash", command="echo mine > secret")
    assert [b["sandbox_id"] for b in web.tool("list_sandboxes", key=OTHER)["sandboxes"]] == [theirs["sandbox_id"]]
    assert web.call("exec_bash", {"command": "true", "sandbox_id": mine["sandbox_id"]}, key=OTHER)[0] == 404
    path = web.file_path("secret", sandbox_id=mine["sandbox_id"])
    assert web.get(path).body == b"mine\n"
    error_of(web.get(path, key=OTHER), 404, "not_found")
    error_of(web.request("PUT", path, b"x", key=OTHER), 404, "not_found")


def test_who_goes_away_takes_the_call_back(web):
    web.tool("create_sandbox", name="a")
    connection = web.connect()
    connection.request("POST", "/mcp/tools/exec_bash", json.dumps({"command": "echo $$ > pid; sleep 600"}),
                       web.headers(**{"Content-Type": "application/json"}))
    assert wait_until(lambda: "1" in str(web.call("exec_bash", {"command": "test -s pid && echo 1"})[1].get("stdout")))
    connection.sock.shutdown(socket.SHUT_RDWR)
    connection.close()
    assert wait_until(lambda: web.tool("exec_bash", command="kill -0 $(cat pid)")["exit_code"] != 0)


def test_a_server_that_leaves_takes_its_calls_back(web):
    web.tool("create_sandbox", name="a")
    connection = web.connect()
    connection.request("POST", "/mcp/tools/exec_bash", json.dumps({"command": "sleep 600"}),
                       web.headers(**{"Content-Type": "application/json"}))
    assert wait_until(lambda: b"anybox_calls_running 1" in web.get("/metrics").body)
    time.sleep(0.2)
    began = time.monotonic()
    box = web.tool("list_sandboxes")["sandboxes"][0]["sandbox_id"]
    web.process.terminate()
    response = connection.getresponse()
    assert response.status == 503 and json.loads(response.read())["code"] == "cancelled"
    assert web.process.wait(30) == 0
    assert time.monotonic() - began < 30
    again = HttpServer(web.host)  # the box is still there, and its owner
    assert again.tool("exec_bash", sandbox_id=box, command="pgrep sleep || echo none")["stdout"] == "none\n"
    again.close()


def test_calls_of_a_key_have_a_limit(web_with):
    web = web_with(env={"ANYBOX_HTTP_MAX_CALLS": "1"})
    web.tool("create_sandbox", name="a")
    connection = web.connect()
    mark = f"sleep 60.{os.getpid()}"
    connection.request("POST", "/mcp/tools/exec_bash", json.dumps({"command": mark}),
                       web.headers(**{"Content-Type": "application/json"}))
    # Not by asking the server: a question would take the only place, and the command be refused.
    assert wait_until(lambda: any(mark in command_line(pid) for pid in pids()))
    response = web.request("POST", "/mcp/tools/list_sandboxes")
    error_of(response, 429, "limit")
    assert response.headers["Retry-After"]
    assert web.call("list_sandboxes", key=OTHER)[0] == 200
    connection.close()
    assert wait_until(lambda: web.call("list_sandboxes")[0] == 200)


# ---- how it is --------------------------------------------------------------------


def test_health_needs_no_key_and_tells_nothing(web):
    check = web.get("/check", key=None)
    assert (check.status, check.body, check.headers["Content-Type"]) == (200, b'"success"', "application/json")
    for path in ("/health", "/health/live", "/health/ready"):
        response = web.get(path, key=None)
        assert (response.status, json.loads(response.body)) == (200, {"status": "healthy"})
        assert web.request("HEAD", path, key=None).body == b""
    error_of(web.request("POST", "/health"), 405, "invalid")


def samples(text):
    """{name and labels: value}; fails on a line that is none of Prometheus' text format."""
    found, types = {}, {}
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            name, kind = line[7:].split(" ")
            assert name not in types and kind in ("counter", "gauge", "histogram")
            types[name] = kind
        elif not line.startswith("# HELP "):
            match = re.fullmatch(r'([a-z_]+)(\{[a-z]+="[^"\\]*"(?:,[a-z]+="[^"\\]*")*\})? (-?[0-9.e+]+)', line)
            assert match, line
            base = re.sub("_(bucket|sum|count)$", "", match.group(1))
            assert match.group(1) in types or types.get(base) == "histogram", line
            assert match.group(1) + (match.group(2) or "") not in found
            found[match.group(1) + (match.group(2) or "")] = float(match.group(3))
    return found


def test_metrics_count_what_happened(web):
    web.tool("create_sandbox", name="a")
    web.tool("exec_bash", command="true")
    web.call("exec_bash", {})
    web.request("POST", "/mcp/tools/exec_bash", "{", {"Content-Type": "application/json"})
    response = web.get("/metrics")
    assert response.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    found = samples(response.body.decode())
    assert found['anybox_calls_total{tool="exec_bash",code="ok"}'] == 1
    assert found['anybox_calls_total{tool="exec_bash",code="invalid"}'] == 1
    assert found['anybox_call_duration_seconds_count{tool="exec_bash"}'] == 2
    assert found['anybox_call_duration_seconds_bucket{tool="exec_bash",le="+Inf"}'] == 2
    assert found['anybox_call_duration_seconds_sum{tool="exec_bash"}'] > 0
    bounds = [v for k, v in found.items() if k.startswith('anybox_call_duration_seconds_bucket{tool="exec_bash"')]
    assert bounds == sorted(bounds)
    assert found["anybox_boxes"] == 1
    assert found["anybox_calls_running"] == 0
    assert found["anybox_http_connections"] >= 1
    assert found['anybox_http_requests_total{status="2xx"}'] >= 2
    assert found['anybox_http_requests_total{status="4xx"}'] >= 2
    assert found["anybox_http_received_bytes_total"] > 0
    assert found["anybox_http_sent_bytes_total"] > 0
    assert 1 << 20 < found["anybox_resident_memory_bytes"] < 1 << 30
    assert 3 < found["anybox_open_fds"] < 100
    assert any(k.startswith("anybox_build_info{version=") for k in found)
    text = response.body.decode()
    assert KEY not in text and OTHER not in text


def test_metrics_can_be_open(web_with):
    web = web_with(env={"ANYBOX_HTTP_OPEN_METRICS": "true"})
    assert samples(web.get("/metrics", key=None).body.decode())


# ---- the description ------------------------------------------------------------


def check_openapi(api):
    """The rules of OpenAPI 3.1 that a description like ours can break."""
    assert re.fullmatch(r"3\.1\.\d+", api["openapi"])
    assert api["info"]["title"] and api["info"]["version"]
    known = set(api["components"]["securitySchemes"])
    tags, ids = {t["name"] for t in api["tags"]}, set()

    def look(node, path):
        if isinstance(node, dict):
            if "$ref" in node:
                target = api
                for part in node["$ref"].removeprefix("#/").split("/"):
                    assert part in target, f"{path}: {node['$ref']} leads nowhere"
                    target = target[part]
                return target
            for key, value in node.items():
                look(value, f"{path}/{key}")
        elif isinstance(node, list):
            for index, value in enumerate(node):
                look(value, f"{path}/{index}")
        return node

    look(api, "")
    for scheme in api["components"]["securitySchemes"].values():
        assert scheme["type"] in ("http", "apiKey")
        assert "scheme" in scheme if scheme["type"] == "http" else {"in", "name"} <= set(scheme)
    for path, item in api["paths"].items():
        assert path.startswith("/") and "{" not in path
        assert set(item) <= {"get", "put", "post", "delete", "parameters"}, path
        for method in set(item) - {"parameters"}:
            op = item[method]
            assert op["operationId"] not in ids and not ids.add(op["operationId"])
            assert set(op["tags"]) <= tags and op["summary"]
            for need in op.get("security", api["security"]):
                assert set(need) <= known
            assert op["responses"], path
            for status, response in op["responses"].items():
                assert re.fullmatch("[1-5]([0-9][0-9]|XX)|default", status)
                assert look(response, path)["description"]
            names = set()
            for parameter in item.get("parameters", []) + op.get("parameters", []):
                parameter = look(parameter, path)
                assert parameter["in"] in ("query", "header", "path", "cookie")
                assert (parameter["name"], parameter["in"]) not in names
                names.add((parameter["name"], parameter["in"]))
                jsonschema.Draft202012Validator.check_schema(parameter["schema"])
            for media in op.get("requestBody", {"content": {}})["content"].values():
                jsonschema.Draft202012Validator.check_schema(media.get("schema", {}))
    for schema in api["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_the_description_is_valid_and_whole(web):
    response = web.get("/openapi.json", key=None)
    assert response.headers["Content-Type"] == "application/json"
    api = json.loads(response.body)
    check_openapi(api)
    assert api["servers"] == [{"url": web.url}]
    tools = {p.rpartition("/")[2]: item["post"] for p, item in api["paths"].items() if p.startswith("/mcp/tools/")}
    assert {"exec_bash", "create_sandbox", "list_sandboxes", "read_remote_file"} <= set(tools)
    assert tools["exec_bash"]["requestBody"]["required"] is True
    body = tools["exec_bash"]["requestBody"]["content"]["application/json"]["schema"]
    assert body["required"] == ["command"] and body["properties"]["command"]["type"] == "string"
    assert tools["list_sandboxes"]["requestBody"]["required"] is False
    unknown = json.loads(web.request("POST", "/mcp/tools/none").body)
    assert sorted(tools) == unknown["available"]
    for path, item in api["paths"].items():  # everything that is described is there
        for method in set(item) - {"parameters"}:
            answer = web.request(method.upper(), path)
            assert answer.status not in (401, 405, 500), (method, path)
    error = api["components"]["schemas"]["Error"]
    jsonschema.validate(json.loads(web.request("POST", "/mcp/tools/exec_bash").body), error)
    jsonschema.validate(json.loads(web.get("/sandbox/file").body), error)


def test_the_description_has_the_tools_that_are_shown(web_with):
    web = web_with("--toolset", "mcp-sandbox")
    api = json.loads(web.get("/openapi.json").body)
    check_openapi(api)
    assert "/mcp/tools/execute_terminal_command" in api["paths"]
    assert "/mcp/tools/exec_bash" not in api["paths"]


def test_links_have_the_public_url(web_with):
    web = web_with(env={"ANYBOX_HTTP_PUBLIC_URL": "https://box.example/any/"})
    assert json.loads(web.get("/openapi.json").body)["servers"] == [{"url": "https://box.example/any"}]


def test_the_page_loads_nothing_else(web):
    response = web.get("/docs", key=None)
    page = response.body.decode()
    assert response.status == 200 and response.headers["Content-Type"] == "text/html; charset=utf-8"
    policy = dict(part.strip().split(" ", 1) for part in response.headers["Content-Security-Policy"].split(";"))
    assert policy["default-src"] == "'none'" and policy["connect-src"] == "'self'"
    assert "unsafe" not in response.headers["Content-Security-Policy"]
    for element, rule in (("script", "script-src"), ("style", "style-src")):
        texts = re.findall(f"<{element}>(.*?)</{element}>", page, re.S)
        digest = base64.b64encode(hashlib.sha256(texts[0].encode()).digest()).decode()
        assert len(texts) == 1 and policy[rule] == f"'sha256-{digest}'"
    assert not re.search(r"""(src|href)\s*=\s*["']?(https?:)?//""", page)
    assert not re.search(r"\sstyle\s*=|\son[a-z]+\s*=\s*[\"']", page.split("<script>")[0])
    assert response.headers["X-Frame-Options"] == "DENY"


# ---- other sites --------------------------------------------------------------------


def test_pages_of_other_sites_may_not(web):
    for path, method in (("/mcp/tools/list_sandboxes", "POST"), ("/sandbox/file?file_path=x", "GET"), ("/check", "GET")):
        error_of(web.request(method, path, headers={"Origin": "https://evil.example"}), 403, "denied")
        error_of(web.request(method, path, headers={"Host": "evil.example"}), 403, "denied")
    assert web.request("POST", "/mcp/tools/list_sandboxes", headers={"Origin": web.url}).status == 200


def test_pages_of_allowed_sites_may(web_with):
    site = "https://ui.example"
    web = web_with(env={"ANYBOX_HTTP_CORS_ORIGINS": site})
    for path, method in (("/mcp/tools/list_sandboxes", "POST"), ("/sandbox/file?file_path=x", "GET"),
                         ("/sandbox/file?file_path=x", "PUT")):
        asked = web.request("OPTIONS", path, key=None, headers={
            "Origin": site, "Access-Control-Request-Method": method,
            "Access-Control-Request-Headers": "authorization,content-type,range"})
        assert asked.status == 204 and asked.body == b""
        assert asked.headers["Access-Control-Allow-Origin"] == site
        assert method in asked.headers["Access-Control-Allow-Methods"]
        assert "authorization" in asked.headers["Access-Control-Allow-Headers"].lower()
    answer = web.request("POST", "/mcp/tools/list_sandboxes", headers={"Origin": site})
    assert answer.status == 200 and answer.headers["Access-Control-Allow-Origin"] == site
    assert "Origin" in answer.headers["Vary"]
    refused = web.request("OPTIONS", "/metrics", key=None,
                          headers={"Origin": site, "Access-Control-Request-Method": "GET"})
    assert refused.status in (403, 405) and "Access-Control-Allow-Origin" not in refused.headers
    error_of(web.request("POST", "/mcp/tools/list_sandboxes", headers={"Origin": "https://evil.example"}), 403, "denied")


# ---- what the operator set -------------------------------------------------------------


def test_read_only_is_read_only_here_too(host, web_with):
    first = HttpServer(host)
    box = first.tool("create_sandbox", name="a")["sandbox_id"]
    first.tool("exec_bash", command="echo 1 > x")
    assert first.stop() == 0
    web = web_with(env={"ANYBOX_SERVER_READ_ONLY": "true"})
    assert [b["sandbox_id"] for b in web.tool("list_sandboxes")["sandboxes"]] == [box]
    assert web.tool("read_remote_file", remote_path="x")["content"] == "1\n"
    assert web.get(web.file_path("x")).body == b"1\n"
    for tool in ("exec_bash", "create_sandbox", "write_remote_file", "delete_sandbox"):
        status, answer = web.call(tool, {"command": "true", "remote_path": "y", "content": "", "sandbox_id": box})
        assert (status, answer["code"]) == (403, "denied"), tool
    assert "read-only" in error_of(web.request("PUT", web.file_path("x"), b"2"), 403, "denied")
    assert web.get(web.file_path("x")).body == b"1\n"
    api = json.loads(web.get("/openapi.json").body)
    assert "/mcp/tools/read_remote_file" in api["paths"] and "/mcp/tools/exec_bash" not in api["paths"]
    assert web.stop() == 0
    again = HttpServer(host)
    again.close()


def test_calls_and_files_are_audited(host, web_with):
    log = host.folder / "audit.log"
    web = web_with(env={"ANYBOX_AUDIT_FILE": str(log)})
    box = web.tool("create_sandbox", name="a")["sandbox_id"]
    web.request("PUT", web.file_path("secret-name"), b"1")
    web.get(web.file_path("secret-name"))
    web.get(web.file_path("none"))
    web.get(web.file_path("none", link="bad"), key=None)  # nobody's: it is no line
    text = log.read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert [(e["tool"], e["outcome"]) for e in lines if "tool" in e] == [
        ("create_sandbox", "ok"), ("put_file", "ok"), ("get_file", "ok"), ("get_file", "not_found")]
    assert all(e["box"] == box for e in lines if e.get("tool") in ("put_file", "get_file"))
    assert "secret-name" not in text and KEY not in text
    assert host.run("audit", "verify", str(log), env={"ANYBOX_AUDIT_FILE": str(log)}).returncode == 0


def test_mcp_over_http_hands_out_links(web):
    web.tool("create_sandbox", name="a")
    web.request("PUT", web.file_path("x.bin"), b"\0\1")
    response = web.request("POST", "/mcp", json.dumps({
        "jsonrpc": "2.0", "id": 1, "method": "tools/call",
        "params": {"name": "read_remote_file", "arguments": {"remote_path": "x.bin"}, "_meta": {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
            "io.modelcontextprotocol/clientCapabilities": {}}}}), {
        "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "read_remote_file"})
    assert response.status == 200, response.body
    answer = json.loads(json.loads(response.body)["result"]["content"][0]["text"])
    assert answer["file_link"].startswith(web.url)
    assert web.get(answer["file_link"].removeprefix(web.url), key=None).body == b"\0\1"
