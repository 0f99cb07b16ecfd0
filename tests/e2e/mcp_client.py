"""A small MCP client for the tests: newline JSON-RPC with a child process, both eras.

Requests are futures, so many can be under way at once. Everything the server wrote is
kept: `lines` as bytes, `notifications` as objects, `answers` with the request they
belong to. close() fails when a line was not one JSON-RPC message in UTF-8.

A client that can be asked has `capabilities` and `reply`, which is given the method and
the parameters of a question and returns its result; None leaves it unanswered, and an
RpcFailed is told to the server. Both eras ask the same: tool() comes back with what
`reply` said when the answer of a modern call is a question.
"""
import collections
import json
import os
import signal
import subprocess
import threading
import time
from concurrent.futures import Future

LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"
META = "io.modelcontextprotocol/"

Answer = collections.namedtuple("Answer", "version method message")


class ToolFailed(Exception):
    """A tools/call answered isError; `answer` is its JSON."""

    def __init__(self, answer, text):
        super().__init__(text)
        self.answer, self.text = answer, text


class RpcFailed(Exception):
    """A request answered a JSON-RPC error."""

    def __init__(self, error):
        super().__init__(json.dumps(error))
        self.error, self.code = error, error["code"]


class McpClient:
    def __init__(self, argv, version="2025-11-25", initialize=True, capabilities=None, reply=None,
                 **popen):
        popen.setdefault("stderr", subprocess.DEVNULL)
        self.capabilities, self.reply, self.questions = capabilities or {}, reply, []
        self.version, self.modern = version, version == MODERN
        self.argv = argv
        self.lines, self.notifications, self.answers, self.violations = [], [], [], []
        self.killed = False
        self._waiting, self._methods, self._next_id = {}, {}, 0
        self._changed = threading.Condition()
        self._write_lock = threading.Lock()
        self.process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **popen)
        self.eof = threading.Event()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.server = None
        if initialize and not self.modern:
            self.initialize(version)

    # ---- out ---------------------------------------------------------------

    def send_bytes(self, data):
        with self._write_lock:
            self.process.stdin.write(data)
            self.process.stdin.flush()

    def send_line(self, line):
        self.send_bytes((line if isinstance(line, bytes) else line.encode()) + b"\n")

    def send(self, message):
        self.send_line(json.dumps(message, ensure_ascii=False, separators=(",", ":")))

    def meta(self, **more):
        return {META + "protocolVersion": MODERN, META + "clientCapabilities": self.capabilities,
                META + "clientInfo": {"name": "anybox-tests", "version": "1"}, **more}

    def notify(self, method, params=None):
        message = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            message["params"] = params
        self.send(message)

    def expect(self, request_id, method="?"):
        """A future for the message that answers request_id."""
        future = Future()
        future.request_id = request_id
        with self._changed:
            self._waiting[json.dumps(request_id)] = future
            self._methods[json.dumps(request_id)] = method
        return future

    def request(self, method, params=None, request_id=None, progress_token=None):
        """Sends a request; returns a future for the whole answering message."""
        if request_id is None:
            with self._changed:
                request_id, self._next_id = self._next_id, self._next_id + 1
        meta = self.meta() if self.modern else {}
        if progress_token is not None:
            meta["progressToken"] = progress_token
        if meta:
            params = {**(params or {}), "_meta": {**meta, **(params or {}).get("_meta", {})}}
        message = {"jsonrpc": "2.0", "id": request_id, "method": method}
        if params is not None:
            message["params"] = params
        future = self.expect(request_id, method)
        self.send(message)
        return future

    def cancel(self, request_id, reason="the test says so"):
        self.notify("notifications/cancelled", {"requestId": request_id, "reason": reason})

    # ---- request and wait --------------------------------------------------

    def result(self, method, params=None, timeout=120, **more):
        message = self.request(method, params, **more).result(timeout)
        if "error" in message:
            raise RpcFailed(message["error"])
        return message["result"]

    def error(self, method, params=None, timeout=120, **more):
        message = self.request(method, params, **more).result(timeout)
        assert "error" in message, f"{method} was to fail but answered {message}"
        return message["error"]

    def initialize(self, version="2025-11-25", timeout=120):
        self.server = self.result("initialize", {
            "protocolVersion": version, "capabilities": self.capabilities,
            "clientInfo": {"name": "anybox-tests", "version": "1"}}, timeout)
        self.version = self.server["protocolVersion"]
        self.notify("notifications/initialized")
        return self.server

    def start_tool(self, name, arguments=None, **more):
        return self.request("tools/call", {"name": name, "arguments": arguments or {}}, **more)

    def finish_tool(self, future, timeout=120):
        """The JSON in the answer's one text block; ToolFailed for isError."""
        message = future.result(timeout)
        if "error" in message:
            raise RpcFailed(message["error"])
        blocks = message["result"]["content"]
        assert blocks[0]["type"] == "text", blocks
        answer = json.loads(blocks[0]["text"])
        if message["result"].get("isError"):
            raise ToolFailed(answer, blocks[0]["text"])
        return answer

    def tool(self, name, _timeout=120, /, **arguments):
        future = self.start_tool(name, arguments)
        for _ in range(10):
            result = future.result(_timeout).get("result", {})
            if result.get("resultType") != "input_required":
                break
            future = self.come_back(name, arguments, result)
        return self.finish_tool(future, _timeout)

    def come_back(self, name, arguments, result):
        """The same call again, with an answer to each question."""
        answers = {}
        for key, question in result["inputRequests"].items():
            self.questions.append(question)
            answer = self.reply(question["method"], question["params"])
            if answer is not None:
                answers[key] = answer
        return self.request("tools/call", {
            "name": name, "arguments": arguments, "inputResponses": answers,
            "requestState": result["requestState"]})

    def tool_error(self, name, _timeout=120, /, **arguments):
        """The {"error", "code"} of a call that has to fail."""
        try:
            answer = self.tool(name, _timeout, **arguments)
        except ToolFailed as failed:
            assert set(failed.answer) >= {"error", "code"}, failed.answer
            assert len(failed.text) <= 10000
            return failed.answer
        raise AssertionError(f"{name}({arguments}) was to fail but answered {answer}")

    def bash(self, command, _timeout=120, /, **arguments):
        return self.tool("exec_bash", _timeout, command=command, **arguments)

    # ---- in ----------------------------------------------------------------

    def _read(self):
        for line in self.process.stdout:
            with self._changed:
                self.lines.append(line)
                self._take(line)
                self._changed.notify_all()
        with self._changed:
            self.eof.set()
            for future in self._waiting.values():
                future.set_exception(EOFError("the server closed its output"))
            self._waiting.clear()
            self._changed.notify_all()

    def _take(self, line):
        if self.killed and not line.endswith(b"\n"):
            return  # in the middle of it
        try:
            message = json.loads(line.decode("utf-8", "strict"))
        except ValueError as problem:
            self.violations.append(f"not JSON in UTF-8 ({problem}): {line[:200]!r}")
            return
        if not line.endswith(b"\n") or line.endswith(b"\r\n") or len(line) > 1 << 20:
            self.violations.append(f"a line of {len(line)} bytes ends in {line[-3:]!r}")
        for part in message if isinstance(message, list) else [message]:
            if not isinstance(part, dict) or part.get("jsonrpc") != "2.0":
                self.violations.append(f"not JSON-RPC: {line[:200]!r}")
            elif "method" in part and "id" in part:
                self._asked(part)
            elif "method" in part:
                self.notifications.append(part)
            else:
                key = json.dumps(part["id"]) if "id" in part else None
                self.answers.append(Answer(self.version, self._methods.get(key), part))
                future = self._waiting.pop(key, None)
                if future is not None:
                    future.set_result(part)

    def _asked(self, question):
        self.questions.append(question)
        if self.reply is None or self.modern:
            self.violations.append(f"a request from the server: {question}")
            return
        message = {"jsonrpc": "2.0", "id": question["id"]}
        try:
            message["result"] = self.reply(question["method"], question["params"])
        except RpcFailed as failed:
            message["error"] = failed.error
        if message.get("result", True) is not None:
            self.send(message)

    def wait_for(self, what, timeout=120):
        """Waits until what() is true; what() looks at lines, notifications, answers."""
        with self._changed:
            assert self._changed.wait_for(what, timeout), "the server did not send what was expected"

    def answers_without_id(self):
        return [a.message for a in self.answers if a.message.get("id") is None]

    def progress(self, token):
        return [n["params"] for n in self.notifications if n["method"] == "notifications/progress"
                and n["params"]["progressToken"] == token
                and type(n["params"]["progressToken"]) is type(token)]

    # ---- the end -----------------------------------------------------------

    @property
    def pid(self):
        return self.process.pid

    def end_input(self):
        with self._write_lock:
            try:
                self.process.stdin.close()
            except BrokenPipeError:
                pass

    def wait(self, timeout=30):
        """The exit code (negative: signal), and how long it took."""
        began = time.monotonic()
        code = self.process.wait(timeout)
        took = time.monotonic() - began
        self._reader.join(30)
        return code, took

    def close(self):
        """Ends it by EOF, as clients do; gives the exit code."""
        if self.process.poll() is None:
            self.end_input()
            try:
                self.wait()
            except subprocess.TimeoutExpired:
                self.kill()
                raise AssertionError("the server did not end within 30 s of EOF") from None
        self._reader.join(30)
        self.process.stdout.close()
        assert not self.violations, self.violations
        return self.process.returncode

    def kill(self, number=signal.SIGKILL):
        """Only ever the process that this client started. Its last line may then be cut."""
        if self.process.poll() is None:
            self.killed = self.killed or number == signal.SIGKILL
            os.kill(self.process.pid, number)
        if number == signal.SIGKILL:
            self.process.wait(30)
            self._reader.join(30)
            if self.lines and not self.lines[-1].endswith(b"\n"):
                self.violations = [v for v in self.violations if repr(self.lines[-1][:200]) not in v
                                   and repr(self.lines[-1][-3:]) not in v]
