"""The tables of HTTP: calls by the second beside a server of the TypeScript SDK and FastAPI,
what an idle stream costs, and a long file beside cp."""
import contextlib
import http.client
import json
import os
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

from kit import Home, faster, head, left_out, row, us

KEY = "bench-key-0123456789abcdef"
VERSION = "2025-11-25"
STREAMS = 2000
FILE_SIZE = 1 << 30

SDK_SERVER = """
import { createServer } from "node:http";
import { randomUUID } from "node:crypto";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
const server = new McpServer({ name: "trivial", version: "1.0.0" });
server.registerTool("test_simple_text", { description: "says something" }, async () => ({ content: [{ type: "text", text: "hello" }] }));
const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: randomUUID, enableJsonResponse: true });
await server.connect(transport);
const listener = createServer((request, response) => transport.handleRequest(request, response));
listener.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${listener.address().port}/mcp`));
"""

FASTAPI_SERVER = """
import socket
import uvicorn
from fastapi import FastAPI, Request
app = FastAPI()
@app.post("/mcp")
async def mcp(request: Request):
    message = await request.json()
    return {"jsonrpc": "2.0", "id": message["id"], "result": {"content": [{"type": "text", "text": "hello"}]}}
listener = socket.create_server(("127.0.0.1", 0))
print(f"http://127.0.0.1:{listener.getsockname()[1]}/mcp", flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="error", access_log=False)).run(sockets=[listener])
"""


# ---- servers ---------------------------------------------------------------------------------

class Server:
    """A program that says its URL on stdout or stderr; ended with the block."""

    def __init__(self, argv, env=None):
        self.argv, self.env = argv, env

    def __enter__(self):
        self.proc = subprocess.Popen(self.argv, env=self.env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                     stderr=subprocess.STDOUT, text=True)
        for line in self.proc.stdout:
            found = re.search(r"http://[\w.]+:(\d+)/mcp", line)
            if found:
                self.url, self.port = found.group(0), int(found.group(1))
                return self
        raise SystemExit(f"{self.argv[0]} did not start")

    def __exit__(self, *_):
        self.proc.send_signal(signal.SIGTERM)
        try:
            self.proc.wait(10)
        except subprocess.TimeoutExpired:
            self.proc.kill()
            self.proc.wait()

    def memory(self):
        """The program's own memory in bytes."""
        with open(f"/proc/{self.proc.pid}/smaps_rollup") as f:
            return int(re.search(r"^Pss_Anon:\s+(\d+)", f.read(), re.M).group(1)) * 1024

    def post(self, message, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.request("POST", "/mcp", json.dumps(message), {**base_headers(), **headers})
        response = connection.getresponse()
        answer, session = response.read(), response.headers.get("Mcp-Session-Id")
        connection.close()
        return response.status, session, answer

    def session(self):
        status, session, answer = self.post({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
            "protocolVersion": VERSION, "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"}}})
        if status != 200:
            raise SystemExit(f"initialize: {status} {answer[:200]}")
        self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}, **{"Mcp-Session-Id": session})
        return session


def base_headers():
    return {"Content-Type": "application/json", "Accept": "application/json, text/event-stream",
            "Authorization": f"Bearer {KEY}", "MCP-Protocol-Version": VERSION}


def our_server(home, program, *args):
    return Server([program, "--config", home.config, "serve", "--port", "0", *args],
                  {**os.environ, "ANYBOX_HOME": home.path, "ANYBOX_HTTP_KEYS": f"bench:{KEY}"})


def node_server(build):
    """The SDK's server, from npm; None and why where that cannot be had."""
    folder = os.path.join(build, "bench-sdk")
    if not (shutil.which("node") and shutil.which("npm")):
        return None, "node and npm are not installed"
    if not os.path.isdir(os.path.join(folder, "node_modules", "@modelcontextprotocol")):
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "package.json"), "w") as f:
            json.dump({"private": True, "type": "module", "dependencies": {"@modelcontextprotocol/sdk": "1.32.2"}}, f)
        if subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund"], cwd=folder, check=False,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0:
            return None, "npm could not install the SDK"
    script = os.path.join(folder, "http.mjs")
    with open(script, "w") as f:
        f.write(SDK_SERVER)
    node = subprocess.run(["node", "-p", "process.execPath"], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    return Server([node, script]), ""


def fastapi_server(build):
    folder = os.path.join(build, "bench-fastapi")
    python = os.path.join(folder, "bin", "python")
    if not os.path.exists(os.path.join(folder, "ready")):
        made = subprocess.run([sys.executable, "-m", "venv", folder], check=False, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL)
        if made.returncode != 0:
            return None, "python3-venv is not installed"
        if subprocess.run([python, "-m", "pip", "install", "-q", "fastapi", "uvicorn[standard]"], check=False,
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode != 0:
            return None, "pip could not install it"
        with open(os.path.join(folder, "ready"), "w"):
            pass
    script = os.path.join(folder, "server.py")
    with open(script, "w") as f:
        f.write(FASTAPI_SERVER)
    return Server([python, script]), ""


# ---- calls -----------------------------------------------------------------------------------

def wrk(server, session, connections, seconds):
    """Requests by the second, and the median in microseconds, of a trivial tools/call."""
    message = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "test_simple_text", "arguments": {}}}
    headers = {**base_headers(), **({"Mcp-Session-Id": session} if session else {})}
    status, _, answer = server.post(message, **headers)
    if status != 200 or b"content" not in answer:
        raise SystemExit(f"tools/call: {status} {answer[:200]}")
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        script.write(f'wrk.method = "POST"\nwrk.body = [[{json.dumps(message)}]]\n')
        script.writelines(f'wrk.headers["{name}"] = "{value}"\n' for name, value in headers.items())
        script.flush()
        out = subprocess.run(["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--latency", "-s", script.name, server.url],
                             stdout=subprocess.PIPE, text=True, check=True).stdout
    if "Non-2xx" in out:
        raise SystemExit(out)
    median, unit = re.search(r"50%\s+([\d.]+)(us|ms|s)", out).groups()
    return float(re.search(r"Requests/sec:\s+([\d.]+)", out).group(1)), float(median) * {"us": 1, "ms": 1e3, "s": 1e6}[unit]


def calls_table(programs, quick):
    head("a trivial tools/call over HTTP, keep-alive, by wrk", peer="the other")
    if not shutil.which("wrk"):
        left_out("the table", "wrk is not installed")
        return
    seconds = 2 if quick else 5
    ours = os.path.join(programs.build, "anybox-conformance")
    if not os.path.exists(ours):
        left_out("the table", "anybox-conformance is not built (it has a tool that does nothing)")
        return
    with Home(programs) as home, our_server(home, ours) as server:
        session = server.session()
        rate, _ = wrk(server, session, 32, seconds)
        _, alone = wrk(server, session, 1, seconds)
    for name, (peer, why), aim in (("TypeScript SDK", node_server(programs.build), ">= 6x"),
                                   ("FastAPI, uvicorn", fastapi_server(programs.build), ">= 2x")):
        if peer is None:
            left_out(name, why)
            continue
        with peer as server:
            session = server.session() if "SDK" in name else None
            theirs, _ = wrk(server, session, 32, seconds)
            _, their_alone = wrk(server, session, 1, seconds)
        row(f"32 connections; {name}", f"{rate:.0f}/s", f"{theirs:.0f}/s", f"{rate / theirs:.1f}x", aim)
        row(f"1 connection, median; {name}", us(alone), us(their_alone), faster(alone, their_alone), "<= 200 us")


# ---- streams ---------------------------------------------------------------------------------

def streams_table(programs, quick):
    head("idle event streams", ours="each", peer="in all")
    n = 200 if quick else STREAMS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < n + 200:
        left_out("the table", f"only {hard} descriptors are allowed")
        return
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, n + 200), hard))
    with Home(programs) as home, our_server(home, programs.anybox) as server, contextlib.ExitStack() as stack:
        session = server.session()
        head_text = "".join(f"{k}: {v}\r\n" for k, v in {**base_headers(), "Accept": "text/event-stream",
                                                         "Mcp-Session-Id": session}.items() if k != "Content-Type")
        request = f"GET /mcp HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n{head_text}\r\n".encode()

        def open_one():
            s = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), 30))
            s.sendall(request)
            got = s.recv(4096)
            if b" 200 " not in got.split(b"\r\n", 1)[0]:
                raise SystemExit(got.decode(errors="replace"))
        for _ in range(20):  # what the first ones cost once
            open_one()
        before = server.memory()
        for _ in range(n):
            open_one()
        grown = server.memory() - before
        threads = len(os.listdir(f"/proc/{server.proc.pid}/task"))
        row(f"{n:,} streams, {threads} threads", f"{grown / n / 1024:.1f} KB", f"{grown / 2**20:.1f} MB", "-", "<= 10 KB")


# ---- files -----------------------------------------------------------------------------------

def drain(port, path):
    """Seconds until all of it was read."""
    began = time.monotonic()
    with socket.create_connection(("127.0.0.1", port), 60) as s:
        s.sendall(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nAuthorization: Bearer {KEY}\r\n"
                  "Connection: close\r\n\r\n".encode())
        space, got = bytearray(1 << 20), 0
        while True:
            n = s.recv_into(space)
            if n == 0:
                break
            got += n
    if got < FILE_SIZE:
        raise SystemExit(f"only {got} bytes came")
    return time.monotonic() - began


def file_table(programs, quick):
    head("a file of 1 GiB out of a box, GET /sandbox/file", peer="cp in the box")
    with Home(programs, 'memory = "6g"', 'disk = "3g"') as home, our_server(home, programs.anybox) as server:
        def tool(tool_name, **arguments):
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)
            connection.request("POST", f"/mcp/tools/{tool_name}", json.dumps(arguments), base_headers())
            answer = json.loads(connection.getresponse().read())
            connection.close()
            return answer
        made = tool("create_sandbox", name="file")
        if "sandbox_id" not in made:
            left_out("the table", made.get("error", "no box"))
            return
        tool("exec_bash", command=f"head -c {FILE_SIZE} /dev/urandom > big && cp big copy")
        times, copies = [], []
        for _ in range(2 if quick else 5):
            script = 'a=$(date +%s%N); cp big copy; b=$(date +%s%N); echo $(((b - a) / 1000))'
            copies.append(int(tool("exec_bash", command=script)["stdout"]) / 1e6)
            times.append(drain(server.port, "/sandbox/file?file_path=big"))
        with open(f"/proc/{server.proc.pid}/status") as f:
            peak = int(re.search(r"VmHWM:\s+(\d+)", f.read()).group(1))
        tool("delete_sandbox", sandbox_id=made["sandbox_id"])
    best, copy = min(times), min(copies)
    row(f"best of {len(times)}; server's memory at most {peak / 1024:.0f} MB", f"{FILE_SIZE / best / 2**20:.0f} MB/s",
        f"{FILE_SIZE / copy / 2**20:.0f} MB/s", f"{best / copy:.2f}x", "as fast as the disk")


def tables(programs, quick):
    calls_table(programs, quick)
    streams_table(programs, quick)
    file_table(programs, quick)
