# call.py - the way to the keeper that every box has, a process of its own; see core/python.h. It starts
# the keeper where there is none and tells where its socket is. What is read from standard input, if
# anything is, are frames for the keeper; what that says goes to standard output, as lines of base64: not
# every provider passes bytes on that are no text. Python 3.7 and its standard library; modules in C only,
# because each import costs more than the call. code_of(), KEEP, WORK and SHOW are in its namespace.
import _socket
import binascii
import fcntl
import os
import select
import sys

WHOSE = os.environ.pop("ANYBOX_WHOSE", "")
NAME = "1-" + "".join(c if c.isalnum() else "_" for c in os.uname().nodename)[:40] + (WHOSE and "-" + WHOSE)


def frame(kind, data):
    return (len(data) + 1).to_bytes(4, "big") + kind + data


def in_folder(folder, work):
    """Calls work() in a folder: an address holds about 100 bytes, and a path may be longer."""
    here = os.open(".", os.O_RDONLY)
    try:
        os.chdir(folder)
        return work()
    finally:
        os.fchdir(here)
        os.close(here)


def own_folder():
    """A folder that only this user can enter, for the socket."""
    home = os.environ.get("HOME", "")
    temporary = os.environ.get("TMPDIR") or "/tmp"
    tries = [temporary + "/anybox-python-%d" % os.getuid()]
    if home.startswith("/") and home != "/":
        tries.insert(0, home + "/.anybox/python")
    for folder in tries:
        try:
            os.makedirs(folder, 0o700, exist_ok=True)
            is_ours = os.lstat(folder)
            if is_ours.st_uid == os.getuid() and is_ours.st_mode & 0o170000 == 0o040000:
                os.chmod(folder, 0o700)
                return folder
        except OSError:
            pass
    sys.exit("no folder for the interpreter's socket can be made: %s" % ", ".join(tries))


def connect(folder):
    s = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        in_folder(folder, lambda: s.connect(NAME))
        return s
    except OSError:
        s.close()
        return None


def listen(folder):
    def bind():
        try:
            os.unlink(NAME)
        except OSError:
            pass
        s.bind(NAME)
        os.chmod(NAME, 0o600)

    s = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    in_folder(folder, bind)
    s.listen(64)
    return s


def keep(listener, folder):
    """The keeper: nobody's child once we have ended, which must not take it along."""
    os.setsid()
    null = os.open("/dev/null", os.O_RDWR)
    for fd in range(3):  # the command ends when nobody has its streams any more
        os.dup2(null, fd)
    os.close(null)
    try:
        exec(code_of("keep", KEEP), {"listener": listener, "place": (folder, NAME), "code_of": code_of,
                                     "WORK": WORK, "SHOW": SHOW})
    finally:
        os._exit(0)


def start(folder):
    """A connection to the keeper, which is started where there is none. From the moment on when
    somebody listens there, that is told: whoever asked comes while the keeper begins."""
    lock = os.open(folder + "/lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    s = connect(folder)
    if s is None:
        listener = listen(folder)
        s = connect(folder)
        tell(folder)
        if os.fork() == 0:
            os.close(lock)
            s.close()
            keep(listener, folder)
        listener.close()
    else:
        tell(folder)
    os.close(lock)
    return s


def tell(folder):
    say(frame(b"P", (folder + "/" + NAME).encode("utf-8", "surrogateescape")))


def read_all(fd):
    parts = []
    while True:
        part = os.read(fd, 1 << 16)
        if not part:
            return b"".join(parts)
        parts.append(part)


def say(data):
    line = binascii.b2a_base64(data)
    while line:
        line = line[os.write(1, line):]


def call():
    request = read_all(0)
    folder = own_folder()
    s = connect(folder)
    if s is not None:
        tell(folder)
    else:
        s = start(folder)
    if s is None:
        sys.exit("the interpreter could not be started")
    if request:
        relay(s, request)


def relay(s, request):
    s.sendall(request)
    both = select.poll()
    both.register(s.fileno(), select.POLLIN)
    both.register(1, 0)
    while True:
        # Where nobody listens any more, the rest stays with the keeper for who asks for it.
        if 1 in dict(both.poll()):
            return
        data = s.recv(1 << 16)
        if not data:
            return
        say(data)


call()
os._exit(0)  # Python's own end would take a third of the time of all this
