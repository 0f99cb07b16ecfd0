"""Every row of the classifier of /mcp, in its order: what is asked first is answered first."""
import base64
import json

import pytest
from http_wire import BOTH, META, MODERN, Legacy, Modern, Served, call, request

POOL = 0
LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
PING = request("ping")
LIST = request("tools/list")


@pytest.fixture(scope="module")
def shared():
    """One server for all: none of them leaves anything in it."""
    return {}


@pytest.fixture
def served(install, tier, session_folder, shared, request):
    from host import Host
    if "served" not in shared:
        folder = session_folder / "http-ladder"
        folder.mkdir()
        host = Host(install, tier, folder, 0)
        shared["host"], shared["served"] = host, Served(host, env={"ANYBOX_HTTP_CORS_ORIGINS": "https://app.example.com"})
    return shared["served"]


@pytest.fixture(scope="module", autouse=True)
def end(shared):
    yield
    if shared:
        shared["served"].close()
        assert shared["served"].process.returncode == 0
        shared["host"].finish()


@pytest.fixture
def session(served):
    return Legacy(served)


@pytest.fixture
def modern(served):
    return Modern(served)


# ---- 0: Host and Origin -----------------------------------------------------------------

EVIL = [{"Host": "evil.example.com"}, {"Host": "evil.example.com:8000"}, {"Host": "127.0.0.1.evil.example.com"},
        {"Host": None}, {"Host": "localhost@evil.example.com"}, {"Host": "2130706433"}, {"Host": "10.0.0.1"},
        {"Origin": "http://evil.example.com"}, {"Origin": "null"}, {"Origin": "https://app.example.com.evil.org"},
        {"Origin": "http://app.example.com"}, {"Origin": "file://"}, {"Origin": "http://localhost:1"}]


@pytest.mark.parametrize("headers", EVIL)
@pytest.mark.parametrize("key", ["", None])
def test_other_sites_are_refused_before_anything_else(served, headers, key):
    for method, path in ("POST", "/mcp"), ("GET", "/nothing"), ("OPTIONS", "/mcp"):
        reply = served.send(method, path, headers=headers, key=key)
        assert reply.status == 403, reply
    refused = served.post(PING, headers=headers, key=key).json()
    assert refused["jsonrpc"] == "2.0" and "id" not in refused and refused["error"]["message"].endswith(".")


@pytest.mark.parametrize("name", ["127.0.0.1", "localhost", "LOCALHOST", "[::1]"])
def test_our_own_names_are_taken_with_their_pages(served, name):
    own = f"{name}:{served.port}"
    reply = Legacy(served).post(PING, headers={"Host": own, "Origin": f"http://{own}"})
    assert reply.status == 200 and "access-control-allow-origin" not in reply.headers


def test_two_hosts_in_one_request_are_refused(served):
    with served.wire() as wire:
        wire.send(served.request(body=b"{}").replace(b"\r\n", b"\r\nHost: evil.example.com\r\n", 1))
        assert wire.reply().status in (400, 403)


# ---- 1: the key ---------------------------------------------------------------------------

@pytest.mark.parametrize("path", ["/mcp", "/", "/nothing"])
def test_without_a_key_there_is_nothing(served, path):
    reply = served.send("POST", path, body=b"{}", key=None)
    assert reply.status == 401 and reply.headers["www-authenticate"] == 'Bearer realm="anybox"'


@pytest.mark.parametrize("headers", [
    {"Authorization": "Bearer wrong"}, {"Authorization": "Basic dTpw"}, {"Authorization": "Bearer"},
    {"X-API-Key": "wrong"}, {"Authorization": "Bearer " + "x" * 2000}])
def test_a_wrong_key_is_refused(served, headers):
    reply = served.post(PING, key=None, headers=headers)
    assert reply.status == 401 and reply.headers["www-authenticate"].startswith('Bearer realm="anybox"')
    assert "wrong" not in reply.body.decode() and "id" not in reply.json()


def test_the_key_may_come_as_x_api_key(served):
    assert served.post(request("nothing"), key=None, headers={"X-API-Key": served.key}).status == 400


# ---- 2 and 3: path and method ---------------------------------------------------------------

@pytest.mark.parametrize("path", ["/nothing", "/mcp/", "/mcp/x", "/MCP", "/sse", "/%2e%2e/mcp"])
def test_other_paths_are_not_found(served, path):
    reply = served.send("POST", path, body=b"{}")
    assert reply.status == 404 and reply.json()["code"] == "not_found"


@pytest.mark.parametrize("path", ["oauth-protected-resource", "oauth-protected-resource/mcp",
                                  "oauth-authorization-server", "openid-configuration"])
def test_who_looks_for_oauth_is_told_in_json_without_a_key(served, path):
    reply = served.send("GET", "/.well-known/" + path, key=None)
    assert reply.status == 404 and reply.json()["code"] == "not_found"


@pytest.mark.parametrize("method", ["GET", "DELETE", "HEAD"])
def test_without_a_session_there_is_only_post(served, method):
    reply = served.send(method)
    assert reply.status == 405 and reply.headers["allow"] == "POST"


@pytest.mark.parametrize("method", ["PUT", "PATCH", "OPTIONS", "TRACE", "BREW"])
def test_other_methods_are_refused_with_what_there_is(served, method):
    reply = served.send(method, body=b"{}")
    assert reply.status == 405 and "POST" in reply.headers["allow"]


# ---- 4 to 6: type, length, JSON -----------------------------------------------------------------

@pytest.mark.parametrize("kind", [None, "", "text/plain", "application/jsonx", "application/json-rpc",
                                  "text/plain; x=application/json", "application/x-www-form-urlencoded"])
def test_only_json_is_taken(served, kind):
    assert served.post(PING, headers={"Content-Type": kind}).status == 415


@pytest.mark.parametrize("kind", ["application/json", "Application/JSON; charset=utf-8", "application/json;charset=\"utf-8\""])
def test_parameters_of_the_type_do_not_matter(session, kind):
    assert session.post(PING, headers={"Content-Type": kind}).status == 200


def test_a_wrong_type_comes_before_a_wrong_length(served):
    assert served.post(b"x" * (5 << 20), headers={"Content-Type": "text/plain"}).status == 415


def test_a_body_of_four_mib_is_taken_and_one_byte_more_is_not(session):
    body = json.dumps(PING).encode()
    most = body + b" " * ((4 << 20) - len(body))
    assert session.post(most).status == 200
    reply = session.post(most + b" ")
    assert reply.status == 413 and "4194304" in reply.json()["error"]["message"]


def test_a_chunked_body_has_the_same_limit_and_the_connection_goes_on(served):
    with served.wire() as wire:
        head = served.request(headers={"Content-Length": None, "Transfer-Encoding": "chunked"})
        wire.send(head)
        for _ in range(5):
            wire.send(b"100000\r\n" + b" " * (1 << 20) + b"\r\n")
        wire.send(b"0\r\n\r\n")
        assert wire.reply().status == 413
        assert served.post(PING, wire=wire).status == 400


def test_a_body_beyond_all_measure_is_refused_at_once(served):
    with served.wire() as wire:
        wire.send(served.request(headers={"Content-Length": str(1 << 40)}) + b"{")
        assert wire.reply().status == 413


@pytest.mark.parametrize("body", [b"", b"{", b"nonsense", b"\xff\xfe", b'{"a":1}x', b"[1,", b"\0"])
def test_what_is_no_json_is_a_parse_error(served, body):
    reply = served.post(body)
    assert (reply.status, reply.code) == (400, -32700) and "id" not in reply.json()


@pytest.mark.parametrize("body", [b"1", b'"x"', b"null", b"{}", b'{"jsonrpc":"1.0","id":1,"method":"ping"}',
                                  b'{"jsonrpc":"2.0","id":1}', b'{"jsonrpc":"2.0","id":1,"method":1}',
                                  b'{"jsonrpc":"2.0","id":null,"method":"ping"}',
                                  b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}'])
def test_what_is_no_message_is_an_invalid_request(served, body):
    reply = served.post(body)
    assert (reply.status, reply.code) == (400, -32600)


# ---- 7: which era ---------------------------------------------------------------------------

def test_a_claim_or_a_modern_header_makes_a_request_modern(served, modern):
    assert modern.post(LIST).json()["result"]["resultType"] == "complete"
    # Only the header: the body then lacks what the era demands.
    reply = served.post(LIST, headers={"MCP-Protocol-Version": MODERN})
    assert (reply.status, reply.code, reply.json()["id"]) == (400, -32602, 1)
    reply = served.post(LIST, headers={"MCP-Protocol-Version": "2027-01-01"})
    assert (reply.status, reply.code) == (400, -32602)


def test_initialize_is_served_whatever_the_header_says(served):
    for version in MODERN, "v999.0.0", "2024-11-05", None:
        hello = request("initialize", protocolVersion="2025-06-18", capabilities={})
        reply = served.post(hello, headers={"MCP-Protocol-Version": version})
        assert reply.json()["result"]["protocolVersion"] == "2025-06-18" and reply.headers["mcp-session-id"]


def test_notifications_and_answers_get_202_and_nothing_more(served, session):
    note = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    answer = {"jsonrpc": "2.0", "id": "q1", "result": {}}
    for reply in (session.post(note), session.post(answer),
                  served.post(note, headers={"MCP-Protocol-Version": MODERN})):
        assert (reply.status, reply.body) == (202, b"")


# ---- 8: the modern era ------------------------------------------------------------------------

def meta(**more):
    return {"_meta": {META + "protocolVersion": MODERN, META + "clientCapabilities": {}, **more}}


@pytest.mark.parametrize("params", [
    None, {}, {"_meta": 1}, {"_meta": {}}, {"_meta": {META + "protocolVersion": MODERN}},
    {"_meta": {META + "clientCapabilities": {}}}, {"_meta": {META + "protocolVersion": 1, META + "clientCapabilities": {}}},
    {"_meta": {META + "protocolVersion": MODERN, META + "clientCapabilities": []}}, [1]])
def test_what_the_body_lacks_comes_before_what_the_headers_lack(served, params):
    message = {**request("server/discover", "d1"), **({} if params is None else {"params": params})}
    reply = served.post(message, headers={"MCP-Protocol-Version": MODERN, "Mcp-Method": "wrong"})
    assert (reply.status, reply.code, reply.json()["id"]) == (400, -32602, "d1")


@pytest.mark.parametrize("headers", [
    {"MCP-Protocol-Version": None}, {"MCP-Protocol-Version": "2025-11-25"}, {"Mcp-Method": None},
    {"Mcp-Method": "TOOLS/CALL"}, {"Mcp-Method": "tools/list"}, {"Mcp-Name": None}, {"Mcp-Name": "exec"},
    {"Mcp-Name": "=?base64?!!!?="}, {"Mcp-Name": "=?base64?bGlzdF9zYW5kYm94ZXM?="}, {"Mcp-Name": "LIST_SANDBOXES"}])
def test_headers_must_say_what_the_body_says(modern, headers):
    reply = modern.post(call("list_sandboxes", 7), headers=headers)
    assert (reply.status, reply.code, reply.json()["id"]) == (400, -32020, 7)


@pytest.mark.parametrize("headers", [
    {"Mcp-Name": "  list_sandboxes\t"}, {"mcp-name": "list_sandboxes", "Mcp-Name": None},
    {"MCP-METHOD": "tools/call", "Mcp-Method": None}, {"Mcp-Session-Id": "nonsense"}, {"Last-Event-ID": "7"},
    {"Mcp-Name": "=?base64?" + base64.b64encode(b"list_sandboxes").decode() + "?="}])
def test_headers_may_be_written_otherwise(modern, headers):
    assert modern.post(call("list_sandboxes"), headers=headers).status == 200


def test_a_header_that_is_there_twice_says_nothing(served, modern):
    message = modern.message(LIST)
    data = served.request(body=json.dumps(message).encode(), headers=modern.headers(LIST))
    with served.wire() as wire:
        wire.send(data.replace(b"\r\n\r\n", b"\r\nMcp-Method: tools/call\r\n\r\n", 1))
        reply = wire.reply()
    assert (reply.status, reply.code) == (400, -32020)


@pytest.mark.parametrize("version", ["v999.0.0", "2025-11-25", "2027-01-01", ""])
def test_a_version_that_we_do_not_speak_is_told_with_those_that_we_do(served, version):
    reply = served.post(Modern.message(LIST, version), headers={"MCP-Protocol-Version": version or " ", "Mcp-Method": "x"})
    if not version:
        assert (reply.status, reply.code) == (400, -32020) or reply.code == -32022
        return
    assert (reply.status, reply.code) == (400, -32022)
    data = reply.json()["error"]["data"]
    assert data["requested"] == version and MODERN in data["supported"]


@pytest.mark.parametrize("method", ["initialize", "ping", "logging/setLevel", "resources/subscribe",
                                    "resources/unsubscribe", "unknown/method"])
def test_methods_that_the_era_has_not_are_404(modern, method):
    reply = modern.post(request(method, "u1"))
    assert (reply.status, reply.code, reply.json()["id"]) == (404, -32601, "u1")


def test_what_is_wrong_with_a_call_is_told_with_200(modern):
    reply = modern.post(call("no_such_tool", 9))
    assert (reply.status, reply.code, reply.json()["id"]) == (200, -32602, 9)
    bad = modern.post(call("exec_bash", 9, command=5)).json()
    assert bad["result"]["isError"] is True


def test_discover_tells_what_we_speak(modern):
    reply = modern.post(request("server/discover", "d"))
    assert reply.status == 200 and reply.json()["result"]["supportedVersions"][0] == MODERN


def test_a_subscription_is_acknowledged_first_and_closed_with_a_result(modern):
    reply = modern.post(request("subscriptions/listen", "listen:0", notifications={"toolsListChanged": True}))
    assert reply.headers["content-type"] == "text/event-stream"
    assert reply.headers["cache-control"] == "no-cache, no-transform" and reply.headers["x-accel-buffering"] == "no"
    acknowledged, result = reply.messages()
    assert acknowledged["method"] == "notifications/subscriptions/acknowledged"
    assert acknowledged["params"]["_meta"] == {META + "subscriptionId": "listen:0"}
    assert result["id"] == "listen:0" and result["result"]["resultType"] == "complete"


# ---- the older revisions ----------------------------------------------------------------------

@pytest.mark.parametrize("version", LEGACY)
def test_every_older_revision_has_sessions(served, version):
    session = Legacy(served, version)
    assert session.agreed == version
    assert session.post(PING).json() == {"jsonrpc": "2.0", "id": 1, "result": {}}
    assert "resultType" not in session.post(LIST).json()["result"]
    assert all(0x21 <= ord(c) <= 0x7e for c in session.id) and len(session.id) > 32


def test_without_its_session_a_request_is_refused_in_the_words_that_codex_reads(served):
    reply = served.post(LIST)
    assert reply.status == 400
    assert reply.json()["error"]["message"] == "Bad Request: No valid session ID provided"


@pytest.mark.parametrize("spoil", [lambda i: i + "x", lambda i: i[:-1], lambda i: "B" + i[1:], lambda i: "nonsense",
                                   lambda i: i.swapcase(), lambda i: "x" * 2000])
def test_a_session_id_that_is_not_ours_is_404(served, session, spoil):
    reply = served.post(PING, headers={"Mcp-Session-Id": spoil(session.id)})
    assert (reply.status, reply.json()["id"]) == (404, 1)


def test_an_unknown_version_in_the_header_is_refused_in_the_words_that_codex_reads(session):
    reply = session.post(PING, headers={"MCP-Protocol-Version": "1999-01-01"})
    assert reply.status == 400
    message = reply.json()["error"]["message"]
    assert message.startswith("Bad Request: Unsupported protocol version: 1999-01-01 (supported versions: ")
    assert "2025-06-18" in message


def test_a_method_that_is_not_there_is_no_404_for_sessions(session):
    """They would take it for the end of their session."""
    reply = session.post(request("nothing/here", 5))
    assert (reply.status, reply.code, reply.json()["id"]) == (200, -32601, 5)


def test_delete_ends_a_session_for_good(served, session):
    assert served.send("DELETE", headers=session.headers).status in (200, 204)
    assert session.post(PING).status == 404
    assert served.send("DELETE", headers=session.headers).status == 404
    assert served.send("GET", headers={**session.headers, "Accept": "text/event-stream"}).status == 404
    assert Legacy(served).post(PING).status == 200


def test_the_stream_of_get_opens_at_once_and_a_second_one_replaces_it(served, session):
    with session.listen() as first:
        assert first.chunk() == b": open\n\n"
        with session.listen() as second:
            assert second.chunk() == b": open\n\n"
            assert first.chunk() == b""
    assert served.send("GET", headers={**session.headers, "Accept": "application/json"}).status == 406


@pytest.mark.parametrize("accept,kind", [
    (BOTH, "application/json"), (None, "application/json"), ("*/*", "application/json"),
    ("application/json", "application/json"), ("text/event-stream", "application/json")])
def test_what_is_quick_is_answered_in_json(session, accept, kind):
    reply = session.post(PING, headers={"Accept": accept})
    assert reply.status == 200 and reply.headers["content-type"] == kind


# ---- batches ------------------------------------------------------------------------------------

NOTE = {"jsonrpc": "2.0", "method": "notifications/initialized"}


@pytest.mark.parametrize("version", LEGACY[:2])
def test_a_batch_is_answered_by_an_array(served, version):
    reply = Legacy(served, version).post([request("ping", 1), NOTE, request("tools/list", "two"), request("no", 3)])
    answers = {a["id"]: a for a in reply.json()}
    assert reply.status == 200 and set(answers) == {1, "two", 3} and answers[3]["error"]["code"] == -32601


def test_a_batch_of_notifications_gets_202(served):
    reply = Legacy(served, "2025-03-26").post([NOTE, NOTE])
    assert (reply.status, reply.body) == (202, b"")


@pytest.mark.parametrize("version", LEGACY[2:])
@pytest.mark.parametrize("batch", [[PING], [NOTE]])
def test_later_revisions_have_no_batches(served, version, batch):
    reply = Legacy(served, version).post(batch)
    assert (reply.status, reply.code) == (400, -32600)


@pytest.mark.parametrize("batch", [[], [PING] * 65, [Modern.message(LIST)], [NOTE] * 65, [request("initialize")]])
def test_batches_have_their_limits(served, batch):
    reply = Legacy(served, "2025-03-26").post(batch)
    if batch and batch[0]["method"] == "initialize":
        assert reply.json()[0]["error"]["code"] == -32600
        return
    assert (reply.status, reply.code) == (400, -32600)


def test_a_modern_header_with_a_batch_is_refused(served):
    reply = served.post([PING], headers={"MCP-Protocol-Version": MODERN})
    assert (reply.status, reply.code) == (400, -32600)


# ---- at "/" and across origins -----------------------------------------------------------------

def test_json_rpc_posted_to_the_root_is_served_like_mcp(served, session, modern):
    assert session.post(PING, path="/").json()["result"] == {}
    assert modern.post(LIST, path="/").status == 200
    assert served.send("GET", "/").status == 405


def test_pages_of_allowed_origins_may_use_mcp(served, session):
    origin = {"Origin": "https://app.example.com"}
    preflight = served.send("OPTIONS", key=None, headers={
        **origin, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization, mcp-session-id"})
    assert preflight.status == 204 and preflight.headers["access-control-allow-origin"] == "https://app.example.com"
    assert "POST" in preflight.headers["access-control-allow-methods"]
    for name in "authorization", "content-type", "mcp-session-id", "mcp-protocol-version", "mcp-method", "mcp-name":
        assert name in preflight.headers["access-control-allow-headers"].lower()
    reply = session.post(PING, headers=origin)
    assert reply.headers["access-control-allow-origin"] == "https://app.example.com"
    assert "mcp-session-id" in reply.headers["access-control-expose-headers"].lower() and reply.headers["vary"] == "Origin"
    # A refusal can be read by the page, too.
    assert served.post(PING, headers=origin, key=None).headers["access-control-allow-origin"]


def test_a_preflight_for_what_is_not_there_is_refused(served):
    headers = {"Origin": "https://app.example.com", "Access-Control-Request-Method": "PUT"}
    assert served.send("OPTIONS", headers=headers, key=None).status == 403
