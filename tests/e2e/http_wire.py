"""`anybox serve` and HTTP on a bare socket: what is sent is written by the test to the byte, and
what comes back is taken apart here, so that nothing in between makes either of them better."""
import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time

META = "io.modelcontextprotocol/"
MODERN = "2026-07-28"
BOTH = "application/json, text/event-stream"


class Reply:
    """A status, headers (names in lower case), and a body or a stream that goes on."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        assert self.headers["content-type"] == "application/json", self.headers
        return json.loads(self.body)

    @property
    def code(self):
        """Of a JSON-RPC error."""
        return self.json()["error"]["code"]

    def messages(self):
        """What is in a body of events, or the one message of a body of JSON."""
        if self.headers["content-type"] == "text/event-stream":
            return events(self.body)
        return [json.loads(self.body)]

    def __repr__(self):
        return f"<{self.status} {self.headers} {self.body[:500]!r}>"


def events(body):
    """The messages of whole events; each has exactly one line of data."""
    found = []
    for event in body.split(b"\n\n"):
        data = [line for line in event.split(b"\n") if line.startswith(b"data:")]
        assert len(data) <= 1, event
        found += [json.loads(line[5:]) for line in data]
    return found


class Wire:
    """One connection."""

    def __init__(self, port, address="127.0.0.1", timeout=60):
        self.socket = socket.create_connection((address, port), timeout)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.port, self.buffer = port, b""

    def send(self, data):
        self.socket.sendall(data)

    def more(self):
        data = self.socket.recv(65536)
        if not data:
            raise EOFError(self.buffer)
        self.buffer += data

    def until(self, mark):
        while mark not in self.buffer:
            self.more()
        before, _, self.buffer = self.buffer.partition(mark)
        return before

    def exactly(self, n):
        while len(self.buffer) < n:
            self.more()
        taken, self.buffer = self.buffer[:n], self.buffer[n:]
        return taken

    def head(self):
        """Status line and headers; 100 Continue is passed over."""
        while True:
            first, *lines = self.until(b"\r\n\r\n").decode("latin-1").split("\r\n")
            status = int(re.fullmatch(r"HTTP/1\.1 (\d{3}) .*", first).group(1))
            if status != 100:
                return status, {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}

    def chunk(self):
        """One chunk; empty at the end."""
        size = int(self.until(b"\r\n"), 16)
        data = self.exactly(size)
        assert self.exactly(2) == b"\r\n"
        return data

    def reply(self, head_only=False):
        status, headers = self.head()
        body = b""
        if head_only or status in (204, 304):
            pass
        elif headers.get("transfer-encoding") == "chunked":
            while True:
                data = self.chunk()
                if not data:
                    break
                body += data
        else:
            body = self.exactly(int(headers.get("content-length", 0)))
        return Reply(status, headers, body)

    def is_closed(self, timeout=30):
        """The server ended the connection (what it said before is in .buffer)."""
        self.socket.settimeout(timeout)
        try:
            while True:
                self.more()
        except (EOFError, ConnectionError):
            return True
        except TimeoutError:
            return False

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Served:
    """A running `anybox serve`. `key` is what it made and printed, unless there is none. `more` is
    for subprocess.Popen."""

    def __init__(self, host, *args, env=None, port=0, words=None, **more):
        self.host, self.key, self.log = host, None, ""
        words = words if words is not None else ["serve", "--port", str(port)]
        self.process = host.popen(*words, *args, env=env, stdin=subprocess.DEVNULL,
                                  stderr=subprocess.PIPE, text=True, **more)
        self.no_auth = "--no-auth" in args
        while True:
            line = self.process.stderr.readline()
            assert line, self.log
            self.log += line
            found = re.search(r"http://([^/]+):(\d+)/mcp", line)
            if found:
                self.address, self.port = found.group(1).strip("[]"), int(found.group(2))
                break
        found = re.search(r"key (\S+)\n", self.log)
        self.key = found.group(1) if found else None
        self._reader = threading.Thread(target=self._read_log, daemon=True)
        self._reader.start()

    def _read_log(self):
        for line in self.process.stderr:
            self.log += line

    def wire(self, **more):
        return Wire(self.port, self.address, **more)

    def request(self, method="POST", path="/mcp", body=b"", headers=None, key=""):
        """Bytes of a request with the usual headers; one that is None is left out."""
        given = {"Host": f"127.0.0.1:{self.port}"}
        if key != "" or self.key:
            given["Authorization"] = f"Bearer {key or self.key}" if key is not None else None
        if method in ("POST", "PUT"):
            given.update({"Content-Type": "application/json", "Accept": BOTH,
                          "Content-Length": str(len(body))})
        given.update(headers or {})
        lines = [f"{name}: {value}" for name, value in given.items() if value is not None]
        return "\r\n".join([f"{method} {path} HTTP/1.1", *lines, "", ""]).encode("latin-1") + body

    def send(self, *args, wire=None, **more):
        """A request and its whole reply."""
        used = wire or self.wire()
        try:
            used.send(self.request(*args, **more))
            return used.reply(head_only=args[:1] == ("HEAD",))
        finally:
            if wire is None:
                used.close()

    def post(self, message, **more):
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        return self.send("POST", body=body, **more)

    def memory(self):
        """Resident, in bytes."""
        with open(f"/proc/{self.process.pid}/status", encoding="ascii") as status:
            return int(re.search(r"VmRSS:\s+(\d+) kB", status.read()).group(1)) * 1024

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def stop(self, signo=signal.SIGTERM, timeout=30):
        """A signal; gives the exit status. All that was logged is in .log then."""
        self.process.send_signal(signo)
        status = self.process.wait(timeout)
        self._reader.join(30)
        return status

    def close(self):
        """Boxes belong to keys, so they are deleted by who made them."""
        if self.process.poll() is not None:
            return
        with contextlib.suppress(AssertionError, OSError, EOFError, KeyError):
            client = Modern(self)
            for box in client.tool("list_sandboxes")["sandboxes"]:
                self.host.ids.add(box["sandbox_id"])
                client.tool("delete_sandbox", sandbox_id=box["sandbox_id"], force=True)
        self.stop()


def request(method, request_id=1, /, **params):
    message = {"jsonrpc": "2.0", "id": request_id, "method": method}
    return {**message, "params": params} if params else message


def call(tool, request_id=1, /, token=None, **arguments):
    params = {"name": tool, "arguments": arguments}
    if token is not None:
        params["_meta"] = {"progressToken": token}
    return request("tools/call", request_id, **params)


def tool_answer(message):
    assert "result" in message, message
    assert not message["result"].get("isError"), message
    return json.loads(message["result"]["content"][0]["text"])


class Legacy:
    """A session of one of the revisions before 2026-07-28."""

    def __init__(self, served, version="2025-11-25", key="", capabilities=None):
        self.served, self.key, self.version = served, key, version
        hello = request("initialize", 0, protocolVersion=version, capabilities=capabilities or {},
                        clientInfo={"name": "tests", "version": "1"})
        reply = served.post(hello, key=key)
        assert reply.status == 200, reply
        self.id = reply.headers["mcp-session-id"]
        self.agreed = reply.json()["result"]["protocolVersion"]
        self.headers = {"Mcp-Session-Id": self.id, "MCP-Protocol-Version": self.agreed}

    def post(self, message, headers=None, **more):
        return self.served.post(message, headers={**self.headers, **(headers or {})}, key=self.key, **more)

    def begin(self, message):
        """A request that is under way, on a connection of its own."""
        wire = self.served.wire()
        wire.send(self.served.request(body=json.dumps(message).encode(), headers=self.headers, key=self.key))
        return wire

    def listen(self):
        """The stream of GET, begun."""
        wire = self.served.wire()
        wire.send(self.served.request("GET", headers={**self.headers, "Accept": "text/event-stream"},
                                      key=self.key))
        status, headers = wire.head()
        assert (status, headers["content-type"]) == (200, "text/event-stream")
        return wire

    def tool(self, tool, /, **arguments):
        return tool_answer(self.post(call(tool, **arguments)).messages()[-1])


class Modern:
    """2026-07-28: every request says all."""

    def __init__(self, served, key=""):
        self.served, self.key = served, key

    @staticmethod
    def message(message, version=MODERN):
        params = message.get("params", {})
        meta = {META + "protocolVersion": version, META + "clientCapabilities": {},
                **params.get("_meta", {})}
        return {**message, "params": {**params, "_meta": meta}}

    @staticmethod
    def headers(message):
        named = {"tools/call": "name"}.get(message["method"])
        name = message.get("params", {}).get(named)
        return {"MCP-Protocol-Version": MODERN, "Mcp-Method": message["method"],
                **({"Mcp-Name": name} if name else {})}

    def post(self, message, headers=None, **more):
        return self.served.post(self.message(message), key=self.key,
                                headers={**self.headers(message), **(headers or {})}, **more)

    def begin(self, message):
        wire = self.served.wire()
        wire.send(self.served.request(body=json.dumps(self.message(message)).encode(),
                                      headers=self.headers(message), key=self.key))
        return wire

    def tool(self, tool, /, **arguments):
        return tool_answer(self.post(call(tool, **arguments)).messages()[-1])
