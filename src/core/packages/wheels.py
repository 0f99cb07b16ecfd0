# wheels.py - installs wheels where there is neither uv nor pip, not even at the index. It takes the highest
# version that all requirements allow and never tries a lower one because of what it needs itself; it builds
# nothing. say(), normal() and installed() are in its namespace.
import csv
import glob
import hashlib
import html.parser
import http.client
import os
import platform
import re
import shutil
import site
import stat
import sys
import sysconfig
import tempfile
import urllib.error
import urllib.parse
import urllib.request
import zipfile

ROUNDS = 200  # of looking for versions that go together
SPEC = re.compile(r"\s*(===|==|~=|!=|<=|>=|<|>)\s*([^\s,;)]+)\s*")
NAME = re.compile(r"\s*([A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?)\s*(?:\[([^\]]*)\])?\s*")
WORD = re.compile(r"""\s*(?:([()])|'([^']*)'|"([^"]*)"|(===|==|~=|!=|<=|>=|<|>)|([A-Za-z_.]+))""")


class Problem(Exception):
    pass


# ---- versions ---------------------------------------------------------------------------------

VERSION = re.compile(
    r"v?(?:(\d+)!)?(\d+(?:\.\d+)*)(?:[-_.]?(alpha|beta|preview|pre|rc|a|b|c)[-_.]?(\d*))?"
    r"(?:-(\d+)|[-_.]?(post|rev|r)[-_.]?(\d*))?(?:[-_.]?(dev)[-_.]?(\d*))?(?:\+([a-z0-9]+(?:[-_.][a-z0-9]+)*))?\Z")
LETTERS = {"alpha": "a", "beta": "b", "c": "rc", "pre": "rc", "preview": "rc"}


def key(text):
    """What sorts versions in their order; None: this is none."""
    m = VERSION.match(text.strip().lower())
    if m is None:
        return None
    epoch, release, letter, number, post, word, posted, dev, developed, local = m.groups()
    numbers = [int(n) for n in release.split(".")]
    while len(numbers) > 1 and numbers[-1] == 0:
        numbers.pop()
    has_post = post is not None or word is not None
    if letter:
        pre = (0, LETTERS.get(letter, letter), int(number or 0))
    else:
        pre = (-1,) if dev and not has_post else (1,)
    tail = tuple((1, int(p)) if p.isdigit() else (0, p) for p in re.split("[-_.]", local)) if local else ()
    return (int(epoch or 0), tuple(numbers), pre, (0, int(post or posted or 0)) if has_post else (-1,),
            (0, int(developed or 0)) if dev else (1,), tail)


def is_early(text):
    v = key(text)
    return v[2][0] == 0 or v[4][0] == 0


def release(text):
    m = VERSION.match(text.strip().lower().replace(".*", ""))
    return (m.group(1) or "0", [int(n) for n in m.group(2).split(".")]) if m else ("0", [])


def begins(version, prefix):
    epoch, numbers = release(version)
    wanted_epoch, wanted = release(prefix)
    numbers = numbers + [0] * (len(wanted) - len(numbers))
    return epoch == wanted_epoch and numbers[:len(wanted)] == wanted


def meets(version, op, wanted):
    v, w = key(version), key(wanted.replace(".*", ""))
    if op == "===":
        return version == wanted
    if v is None or w is None:
        return False
    if op in ("==", "!="):
        same = begins(version, wanted) if wanted.endswith(".*") else v == w if w[5] else v[:5] == w[:5]
        return same == (op == "==")
    if op == "~=":
        return v >= w and begins(version, ".".join(map(str, release(wanted)[1][:-1])))
    if op in ("<=", ">="):
        return v[:5] <= w[:5] if op == "<=" else v[:5] >= w[:5]
    if op == "<":  # 1.0rc1 is not what somebody means by less than 1.0
        return v < w and (is_early(wanted) or not (is_early(version) and v[:2] == w[:2]))
    return v > w and (w[3][0] == 0 or not (v[3][0] == 0 and v[:2] == w[:2]))


def all_meet(version, specs):
    return all(meets(version, op, wanted) for op, wanted in specs)


def specs_of(text):
    text, specs = text.strip().strip("()"), []
    for part in filter(None, (p.strip() for p in text.split(","))):
        m = SPEC.fullmatch(part)
        if m is None:
            raise Problem("\"%s\" is no version to ask for" % part)
        specs.append(m.groups())
    return specs


# ---- requirements -----------------------------------------------------------------------------

def variables():
    return {
        "python_version": "%d.%d" % sys.version_info[:2], "python_full_version": platform.python_version(),
        "os_name": os.name, "sys_platform": sys.platform, "platform_machine": platform.machine(),
        "platform_system": platform.system(), "platform_release": platform.release(),
        "platform_python_implementation": platform.python_implementation(),
        "implementation_name": sys.implementation.name, "implementation_version": platform.python_version()}


class Marker:
    """"python_version < '3.8' and extra == 'x'", read from left to right."""

    def __init__(self, text, values):
        self.words, self.values = [], values
        while text.strip():
            m = WORD.match(text)
            if m is None:
                raise Problem("the marker \"%s\" cannot be read" % text)
            bracket, one, two, op, word = m.groups()
            quoted = one if one is not None else two
            self.words.append(("text", quoted) if quoted is not None else ("word", bracket or op or word))
            text = text[m.end():]

    def take(self, *wanted):
        if self.words and self.words[0][0] == "word" and self.words[0][1] in wanted:
            return self.words.pop(0)[1]
        return None

    def value(self):
        if not self.words:
            raise Problem("a marker ends too early")
        kind, word = self.words.pop(0)
        return word if kind == "text" else self.values.get(word, "")

    def compare(self):
        if self.take("("):
            is_true = self.either()
            self.take(")")
            return is_true
        left = self.value()
        op = self.take("===", "==", "~=", "!=", "<=", ">=", "<", ">", "in") or (self.take("not") and self.take("in") and "not in")
        right = self.value()
        if op in ("in", "not in"):
            return (left in right) == (op == "in")
        if op and key(left) and key(right.replace(".*", "")):
            return meets(left, op, right)
        return {"==": left == right, "===": left == right, "!=": left != right}.get(op, False)

    def both(self):
        is_true = self.compare()
        while self.take("and"):
            is_true = self.compare() and is_true
        return is_true

    def either(self):
        is_true = self.both()
        while self.take("or"):
            is_true = self.both() or is_true
        return is_true


def read_requirement(text, extras=("",)):
    """(name, extras, specs), or None where its marker does not hold for any of the extras."""
    text, _, marker = text.partition(";")
    if marker.strip() and not any(Marker(marker, dict(variables(), extra=e)).either() for e in extras):
        return None
    m = NAME.match(text)
    if m is None or "@" in text:
        raise Problem("\"%s\" can be installed with pip only" % text.strip())
    more = tuple(e.strip() for e in (m.group(2) or "").split(",") if e.strip())
    return normal(m.group(1)), more, specs_of(text[m.end():])


# ---- the index --------------------------------------------------------------------------------

class Links(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.found = []

    def handle_starttag(self, tag, attributes):
        if tag == "a" and dict(attributes).get("href"):
            self.found.append(dict(attributes))


class Index:
    def __init__(self, url, scratch):
        self.url, self.scratch, self.pages, self.files = url.rstrip("/") + "/", scratch, {}, {}
        handlers = [urllib.request.ProxyHandler({})] if url.startswith("http://127.0.0.1:") else []
        self.opener = urllib.request.build_opener(*handlers)

    def open(self, url):
        return self.opener.open(urllib.request.Request(url, headers={"Accept": "text/html"}), timeout=300)

    def links(self, name):
        """[(version, file, url, attributes)] of the wheels that fit, and what else there is."""
        if name in self.pages:
            return self.pages[name]
        url = self.url + name + "/"
        try:
            with self.open(url) as page:
                url, text = page.geturl(), page.read().decode("utf-8", "replace")
        except urllib.error.HTTPError as e:
            if e.code == 404:
                raise Problem("the index has no package \"%s\"" % name)
            raise Problem("the index answered %d for \"%s\": %s" % (e.code, name, e.read(300).decode("utf-8", "replace").strip()))
        parser, wheels, others = Links(), [], 0
        parser.feed(text)
        for link in parser.found:
            where = urllib.parse.urljoin(url, link["href"])
            file = urllib.parse.unquote(urllib.parse.urlsplit(where).path.rsplit("/", 1)[-1])
            parts = file[:-4].split("-")
            if not file.endswith(".whl") or len(parts) not in (5, 6) or key(parts[1]) is None:
                others += 1
            elif normal(parts[0]) == name and fits(parts) and self.python_fits(link):
                wheels.append((parts[1], file, where, link))
        self.pages[name] = wheels, others
        return self.pages[name]

    @staticmethod
    def python_fits(link):
        try:
            return all_meet(platform.python_version(), specs_of(link.get("data-requires-python") or ""))
        except Problem:
            return False

    def best(self, name, specs):
        wheels, others = self.links(name)
        wanted = ",".join(op + w for op, w in specs)
        early = any(op in ("==", "===", ">=", "~=") and key(w.replace(".*", "")) and is_early(w.replace(".*", ""))
                    for op, w in specs)
        good = [w for w in wheels if all_meet(w[0], specs) and ("data-yanked" not in w[3] or wanted.startswith("=="))]
        stable = [w for w in good if early or not is_early(w[0])] or good
        if not stable:
            known = sorted({w[0] for w in wheels}, key=key)[-10:]
            raise Problem("no version of \"%s\" fits \"%s\": %s" % (
                name, wanted or "this Python", "there are " + ", ".join(known) if known else
                "there are only other files than wheels, or for other machines, which need pip" if others
                else "there is none for this machine and Python"))
        return max(stable, key=lambda w: (key(w[0]), not w[1].endswith("-any.whl")))

    def file(self, wheel):
        """The wheel as a file, as its hash says."""
        _, name, url, _ = wheel
        if name in self.files:
            return self.files[name]
        path = os.path.join(self.scratch, os.path.basename(name))
        try:
            with self.open(urllib.parse.urldefrag(url)[0]) as answer, open(path, "wb") as to:
                shutil.copyfileobj(answer, to, 1 << 18)
        except urllib.error.HTTPError as e:
            raise Problem("%s was not had: %d %s" % (name, e.code, e.read(300).decode("utf-8", "replace").strip()))
        kind, _, wanted = urllib.parse.urldefrag(url)[1].partition("=")
        if kind in ("sha256", "sha384", "sha512"):
            with open(path, "rb") as f:
                if hashlib.new(kind, f.read()).hexdigest() != wanted.lower():
                    raise Problem("%s is not what the index says: its hash differs" % name)
        self.files[name] = path
        return path


def fits(parts):
    """Is a wheel, by the parts of its name, for this Python and this machine?"""
    minor, machine = sys.version_info[1], platform.machine()
    pythons = {"py3", "cp3%d" % minor} | {"py3%d" % n for n in range(minor + 1)}
    older = {"cp3%d" % n for n in range(2, minor + 1)}
    python, abi, where = (set(p.split(".")) for p in parts[-3:])
    runs = bool(python & pythons and abi & {"none", "abi3", "cp3%d" % minor}) or bool(python & older and "abi3" in abi)
    return runs and any(w == "any" or for_machine(w, machine) for w in where)


def for_machine(tag, machine):
    libc, _, version = os.confstr("CS_GNU_LIBC_VERSION").partition(" ") if "CS_GNU_LIBC_VERSION" in os.confstr_names else ("", "", "")
    have = tuple(int(n) for n in re.findall(r"\d+", version)[:2])
    old = {"manylinux1": (2, 5), "manylinux2010": (2, 12), "manylinux2014": (2, 17)}
    m = re.match(r"(manylinux_(\d+)_(\d+)|manylinux\d+|linux)_(.*)\Z", tag)
    if m is None or m.group(4) != machine:
        return False
    if m.group(1) == "linux":
        return True
    need = (int(m.group(2)), int(m.group(3))) if m.group(2) else old.get(m.group(1), (99, 0))
    return libc == "glibc" and have >= need


# ---- which versions ---------------------------------------------------------------------------

def metadata(path):
    with zipfile.ZipFile(path) as z:
        for name in z.namelist():
            if name.count("/") == 1 and name.endswith(".dist-info/METADATA"):
                return z.read(name).decode("utf-8", "replace")
    raise Problem("%s is no wheel: it has no METADATA" % os.path.basename(path))


def needs(path, extras):
    out = []
    for line in metadata(path).splitlines():
        if not line.strip():
            break
        if line.lower().startswith("requires-dist:"):
            wanted = read_requirement(line[14:], extras + ("",))
            out += [wanted] if wanted else []
    return out


def resolve(index, requirements, present):
    """{name: wheel} that is to be installed. Each round asks for all that is known to be needed so far."""
    chosen = {}
    for _ in range(ROUNDS):
        specs, extras, queue, seen = {}, {}, list(requirements), set()
        while queue:
            name, more, wanted = queue.pop(0)
            specs.setdefault(name, []).extend(s for s in wanted if s not in specs.get(name, []))
            extras[name] = extras.get(name, ()) + tuple(e for e in more if e not in extras.get(name, ()))
            if (name, extras[name]) not in seen and name in chosen and chosen[name]:
                seen.add((name, extras[name]))
                queue += needs(index.file(chosen[name]), extras[name])
        picked = {}
        for name, wanted in specs.items():
            enough = name in present and key(present[name]) and all_meet(present[name], wanted) and not extras[name]
            picked[name] = None if enough else index.best(name, wanted)
        if picked == chosen:
            return {name: wheel for name, wheel in chosen.items() if wheel}
        chosen = picked
    raise Problem("no versions were found that go together: this needs pip")


# ---- unpacking --------------------------------------------------------------------------------

def safe(info):
    """A name inside, that stays inside."""
    name = info.filename
    parts = name.split("/")
    if name.startswith("/") or "\\" in name or ".." in parts or "\0" in name or \
            stat.S_ISLNK(info.external_attr >> 16):
        raise Problem("the wheel is refused: it has a file called \"%s\"" % name)
    return name


def remove_old(folder, name):
    """What an earlier version left, as far as its record tells and it lies in this folder."""
    for entry in os.listdir(folder):
        if not entry.endswith(".dist-info") or normal(entry[:-10].split("-")[0]) != name:
            continue
        try:
            with open(os.path.join(folder, entry, "RECORD"), encoding="utf-8", newline="") as f:
                files = [row[0] for row in csv.reader(f) if row]
        except OSError:
            files = []
        for file in files:
            path = os.path.realpath(os.path.join(folder, file))
            if path.startswith(os.path.realpath(folder) + "/") and os.path.isfile(path):
                os.unlink(path)
                # Compiled ones are told apart by second and size only.
                where, stem = os.path.split(path[:-3])
                for compiled in glob.glob(glob.escape(where) + "/__pycache__/" + glob.escape(stem) + ".*.pyc"):
                    os.unlink(compiled)
        shutil.rmtree(os.path.join(folder, entry), ignore_errors=True)


def commands(folder):
    if folder == sysconfig.get_path("purelib"):
        return sysconfig.get_path("scripts")
    return os.path.join(site.getuserbase(), "bin") if folder == site.getusersitepackages() else folder + "/bin"


def write_commands(folder, info):
    """The programs that a package brings, from its entry points."""
    section = ""
    try:
        lines = open(os.path.join(info, "entry_points.txt"), encoding="utf-8").read().splitlines()
    except OSError:
        return
    for line in lines:
        section = line.strip() if line.startswith("[") else section
        m = re.match(r"\s*([\w.-]+)\s*=\s*([\w.]+)\s*:\s*([\w.]+)\s*(?:\[.*)?\Z", line)
        if section in ("[console_scripts]", "[gui_scripts]") and m:
            name, module, function = m.groups()
            os.makedirs(commands(folder), exist_ok=True)
            path = os.path.join(commands(folder), name)
            with open(path, "w", encoding="utf-8") as f:
                f.write("#!%s\nimport sys\nfrom %s import %s\nsys.exit(%s())\n" % (
                    sys.executable, module, function.split(".")[0], function))
            os.chmod(path, 0o755)


def unpack(path, folder, name):
    """All of it beside its place first, so that a wheel that is refused leaves nothing."""
    beside = tempfile.mkdtemp(prefix=".anybox-", dir=folder)
    try:
        with zipfile.ZipFile(path) as z:
            names = [safe(info) for info in z.infolist() if not info.filename.endswith("/")]
            z.extractall(beside, names)
        rows, info = [], ""
        remove_old(folder, name)
        for file in names:
            first, _, rest = file.partition("/")
            to = file
            if first.endswith(".data"):
                kind, _, to = rest.partition("/")
                if kind not in ("purelib", "platlib"):
                    say("left out of %s: %s" % (os.path.basename(path), file))
                    continue
            info = os.path.join(folder, first) if first.endswith(".dist-info") else info
            os.makedirs(os.path.dirname(os.path.join(folder, to)) or folder, exist_ok=True)
            os.replace(os.path.join(beside, file), os.path.join(folder, to))
            rows.append([to, "", ""])
        with open(os.path.join(info, "INSTALLER"), "w") as f:
            f.write("anybox\n")
        with open(os.path.join(info, "RECORD"), "w", encoding="utf-8", newline="") as f:
            csv.writer(f, lineterminator="\n").writerows(rows + [[os.path.basename(info) + "/INSTALLER", "", ""]])
        write_commands(folder, info)
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def fetch_pip(index, scratch):
    """A wheel of pip itself, where the index has one."""
    try:
        index = Index(index, scratch)
        return index.file(index.best("pip", []))
    except (Problem, OSError, http.client.HTTPException):
        return None


def install(index, requirements, folder, path, scratch):
    """The exit code."""
    try:
        index = Index(index, scratch)
        wanted = [read_requirement(r) for r in requirements]
        wheels = resolve(index, wanted, installed(path))
        for name, wheel in sorted(wheels.items()):
            unpack(index.file(wheel), folder, name)
            print("installed %s %s" % (name, wheel[0]), flush=True)
        if not wheels:
            print("all of it is installed already")
        return 0
    except (Problem, zipfile.BadZipFile, OSError, http.client.HTTPException) as e:
        print("ERROR: %s" % (str(e) or type(e).__name__), file=sys.stderr)
        return 1
