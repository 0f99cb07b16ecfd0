# packages.py - installs Python packages into a box, or tells which are there; see core/packages.h. The order
# is read from standard input, "key=value" lines. It runs under the python3 that execute_python_code has, and what
# it installs is where that one imports it. WHEELS (source of our own installer) is in its namespace. Python 3.7
# and its standard library.
import sys

if sys.path and sys.path[0] == "":
    del sys.path[0]
import fcntl
import json
import os
import re
import time

KEPT = 20  # records of installs
VERSION = "%d.%d" % sys.version_info[:2]


def say(*words, sep=" "):
    print("anybox: " + sep.join(words), file=sys.stderr, flush=True)


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def name_of(requirement):
    return re.match(r"[A-Za-z0-9._-]*", requirement).group()


# ---- where packages are ---------------------------------------------------------------------

def own_folder(make=True):
    """A folder that only this user can write to; work.py looks for packages in the same places."""
    home = os.environ.get("HOME", "")
    tries = [(os.environ.get("TMPDIR") or "/tmp") + "/anybox-packages-%d" % os.getuid()]
    if home.startswith("/") and home != "/":
        tries.insert(0, home + "/.anybox/packages")
    for folder in tries:
        try:
            if make:
                os.makedirs(folder, 0o700, exist_ok=True)
            found = os.lstat(folder)
            if found.st_uid == os.getuid() and found.st_mode & 0o170000 == 0o040000 and os.access(folder, os.W_OK):
                return folder
        except OSError:
            pass
    if not make:
        return tries[0]
    sys.exit("anybox: no folder can be written to, neither %s" % " nor ".join(tries))


def user_site():
    import site
    return site.getusersitepackages() if site.ENABLE_USER_SITE else ""


def can_write(folder):
    """Can it be written to, or made?"""
    while folder and not os.path.isdir(folder):
        folder = os.path.dirname(folder.rstrip("/"))
    return bool(folder) and os.access(folder, os.W_OK)


def target(folder):
    """(kind, where): the interpreter's own place, the user's, or else a folder of ours."""
    import sysconfig
    own = sysconfig.get_path("purelib")
    in_venv = sys.prefix != sys.base_prefix
    managed = not in_venv and os.path.exists(sysconfig.get_path("stdlib") + "/EXTERNALLY-MANAGED")
    if not managed and can_write(own):
        return "own", own
    if user_site() and can_write(user_site()):
        return "user", user_site()
    return "folder", folder + "/lib-" + VERSION


def search_path(folder):
    """As the interpreter of execute_python_code has it."""
    path = [p for p in sys.path if p]
    for more in user_site(), folder + "/lib-" + VERSION:
        if more and more not in path:
            path.append(more)
    return path


def version_inside(path):
    """The version that a package's own description tells."""
    for name in "METADATA", "PKG-INFO", "":
        try:
            with open(os.path.join(path, name) if name else path, encoding="utf-8", errors="replace") as f:
                for line in f:
                    if line.startswith("Version:"):
                        return line[8:].strip()
        except OSError:
            pass
    return ""


def installed(path):
    """{name: version} of what can be imported; what comes first on the path counts."""
    found = {}
    for folder in path:
        try:
            entries = sorted(os.listdir(folder))
        except OSError:
            continue
        here = {}
        for entry in entries:
            stem, end = os.path.splitext(entry)
            if end not in (".dist-info", ".egg-info"):
                continue
            parts = stem.split("-")
            version = parts[1] if len(parts) > 1 else version_inside(os.path.join(folder, entry))
            if version:
                here[normal(parts[0])] = version
        for name, version in here.items():
            found.setdefault(name, version)
    return found


# ---- records of installs --------------------------------------------------------------------

def record_open(folder, order):
    """The record, which is locked as long as its installer lives."""
    where = folder + "/installs"
    os.makedirs(where, 0o700, exist_ok=True)
    for old in sorted(os.listdir(where))[:-KEPT]:
        os.unlink(where + "/" + old)
    fd = os.open(where + "/%015d-%s" % (time.time() * 1000, order["task"]), os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)
    record = {"task": order["task"], "names": [normal(name_of(r)) for r in order["require"]], "began": int(time.time())}
    record_write(fd, record)
    return fd, record


def record_write(fd, record):
    data = json.dumps(record).encode()
    os.pwrite(fd, data + b" " * 4096, 0)
    os.ftruncate(fd, len(data))


def records(folder):
    """What is known of earlier installs, the latest first, each with whether it runs."""
    where = folder + "/installs"
    for name in sorted(os.listdir(where), reverse=True) if os.path.isdir(where) else []:
        try:
            with open(where + "/" + name, "rb") as f:
                record = json.loads(f.read().decode())
                try:
                    fcntl.flock(f, fcntl.LOCK_SH | fcntl.LOCK_NB)
                    record["runs"] = False
                except OSError:
                    record["runs"] = True
            yield record
        except (OSError, ValueError):
            pass


# ---- looking --------------------------------------------------------------------------------

def about(name, found, known):
    out = {"installed": name in found}
    if name in found:
        out["version"] = found[name]
        before = known[0].get("before", {}).get(name) if known and known[0].get("done") else None
        if before and before != found[name]:
            out["replaced"] = before
    for record in known:
        if name not in record["names"]:
            continue
        if record["runs"]:
            out.update(installing=True, task_id=record["task"], elapsed_seconds=int(time.time()) - record["began"])
        elif not record.get("done"):
            out["last_error"] = record.get("error") or "the installer ended before it was done"
        break
    return out


def check(order):
    folder = own_folder(make=False)
    found, known = installed(search_path(folder)), list(records(folder))
    print(json.dumps({"packages": {r: about(normal(name_of(r)), found, known) for r in order["require"]},
                      "where": target(folder)[0], "folder": folder + "/lib-" + VERSION}))


# ---- the index ------------------------------------------------------------------------------

def hold(relay):
    """A connection to the relay that says for as long as it stands that we are there."""
    import socket
    host, _, rest = relay[len("http://"):].partition("/")
    name, _, port = host.partition(":")
    s = socket.create_connection((name, int(port)), 30)
    s.sendall(b"GET /%s/hold HTTP/1.1\r\nHost: %s\r\n\r\n" % (rest.split("/")[0].encode(), host.encode()))
    return s


def answers(index, name):
    """Does the index answer from here?"""
    import urllib.error
    import urllib.request
    try:
        urllib.request.urlopen("%s/%s/" % (index.rstrip("/"), name), timeout=5).close()
    except urllib.error.HTTPError as e:
        return e.code < 500
    except (OSError, ValueError):
        return False
    return True


def problems(relay):
    """What the relay knows of the index's troubles."""
    import urllib.request
    try:
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(relay + "problems", timeout=10) as answer:
            return [line for line in answer.read(10000).decode("utf-8", "replace").splitlines() if line]
    except (OSError, ValueError):
        return ["the anybox that fetched packages for this sandbox has gone: install again"]


def environment(index, relayed):
    """Of the installer. Caches would cost the box twice the space of each package."""
    env = dict(os.environ, PIP_NO_INPUT="1", PIP_NO_CACHE_DIR="1", PIP_DISABLE_PIP_VERSION_CHECK="1",
               PIP_PROGRESS_BAR="off", PIP_ROOT_USER_ACTION="ignore", PIP_BREAK_SYSTEM_PACKAGES="1",
               UV_NO_CACHE="1", UV_NO_PROGRESS="1", UV_PYTHON_DOWNLOADS="never",
               UV_BREAK_SYSTEM_PACKAGES="1")
    if index:
        env.update(PIP_INDEX_URL=index, UV_INDEX_URL=index)
        if index.startswith("http://"):
            env["PIP_TRUSTED_HOST"] = re.sub(r"^.*@", "", index[7:].split("/")[0])
    if relayed:
        # The relay is all that there is: no other index, no proxy.
        env.update(PIP_CONFIG_FILE=os.devnull, UV_NO_CONFIG="1", PIP_DEFAULT_TIMEOUT="300", UV_HTTP_TIMEOUT="300",
                   PIP_RETRIES="1", UV_CONCURRENT_DOWNLOADS="4")
        for name in list(env):
            if name.lower() in ("http_proxy", "https_proxy", "all_proxy", "pip_proxy", "pip_extra_index_url",
                                "uv_extra_index_url", "uv_index", "uv_default_index", "pip_no_index", "uv_no_index",
                                "pip_find_links", "uv_find_links", "uv_offline"):
                del env[name]
    return env


# ---- installers -----------------------------------------------------------------------------

def works(words):
    import subprocess
    try:
        return subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL).returncode == 0
    except OSError:
        return False


def find_uv():
    import shutil
    home = os.environ.get("HOME", "")
    for path in shutil.which("uv"), home + "/.local/bin/uv", home + "/.cargo/bin/uv":
        if path and os.access(path, os.X_OK) and works([path, "--version"]):
            return [path]
    return None


def bundled_pip():
    """A pip that came with Python for new environments, and runs out of its wheel."""
    import glob
    import sysconfig
    try:
        import ensurepip
    except ImportError:
        return None
    folders = [os.path.dirname(ensurepip.__file__) + "/_bundled", sysconfig.get_config_var("WHEEL_PKG_DIR") or ""]
    wheels = [w for f in folders if f for w in sorted(glob.glob(f + "/pip-*.whl"))]
    return [sys.executable, wheels[-1] + "/pip"] if wheels and works([sys.executable, wheels[-1] + "/pip", "--version"]) \
        else None


def our_own():
    names = {"say": say, "normal": normal, "installed": installed}
    exec(compile(WHEELS, "<anybox>", "exec"), names)
    return names


def find_installer(index, scratch):
    """(name, words of the command): uv, pip, pip as it is found; ("own", None): our own."""
    uv = find_uv()
    if uv:
        return "uv", uv
    if works([sys.executable, "-m", "pip", "--version"]):
        return "pip", [sys.executable, "-m", "pip"]
    pip = bundled_pip()
    if pip:
        return "pip", pip
    if not index:
        sys.exit("anybox: this sandbox has neither uv nor pip, and no package index is configured: set "
                 "mirror.pypi_index_url in anybox's configuration, or install pip in the sandbox")
    wheel = our_own()["fetch_pip"](index, scratch)
    if wheel and works([sys.executable, wheel + "/pip", "--version"]):
        say("there is no pip here: using the index's,", os.path.basename(wheel))
        return "pip", [sys.executable, wheel + "/pip"]
    return "own", None


def command(kind, words, place, requirements):
    where, folder = place
    if kind == "uv":
        more = ["pip", "install", "--python", sys.executable] + ([] if where == "own" else ["--target", folder])
    else:
        more = ["install", "--no-warn-script-location"] + {"own": [], "user": ["--user"], "folder": ["--target", folder, "--upgrade"]}[where]
    return words + more + ["--"] + requirements


def drop_stale(folder):
    """pip leaves the descriptions of earlier versions in a folder of its target: the latest is true."""
    import shutil
    latest = {}
    for entry in os.listdir(folder):
        if entry.endswith(".dist-info"):
            name, path = normal(entry[:-10].split("-")[0]), os.path.join(folder, entry)
            older, newer = sorted(filter(None, (latest.get(name), path)), key=lambda p: os.stat(p).st_mtime_ns) \
                if name in latest else (None, path)
            latest[name] = newer
            if older:
                shutil.rmtree(older, ignore_errors=True)


def run_installer(order, folder, index, relayed):
    """The exit code."""
    import subprocess
    import tempfile
    place = target(folder)
    with tempfile.TemporaryDirectory(prefix="anybox-") as scratch:
        kind, words = find_installer(index, scratch)
        os.makedirs(place[1], 0o755, exist_ok=True)
        if kind == "own":
            say("there is no pip here, nor at the index: installing wheels without it")
            return our_own()["install"](index, order["require"], place[1], search_path(folder), scratch)
        sys.stdout.flush()
        code = subprocess.run(command(kind, words, place, order["require"]), stdin=subprocess.DEVNULL,
                              env=environment(index, relayed)).returncode
        if (kind, place[0]) == ("pip", "folder"):
            drop_stale(place[1])
        return code


def choose_index(order):
    """(index, whether it is the relay): straight where the box can, else through the relay."""
    first = normal(name_of(order["require"][0]))
    if order["index"] and answers(order["index"], first):
        return order["index"], False
    return (order["relay"] + "simple/", True) if order["relay"] else (order["index"], False)


def touch(path):
    """Running interpreters look again for what can be imported when this changes."""
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600))
    os.utime(path)


def install(order):
    folder = own_folder()
    held = hold(order["relay"]) if order["relay"] else None
    fd, record = record_open(folder, order)
    lock = os.open(folder + "/lock", os.O_RDWR | os.O_CREAT, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)  # one after the other
    code = 1
    had = installed(search_path(folder))
    record["before"] = {name: had[name] for name in record["names"] if name in had}
    try:
        index, relayed = choose_index(order)
        code = run_installer(order, folder, index, relayed)
        if code != 0:
            known = problems(order["relay"]) if relayed else []
            say(*known or ["the installer ended with exit code %d" % code], sep="\nanybox: ")
            record["error"] = "; ".join(known) or "the installer ended with exit code %d" % code
        record["done"] = code == 0
    except SystemExit as e:
        record["error"] = str(e.code)
        raise
    finally:
        touch(folder + "/changed")
        record_write(fd, record)
        if held:
            held.close()
    sys.exit(code)


def read_order():
    order = {"require": [], "index": "", "relay": "", "task": "0"}
    for line in sys.stdin.buffer.read().decode("utf-8", "replace").splitlines():
        key, _, value = line.partition("=")
        if key == "require":
            order["require"].append(value)
        else:
            order[key] = value
    return order


def main():
    order = read_order()
    try:
        (install if order["mode"] == "install" else check)(order)
    except OSError as e:
        sys.exit("anybox: the sandbox did not keep what an install notes: %s" % (e.strerror or e))


main()
