"""A stand-in for an OpenSandbox platform: the lifecycle server and the execd of each sandbox, as the
platform's code answers (it differs from its specification in places). Commands really run, files
are real; a sandbox is a home folder and the processes that carry its mark, not more.

What a platform may do to its clients can be switched on by the attributes of Quirks."""
import contextlib
import json
import os
import pathlib
import pwd
import re
import select
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse
import uuid
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

EXECD_PORT = 44772
LABEL = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")
SIGNALS = {1: "hangup", 2: "interrupt", 3: "quit", 4: "illegal instruction", 6: "aborted", 7: "bus error",
           8: "floating point exception", 9: "killed", 11: "segmentation fault", 13: "broken pipe",
           14: "alarm clock", 15: "terminated"}


class Quirks:
    """What this platform does to its clients."""
    tail_s = None            # the moment between the last event and the end of the stream; None: as the sandbox says
    late_error = None        # a command: its stream is an init and then this bare object
    drop_after = None        # a stream breaks off after so many events
    drop_last = False        # or before the last, when the files of the outputs are removed
    silent = False           # no pings
    tidies = False           # as newer ones do: outputs are files of a folder, removed when their command has ended
    proxy_only = False       # the direct address is nobody's
    programs = None          # a folder: the programs of its sandboxes, and no bash
    plain_sandboxes = False  # only the server is https
    create_delay_s = 0       # a create takes so long, and makes the sandbox at its beginning
    create_late = None       # an event that a create waits for before it makes the sandbox
    create_answers = True    # or its answer is lost
    create_answer = None     # (status, body, kind): a gateway's own answer to it
    refuse_create = None     # (status, body)
    named = None             # a command: its id is said to be this
    flood = 0                # so many lines of output instead of running the command
    list_gate = None         # an event that each page of a list waits for
    upload_gate = None       # the same for uploads, before they are read
    unheard = ("", 0)        # so many requests for this path do not get through the proxy
    unanswered = 0           # so many commands get through it, and their answers do not
    mesh = False             # which is told in the words of another proxy before it
    unready = 0              # so many requests are too early for execd, which answers pings
    pods = False             # sandboxes are pods: without an address until they run, and another one after a pause
    silent_address = False   # nothing comes back from the direct address


class Sandbox:
    def __init__(self, platform, order):
        self.platform, self.order = platform, order
        self.id = str(uuid.uuid4())
        self.state, self.reason = "Running", "CONTAINER_RUNNING"
        self.created = datetime.now(timezone.utc)
        timeout = order.get("timeout")
        self.expires = self.created + timedelta(seconds=timeout) if timeout else None
        self.metadata = dict(order.get("metadata") or {})
        self.env = {k: v for k, v in (order.get("env") or {}).items() if v is not None}
        self.home = platform.folder / self.id
        self.home.mkdir()
        if platform.uid is not None:
            os.chown(self.home, platform.uid, platform.gid)
        self.commands = {}
        self.answers = threading.Event()  # cleared while it is paused
        self.answers.set()
        self.execd = None
        self.lock = threading.Lock()

    def shown(self):
        out = {"id": self.id, "status": {"state": self.state, "reason": self.reason},
               "metadata": self.metadata, "entrypoint": self.order.get("entrypoint"), "createdAt": stamp(self.created)}
        if self.order.get("image"):
            out["image"] = {"uri": self.order["image"]["uri"]}
        if self.expires:
            out["expiresAt"] = stamp(self.expires)
        return out

    def start_pod(self):
        """It runs a moment later."""
        self.state = "Resuming" if self.state == "Paused" else "Pending"

        def run():
            self.state = "Running"
            self.answers.set()
        threading.Timer(1, run).start()

    def stop_pod(self):
        """What runs in it ends, and its address is nobody's."""
        self.state = "Paused"
        self.signal_all(signal.SIGKILL)
        with self.lock:
            if self.execd is not None:
                self.execd.stop()
            self.execd = None

    def listen(self):
        with self.lock:
            if self.execd is None:
                self.execd = Listener(("127.0.0.1", 0), Execd, self,
                                      None if self.platform.quirks.plain_sandboxes else self.platform.tls)
            return self.execd.server_address[1]

    def processes(self):
        mark = f"OSB_SANDBOX={self.id}".encode()
        for entry in os.listdir("/proc"):
            with contextlib.suppress(OSError):
                if entry.isdigit() and mark in pathlib.Path(f"/proc/{entry}/environ").read_bytes().split(b"\0"):
                    yield int(entry)

    def signal_all(self, number):
        for pid in list(self.processes()):
            with contextlib.suppress(OSError):
                os.kill(pid, number)

    def destroy(self):
        self.answers.set()
        for _ in range(3):
            self.signal_all(signal.SIGKILL)
        with self.lock:
            if self.execd is not None:
                self.execd.stop()
        for command in self.commands.values():
            command.forget()
        shutil.rmtree(self.home, ignore_errors=True)


class Command:
    def __init__(self, sandbox, order):
        self.id = uuid.uuid4().hex
        self.order = order
        self.began = datetime.now(timezone.utc)
        self.ended = None
        self.background = bool(order.get("background"))
        names = ("output",) if self.background else ("stdout", "stderr")
        self.tidies, self.tailed = sandbox.platform.quirks.tidies and not self.background, threading.Event()
        folder = sandbox.home / ".outputs" if self.tidies else pathlib.Path("/tmp")
        folder.mkdir(exist_ok=True)
        if self.tidies and sandbox.platform.uid is not None:
            os.chown(folder, sandbox.platform.uid, sandbox.platform.gid)
        self.paths = [f"{folder}/{self.id}.{name}" for name in names]
        files = [open(path, "wb") for path in self.paths]  # noqa: SIM115
        user = {}
        if sandbox.platform.uid is not None:
            user = {"user": sandbox.platform.uid, "group": sandbox.platform.gid, "extra_groups": []}
            for path in self.paths:
                os.chown(path, sandbox.platform.uid, sandbox.platform.gid)
        programs = sandbox.platform.quirks.programs
        shell = "bash" if programs is None else f"{programs}/sh"
        env = {"PATH": str(programs or os.environ["PATH"]), "HOME": str(sandbox.home), "OSB_SANDBOX": sandbox.id, **sandbox.env,
               **(order.get("envs") or {})}
        try:
            self.process = subprocess.Popen(
                [shell, "-c", order["command"]], stdin=subprocess.DEVNULL, stdout=files[0], stderr=files[-1],
                cwd=order.get("cwd") or str(sandbox.home), env=env, start_new_session=True, **user)
        finally:
            for file in files:
                file.close()
        self.over, self.gone = threading.Event(), threading.Event()
        threading.Thread(target=self.wait, daemon=True).start()
        if order.get("timeout"):
            threading.Timer(order["timeout"] / 1000, self.kill, (signal.SIGKILL,)).start()

    def wait(self):
        self.process.wait()
        self.ended = datetime.now(timezone.utc)
        self.over.set()
        if self.tidies:
            self.tailed.wait()
            self.forget()

    def kill(self, number):
        if not self.over.is_set():
            with contextlib.suppress(OSError):
                os.killpg(self.process.pid, number)

    def interrupt(self):
        self.kill(signal.SIGTERM)
        if not self.over.wait(3):
            self.kill(signal.SIGKILL)
            self.over.wait(3)

    def error(self):
        code = self.process.returncode
        if code >= 0:
            return {"ename": "CommandExecError", "evalue": str(code), "traceback": [f"exit status {code}"]}
        name = SIGNALS.get(-code, f"signal {-code}")
        return {"ename": "CommandExecError", "evalue": "-1", "traceback": [f"signal: {name}"]}

    def forget(self):
        for path in self.paths:
            with contextlib.suppress(OSError):
                os.unlink(path)
        self.gone.set()


def stamp(when):
    return when.strftime("%Y-%m-%dT%H:%M:%S.%f") + "Z"


def go_json(value):
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text.encode()


def seconds(text):
    """A Go duration of one unit."""
    number, unit = re.fullmatch(r"([0-9.]+)(ms|s)", text).groups()
    return float(number) / (1000 if unit == "ms" else 1)


class Listener(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def __init__(self, address, handler, owner, tls=None):
        self.owner, self.tls = owner, tls
        self.connections = 0
        self.open = set()
        super().__init__(address, handler)
        self.thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.thread.start()

    def get_request(self):
        connection, address = super().get_request()
        if self.tls:  # the handshake is made by the connection's own thread
            connection = self.tls.wrap_socket(connection, server_side=True, do_handshake_on_connect=False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connections += 1
        self.open.add(connection)
        return connection, address

    def shutdown_request(self, request):
        self.open.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request, client_address):
        """Clients come and go."""

    def stop(self):
        self.shutdown()
        self.server_close()
        for connection in list(self.open):
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    wbufsize = -1

    def log_message(self, *_):
        pass

    def body(self):
        if "chunked" in self.headers.get("Transfer-Encoding", ""):
            data = b"".join(self.chunks())
        else:
            data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if data and "json" in self.headers.get("Content-Type", ""):
            with contextlib.suppress(ValueError):
                self.asked = json.loads(data)
        return data

    def note(self, status, value):
        """For who compares us with the platform's specification."""
        if self.about:
            self.platform.note((*self.about, self.asked, status, value))

    def chunks(self):
        if "chunked" not in self.headers.get("Transfer-Encoding", ""):
            left = int(self.headers.get("Content-Length") or 0)
            while left > 0:
                piece = self.rfile.read(min(left, 1 << 20))
                if not piece:
                    return
                left -= len(piece)
                yield piece
            return
        while True:
            size = int(self.rfile.readline().split(b";")[0], 16)
            if size == 0:
                self.rfile.readline()
                return
            yield self.rfile.read(size)
            self.rfile.readline()

    def answer(self, status, value=None, kind="application/json", headers=()):
        data = b"" if value is None else value if isinstance(value, bytes) else go_json(value)
        self.note(status, value)
        self.send_response(status)
        if value is not None:
            self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        for name, text in headers:
            self.send_header(name, text)
        self.end_headers()
        self.wfile.write(data)
        self.wfile.flush()

    def fail(self, status, code, message):
        self.answer(status, {"code": code, "message": message})

    def handle_any(self):
        url = urllib.parse.urlsplit(self.path)
        self.query = urllib.parse.parse_qs(url.query, keep_blank_values=True)
        self.about = self.asked = None
        try:
            self.route(self.command, urllib.parse.unquote(url.path))
        finally:
            with contextlib.suppress(Exception):
                self.wfile.flush()

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = handle_any


# ---- execd ------------------------------------------------------------------------------------

class ExecdRoutes:
    """The routes of execd, for its own listener and for the server's proxy."""

    def execd(self, sandbox, method, path):
        sandbox.answers.wait()
        if sandbox.state != "Running":
            self.close_connection = True
            return
        sandbox.platform.execd_headers.append(dict(self.headers.items()))
        sandbox.platform.seen.append((method, "execd", path))
        if sandbox.platform.quirks.unready and path != "/ping":
            sandbox.platform.quirks.unready -= 1
            self.body()
            self.answer(503, {"error": "execd is not initialized yet: POST /internal/init must be called first"})
            return
        token = sandbox.env.get("EXECD_ACCESS_TOKEN")
        if token and self.headers.get("X-EXECD-ACCESS-TOKEN") != token:
            self.body()
            self.answer(401, {"error": "Unauthorized: invalid or missing header X-EXECD-ACCESS-TOKEN"})
            return
        proxied = re.fullmatch(r"/proxy/(\d+)(/.*)?", path)
        if proxied:
            self.about = None
            if int(proxied[1]) == EXECD_PORT:
                self.execd(sandbox, method, proxied[2] or "/")
            else:
                self.pass_on(int(proxied[1]), method, proxied[2] or "/")
            return
        self.about = ("execd", method, path)
        for verb, pattern, name in EXECD_TABLE:
            match = re.fullmatch(pattern, path)
            if verb == method and match:
                getattr(self, name)(sandbox, *match.groups())
                return
        self.body()
        self.answer(404, b"404 page not found", "text/plain")

    def pass_on(self, port, method, path):
        """execd's reverse proxy to a port of the sandbox, whose network is ours; WebSockets, too."""
        changes = "Upgrade" in self.headers
        data = b"" if changes else self.body()
        try:
            upstream = socket.create_connection(("127.0.0.1", port), 5)
        except OSError:
            self.answer(502, b"Bad Gateway", "text/plain")
            return
        query = self.path.partition("?")[2]
        head = [f"{method} {urllib.parse.quote(path)}{'?' + query if query else ''} HTTP/1.1"]
        head += [f"{n}: {v}" for n, v in self.headers.items()
                 if n.lower() not in ("connection", "transfer-encoding", "content-length", "open-sandbox-api-key")]
        head += ["Connection: Upgrade"] if changes else ["Connection: close", f"Content-Length: {len(data)}"]
        self.close_connection = True
        with upstream, contextlib.suppress(OSError):
            upstream.settimeout(None)
            upstream.sendall("\r\n".join([*head, "", ""]).encode() + data)
            ears = [upstream, self.connection] if changes else [upstream]
            while True:
                for ear in select.select(ears, [], [])[0]:
                    piece = ear.recv(65536)
                    if not piece:
                        return
                    (upstream if ear is self.connection else self.connection).sendall(piece)

    def ping(self, _sandbox):
        self.answer(200, b"")

    # -- commands

    def event(self, kind, **more):
        now = {"timestamp": int(time.time() * 1000)}
        head = {"type": kind, **{k: v for k, v in more.items() if k in ("text", "execution_time")}, **now}
        event = {**head, **{k: v for k, v in more.items() if k == "error"}}
        self.note(200, event)
        self.send_piece(go_json(event) + b"\n\n")
        self.events += 1
        if self.events == self.drop_after:
            raise ConnectionAbortedError

    def send_piece(self, data):
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def run_command(self, sandbox):
        return self.run_order(sandbox, json.loads(self.body() or b"{}"))

    def run_order(self, sandbox, order):
        quirks = sandbox.platform.quirks
        if not order.get("command"):
            return self.fail(400, "INVALID_REQUEST_BODY", "command is required")
        if order.get("cwd") and not os.path.isdir(order["cwd"]):
            return self.fail(400, "INVALID_REQUEST_BODY", f"cwd {order['cwd']} is not a directory")
        try:
            command = Command(sandbox, order)
        except OSError as error:
            return self.fail(500, "RUNTIME_ERROR", f"error running commands: {error}")
        sandbox.commands[command.id] = command
        is_ours = sandbox.platform.counts(order["command"])
        self.events, self.drop_after = 0, quirks.drop_after if is_ours else None
        if self.drop_after is not None:
            quirks.drop_after = None
        self.send_response(200)
        for name, text in (("Content-Type", "text/event-stream"), ("Cache-Control", "no-cache"),
                           ("X-Accel-Buffering", "no"), ("Transfer-Encoding", "chunked")):
            self.send_header(name, text)
        self.end_headers()
        try:
            self.stream(sandbox, command, quirks, is_ours)
        except ConnectionAbortedError:
            self.close_connection = True
            self.wfile.flush()
            self.connection.shutdown(socket.SHUT_RDWR)
            return None
        finally:
            command.tailed.set()
        tail = quirks.tail_s
        if tail is None:
            tail = seconds(sandbox.env.get("EXECD_API_GRACE_SHUTDOWN", "1s"))
        self.wfile.flush()
        time.sleep(tail)
        self.wfile.write(b"0\r\n\r\n")
        self.wfile.flush()
        return None

    def stream(self, sandbox, command, quirks, is_ours):
        self.event("init", text=quirks.named if quirks.named and is_ours else command.id)
        if not quirks.silent or not is_ours:
            self.event("ping", text="pong")
        if quirks.late_error and is_ours:
            late, quirks.late_error = quirks.late_error, None
            self.send_piece(go_json(late))
            return
        if quirks.flood and is_ours:
            self.flood(quirks)
            return
        self.wfile.flush()
        if command.background:
            self.event("execution_complete")
            return
        self.tail(sandbox, command, quirks.silent and is_ours)
        if quirks.drop_last and is_ours:
            command.tailed.set()
            command.gone.wait()
            raise ConnectionAbortedError
        error = command.error()
        if error["evalue"] == "0":
            spent = int((command.ended - command.began).total_seconds() * 1000)
            self.event("execution_complete", **({"execution_time": spent} if spent else {}))
        else:
            self.event("error", error=error)

    def flood(self, quirks):
        n, quirks.flood = quirks.flood, 0
        block = b"".join(go_json({"type": "stdout", "text": "y" * 80, "timestamp": 1}) + b"\n\n" for _ in range(500))
        for _ in range(n // 500):
            self.send_piece(block)
        self.event("execution_complete")

    def tail(self, sandbox, command, is_silent):
        files = [open(path, "rb") for path in command.paths]  # noqa: SIM115
        rests, halves, pinged = [b"", b""], [False, False], time.monotonic()
        try:
            while True:
                is_over = command.over.wait(0.1)
                for i, file in enumerate(files):
                    data = rests[i] + file.read()
                    if halves[i] and data:  # CR, LF and both together end a line
                        data = data.removeprefix(b"\n")
                    halves[i] = data.endswith(b"\r")
                    lines = re.split(rb"\r\n|\r|\n", data)
                    rests[i] = lines.pop()
                    if is_over and rests[i]:
                        lines.append(rests[i])
                    for line in lines:
                        self.event(("stdout", "stderr")[i], text=line.decode(errors="replace") or "\n")
                if is_over:
                    return
                if time.monotonic() - pinged > 3 and not is_silent:
                    pinged = time.monotonic()
                    self.event("ping", text="pong")
                self.wfile.flush()
                if sandbox.state != "Running":
                    raise ConnectionAbortedError
        finally:
            for file in files:
                file.close()

    def interrupt(self, sandbox):
        name = (self.query.get("id") or [""])[0]
        command = sandbox.commands.get(name)
        if not name:
            return self.fail(400, "MISSING_QUERY", "missing query parameter 'id'")
        if command is None or command.over.is_set():
            return self.fail(500, "RUNTIME_ERROR", f"error interrupting: command session {name} is not running")
        command.interrupt()
        return self.answer(200, b"")

    def status(self, sandbox, name):
        command = sandbox.commands.get(name)
        if command is None:
            return self.fail(404, "INVALID_REQUEST_BODY", f"command not found: {name}")
        out = {"id": name, "content": command.order["command"], "running": not command.over.is_set(),
               "started_at": stamp(command.began)}
        if command.over.is_set():
            error = command.error()
            out.update(exit_code=int(error["evalue"]), finished_at=stamp(command.ended))
            if error["evalue"] != "0":
                out["error"] = error["traceback"][0]
        return self.answer(200, out)

    def logs(self, sandbox, name):
        command = sandbox.commands.get(name)
        if command is None or not command.background:
            return self.fail(400, "INVALID_REQUEST_BODY", f"no logs of {name}")
        cursor = (self.query.get("cursor") or ["0"])[0]
        with open(command.paths[0], "rb") as file:
            file.seek(int(cursor) if cursor.isdigit() else 0)
            data = file.read()
            end = file.tell()
        return self.answer(200, data, "text/plain; charset=utf-8", [("EXECD-COMMANDS-TAIL-CURSOR", str(end))])

    # -- files

    def real(self, path):
        """Paths know variables; one that is not set is an error."""
        if re.search(r"\$(?!\{?[A-Za-z_])", path) or any(
                n not in os.environ for n in re.findall(r"\$\{?([A-Za-z_]\w*)", path)):
            raise KeyError(path)
        return os.path.expandvars(path)

    def info_of(self, path):
        is_ = os.lstat(path)
        kind = ("directory" if stat.S_ISDIR(is_.st_mode) else "symlink" if stat.S_ISLNK(is_.st_mode)
                else "file" if stat.S_ISREG(is_.st_mode) else "other")
        when = stamp(datetime.fromtimestamp(is_.st_mtime, timezone.utc))
        return {"path": path, "type": kind, "size": is_.st_size, "modified_at": when, "created_at": when,
                "owner": str(is_.st_uid), "group": str(is_.st_gid), "mode": int(oct(stat.S_IMODE(is_.st_mode))[2:])}

    def file_info(self, _sandbox):
        try:
            self.answer(200, {p: self.info_of(self.real(p)) for p in self.query.get("path", [])})
        except FileNotFoundError as error:
            self.fail(404, "FILE_NOT_FOUND", f"file not found. {error}")

    def download(self, sandbox):
        try:
            path = self.real(self.query["path"][0])
            if sandbox.platform.uid is not None:
                path = os.path.realpath(path)
            file = open(path, "rb")  # noqa: SIM115
        except KeyError as error:
            return self.fail(500, "RUNTIME_ERROR", f"undefined variable in {error}")
        except OSError as error:
            return self.fail(404, "FILE_NOT_FOUND", f"file not found. {error}")
        with file:
            size = os.fstat(file.fileno()).st_size
            first, last, code = 0, size - 1, 200
            wanted = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
            if wanted:
                first = int(wanted[1]) if wanted[1] else max(size - int(wanted[2]), 0)
                last = min(int(wanted[2]), size - 1) if wanted[1] and wanted[2] else size - 1
                code = 206
                if first >= size:
                    return self.answer(416, b"", "text/plain", [("Content-Range", f"bytes */{size}")])
            self.send_response(code)
            self.send_header("Content-Type", "application/octet-stream")
            self.send_header("Content-Length", str(last - first + 1))
            if code == 206:
                self.send_header("Content-Range", f"bytes {first}-{last}/{size}")
            self.end_headers()
            self.wfile.flush()
            left = last - first + 1
            if self.server.tls:
                self.connection.sendfile(file, first, left)
                return None
            while left > 0:
                sent = os.sendfile(self.connection.fileno(), file.fileno(), first, min(left, 1 << 20))
                if sent == 0:
                    break
                first, left = first + sent, left - sent
        return None

    def upload(self, sandbox):
        if sandbox.platform.quirks.upload_gate:
            sandbox.platform.quirks.upload_gate.wait()
        boundary = re.search(r'boundary="?([^";]+)', self.headers.get("Content-Type", ""))
        if not boundary:
            self.body()
            return self.fail(400, "INVALID_FILE", "no multipart form")
        try:
            pairs = self.read_form(b"--" + boundary[1].encode())
        except (KeyError, ValueError) as error:
            return self.fail(400, "INVALID_FILE_METADATA", str(error))
        for meta, spool in pairs:
            try:
                path = self.real(meta["path"])
                os.makedirs(os.path.dirname(path), exist_ok=True)
                shutil.copyfile(spool, path)
            except (KeyError, OSError) as error:
                return self.fail(500, "RUNTIME_ERROR", f"error uploading: {error}")
            finally:
                with contextlib.suppress(OSError):
                    os.unlink(spool)
            os.chmod(path, int(str(meta.get("mode") or 755), 8))
            if sandbox.platform.uid is not None:
                os.chown(path, sandbox.platform.uid, sandbox.platform.gid)
        return self.answer(200, b"")

    def read_form(self, boundary):
        """Pairs of what is told about a file and a file that holds its bytes."""
        pieces, have, pairs, meta = self.chunks(), b"", [], None
        end = b"\r\n" + boundary
        have = b"\r\n"
        while True:
            while end not in have or b"\r\n\r\n" not in have.partition(end)[2]:
                piece = next(pieces, None)
                if piece is None:
                    return pairs
                have += piece
            head, _, have = have.partition(end)[2].partition(b"\r\n\r\n")
            name = re.search(rb'name="([^"]+)"', head)[1]
            if b"filename=" not in head:
                raise ValueError(f"the part {name} has no filename")
            with tempfile.NamedTemporaryFile(dir=self.platform.folder, delete=False) as spool:
                while end not in have:
                    keep = max(len(have) - len(end), 0)
                    spool.write(have[:keep])
                    piece = next(pieces, None)
                    if piece is None:
                        raise ValueError("the form has no end")
                    have = have[keep:] + piece
                data, _, _ = have.partition(end)
                spool.write(data)
                have = have[len(data):]
            if name == b"metadata":
                meta = json.loads(pathlib.Path(spool.name).read_bytes())
                os.unlink(spool.name)
            else:
                pairs.append((meta, spool.name))

    def search_files(self, _sandbox):
        import fnmatch
        root, pattern = self.query["path"][0], (self.query.get("pattern") or ["*"])[0]
        self.answer(200, [self.info_of(os.path.join(folder, name)) for folder, _, names in os.walk(root)
                          for name in names if fnmatch.fnmatch(name, pattern)])

    def replace_text(self, _sandbox):
        counts = {}
        for path, change in json.loads(self.body()).items():
            if not os.path.exists(path):
                return self.fail(404, "FILE_NOT_FOUND", path)
            text = pathlib.Path(path).read_text(encoding="utf-8")
            counts[path] = {"replacedCount": text.count(change["old"])}
            pathlib.Path(path).write_text(text.replace(change["old"], change["new"]), encoding="utf-8")
        return self.answer(200, counts if "verbose" in self.query else b"")

    def move_files(self, _sandbox):
        for one in json.loads(self.body()):
            if not os.path.lexists(one["src"]):
                return self.fail(404, "FILE_NOT_FOUND", one["src"])
            if os.path.lexists(one["dest"]):
                return self.fail(500, "RUNTIME_ERROR", f"{one['dest']} exists")
            os.makedirs(os.path.dirname(one["dest"]), exist_ok=True)
            os.rename(one["src"], one["dest"])
        return self.answer(200, b"")

    def remove_files(self, _sandbox):
        for path in self.query.get("path", []):
            if os.path.isdir(path):
                return self.fail(500, "RUNTIME_ERROR", f"{path} is a directory")
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
        return self.answer(200, b"")

    def permit_files(self, _sandbox):
        for path, mode in json.loads(self.body()).items():
            if mode.get("mode"):
                os.chmod(path, int(str(mode["mode"]), 8))
        self.answer(200, b"")

    def list_folder(self, _sandbox):
        path = self.query["path"][0]
        if not os.path.lexists(path):
            return self.fail(404, "FILE_NOT_FOUND", path)
        if os.path.islink(path) or not os.path.isdir(path):
            return self.fail(400, "INVALID_FILE", f"{path} is not a directory")
        return self.answer(200, [self.info_of(os.path.join(path, n)) for n in sorted(os.listdir(path))])

    def make_folders(self, sandbox):
        for path, how in json.loads(self.body()).items():
            os.makedirs(path, exist_ok=True)
            os.chmod(path, int(str((how or {}).get("mode") or 755), 8))
            if sandbox.platform.uid is not None:
                os.chown(path, sandbox.platform.uid, sandbox.platform.gid)
        self.answer(200, b"")

    def remove_folders(self, _sandbox):
        for path in self.query.get("path", []):
            shutil.rmtree(path, ignore_errors=True)
        self.answer(200, b"")

    def metrics(self, _sandbox):
        time.sleep(1)
        self.answer(200, {"cpu_count": os.cpu_count(), "cpu_used_pct": 1.0, "mem_total_mib": 1000.0,
                          "mem_used_mib": 100.0, "timestamp": int(time.time() * 1000)})


EXECD_TABLE = [
    ("GET", "/ping", "ping"), ("POST", "/command", "run_command"), ("DELETE", "/command", "interrupt"),
    ("GET", "/command/status/([^/]+)", "status"), ("GET", "/command/([^/]+)/logs", "logs"),
    ("GET", "/files/info", "file_info"), ("GET", "/files/download", "download"),
    ("POST", "/files/upload", "upload"), ("GET", "/files/search", "search_files"),
    ("POST", "/files/replace", "replace_text"), ("POST", "/files/mv", "move_files"),
    ("DELETE", "/files", "remove_files"), ("POST", "/files/permissions", "permit_files"),
    ("GET", "/directories/list", "list_folder"), ("POST", "/directories", "make_folders"),
    ("DELETE", "/directories", "remove_folders"), ("GET", "/metrics", "metrics"),
]


class Execd(Handler, ExecdRoutes):
    @property
    def platform(self):
        return self.server.owner.platform

    def route(self, method, path):
        self.execd(self.server.owner, method, path)


# ---- the lifecycle server -------------------------------------------------------------------------

def wrong(where, kind, message):
    return {"detail": [{"type": kind, "loc": ["body", where], "msg": message, "input": None}]}


def check_order(order):
    """What the server's own schema says to an order: None, or a body of 422."""
    timeout = order.get("timeout")
    if not order.get("image") and not order.get("snapshotId"):
        return wrong("image", "value_error", "Value error, Exactly one of image or snapshotId must be provided")
    if "resourceLimits" not in order:
        return wrong("resourceLimits", "missing", "Field required")
    if any(not isinstance(v, str) for v in order["resourceLimits"].values()):
        return wrong("resourceLimits", "string_type", "Input should be a valid string")
    if not order.get("entrypoint"):
        return wrong("entrypoint", "value_error", "Value error, entrypoint is required")
    if timeout is not None and (timeout != int(timeout) or timeout < 60):
        return wrong("timeout", "greater_than_equal", "Input should be greater than or equal to 60")
    return None


class Lifecycle(Handler, ExecdRoutes):
    @property
    def platform(self):
        return self.server.owner

    def route(self, method, path):
        platform = self.platform
        path = path[3:] if path.startswith("/v1/") else path
        proxied = re.fullmatch(r"/sandboxes/([^/]+)/proxy/(\d+)(/.*)?", path)
        if proxied:
            sandbox = platform.sandboxes.get(proxied[1])
            if sandbox is None:
                self.body()
                return self.fail(404, "DOCKER::SANDBOX_NOT_FOUND", f"Sandbox {proxied[1]} not found.")
            platform.proxied += 1
            if int(proxied[2]) == EXECD_PORT:
                return self.pass_to_execd(sandbox, method, proxied[3] or "/")
            return self.pass_on(int(proxied[2]), method, proxied[3] or "/")
        if path == "/health":
            return self.answer(200, {"status": "healthy"})
        platform.seen.append((method, "server", path))
        self.about = ("server", method, path)
        key = self.headers.get("OPEN-SANDBOX-API-KEY")
        if platform.key and key != platform.key:
            self.body()
            return self.fail(401, "INVALID_API_KEY" if key else "MISSING_API_KEY",
                             "Authentication credentials are invalid." if key else "Authentication is required.")
        if path == "/sandboxes":
            return {"GET": self.list_all, "POST": self.create}.get(method, self.unknown)()
        one = re.fullmatch(r"/sandboxes/([^/]+)(/.*)?", path)
        if not one:
            return self.unknown()
        sandbox = platform.sandboxes.get(one[1])
        if sandbox is None:
            self.body()
            return self.fail(404, "DOCKER::SANDBOX_NOT_FOUND", f"Sandbox {one[1]} not found.")
        return self.one(method, sandbox, one[2] or "")

    def pass_to_execd(self, sandbox, method, path):
        quirks = self.platform.quirks
        if quirks.pods and sandbox.state != "Running":
            self.body()
            return self.fail_early()
        if path == quirks.unheard[0] and quirks.unheard[1]:
            quirks.unheard = (path, quirks.unheard[1] - 1)
            self.close_connection = True  # what is left of the body is not read
            return self.fail(502, "BACKEND_CONNECTION_FAILED", "Could not connect to the backend sandbox")
        if path == "/command" and method == "POST" and quirks.unanswered:
            order = json.loads(self.body())
            if not self.platform.counts(order["command"]):
                return self.run_order(sandbox, order)
            quirks.unanswered -= 1
            command = sandbox.commands[uuid.uuid4().hex] = Command(sandbox, order)
            command.over.wait()
            if quirks.mesh:
                return self.answer(503, b"upstream connect error or disconnect/reset before headers. "
                                        b"reset reason: connection termination", "text/plain")
            return self.fail(502, "BACKEND_RESPONSE_FAILED", "The backend sandbox dropped the connection")
        return self.execd(sandbox, method, path)

    def fail_early(self):
        self.about = None
        return self.fail(404, "KUBERNETES::POD_IP_NOT_AVAILABLE", "Pod IP is not yet available. The Pod may still be starting.")

    def unknown(self):
        self.body()
        self.answer(404, {"detail": "Not Found"})

    def create(self):
        platform, quirks = self.platform, self.platform.quirks
        order = json.loads(self.body())
        platform.orders.append(order)
        bad = check_order(order)
        if bad:
            return self.answer(422, bad)
        if quirks.refuse_create:
            self.about = None
            return self.answer(*quirks.refuse_create)
        for key, value in (order.get("metadata") or {}).items():
            if key.startswith("opensandbox.io/") or not LABEL.fullmatch(key) or (value and not LABEL.fullmatch(value)):
                return self.fail(400, "SANDBOX::INVALID_METADATA_LABEL", f"Invalid metadata {key}={value}")
        if order["image"]["uri"].startswith("no-such"):
            return self.fail(500, "DOCKER::SANDBOX_IMAGE_PULL_FAILED", f"Failed to pull image {order['image']['uri']}: "
                             "pull access denied, repository does not exist")
        if order.get("networkPolicy") is not None and not platform.has_egress:
            return self.fail(400, "SANDBOX::INVALID_PARAMETER", "networkPolicy requires [egress].image")
        if quirks.create_late:
            quirks.create_late.wait()
        sandbox = Sandbox(platform, order)
        platform.sandboxes[sandbox.id] = sandbox
        if quirks.pods:
            sandbox.start_pod()
        time.sleep(quirks.create_delay_s)
        if quirks.create_answer:
            self.about = None
            return self.answer(*quirks.create_answer)
        if not quirks.create_answers:
            self.close_connection = True
            return None
        return self.answer(202, {k: v for k, v in sandbox.shown().items() if k != "image"})

    def list_all(self):
        page = int((self.query.get("page") or ["1"])[0])
        size = int((self.query.get("pageSize") or ["20"])[0])
        if size > 200 or size < 1 or page < 1:
            return self.answer(422, wrong("pageSize", "less_than_equal", "Input should be less than or equal to 200"))
        wanted = dict(urllib.parse.parse_qsl((self.query.get("metadata") or [""])[0]))
        states = [s.lower() for s in self.query.get("state", [])]
        found = [s for s in sorted(self.platform.sandboxes.values(), key=lambda s: s.created, reverse=True)
                 if all(s.metadata.get(k) == v for k, v in wanted.items())
                 and (not states or s.state.lower() in states)]
        pages = -(-len(found) // size)
        if self.platform.quirks.list_gate:
            self.platform.quirks.list_gate.wait()
        return self.answer(200, {"items": [s.shown() for s in found[(page - 1) * size:page * size]],
                                 "pagination": {"page": page, "pageSize": size, "totalItems": len(found),
                                                "totalPages": pages, "hasNextPage": page < pages}})

    def one(self, method, sandbox, below):
        data = self.body()
        if (method, below) == ("GET", ""):
            return self.answer(200, sandbox.shown())
        if (method, below) == ("DELETE", ""):
            self.platform.remove(sandbox)
            return self.answer(204)
        if (method, below) == ("POST", "/pause"):
            if sandbox.state != "Running":
                return self.fail(500, "DOCKER::SANDBOX_PAUSE_FAILED", "Failed to pause: already paused")
            if self.platform.quirks.pods:
                sandbox.stop_pod()
                return self.answer(202)
            sandbox.state = "Paused"
            sandbox.answers.clear()
            sandbox.signal_all(signal.SIGSTOP)
            return self.answer(202)
        if (method, below) == ("POST", "/resume"):
            if sandbox.state != "Paused":
                return self.fail(409, "DOCKER::SANDBOX_NOT_PAUSED", "Sandbox is not paused.")
            if self.platform.quirks.pods:
                sandbox.start_pod()
                return self.answer(202)
            sandbox.signal_all(signal.SIGCONT)
            sandbox.state = "Running"
            sandbox.answers.set()
            return self.answer(202)
        if (method, below) == ("POST", "/renew-expiration"):
            when = datetime.fromisoformat(json.loads(data)["expiresAt"].replace("Z", "+00:00"))
            if when <= datetime.now(timezone.utc):
                return self.fail(400, "DOCKER::INVALID_EXPIRATION", "New expiration must be in the future.")
            sandbox.expires = when
            return self.answer(200, {"expiresAt": stamp(when)})
        endpoint = re.fullmatch(r"/endpoints/(\d+)", below)
        if method == "GET" and endpoint:
            return self.endpoint(sandbox, int(endpoint[1]))
        return self.answer(404, {"detail": "Not Found"})

    def endpoint(self, sandbox, port):
        host, _, own = self.headers.get("Host", "127.0.0.1:0").partition(":")
        is_proxied = (self.query.get("use_server_proxy") or [""])[0] == "true"
        self.platform.asked_direct += not is_proxied
        if self.platform.quirks.pods and sandbox.state != "Running":
            return self.fail_early()
        if is_proxied:
            where = f"{host}:{own}/sandboxes/{sandbox.id}/proxy/{port}"
        elif self.platform.quirks.silent_address:
            where = f"127.0.0.1:{self.platform.silent_port()}"
        elif self.platform.quirks.proxy_only:
            where = f"127.0.0.1:{self.platform.dead_port}/proxy/{port}"
        else:
            where = f"127.0.0.1:{sandbox.listen()}/proxy/{port}"
        return self.answer(200, {"endpoint": where, "headers": {"X-Test-Route": sandbox.id}})


class Platform:
    """A running stand-in. `url` is where it answers."""

    def __init__(self, key="sk-test-0123456789", tls=None):
        self.tls = tls  # an ssl.SSLContext: it is https, and so are its sandboxes
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="osb-", dir="/tmp"))
        self.folder.chmod(0o755)
        self.uid = self.gid = None
        self.user = pwd.getpwuid(os.getuid()).pw_name
        if os.getuid() == 0:
            nobody = pwd.getpwnam("nobody")
            self.uid, self.gid, self.user = nobody.pw_uid, nobody.pw_gid, "nobody"
        self.nowhere = str(self.folder / "no" / "such")  # a folder that no sandbox can make
        self.key = key
        self.quirks = Quirks()
        self.has_egress = True
        self.exchanges = {}
        self.asked_direct, self.silent = 0, None
        self.sandboxes, self.orders, self.seen, self.execd_headers, self.proxied = {}, [], [], [], 0
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            self.dead_port = taken.getsockname()[1]
        self.server = Listener(("127.0.0.1", 0), Lifecycle, self, tls)
        self.port = self.server.server_address[1]
        self.closing = threading.Event()
        self.reaper = threading.Thread(target=self.reap, daemon=True)
        self.reaper.start()

    @property
    def url(self):
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}"

    def silent_port(self):
        """A port whose queue of connections is full: whoever connects hears nothing."""
        if self.silent is None:
            ear = socket.socket()
            ear.bind(("127.0.0.1", 0))
            ear.listen(0)
            self.silent = [ear]
            for _ in range(4):
                caller = socket.socket()
                caller.setblocking(False)
                caller.connect_ex(ear.getsockname())
                self.silent.append(caller)
        return self.silent[0].getsockname()[1]

    def note(self, exchange):
        """Of each kind the first: floods are alike."""
        api, method, path, _, status, value = exchange
        kind = value.get("type", sorted(value)) if isinstance(value, dict) else type(value)
        self.exchanges.setdefault((api, method, re.sub(r"[0-9a-f-]{32,}", "", path), status, str(kind)), exchange)

    def counts(self, command):
        """Whether a command is a test's own, and not one of the client's: those have the word."""
        return "QUIRK" in command

    def reap(self):
        while not self.closing.wait(0.05):
            now = datetime.now(timezone.utc)
            for sandbox in list(self.sandboxes.values()):
                if sandbox.expires and sandbox.expires <= now:
                    self.remove(sandbox)

    def expire(self, sandbox):
        sandbox.expires = datetime.now(timezone.utc)

    def remove(self, sandbox):
        if self.sandboxes.pop(sandbox.id, None):
            sandbox.state = "Terminated"
            sandbox.destroy()

    def kill(self, sandbox):
        """Its first process ended: it stays, and can only be deleted."""
        sandbox.stop_pod()
        sandbox.state, sandbox.reason = "Failed", "CONTAINER_EXITED_ERROR"

    def stop(self):
        self.server.stop()

    def restart(self):
        self.server = Listener(("127.0.0.1", self.port), Lifecycle, self, self.tls)

    def close(self):
        self.closing.set()
        self.reaper.join()
        for sandbox in list(self.sandboxes.values()):
            self.remove(sandbox)
        for one in self.silent or ():
            one.close()
        self.server.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    running = Platform(key=os.environ.get("KEY", ""))
    print(running.url, flush=True)
    try:
        signal.pause()
    finally:
        running.close()
