# keep.py - the keeper: owns the interpreter of a box, a process of its own that runs the code;
# takes calls from a unix socket, one after the other, passes on what is printed, keeps the time,
# and tells how it ended, whatever the code did to its process. No code of anybody runs in here, so
# a fresh interpreter is a fork away. `listener`, `place`, code_of(), WORK and SHOW are in its namespace.
import _signal
import _socket
import os
import select
import sys
import time

GRACE = 2  # seconds between the interrupt and the end
ALIVE = 5  # a client hears from us at least so often
IDLE = 60  # a connection without a call
LEAVE = 24 * 3600  # without any call
SPOOL_HEAD = 64 << 10  # of what is printed while nobody listens
SPOOL_TAIL = 960 << 10
FRAME_MAX = 8 << 20
BEHIND = 256 << 10  # of a client that does not read: the code waits
DRAIN = 4 << 20  # what lies in the pipes at the end
PART = 1 << 16
BOTH = select.POLLIN | select.POLLOUT


def frame(kind, data):
    return (len(data) + 1).to_bytes(4, "big") + kind + data


def split(data):
    """The first whole frame: (kind, payload, length of all), or None."""
    if len(data) < 5:
        return None
    size = int.from_bytes(data[:4], "big")
    if not 0 < size <= FRAME_MAX:
        raise ValueError("a frame of %d bytes" % size)
    if len(data) < 4 + size:
        return None
    return bytes(data[4:5]), bytes(data[5:4 + size]), 4 + size


class Spool:
    """What is printed while nobody listens: the beginning, the end, and how much is missing."""

    def __init__(self):
        self.head, self.tail, self.lost = bytearray(), bytearray(), 0

    def add(self, data):
        room = SPOOL_HEAD - len(self.head) if not self.tail else 0
        self.head += data[:room]
        self.tail += data[room:]
        if len(self.tail) > 2 * SPOOL_TAIL:
            self.lost += len(self.tail) - SPOOL_TAIL
            del self.tail[:-SPOOL_TAIL]

    def frames(self, kind):
        if not self.head:
            return []
        out = [frame(kind, bytes(self.head[i:i + PART])) for i in range(0, len(self.head), PART)]
        if self.lost:
            out.append(frame(b"L", kind + b"%d" % self.lost))
        out += [frame(kind, bytes(self.tail[i:i + PART])) for i in range(0, len(self.tail), PART)]
        self.__init__()
        return out


class Client:
    def __init__(self, sock):
        sock.setblocking(False)
        self.sock, self.fd, self.got, self.out = sock, sock.fileno(), bytearray(), bytearray()
        self.heard = self.told = time.monotonic()
        self.call = None
        self.closing = self.dead = self.holds = False

    def say(self, *frames):
        for f in frames:
            self.out += f
        self.told = time.monotonic()
        self.flush()

    def flush(self):
        try:
            while self.out:
                del self.out[:self.sock.send(self.out[:1 << 18])]
        except BlockingIOError:
            pass
        except OSError:
            self.dead = True
            self.out.clear()


class Call:
    def __init__(self, client, payload):
        head, _, code = payload.partition(b"\n\n")
        order = dict(line.partition(b"=")[::2] for line in head.split(b"\n"))
        self.client, self.payload, self.has_code = client, payload, bool(code)
        self.token = order[b"token"][:32].ljust(32, b"0")
        self.reset = order.get(b"reset") == b"1"
        self.collect = order.get(b"collect") == b"1"
        self.once = order.get(b"once") == b"1"
        self.timeout = int(order.get(b"timeout_ms", 0)) / 1000
        self.window = int(order.get(b"window_ms", 0)) / 1000
        self.asked = time.monotonic()
        self.began = None
        self.interrupted = None  # when
        self.cancelled = self.killed = self.is_first = False
        self.results = []


class Interpreter:
    """The process that runs code: its pipes, its channel."""

    def __init__(self, keeper):
        ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_STREAM, 0)
        pipes = [os.pipe(), os.pipe()]
        try:
            self.pid = os.fork()
        except OSError:
            for fd in pipes[0] + pipes[1]:
                os.close(fd)
            raise
        if self.pid == 0:
            try:
                self.become(keeper, ours, theirs, pipes)
            finally:
                os._exit(70)
        theirs.close()
        ours.setblocking(False)
        self.channel, self.fd, self.got, self.out = ours, ours.fileno(), bytearray(), bytearray()
        self.pipes = [pipe[0] for pipe in pipes]
        for pipe in pipes:
            os.close(pipe[1])
            os.set_blocking(pipe[0], False)
        self.ended = [False, False]  # of the pipes: nobody can write any more
        self.deaf = False  # of the channel, the same
        self.calls = 0
        self.status = None

    @staticmethod
    def become(keeper, ours, theirs, pipes):
        os.setsid()
        _signal.set_wakeup_fd(-1)
        for number in (_signal.SIGCHLD, _signal.SIGTERM, _signal.SIGHUP, _signal.SIGPIPE):
            _signal.signal(number, _signal.SIG_DFL)
        try:
            with open("/proc/self/oom_score_adj", "w") as f:
                f.write("1000")  # memory that is short is rather had from the code than from us
        except OSError:
            pass
        os.dup2(pipes[0][1], 1)
        os.dup2(pipes[1][1], 2)
        mine = theirs.detach()
        for fd in keeper.descriptors() + [ours.detach()] + [fd for pipe in pipes for fd in pipe]:
            os.close(fd)
        exec(WORK_CODE, {"channel": mine, "code_of": code_of, "SHOW": SHOW, "VENDOR": "<anybox>"})

    def send(self, data):
        self.out += data
        self.flush()

    def flush(self):
        try:
            while self.out:
                del self.out[:self.channel.send(self.out[:1 << 18])]
        except BlockingIOError:
            pass
        except OSError:
            self.out.clear()

    def signal(self, number):
        try:
            os.killpg(self.pid, number)
        except OSError:
            pass

    def has_ended(self):
        """Its group ends with it, while the number is still its own."""
        if self.status is None and hasattr(os, "waitid"):
            if os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                return False
            self.signal(_signal.SIGKILL)
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = status if pid else None
        return self.status is not None

    def close(self):
        self.channel.close()
        for fd in self.pipes:
            os.close(fd)


class Keeper:
    def __init__(self, listener):
        listener.setblocking(False)
        self.listener = listener
        self.clients, self.queue = [], []
        self.current = self.interpreter = None
        self.kept = None  # frames of a call that was left, and has ended
        self.spools = (Spool(), Spool())
        self.used = time.monotonic()
        self.poller, self.polled = None, None  # who is listened to
        self.wake = os.pipe()
        for fd in self.wake:
            os.set_blocking(fd, False)
        _signal.set_wakeup_fd(self.wake[1])
        _signal.signal(_signal.SIGCHLD, lambda *_: None)
        _signal.signal(_signal.SIGPIPE, _signal.SIG_IGN)

    def descriptors(self):
        return [self.listener.fileno(), *self.wake] + [c.sock.fileno() for c in self.clients]

    # ---- what is printed ---------------------------------------------------------------

    def listening(self):
        return self.current.client if self.current else None

    def printed(self, which, data):
        client = self.listening()
        if client is None or client.dead:
            self.spools[which].add(data)
        else:
            client.say(frame(b"OE"[which:which + 1], data))

    def read_pipes(self, most):
        for which, fd in enumerate(self.interpreter.pipes):
            left = most
            while left > 0:
                try:
                    data = os.read(fd, PART)
                except OSError:
                    break
                if not data:
                    self.interpreter.ended[which] = True
                    break
                left -= len(data)
                self.printed(which, data)

    # ---- the interpreter ---------------------------------------------------------------

    def end_interpreter(self):
        """It is over, or is to be: all of its processes end."""
        i, self.interpreter = self.interpreter, None
        if i.status is None:
            i.signal(_signal.SIGKILL)
            os.waitpid(i.pid, 0)
        i.close()

    def hear(self):
        i = self.interpreter
        try:
            data = i.channel.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        i.got += data
        if not data:
            self.disturbed()
        while True:
            try:
                first = split(i.got)
            except ValueError:
                self.disturbed()
                return
            if first is None:
                return
            kind, payload, size = first
            del i.got[:size]
            call = self.current
            # What does not know this call's token is not about it.
            if call is None or payload[:32] != call.token:
                continue
            if kind == b"D":
                self.read_pipes(DRAIN)
                self.finish(call, payload[32:])
                return
            if kind in b"VIFNX" and len(call.results) < 200:
                call.results.append(frame(kind, payload[32:]))

    def disturbed(self):
        """The code has closed our channel, or has written into it."""
        self.interpreter.deaf = True
        self.interpreter.got.clear()
        self.interpreter.signal(_signal.SIGKILL)

    def died(self):
        self.read_pipes(DRAIN)
        status = self.interpreter.status
        call = self.current
        self.end_interpreter()
        if call is None:
            return
        if os.WIFSIGNALED(status):
            end = b"signal=%d\n" % os.WTERMSIG(status)
        else:
            end = b"exit=%d\n" % os.WEXITSTATUS(status)
        self.finish(call, end + b"restarted=1\n")

    def finish(self, call, end):
        if call.interrupted is not None and not call.cancelled:
            end += b"timed_out=1\n"
        if call.killed:
            end += b"killed=1\n"
        end += b"first=%d\nms=%d\n" % (call.is_first, (time.monotonic() - call.began) * 1000)
        frames = call.results + [frame(b"D", end)]
        self.current = None
        self.used = time.monotonic()
        if call.client is None or call.client.dead:
            self.kept = None if call.cancelled else [*self.spools[0].frames(b"O"), *self.spools[1].frames(b"E"), *frames]
        else:
            self.answer(call, frames)

    @staticmethod
    def answer(call, frames):
        client = call.client
        client.say(*frames)
        client.call = None
        client.heard = time.monotonic()
        client.closing = call.once

    # ---- calls -------------------------------------------------------------------------

    def begin(self, call, now):
        if call.reset and self.interpreter is not None and self.interpreter.calls:
            self.end_interpreter()
        if call.reset or call.has_code:
            self.kept = None
        if self.interpreter is None:
            try:
                self.interpreter = Interpreter(self)
            except OSError as problem:
                self.answer(call, [frame(b"D", b"problem=%s\n" % str(problem).encode())])
                return
        call.is_first = self.interpreter.calls == 0
        self.interpreter.calls += 1
        call.began = now
        self.current = call
        call.client.say(*self.spools[0].frames(b"O"), *self.spools[1].frames(b"E"))
        self.interpreter.send(frame(b"C", call.payload))
        call.payload = None

    def take(self, call):
        """A call that only asks for the end of one that was left."""
        if self.kept is not None:
            frames, self.kept = self.kept, None
            self.answer(call, frames)
        elif self.current is not None and self.current.client is None:
            left = self.current
            left.client, call.client.call = call.client, left
            left.asked, left.window, left.once = call.asked, call.window, call.once
            left.timeout = call.asked - left.began + call.timeout if call.timeout else 0
            call.client.say(*self.spools[0].frames(b"O"), *self.spools[1].frames(b"E"))
        elif self.current is None and self.queue[0] is call:
            self.answer(call, [frame(b"D", b"nothing=1\n")])
        else:
            return False
        return True

    def next_call(self, now):
        """What can begin, does."""
        if not self.queue:
            return
        for call in [c for c in self.queue if c.collect]:
            if self.take(call):
                self.queue.remove(call)
        while self.queue and self.current is None:
            call = self.queue[0]
            if call.collect and not self.take(call):
                return
            self.queue.remove(call)
            if not call.collect:
                self.begin(call, now)
        if self.current is not None and self.current.client is None and any(c.reset for c in self.queue):
            self.end_interpreter()
            self.current = None
            self.next_call(now)

    def interrupt(self, call, now):
        if call.interrupted is None:
            call.interrupted = now
            self.interpreter.signal(_signal.SIGINT)

    def leave(self, call, why):
        client, call.client = call.client, None
        client.call = None
        client.say(frame(b"D", why))
        client.closing = call.once

    def watch_call(self, now):
        call = self.current
        if call is None:
            return
        if call.timeout and now - call.began >= call.timeout:
            self.interrupt(call, now)
        if call.interrupted is not None and now - call.interrupted >= GRACE and not call.killed:
            call.killed = True
            self.interpreter.signal(_signal.SIGKILL)
        if call.client is not None and not call.timeout and call.window and now - call.asked >= call.window:
            self.leave(call, b"left=1\nms=%d\n" % ((now - call.began) * 1000))

    def watch_queue(self, now):
        for call in list(self.queue):
            most = max(call.timeout, call.window)
            if most and now - call.asked >= most:
                self.queue.remove(call)
                busy = now - self.current.began if self.current else 0
                self.answer(call, [frame(b"D", b"busy=1\nms=%d\n" % (busy * 1000))])

    # ---- clients -----------------------------------------------------------------------

    def ordered(self, client, payload):
        client.call = Call(client, payload)
        self.queue.append(client.call)

    def cancel(self, call):
        if call is self.current:
            call.cancelled = True
            self.interrupt(call, time.monotonic())
        elif call in self.queue:
            self.queue.remove(call)
            self.answer(call, [frame(b"D", b"nothing=1\n")])

    def listen_to(self, client):
        try:
            data = client.sock.recv(1 << 18)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            client.dead = True
            return
        client.heard = time.monotonic()
        client.got += data
        while True:
            first = split(client.got)
            if first is None:
                return
            kind, payload, size = first
            del client.got[:size]
            if kind == b"C" and client.call is None:
                self.ordered(client, payload)
            elif kind == b"H":
                client.holds = True
            elif kind == b"K" and client.call is not None:
                self.cancel(client.call)
            elif kind == b"K":
                client.closing = True
                if self.current is not None and payload == self.current.token:
                    self.cancel(self.current)
            else:
                raise ValueError("a frame that makes no sense here")

    def watch_clients(self, now):
        for client in self.clients:
            if client.call is not None and now - client.told >= ALIVE:
                client.say(frame(b"W", b"running" if client.call is self.current else b"waiting"))
            if client.holds:
                client.dead = client.dead or self.current is None
            elif client.call is None and (client.closing and not client.out or now - client.heard >= IDLE):
                client.dead = True
        for client in [c for c in self.clients if c.dead]:
            self.clients.remove(client)
            client.sock.close()
            call = client.call
            if call is self.current and call is not None:
                call.client = None  # it goes on; who asks gets its end
            elif call in self.queue:
                self.queue.remove(call)

    # ---- the loop ----------------------------------------------------------------------

    def accept(self):
        try:
            fd, _ = self.listener._accept()
            self.clients.append(Client(_socket.socket(fileno=fd)))
        except OSError:
            pass

    def watched(self):
        """{descriptor: events}"""
        fds = {self.listener.fileno(): select.POLLIN, self.wake[0]: select.POLLIN}
        for client in self.clients:
            fds[client.fd] = BOTH if client.out else select.POLLIN
        i = self.interpreter
        if i is not None:
            if not i.deaf:
                fds[i.fd] = BOTH if i.out else select.POLLIN
            client = self.listening()
            if client is None or len(client.out) < BEHIND:
                for fd, ended in zip(i.pipes, i.ended):
                    if not ended:
                        fds[fd] = select.POLLIN
        return fds

    def poll(self, now):
        fds = self.watched()
        if fds != self.polled:
            self.poller, self.polled = select.poll(), fds
            for fd, events in fds.items():
                self.poller.register(fd, events)
        return dict(self.poller.poll(self.wait(now) * 1000))

    def wait(self, now):
        call, times = self.current, [now + ALIVE]
        if call is not None:
            times += [call.began + call.timeout] if call.timeout and call.interrupted is None else []
            times += [call.interrupted + GRACE] if call.interrupted is not None and not call.killed else []
            times += [call.asked + call.window] if call.client is not None and call.window else []
        times += [c.asked + max(c.timeout, c.window) for c in self.queue if c.timeout or c.window]
        if call is None and not self.clients:
            times = [now + LEAVE]
        return max(0, min(times) - now)

    def turn(self):
        ready = self.poll(time.monotonic())
        if self.wake[0] in ready:
            os.read(self.wake[0], 512)
        i = self.interpreter
        if i is not None:
            if any(fd in ready for fd in i.pipes):
                self.read_pipes(PART)
            if i.fd in ready:
                i.flush()
                self.hear()
        for client in list(self.clients):
            events = ready.get(client.fd)
            if not events:
                continue
            try:
                if events & select.POLLOUT:
                    client.flush()
                if events & ~select.POLLOUT:
                    self.listen_to(client)
            except (ValueError, KeyError):
                client.dead = True
        if self.listener.fileno() in ready:
            self.accept()
        now = time.monotonic()
        i = self.interpreter
        # An end makes itself known by a signal; each long wait looks, too.
        if i is not None and (self.wake[0] in ready or i.deaf or not ready) and i.has_ended():
            self.died()
        self.watch_call(now)
        self.watch_queue(now)
        self.next_call(now)
        self.watch_clients(now)
        return self.current is not None or self.clients or now - self.used < LEAVE

    def run(self):
        try:
            self.interpreter = Interpreter(self)  # while whoever started us comes back with the first call
        except OSError:
            pass  # that call tells
        while self.turn():
            pass
        if self.interpreter is not None:
            self.end_interpreter()
        os.unlink("/".join(place))


os.closerange(3, listener.fileno())
os.closerange(listener.fileno() + 1, 1024)
WORK_CODE = code_of("work", WORK)
Keeper(listener).run()
