"""The near side of agent/mux.h in Python, and `boxinit relay` on pipes as an SSH channel has it."""
import collections
import os
import struct
import subprocess
import threading
import time

import agent_client
from agent_client import Agent, Conn

OPEN, GIVE, CREDIT, EOF, CLOSE = 1, 2, 3, 4, 5
FIRST, PIECE = 128 << 10, 32 << 10


def mux_frame(kind, stream, n=0, data=b""):
    return struct.pack("<BBHI", kind, 0, stream, n) + data


class Stream:
    """One conversation; like a socket, as far as Conn needs it."""

    def __init__(self, mux, number, timeout):
        self.mux, self.number, self.timeout = mux, number, timeout
        self.came = collections.deque()
        self.credit = FIRST
        self.ended = self.closed = self.close_sent = False

    def wait(self, what):
        assert self.mux.changed.wait_for(lambda: what() or self.mux.dead, self.timeout), "timed out"

    def sendall(self, data):
        data = memoryview(data)
        while len(data) > 0:
            with self.mux.changed:
                self.wait(lambda: self.credit > 0 or self.closed)
                if self.closed or self.mux.dead:
                    raise BrokenPipeError
                n = min(len(data), self.credit, PIECE)
                self.credit -= n
                self.mux.send(mux_frame(GIVE, self.number, n, bytes(data[:n])))
            data = data[n:]

    def recv(self, most):
        with self.mux.changed:
            self.wait(lambda: self.came or self.ended)
            if not self.came:
                return b""
            data = self.came.popleft()
            if len(data) > most:
                self.came.appendleft(data[most:])
                data = data[:most]
            if not self.ended:
                self.mux.send(mux_frame(CREDIT, self.number, len(data)))
            return data

    def finish(self):
        """No more will be said."""
        with self.mux.changed:
            self.mux.send(mux_frame(EOF, self.number))

    def close(self):
        with self.mux.changed:
            if not self.close_sent and not self.mux.dead:
                self.close_sent = True
                self.mux.send(mux_frame(CLOSE, self.number))
                self.mux.forget(self)


class Relay(Agent):
    """A relay that was started on pipes. `folder` is what --socket names."""

    def __init__(self, folder, argv=(), env=None, marker="c0ffee", idle=None, **more):
        args = ["relay", "--socket", str(folder), "--marker", marker]
        args += ["--idle", str(idle)] if idle is not None else []
        self.process = subprocess.Popen([*argv, agent_client.BOXINIT, *args], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env, **more)
        self.changed = threading.Condition()
        self.streams, self.dead = {}, False
        said = self.take(len(marker) + 1)
        if said != marker.encode() + b"\n":
            raise RuntimeError((said + self.process.stderr.read()).decode())
        self.reader = threading.Thread(target=self.pump, daemon=True)
        self.reader.start()

    def take(self, n):
        data = b""
        while len(data) < n:
            got = os.read(self.process.stdout.fileno(), n - len(data))
            if not got:
                return data
            data += got
        return data

    def send(self, data):
        try:
            self.process.stdin.write(data)
            self.process.stdin.flush()
        except OSError:
            self.dead = True

    def forget(self, stream):
        if stream.close_sent and stream.closed:
            self.streams.pop(stream.number, None)

    def pump(self):
        while True:
            head = self.take(8)
            kind, zero, number, n = struct.unpack("<BBHI", head) if len(head) == 8 else (0, 0, 0, 0)
            data = self.take(n) if kind == GIVE else b""
            with self.changed:
                if len(head) < 8:
                    self.dead = True
                    for s in self.streams.values():
                        s.ended = s.closed = True
                    self.changed.notify_all()
                    return
                assert zero == 0
                s = self.streams[number]
                if kind == GIVE and not s.close_sent:
                    s.came.append(data)
                s.credit += n if kind == CREDIT else 0
                s.ended |= kind in (EOF, CLOSE)
                s.closed |= kind == CLOSE
                if kind == CLOSE and not s.close_sent:
                    s.close_sent = True
                    self.send(mux_frame(CLOSE, number))
                self.forget(s)
                self.changed.notify_all()

    def stream(self, timeout=60):
        with self.changed:
            if self.dead:
                raise ConnectionError("the relay is gone")
            number = next(i for i in range(512) if i not in self.streams)
            s = self.streams[number] = Stream(self, number, timeout)
            self.send(mux_frame(OPEN, number))
        return s

    def connect(self, timeout=60):
        return Conn(self.stream(timeout))

    def end(self):
        """As when the channel ends. Its exit status."""
        self.process.stdin.close()
        status = self.process.wait(30)
        self.reader.join(10)
        return status

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.stdin.close()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.reader.join(10)
        self.process.stdout.close()
        self.process.stderr.close()


def wait_for(what, timeout=30):
    end = time.monotonic() + timeout
    while not what():
        assert time.monotonic() < end, "it did not come to be"
        time.sleep(0.01)
