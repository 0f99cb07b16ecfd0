# work.py - the interpreter: runs the code of each call in one namespace and tells what came of it.
# `channel` (a descriptor), SHOW (source for what is seldom needed), code_of() and VENDOR (the name of our
# own sources in tracebacks) are in its namespace.
import _ast
import _signal
import _socket
import os
import sys

FILES_MAX = 2000  # of the work folder, that are looked at
SOURCES_MAX = 64  # of earlier calls, for tracebacks
PLAIN = (bool, int, float, complex)
PASSED_OVER = ("__pycache__", "node_modules")
AWAIT = getattr(_ast, "PyCF_ALLOW_TOP_LEVEL_AWAIT", 0x2000 if sys.version_info >= (3, 8) else 0)


def frame(kind, data):
    return (len(data) + 1).to_bytes(4, "big") + kind + data


def read_call():
    got, size = b"", 4
    while len(got) < size:
        part = wire.recv(1 << 16)  # one call comes after the answer to another: nothing is behind it
        if not part:
            os._exit(0)  # the keeper has gone
        got += part
        size = 4 + int.from_bytes(got[:4], "big")
    head, _, code = got[5:].partition(b"\n\n")
    return dict(line.partition(b"=")[::2] for line in head.split(b"\n")), code


def look():
    """The files of the work folder: {path: what changes with it}, and whether there are more."""
    seen, folders, left = {}, [work], FILES_MAX
    while folders:
        try:
            entries = os.scandir(folders.pop())
        except OSError:
            continue
        with entries:
            for entry in entries:
                left -= 1
                if left < 0:
                    return seen, True
                if entry.name.startswith(".") or entry.name in PASSED_OVER:
                    continue
                try:
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
                    elif entry.is_file(follow_symlinks=False):
                        is_now = entry.stat(follow_symlinks=False)
                        seen[entry.path] = is_now.st_mtime_ns, is_now.st_size, is_now.st_ino
                except OSError:
                    pass
    return seen, False


def changed(before, after):
    new = [path for path, now in after.items() if before.get(path) != now]
    return sorted(new, key=lambda path: after[path][0])


class State:
    running = False
    loop = None
    show = None
    changes = None


def interrupted(*_):
    if State.running:
        raise KeyboardInterrupt


def show():
    """What only some calls need is compiled by the first that does."""
    if State.show is None:
        State.show = {"VENDOR": VENDOR, "library": library, "work": work, "sources": sources}
        exec(code_of("show", SHOW), State.show)
    return State.show


def library(name):
    """A module of the standard library, whatever files lie in the working folder."""
    path = sys.path
    sys.path = standard_path
    try:
        return __import__(name)
    finally:
        sys.path = path


def open_streams():
    """The streams as the code finds them, whatever earlier code did to them."""
    os.dup2(null, 0, inheritable=True)
    os.dup2(saved[0], 1, inheritable=True)
    os.dup2(saved[1], 2, inheritable=True)
    for name, fd in ("stdout", 1), ("stderr", 2):
        if getattr(getattr(sys, name), "closed", True):
            setattr(sys, name, open(fd, "w", 1, "utf-8", "backslashreplace", closefd=False))
    if getattr(sys.stdin, "closed", True):
        sys.stdin = open(0, "r", encoding="utf-8", closefd=False)


def flush():
    for stream in sys.stdout, sys.stderr:
        try:
            stream.flush()
        except Exception:
            pass


def run(code):
    """Runs it; the value of its last line, where that is an expression."""
    result = eval(code, names)
    if code.co_flags & 0x80:  # it awaits
        asyncio = library("asyncio")
        if State.loop is None or State.loop.is_closed():
            State.loop = asyncio.new_event_loop()
            asyncio.set_event_loop(State.loop)
        result = State.loop.run_until_complete(result)
    return result


def run_all(text, name):
    try:
        text = text.decode()
    except UnicodeDecodeError:
        pass  # compile() has the words for that
    tree = compile(text, name, "exec", _ast.PyCF_ONLY_AST | AWAIT, True)
    last = None
    if tree.body and isinstance(tree.body[-1], _ast.Expr):
        last = _ast.Expression(tree.body.pop().value)
    if tree.body:
        run(compile(tree, name, "exec", AWAIT, True))
    return None if last is None else run(compile(last, name, "eval", AWAIT, True))


def find_packages():
    """Folders of packages that were made after the start, and packages that were installed since."""
    for folder in package_folders:
        if folder not in sys.path and is_ours(folder):
            sys.path.append(folder)
            library("importlib").invalidate_caches()
    changes = last_changes()
    if changes != State.changes:
        State.changes = changes
        library("importlib").invalidate_caches()


def is_ours(folder):
    try:
        found = os.stat(folder)
    except OSError:
        return False
    return found.st_uid == os.getuid() and found.st_mode & 0o170000 == 0o040000


def last_changes():
    """When packages.py has last installed something."""
    found = []
    for folder in own_folders:
        try:
            found.append(os.stat(folder + "/changed").st_mtime_ns)
        except OSError:
            found.append(None)
    return found


def remember(name, text):
    sources[name] = text
    while len(sources) > SOURCES_MAX or sum(map(len, sources.values())) > 1 << 20 and len(sources) > 1:
        del sources[next(iter(sources))]


def exit_code(problem):
    """Of SystemExit: as Python's own end would have it."""
    code = problem.code
    if code is None or isinstance(code, int):
        return (code or 0) & 0xff
    print(code, file=sys.stderr)
    return 1


def shown(value, order):
    """Most values need nothing of what show() has."""
    if type(value) in PLAIN and "matplotlib.pyplot" not in sys.modules:
        text = repr(value)
        if len(text) <= int(order.get(b"max_chars", 0)):
            return [(b"V", text.encode("utf-8", "backslashreplace"))]
    return show()["show"](value, order)


def execute(order, text, count):
    """All of one call: frames for the keeper, and the exit code."""
    name = "<python %d>" % count
    out, end = [], 0
    remember(name, text)
    try:
        try:
            State.running = True
            value = run_all(text, name)
            if value is not None or "matplotlib.pyplot" in sys.modules:
                out = shown(value, order)
            value = None
        finally:
            State.running = False
    except SystemExit as problem:
        end = exit_code(problem)
    except BaseException as problem:
        end = 1
        flush()
        try:
            sys.stderr.write(show()["trace"](problem))
        except BaseException as second:  # of an exception whose text cannot be had
            sys.stderr.write("%s (and then %s)\n" % (type(problem).__name__, type(second).__name__))
    return out, end


def serve():
    count = 0
    while True:
        order, text = read_call()
        count += 1
        open_streams()
        _signal.signal(_signal.SIGINT, interrupted)
        find_packages()
        before, more = look()
        out, end = execute(order, text, count)
        flush()
        if os.getpid() != pid:
            os._exit(end)  # the code has forked, and this is the other one
        after, more_now = look()
        new = changed(before, after)
        if new:
            paths = "\0".join(new[-100:]).encode("utf-8", "surrogateescape")
            out.append((b"F", b"%d\0" % len(new) + paths))
        token = order[b"token"]
        end = b"exit=%d\nmore_files=%d\n" % (end, more or more_now)
        wire.sendall(b"".join(frame(kind, token + data) for kind, data in out + [(b"D", end)]))
        out = text = None


pid = os.getpid()
try:
    work = os.getcwd()
except OSError:
    work = "/"
saved = [os.dup(1), os.dup(2)]
null = os.open("/dev/null", os.O_RDONLY)
wire = _socket.socket(fileno=channel)
sources = {}
standard_path = list(sys.path)
# Where packages.py puts what it installs, when it is not the interpreter's own place.
own_folders = [os.environ.get("HOME", "") + "/.anybox/packages",
               (os.environ.get("TMPDIR") or "/tmp") + "/anybox-packages-%d" % os.getuid()]
package_folders = [folder + "/lib-%d.%d" % sys.version_info[:2] for folder in own_folders]
State.changes = last_changes()
if not sys.flags.no_user_site and "site" in sys.modules and sys.modules["site"].ENABLE_USER_SITE:
    package_folders.insert(0, sys.modules["site"].getusersitepackages())
sys.stdout = sys.stderr = sys.stdin = None
sys.path.insert(0, "")
sys.argv = [""]
os.environ.setdefault("MPLBACKEND", "Agg")
sys.modules["__main__"] = type(sys)("__main__")
names = sys.modules["__main__"].__dict__
names["__builtins__"] = __builtins__
serve()
