# relay.py - the way of an installer to the package index when its box has no network; see
# core/index_relay.h. A small HTTP server on the box's loopback that knows no address of the index: it asks
# for pages and files by lines on standard output, and what comes for them on standard input it passes on. It
# ends with its installer, which holds a connection open, and with standard input. Python 3.7 and its
# standard library.
import sys

if sys.path and sys.path[0] == "":
    del sys.path[0]
import hmac
import http.server
import os
import queue
import re
import socketserver
import threading

WAIT = 60  # seconds for the installer to come
STUCK = 300  # an installer that takes nothing, or an index that gives nothing
FRAME_MAX = 1 << 20
NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?\Z")
FILE = re.compile(r"([0-9a-f]{64})/([A-Za-z0-9_-]+)/[^/]+?(\.metadata)?\Z")


def read_frames(to):
    """What anybox says; when it says no more, there is nothing left to do."""
    try:
        while True:
            head = sys.stdin.buffer.read(5)
            size = int.from_bytes(head[:4], "big")
            if len(head) < 5 or not 0 < size <= FRAME_MAX:
                return
            payload = sys.stdin.buffer.read(size - 1)
            if len(payload) < size - 1:
                return
            to.put((head[4:5], payload))
    finally:
        os._exit(0)


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = STUCK

    def log_message(self, *_):
        pass

    def refuse(self, code, text):
        data = text.encode("utf-8", "replace") + b"\n"
        self.send_response(code)
        self.send_header("Content-Type", "text/plain; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_GET(self):
        _, secret, what = (self.path.split("?")[0].split("/", 2) + ["", ""])[:3]
        if not hmac.compare_digest(secret.encode("utf-8", "replace"), self.server.secret):
            self.refuse(404, "not found")
            return
        file = FILE.match(what[5:]) if what.startswith("file/") else None
        name = re.sub(r"[-_.]+", "-", what[7:].strip("/")).lower() if what.startswith("simple/") else ""
        if what == "hold":
            self.hold()
        elif what == "problems":
            self.refuse(200, "\n".join(self.server.problems))
        elif file:
            self.ask("file %s %s%s" % (file.group(1), file.group(2), " metadata" if file.group(3) else ""))
        elif NAME.match(name):
            self.ask("page " + name)
        else:
            self.refuse(404, "there are only pages of projects and files that they name")

    def note(self, problem):
        """What went wrong with the index; installers keep it to themselves."""
        if problem not in self.server.problems:
            self.server.problems = [*self.server.problems[-9:], problem]

    def hold(self):
        """The installer's own connection: as long as it stands, so do we."""
        self.server.held.set()
        self.connection.settimeout(None)
        try:
            self.connection.recv(1)
        finally:
            os._exit(0)

    def ask(self, line):
        """One question at a time: what comes next is the answer to it."""
        with self.server.turn:
            os.write(1, line.encode() + b"\n")
            kind, head = self.server.frames.get()
            if kind != b"H":
                os._exit(1)
            status, length, content = head.decode("utf-8", "replace").split(" ", 2)
            if int(status) != 200:
                self.server.frames.get()
                if int(status) != 404:
                    self.note(content)
                self.refuse(int(status), content)
                return
            self.answer(int(length), content)

    def answer(self, length, content):
        """What the installer does not take any more is read all the same: the next answer is behind it."""
        is_open, chunked = True, length < 0
        try:
            self.send_response(200)
            self.send_header("Content-Type", content)
            self.send_header(*(("Transfer-Encoding", "chunked") if chunked else ("Content-Length", str(length))))
            self.end_headers()
        except OSError:
            is_open = False
        while True:
            kind, data = self.server.frames.get()
            if kind == b"E":
                break
            try:
                if is_open:
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data) if chunked else data)
            except OSError:
                is_open = False
        if data:
            self.note(data.decode("utf-8", "replace"))
        if is_open and chunked and not data:
            self.wfile.write(b"0\r\n\r\n")
        # An answer that broke off must not look whole.
        self.close_connection = self.close_connection or not is_open or bool(data)


class Server(socketserver.ThreadingMixIn, socketserver.TCPServer):
    daemon_threads = True
    request_queue_size = 64

    def __init__(self):
        super().__init__(("127.0.0.1", 0), Handler)
        self.problems = []
        self.frames, self.turn, self.held = queue.Queue(8), threading.Lock(), threading.Event()
        threading.Thread(target=read_frames, args=(self.frames,), daemon=True).start()
        _, self.secret = self.frames.get()
        threading.Thread(target=self.wait, daemon=True).start()

    def wait(self):
        if not self.held.wait(WAIT):
            os._exit(0)

    def handle_error(self, *_):
        pass


server = Server()
os.write(1, b"port %d\n" % server.server_address[1])
server.serve_forever()
