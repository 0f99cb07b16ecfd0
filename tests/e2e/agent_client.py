"""A small client of the agent protocol (src/agent/proto.h), and boxes made by boxinit.

It drives the release boxinit directly, without the server, so that what a box does can be
tested on its own.
"""

import ctypes
import fcntl
import os
import re
import shutil
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

BUILD = os.environ.get(
    "ANYBOX_BUILD", os.path.join(os.path.dirname(__file__), "..", "..", "build"))
BOXINIT = os.path.abspath(os.path.join(BUILD, "boxinit"))

EXEC, ATTACH, INPUT, DETACH, KILL, STATE = 1, 2, 3, 4, 5, 6
STAT, LIST, READ, WRITE, MKDIR, REMOVE = 10, 11, 12, 13, 14, 15
USAGE, EXTEND, SHUTDOWN, TCP, UNIX = 20, 21, 22, 24, 25
HELLO, STARTED, DATA, ENDED, TASK, ENTRY, CHUNK, USAGE_IS, OK, FAIL = range(64, 74)
SPEC, BORN, PREPARED, ORDER, READY = range(100, 105)
PARENTS, APPEND, NEW = 1, 2, 4

KINDS = ["none", "invalid", "not_found", "exists", "denied", "unsupported", "limit", "timeout",
         "cancelled", "unreachable", "protocol", "system", "bug", "gone"]

HAS_SCOPES = ctypes.CDLL(None).syscall(444, None, 0, 1) >= 6  # Landlock's, as the server asks for them
# A tmpfs with other owners (src/boxinit/skeleton.c).
HAS_SHARED_ROOTS = os.geteuid() == 0 and tuple(int(n) for n in re.findall(r"\d+", os.uname().release)[:2]) >= (6, 3)

PATH = "/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin"
ENV = ["PATH=" + PATH, "HOME=/home/user", "USER=user", "LANG=C.UTF-8", "TERM=dumb"]
RO_BINDS = ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"]
ETC_BINDS = ["alternatives", "ld.so.cache", "ld.so.conf", "ld.so.conf.d", "ssl", "python3",
             "python3.11", "localtime", "no-such-thing"]


def u8(v):
    return struct.pack("<B", v)


def u32(v):
    return struct.pack("<I", v)


def u64(v):
    return struct.pack("<Q", v)


def text(v):
    v = v.encode() if isinstance(v, str) else v
    return u32(len(v)) + v


def names(items):
    return u32(len(items)) + b"".join(text(i) for i in items)


def frame(kind, fields=b""):
    return u32(len(fields) + 1) + u8(kind) + fields


def forget_syscall(nr):
    """From here on this process and its children are on a kernel without that system call."""
    class Program(ctypes.Structure):
        _fields_ = [("len", ctypes.c_ushort), ("code", ctypes.c_void_p)]

    code = ctypes.create_string_buffer(
        struct.pack("<HBBI", 0x20, 0, 0, 0) +       # load the number
        struct.pack("<HBBI", 0x15, 0, 1, nr) +      # is it this one?
        struct.pack("<HBBI", 0x06, 0, 0, 0x50026) +  # ENOSYS
        struct.pack("<HBBI", 0x06, 0, 0, 0x7fff0000))
    libc = ctypes.CDLL(None)
    libc.prctl(38, 1, 0, 0, 0)
    assert libc.prctl(22, 2, ctypes.byref(Program(4, ctypes.addressof(code))), 0, 0) == 0


def place_fds(fds):
    """In a child: these are 3, 4 and so on, and nothing else is open above stderr."""
    copies = [fcntl.fcntl(fd, fcntl.F_DUPFD, 3 + len(fds)) for fd in fds]
    for i, fd in enumerate(copies):
        os.dup2(fd, 3 + i)
    os.closerange(3 + len(fds), os.sysconf("SC_OPEN_MAX"))


class Fields:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, n):
        piece = self.data[self.at:self.at + n]
        assert len(piece) == n, "a field is missing"
        self.at += n
        return piece

    def u8(self):
        return self.take(1)[0]

    def u32(self):
        return struct.unpack("<I", self.take(4))[0]

    def u64(self):
        return struct.unpack("<Q", self.take(8))[0]

    def text(self):
        return self.take(self.u32())

    def done(self):
        assert self.at == len(self.data), "bytes are left over"


class Failed(Exception):
    def __init__(self, kind, errnum, message):
        super().__init__(f"{kind}: {message}")
        self.kind, self.errnum, self.message = kind, errnum, message


def failed(fields, control=False):
    f = Fields(fields)
    kind, errnum, message = KINDS[f.u8()], f.u32(), f.text().decode()
    if control:
        assert f.u8() in range(4)  # the step
    f.done()
    return Failed(kind, errnum, message)


class Ending:
    """The fields of ENDED."""

    def __init__(self, f):
        self.signaled = f.u8() == 1
        self.code = f.u32()
        self.timed_out = f.u8() == 1
        self.oom = ["no", "yes", "unknown"][f.u8()]
        limits = f.u8()
        self.limits = [name for bit, name in enumerate(("memory", "pids", "disk")) if limits >> bit & 1]
        self.wall_ms = f.u64()
        self.out_bytes, self.err_bytes = f.u64(), f.u64()


class Entry:
    def __init__(self, fields):
        f = Fields(fields)
        self.path = f.text().decode("utf-8", "surrogateescape")
        self.type = ["file", "dir", "link", "other"][f.u8()]
        self.mode, self.size, self.mtime = f.u32(), f.u64(), f.u64()
        f.done()


def dial(folder, timeout=60):
    """A connection to the agent whose socket lies in that folder."""
    sock = socket.socket(socket.AF_UNIX)
    sock.settimeout(timeout)
    fd = os.open(folder, os.O_PATH)
    try:
        while True:
            try:
                sock.connect(f"/proc/self/fd/{fd}/agent.sock")
                return sock
            except BlockingIOError:  # more wait to be accepted than the kernel queues
                time.sleep(0.001)
    except BaseException:
        sock.close()
        raise
    finally:
        os.close(fd)


class Conn:
    """One conversation, over anything that is like a socket."""

    def __init__(self, sock):
        self.sock = sock
        self.buf = b""
        self.out, self.err = bytearray(), bytearray()
        self.at = [0, 0]
        self.lost = [0, 0]
        self.pid = None

    def close(self):
        self.sock.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def send(self, kind, fields=b""):
        self.sock.sendall(frame(kind, fields))

    def fill(self):
        got = self.sock.recv(1 << 20)
        self.buf += got
        return len(got) > 0

    def recv(self):
        """The next frame but HELLO; (None, b"") at the end."""
        while True:
            if len(self.buf) >= 4:
                n = struct.unpack("<I", self.buf[:4])[0]
                if len(self.buf) >= 4 + n:
                    kind, fields = self.buf[4], self.buf[5:4 + n]
                    self.buf = self.buf[4 + n:]
                    if kind == HELLO:
                        f = Fields(fields)
                        assert (f.u32(), f.u32()) == (3, 1)
                        f.done()
                        continue
                    return kind, fields
            if not self.fill():
                return None, b""

    def ask(self, kind, fields=b"", want=OK):
        self.send(kind, fields)
        return self.answer(want)

    def answer(self, want=OK):
        kind, fields = self.recv()
        if kind == FAIL:
            raise failed(fields)
        assert kind == want, f"frame {kind}, not {want}"
        return fields

    def start(self, argv, id="", cwd="", env=(), stdin=None, timeout_ms=0, grace_ms=200,
              keep=False):
        self.send(EXEC, text(id) + names(argv) + text(cwd) + names(env) +
                  u8((0 if stdin is None else 1) | (2 if keep else 0)) + u64(timeout_ms) + u32(grace_ms))
        if stdin is not None and stdin is not True:
            # Beside the reading: a command may answer before it has read everything.
            threading.Thread(target=self.feed, args=(stdin,), daemon=True).start()

    def feed(self, data, end=True):
        data = data.encode() if isinstance(data, str) else data
        try:
            for i in range(0, len(data), 65536):
                self.send(INPUT, text(data[i:i + 65536]))
            if end:
                self.send(INPUT, text(b""))
        except OSError:
            pass  # the command has ended without it

    def next(self):
        """One step of an attached conversation: STARTED, DATA or ENDED (returned)."""
        kind, fields = self.recv()
        if kind == FAIL:
            raise failed(fields)
        f = Fields(fields)
        if kind == STARTED:
            self.pid = f.u32()
            return None
        if kind == DATA:
            stream, offset, data = f.u8(), f.u64(), f.text()
            assert offset >= self.at[stream], "data came twice"
            self.lost[stream] += offset - self.at[stream]
            self.at[stream] = offset + len(data)
            (self.out, self.err)[stream].extend(data)
            return None
        assert kind == ENDED, f"frame {kind} while attached"
        ending = Ending(f)
        f.done()
        return ending

    def wait_started(self):
        while self.pid is None:
            assert self.next() is None

    def wait_output(self, word, timeout=60):
        end = time.monotonic() + timeout
        while word not in self.out:
            assert time.monotonic() < end, f"no {word!r} in {bytes(self.out)!r}"
            assert self.next() is None, bytes(self.out)

    def wait(self):
        while True:
            ending = self.next()
            if ending is not None:
                assert self.at == [ending.out_bytes, ending.err_bytes]
                return ending

    def attach(self, id, from_out=0, from_err=0):
        self.at = [from_out, from_err]
        self.send(ATTACH, text(id) + u64(from_out) + u64(from_err))


class Result:
    def __init__(self, conn, ending):
        self.out, self.err = bytes(conn.out), bytes(conn.err)
        self.pid, self.ending = conn.pid, ending
        self.code = -ending.code if ending.signaled else ending.code

    @property
    def text(self):
        return self.out.decode()


class Agent:
    """What can be asked of one; connect() is for those who have one."""

    def run(self, argv, **kw):
        with self.connect() as c:
            c.start(argv, **kw)
            return Result(c, c.wait())

    def sh(self, script, **kw):
        return self.run(["bash", "-c", script], **kw)

    def state(self, id):
        with self.connect() as c:
            f = Fields(c.ask(STATE, text(id), want=TASK))
            assert f.text().decode() == id
            running = f.u8() == 1
            return running, Ending(f)

    def kill_task(self, id, grace_ms=0):
        with self.connect() as c:
            c.ask(KILL, text(id) + u32(grace_ms))

    def stat(self, path, follow=True):
        with self.connect() as c:
            return Entry(c.ask(STAT, text(path) + u8(follow), want=ENTRY))

    def list(self, path, recursive=False, limit=10000):
        entries = []
        with self.connect() as c:
            c.send(LIST, text(path) + u8(recursive) + u32(limit))
            while True:
                kind, fields = c.recv()
                if kind == FAIL:
                    raise failed(fields)
                if kind == OK:
                    return entries, fields == b"\1"
                assert kind == ENTRY
                entries.append(Entry(fields))

    def read(self, path, start=0, limit=1 << 40):
        data = bytearray()
        with self.connect() as c:
            entry = Entry(c.ask(READ, text(path) + u64(start) + u64(limit), want=ENTRY))
            while True:
                kind, fields = c.recv()
                if kind == FAIL:
                    raise failed(fields)
                if kind == OK:
                    return bytes(data), entry
                assert kind == CHUNK
                data += Fields(fields).text()

    def write(self, path, data, mode=0, flags=0, chunk=65536):
        data = data.encode() if isinstance(data, str) else data
        with self.connect() as c:
            c.send(WRITE, text(path) + u32(mode) + u8(flags))
            for i in range(0, len(data), chunk):
                c.send(CHUNK, text(data[i:i + chunk]))
            return Entry(c.ask(CHUNK, text(b""), want=ENTRY))

    def mkdir(self, path):
        with self.connect() as c:
            c.ask(MKDIR, text(path))

    def remove(self, path):
        with self.connect() as c:
            c.ask(REMOVE, text(path))

    def usage(self):
        with self.connect() as c:
            f = Fields(c.ask(USAGE, want=USAGE_IS))
        keys = ["memory", "memory_limit", "disk", "disk_total"]
        got = {k: f.u64() for k in keys}
        got["processes"], got["tasks"] = f.u32(), f.u32()
        got["idle_ms"], got["left_ms"] = f.u64(), f.u64()
        f.done()
        return got

    def extend(self, lifetime_ms=0, idle_ms=0):
        with self.connect() as c:
            c.ask(EXTEND, u64(lifetime_ms) + u64(idle_ms))

    def shutdown(self):
        with self.connect() as c:
            c.ask(SHUTDOWN)


class Maker:
    """What a server has its plain boxes made by."""

    def __init__(self, prefix=(), without=()):
        self.to, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)

        def place():
            place_fds([theirs.fileno()])
            for nr in without:
                forget_syscall(nr)

        with theirs:
            self.process = subprocess.Popen([*prefix, BOXINIT, "maker"], preexec_fn=place, close_fds=False, env={},
                                            stdin=subprocess.DEVNULL)

    def send(self, spec, folder):
        """The control of a box that is to be made."""
        control, theirs = socket.socketpair()
        place = os.open(folder, os.O_PATH)
        with theirs:
            socket.send_fds(self.to, [spec], [theirs.fileno(), place])
        os.close(place)
        return control

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.to.close()
        assert self.process.wait(60) == 0


class Box(Agent):
    """A box with a folder of its own. mode: 0 one uid, 1 a range written by root."""

    def __init__(self, mode=None, env=ENV, ro_binds=RO_BINDS, etc_binds=ETC_BINDS, disk=64 << 20,
                 memory=0, pids=0, files=0, cgroups=(), oom_file="", memory_file="", pids_file="",
                 memory_limit=0, pids_limit=0, lifetime_ms=0, idle_ms=0, network=0, first=1_000_000_000,
                 first_gid=None, hostname="box", run_as=None, keep_fd=False, size=65536,
                 prefix=(), chown=None, without=(), raw_spec=None, raw_order=None, image="",
                 scoped=None, maker=None):
        root = os.geteuid() == 0
        if image:
            ro_binds, etc_binds = (), ()
            env = ["HOME=/root", "USER=root"] if env is ENV else env
        self.mode = (1 if root and run_as is None else 0) if mode is None else mode
        scoped = HAS_SCOPES if scoped is None else scoped
        self.folder = tempfile.mkdtemp(prefix="anybox-test-")
        self.pid = None
        if run_as is not None or chown is not None:
            owner = run_as if chown is None else chown
            os.chown(self.folder, owner, owner)
        spec = raw_spec if raw_spec is not None else (
            u8(self.mode) + u32(first) + u32(first if first_gid is None else first_gid) +
            u32(size) + names(ro_binds) + names(etc_binds) + names(cgroups) + text(oom_file) +
            text(memory_file) + text(pids_file) + u8(network) + u8(keep_fd) + u8(scoped) +
            text(image))
        order = raw_order if raw_order is not None else (
            text(hostname) + names(env) + u64(disk) + u64(memory) + u32(pids) + u32(files) +
            u64(memory_limit) + u32(pids_limit) + u64(lifetime_ms) + u64(idle_ms))
        try:
            if maker is not None:
                self.start_by(maker, frame(SPEC, spec), frame(ORDER, order))
            else:
                self.start(frame(SPEC, spec), frame(ORDER, order), run_as, list(prefix), without)
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    def start_by(self, maker, spec, order):
        with maker.send(spec, self.folder) as control:
            self.give_order(control, order)

    def start(self, spec, order, run_as, prefix, without):
        spec_file = os.memfd_create("spec")
        os.write(spec_file, spec)
        os.lseek(spec_file, 0, os.SEEK_SET)
        control, theirs = socket.socketpair()
        folder = os.open(self.folder, os.O_PATH)
        fds = [spec_file, theirs.detach(), folder]

        def place():
            place_fds(fds)
            if run_as is not None:
                os.setgroups([])
                os.setresgid(run_as, run_as, run_as)
                os.setresuid(run_as, run_as, run_as)
            for nr in without:
                forget_syscall(nr)

        with subprocess.Popen(prefix + [BOXINIT, "box"], preexec_fn=place, close_fds=False,
                              env={}, stdin=subprocess.DEVNULL) as p, control:
            for fd in fds:
                os.close(fd)
            self.give_order(control, order)
        assert p.returncode == (0 if self.pid else 1)

    def give_order(self, control, order):
        """The whole conversation on the control, up to READY."""
        control.settimeout(60)
        with control.makefile("rb") as said:
            def expect(want):
                head = said.read(4)
                assert len(head) == 4, f"boxinit ended before frame {want}"
                body = said.read(struct.unpack("<I", head)[0])
                if body[0] == FAIL:
                    raise failed(body[1:], control=True)
                assert body[0] == want, f"frame {body[0]}, not {want}"
                return body[1:]

            self.pid = struct.unpack("<I", expect(BORN))[0]
            assert expect(PREPARED) == b""
            control.sendall(order)
            assert expect(READY) == b""
            assert said.read() == b"", "PID 1 keeps its control"

    def connect(self, timeout=60):
        return Conn(dial(self.folder, timeout))

    def alive(self):
        try:
            with open(f"/proc/{self.pid}/stat") as f:
                return f.read().rsplit(")", 1)[1].split()[0] != "Z"
        except (FileNotFoundError, ProcessLookupError):
            return False

    def wait_gone(self, timeout=30):
        end = time.monotonic() + timeout
        while self.alive():
            assert time.monotonic() < end, "the box is still there"
            time.sleep(0.005)

    def ended(self):
        with open(os.path.join(self.folder, "end")) as f:
            return f.readline().rstrip("\n")

    def close(self):
        if self.pid is not None and self.alive():
            os.kill(self.pid, signal.SIGKILL)
            self.wait_gone()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
