"""Files of boxes over HTTP: GET, HEAD, PUT /sandbox/file, and links that need no key."""
import email.utils
import hashlib
import json
import os
import socket
import threading
import time
import urllib.parse

import pytest
from host import wait_until
from http_server import OTHER, HttpServer

BIG = 256 << 20


@pytest.fixture
def web(host):
    server = HttpServer(host)
    server.box = server.tool("create_sandbox", name="a")["sandbox_id"]
    yield server
    try:
        server.close()
    finally:
        server.kill()


def put(web, path, body, **more):
    return web.request("PUT", web.file_path(path), body, **more)


def sentence(response, status):
    assert response.status == status, (response.status, response.body[:300])
    answer = json.loads(response.body)
    assert answer["code"] and answer["error"]
    return answer["error"]


# ---- to and fro -------------------------------------------------------------------


def test_what_was_put_is_got(web):
    bytes_ = os.urandom(300000)
    made = put(web, "deep/er/data.bin", bytes_)
    assert made.status == 201
    assert json.loads(made.body) == {"file_path": "deep/er/data.bin", "size": len(bytes_)}
    got = web.get(web.file_path("deep/er/data.bin"))
    assert got.status == 200 and got.body == bytes_
    assert got.headers["Content-Length"] == str(len(bytes_))
    again = put(web, "deep/er/data.bin", b"short")
    assert again.status == 204 and again.body == b""
    for how in ({"sandbox_id": web.box}, {"sandbox_name": "a"}, {}):
        assert web.get(web.file_path("/workspace/deep/er/data.bin", **how)).body == b"short"
    assert web.tool("exec_bash", command="cat deep/er/data.bin")["stdout"] == "short"


def test_a_chunked_body_is_fine(web):
    pieces = [os.urandom(n) for n in (1, 70000, 3, 200000)]
    response = web.request("PUT", web.file_path("chunked"), iter(pieces), {"Transfer-Encoding": "chunked"})
    assert response.status == 201
    assert web.get(web.file_path("chunked")).body == b"".join(pieces)


def test_a_file_can_be_only_new(web):
    assert put(web, "x", b"1", headers={"If-None-Match": "*"}).status == 201
    sentence(put(web, "x", b"2", headers={"If-None-Match": "*"}), 412)
    assert web.get(web.file_path("x")).body == b"1"


def test_empty_files_and_those_of_proc(web):
    assert put(web, "empty", b"").status == 201
    got = web.get(web.file_path("empty"))
    assert (got.status, got.body, got.headers["Content-Length"]) == (200, b"", "0")
    assert web.get(web.file_path("empty"), headers={"Range": "bytes=0-0"}).status == 416
    assert web.get(web.file_path("/proc/version")).body.startswith(b"Linux version")


def test_the_head_is_the_same_without_the_body(web):
    put(web, "x.txt", b"12345")
    got, head = web.get(web.file_path("x.txt")), web.request("HEAD", web.file_path("x.txt"))
    assert head.status == 200 and head.body == b""
    assert {k: v for k, v in head.headers.items() if k != "Date"} == \
        {k: v for k, v in got.headers.items() if k != "Date"}
    assert head.headers["Content-Length"] == "5"
    assert web.request("HEAD", web.file_path("none")).status == 404


def test_what_is_no_file_is_explained(web):
    web.tool("exec_bash", command="mkdir d; mkfifo f; ln -s none dead; ln -s /workspace/x good; echo 1 > x; "
                                  "touch locked; chmod 0 locked")
    assert "folder" in sentence(web.get(web.file_path("d")), 400)
    assert "regular" in sentence(web.get(web.file_path("f")), 400)
    assert "regular" in sentence(web.get(web.file_path("/dev/zero")), 400)
    sentence(web.get(web.file_path("none")), 404)
    sentence(web.get(web.file_path("dead")), 404)
    assert web.get(web.file_path("good")).body == b"1\n"
    assert "folder" in sentence(put(web, "d", b"x"), 400)
    sentence(put(web, "f", b"x"), 400)
    sentence(put(web, "x/below", b"x"), 400)
    assert web.get(web.file_path("locked")).status in (200, 403)  # empty: nothing is read
    assert "file_path" in sentence(web.get("/sandbox/file?sandbox_name=a"), 400)
    assert "file_path" in sentence(web.get(web.file_path("a" * 4097)), 400)
    sentence(web.get("/sandbox/file?file_path=a&file_path=b"), 400)
    sentence(web.get("/sandbox/file?file_path=a%00b"), 400)
    sentence(web.get("/sandbox/file?file_path=%zz"), 400)
    assert "a" in sentence(web.get(web.file_path("x", sandbox_name="none")), 404)
    assert web.request("DELETE", web.file_path("x")).status == 405
    assert "Content-Range" in sentence(put(web, "x", b"1", headers={"Content-Range": "bytes 0-0/5"}), 400)


def test_a_box_is_its_own_world(web):
    assert put(web, "/etc/passwd", b"x").status >= 400
    marker = f"/tmp/outside-{os.getpid()}"
    with open(marker, "w", encoding="ascii") as file:
        file.write("host")
    try:
        for path in (marker, "../../.." + marker, "/proc/self/root" + marker, "/workspace/../.." + marker):
            assert web.get(web.file_path(path)).status == 404, path
        assert put(web, "../../.." + marker, b"in").status in (201, 204)
        with open(marker, encoding="ascii") as file:
            assert file.read() == "host"
    finally:
        os.unlink(marker)


# ---- how it is shown -------------------------------------------------------------------


@pytest.mark.parametrize("name, type_, inline", [
    ("a.txt", "text/plain", True), ("a.png", "image/png", True), ("a.JSON", "application/json", True),
    ("a.html", "text/html", False), ("a.svg", "image/svg+xml", False), ("a.xml", None, False),
    ("a.js", None, None), ("a", "application/octet-stream", False)])
def test_types_are_those_of_the_name(web, name, type_, inline):
    put(web, name, b"<script>alert(1)</script>")
    headers = web.get(web.file_path(name)).headers
    assert type_ is None or headers["Content-Type"].split(";")[0] == type_
    shown = headers["Content-Disposition"].split(";")[0]
    assert inline is None or shown == ("inline" if inline else "attachment")
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in headers["Content-Security-Policy"] and "default-src 'none'" in headers["Content-Security-Policy"]
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"


@pytest.mark.parametrize("name", [
    'q"uote.txt', "new\nline\r\nX-Evil: 1", "über 文件.txt", "semi;colon", "back\\slash", "\x7f\x1b[31m",
    "percent%41", "plus+space ", "a&b=c#d?e", "..txt", "\u202egnp.exe"])
def test_hostile_names_stay_names(web, name):
    assert put(web, "dir/" + name, name.encode()).status == 201
    response = web.get(web.file_path("dir/" + name))
    assert response.status == 200 and response.body == name.encode()
    assert "X-Evil" not in response.headers
    shown = response.headers["Content-Disposition"]
    assert shown.isascii() and shown.isprintable()
    assert "/" not in shown.split("filename=", 1)[1].split(";")[0]
    if "filename*=" in shown:
        exact = urllib.parse.unquote(shown.split("filename*=UTF-8''", 1)[1])
        assert not any(ord(c) < 32 or ord(c) == 127 or c in '/\\"' for c in exact)


# ---- parts ------------------------------------------------------------------------------


def test_one_range_is_served(web):
    text = bytes(range(100))
    put(web, "x", text)
    for value, first, last in (("0-0", 0, 0), ("0-9", 0, 9), ("10-", 10, 99), ("-5", 95, 99),
                               ("90-500", 90, 99), ("-500", 0, 99), ("99-99", 99, 99)):
        part = web.get(web.file_path("x"), headers={"Range": f"bytes={value}"})
        assert (part.status, part.body) == (206, text[first:last + 1]), value
        assert part.headers["Content-Range"] == f"bytes {first}-{last}/100"
        assert part.headers["Content-Length"] == str(last - first + 1)
    for value in ("100-", "100-200", "-0"):
        none = web.get(web.file_path("x"), headers={"Range": f"bytes={value}"})
        sentence(none, 416)
        assert none.headers["Content-Range"] == "bytes */100"
    for value in ("bytes=0-1,5-6", "bytes=5-1", "lines=0-1", "bytes=a-b", "bytes=", "0-1",
                  "bytes=99999999999999999999-", "bytes=--1"):
        whole = web.get(web.file_path("x"), headers={"Range": value})
        assert whole.status in ((200, 416) if "999" in value else (200,)), value
        assert whole.status == 416 or whole.body == text
    assert web.get(web.file_path("x")).headers["Accept-Ranges"] == "bytes"


def test_what_is_known_is_not_sent_again(web):
    put(web, "x", b"12345")
    web.tool("exec_bash", command="touch -d '2001-02-03 04:05:06 UTC' x")
    headers = web.get(web.file_path("x")).headers
    assert headers["Last-Modified"] == "Sat, 03 Feb 2001 04:05:06 GMT"
    tag = headers["ETag"]
    assert tag.startswith('"')
    for condition in ({"If-None-Match": tag}, {"If-None-Match": f'"x", W/{tag}'}, {"If-None-Match": "*"},
                      {"If-Modified-Since": headers["Last-Modified"]},
                      {"If-Modified-Since": email.utils.formatdate(usegmt=True)}):
        known = web.get(web.file_path("x"), headers=condition)
        assert (known.status, known.body) == (304, b""), condition
        assert known.headers["ETag"] == tag
    for condition in ({"If-None-Match": '"other"'}, {"If-Modified-Since": "Fri, 02 Feb 2001 04:05:06 GMT"},
                      {"If-Modified-Since": "yesterday"},
                      {"If-None-Match": '"other"', "If-Modified-Since": headers["Last-Modified"]}):
        assert web.get(web.file_path("x"), headers=condition).status == 200, condition
    part = {"Range": "bytes=0-1"}
    assert web.get(web.file_path("x"), headers={**part, "If-Range": tag}).status == 206
    assert web.get(web.file_path("x"), headers={**part, "If-Range": headers["Last-Modified"]}).status == 206
    assert web.get(web.file_path("x"), headers={**part, "If-Range": '"other"'}).status == 200
    web.tool("exec_bash", command="touch -d '1 hour' x")  # as just now: it may change again in this second
    fresh = web.get(web.file_path("x")).headers["ETag"]
    assert fresh.startswith("W/") and fresh != tag
    assert web.get(web.file_path("x"), headers={**part, "If-Range": fresh}).status == 200


# ---- long files --------------------------------------------------------------------------


def big_box(web):
    web.tool("create_sandbox", name="big", memory="900m", disk="600m")
    return {"sandbox_name": "big"}


def test_a_long_file_costs_no_memory(web):
    where = big_box(web)
    web.tool("exec_bash", command=f"head -c {BIG} /dev/zero | openssl enc -aes-128-ctr -K 0 -iv 0 2>/dev/null > big || "
                                  f"head -c {BIG} /dev/urandom > big", **where)
    size = int(web.tool("exec_bash", command="stat -c %s big", **where)["stdout"])
    digest = web.tool("exec_bash", command="sha256sum < big", **where)["stdout"].split()[0]
    before = web.memory()
    connection = web.connect(60)
    connection.request("GET", web.file_path("big", **where), headers=web.headers())
    response = connection.getresponse()
    assert int(response.headers["Content-Length"]) == size == BIG
    hasher, left = hashlib.sha256(), size
    while left:
        piece = response.read(min(left, 1 << 20))
        assert piece
        hasher.update(piece)
        left -= len(piece)
    assert hasher.hexdigest() == digest
    connection.close()
    # And back, under another name: the box has room for both only.
    web.tool("exec_bash", command="rm big", **where)

    def pieces():
        block = os.urandom(1 << 20)
        for _ in range(BIG >> 20):
            yield block
    response = web.request("PUT", web.file_path("up", **where), pieces(), {"Content-Length": str(BIG)}, timeout=60)
    assert response.status == 201
    assert web.tool("exec_bash", command="stat -c %s up", **where)["stdout"].strip() == str(BIG)
    assert web.memory() - before < 6 << 20


def test_a_client_that_does_not_read_costs_no_memory(web):
    where = big_box(web)
    web.tool("exec_bash", command="head -c 100000000 /dev/zero > big", **where)
    before = web.memory()
    connection = web.connect()
    connection.request("GET", web.file_path("big", **where), headers=web.headers())
    time.sleep(1)
    assert web.memory() - before < 6 << 20
    assert web.tool("exec_bash", command="echo 1", **where)["stdout"] == "1\n"  # and nobody waits for it
    connection.close()


def test_a_file_that_shrinks_is_not_taken_for_whole(web):
    where = big_box(web)
    web.tool("exec_bash", command="head -c 100000000 /dev/zero > big", **where)
    connection = web.connect()
    connection.request("GET", web.file_path("big", **where), headers=web.headers())
    response = connection.getresponse()
    web.tool("exec_bash", command="truncate -s 1000 big", **where)
    with pytest.raises(Exception):  # noqa: B017, PT011: IncompleteRead or a reset
        if len(response.read()) != int(response.headers["Content-Length"]):
            raise EOFError
    connection.close()


def begin_put(web, path, length):
    connection = web.connect()
    connection.putrequest("PUT", web.file_path(path))
    for name, value in web.headers(**{"Content-Length": str(length)}).items():
        connection.putheader(name, value)
    connection.endheaders()
    return connection


def test_a_broken_upload_leaves_nothing(web):
    put(web, "dir/old", b"old")
    for name in ("new", "dir/old"):
        connection = begin_put(web, name, 1 << 20)
        connection.send(b"x" * 300000)
        time.sleep(0.3)
        connection.sock.shutdown(socket.SHUT_RDWR)
        connection.close()
    assert wait_until(lambda: web.tool("exec_bash", command="find . -type f")["stdout"] == "./dir/old\n")
    assert web.get(web.file_path("dir/old")).body == b"old"


def test_who_closes_behind_what_was_sent_is_noticed(web):
    """The last bytes and the end come at once, and the server is told of both only once."""
    for sent in (0, 1, 70000, 140000, 400000):
        connection = begin_put(web, "new", 10 << 20)
        connection.send(b"x" * sent)
        connection.close()
    assert wait_until(lambda: b"anybox_calls_running 0\n" in web.get("/metrics").body)
    assert web.tool("exec_bash", command="ls -A")["stdout"] == ""


def test_who_closes_only_one_half_gets_an_answer(web):
    connection = begin_put(web, "new", 3 << 20)
    connection.send(b"x" * (3 << 20))
    connection.sock.shutdown(socket.SHUT_WR)
    response = connection.getresponse()
    assert response.status == 201, response.read()
    connection.close()


def test_more_uploads_than_a_box_takes_at_once(host):
    web = HttpServer(host, env={"ANYBOX_HTTP_MAX_CALLS": "64"})
    wrong = []

    def send(number):
        response = put(web, f"dir/{number}", bytes(100000))
        if response.status != 201:
            wrong.append(response)
    try:
        web.tool("create_sandbox", name="a")
        threads = [threading.Thread(target=send, args=(n,)) for n in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert not wrong
        assert web.tool("exec_bash", command="ls dir | wc -l")["stdout"] == "40\n"
        web.close()
    finally:
        web.kill()


def test_an_upload_that_does_not_fit_says_so(web):
    web.tool("create_sandbox", name="small", memory="64m", disk="4m")
    path = web.file_path("x", sandbox_name="small")
    sentence(web.request("PUT", path, b"x" * (8 << 20)), 507)
    assert web.tool("exec_bash", command="ls -A", sandbox_name="small")["stdout"] == ""


def test_an_upload_has_its_limit(host):
    web = HttpServer(host, env={"ANYBOX_HTTP_MAX_UPLOAD": "1m"})
    try:
        web.tool("create_sandbox", name="a")
        assert put(web, "fits", b"x" * (1 << 20)).status == 201
        connection = begin_put(web, "x", 1 << 40)
        response = connection.getresponse()
        assert response.status == 413 and "max_upload" in json.loads(response.read())["error"]
        connection.close()
        over = web.request("PUT", web.file_path("x"), iter([b"x" * (1 << 19)] * 3), {"Transfer-Encoding": "chunked"})
        assert "max_upload" in sentence(over, 413)
        assert web.tool("exec_bash", command="ls -A")["stdout"] == "fits\n"
        web.close()
    finally:
        web.kill()


def test_many_files_at_once(web):
    put(web, "x", bytes(1 << 20))
    wrong = []

    def fetch():
        for _ in range(5):
            response = web.get(web.file_path("x"))
            if (response.status, len(response.body)) != (200, 1 << 20):
                wrong.append(response)
    threads = [threading.Thread(target=fetch) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong


# ---- links ---------------------------------------------------------------------------------


def link_to(web, path="data file.bin", content=b"\0\1\2", **more):
    assert put(web, path, content).status in (201, 204)
    return web.tool("read_remote_file", remote_path=path, **more)["file_link"]


def test_files_that_code_made_have_links(web):
    made = web.tool("execute_python_code", code="open('a b.txt', 'w').write('by code')")
    link, = made["file_links"]
    assert made["files"] == ["/workspace/a b.txt"] and made["result"] == "7"
    assert web.get(local(link), key=None).body == b"by code"


def local(link):
    parts = urllib.parse.urlsplit(link)
    return f"{parts.path}?{parts.query}"


def test_a_link_opens_without_a_key(web):
    link = link_to(web)
    assert link.startswith(web.url + "/sandbox/file?sandbox_id=" + web.box)
    got = web.get(local(link), key=None)
    assert (got.status, got.body) == (200, b"\0\1\2")
    assert got.headers["Cross-Origin-Resource-Policy"] == "cross-origin"
    assert got.headers["Referrer-Policy"] == "no-referrer"
    assert web.request("HEAD", local(link), key=None).status == 200
    assert web.get(local(link), key=None, headers={"Range": "bytes=1-1"}).body == b"\1"
    assert web.get(local(link)).status == 200  # a key besides it does no harm
    put(web, "long.txt", b"text " * 100)
    assert "file_link" not in web.tool("read_remote_file", remote_path="long.txt")
    cut = web.tool("read_remote_file", remote_path="long.txt", max_bytes=10)
    assert cut["truncated"] and web.get(local(cut["file_link"]), key=None).body == b"text " * 100


def test_a_link_is_for_one_file_and_for_reading(web):
    put(web, "other", b"secret")
    link = local(link_to(web))
    query = dict(urllib.parse.parse_qsl(link.split("?", 1)[1]))
    other = web.tool("create_sandbox", key=OTHER, name="b")["sandbox_id"]

    def with_(**change):
        return "/sandbox/file?" + urllib.parse.urlencode({**query, **change})
    assert web.get(with_(), key=None).status == 200
    for change in ({"file_path": "other"}, {"file_path": "./data file.bin"}, {"sandbox_id": other},
                   {"sandbox_name": "a"}, {"link": query["link"][:-1]}, {"link": query["link"] + "A"},
                   {"link": ("B" if query["link"][0] == "A" else "A") + query["link"][1:]}, {"link": "x"}):
        assert sentence(web.get(with_(**change), key=None), 403)
    assert web.request("PUT", with_(), b"x", key=None).status == 401
    assert web.request("POST", "/mcp/tools/list_sandboxes?link=" + query["link"], key=None).status == 401
    assert web.get(with_(link=""), key=None).status == 401
    # A link stays its owner's: another key with it reads as itself.
    assert web.get(with_(), key=OTHER).status == 404


def test_a_link_expires(host):
    web = HttpServer(host, env={"ANYBOX_HTTP_LINK_TTL": "1", "ANYBOX_HTTP_PUBLIC_URL": "https://x.example/any"})
    try:
        web.tool("create_sandbox", name="a")
        link = link_to(web)
        assert link.startswith("https://x.example/any/sandbox/file?")
        path = local(link).removeprefix("/any")
        assert web.get(path, key=None).status == 200
        assert wait_until(lambda: web.get(path, key=None).status == 403, pause=0.2)
        assert "expired" in sentence(web.get(path, key=None), 403)
        web.close()
    finally:
        web.kill()


def test_a_link_outlives_the_server_but_not_its_box(host):
    web = HttpServer(host)
    try:
        box = web.tool("create_sandbox", name="a")["sandbox_id"]
        path = local(link_to(web))
        assert web.stop() == 0
        web = HttpServer(host)
        assert web.get(path, key=None).status == 200
        web.tool("delete_sandbox", sandbox_id=box)
        assert web.get(path, key=None).status in (404, 410)
        web.close()
    finally:
        web.kill()


def test_links_without_keys(host):
    web = HttpServer(host, no_auth=True)
    try:
        web.tool("create_sandbox", name="a")
        path = local(link_to(web))
        assert web.get(path).status == 200
        assert web.get(path.replace("data%20file", "none")).status in (403, 404)
        web.close()
    finally:
        web.kill()
