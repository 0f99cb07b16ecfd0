"""Folders for tests of sync: random trees with all that a tree can hold, random edits of them, and
what two trees have in common. Paths are bytes: names need not be text."""
import hashlib
import os
import shutil
import stat

# Left behind only by what was cut; a sync that is made again removes them.
TEMPORARY = b".anybox-sync-"

ODD_NAMES = (b"with space", b"-rf", b"--delete", b"new\nline", b"quote'\"`$(x)", b"\xff\xfe not utf-8",
             "ünïcödé 汉字".encode(), b"*.c", b"[a]", b"back\\slash", b"~", b"#hash", b"!bang", b"a" * 255,
             b"...", b" lead", b"trail ", b"tab\there", b"\x1b[31mred", b"CON", b"con")
MODES = (0o644, 0o644, 0o600, 0o755, 0o700, 0o444, 0o640)


def seen(path):
    """What is at a path: type, permissions, whole seconds, and contents or target."""
    st = os.lstat(path)
    if stat.S_ISLNK(st.st_mode):
        return "link", os.readlink(path)
    mode = stat.S_IMODE(st.st_mode) & 0o777
    if stat.S_ISDIR(st.st_mode):
        return "dir", mode
    with open(path, "rb") as f:
        return "file", mode, int(st.st_mtime), hashlib.file_digest(f, "sha256").hexdigest() \
            if hasattr(hashlib, "file_digest") else hashlib.sha256(f.read()).hexdigest()


def walk(folder):
    """Every path below a folder, relative, in order; what is in a folder comes after it."""
    folder = os.fsencode(folder)
    for top, dirs, files in os.walk(folder):
        dirs.sort()
        for name in sorted(dirs + files):
            yield os.path.relpath(os.path.join(top, name), folder)


def look(folder, everything=True):
    """All that is in a folder; or all but what is temporary."""
    folder = os.fsencode(folder)
    return {path: seen(os.path.join(folder, path)) for path in walk(folder)
            if everything or not any(part.startswith(TEMPORARY) for part in path.split(b"/"))}


def differences(a, b):
    """Sentences about what differs between two looks; empty when they are the same."""
    found = [f"{p!r} is only in the first: {a[p]}" for p in a.keys() - b.keys()]
    found += [f"{p!r} is only in the second: {b[p]}" for p in b.keys() - a.keys()]
    found += [f"{p!r}: {a[p]} and {b[p]}" for p in a.keys() & b.keys() if not alike(a[p], b[p])]
    return sorted(found)


def alike(a, b):
    if a[0] == b[0] == "file":
        return a[1] == b[1] and abs(a[2] - b[2]) <= 1 and a[3] == b[3]
    return a == b


def temporary(folder):
    return [p for p in walk(folder) if os.path.basename(p).startswith(TEMPORARY)]


class Gardener:
    """Makes trees and changes them, always in the same way for the same dice."""

    def __init__(self, dice, owner=None):
        self.dice, self.owner, self.n = dice, owner, 0

    def name(self):
        self.n += 1
        if self.dice.random() < 0.2:
            odd = self.dice.choice(ODD_NAMES)
            return odd if self.dice.random() < 0.5 else (b"%d" % self.n + odd)[:255]
        return b"f%d" % self.n

    def contents(self):
        size = self.dice.choice((0, 1, 100, 2048, 4096, 65536, 65537, self.dice.randrange(300000)))
        return self.dice.randbytes(size)

    def finish(self, path, mode=None):
        """Owner, permissions and a time in the past, never the same twice."""
        if self.owner is not None:
            os.chown(path, self.owner, self.owner, follow_symlinks=False)
        if os.path.islink(path):
            return
        if mode is not None:
            os.chmod(path, mode)
        self.n += 1
        when = 1_600_000_000 + self.n * 7 + self.dice.random()
        os.utime(path, (when, when))

    def file(self, path):
        with open(path, "wb") as f:
            f.write(self.contents())
        self.finish(path, self.dice.choice(MODES))

    def link(self, path):
        os.symlink(self.dice.choice((b"f1", b"../outside", b"/etc/passwd", b"nowhere", b".", b"a b\nc")), path)
        self.finish(path)

    def folder(self, path):
        os.mkdir(path)
        self.finish(path, self.dice.choice((0o755, 0o700, 0o750)))

    def add(self, folder):
        path = os.path.join(folder, self.name())
        if os.path.lexists(path):
            return None
        kind = self.dice.random()
        if kind < 0.2:
            self.folder(path)
        elif kind < 0.3:
            self.link(path)
        else:
            self.file(path)
        return path

    def grow(self, root, n):
        """n things in a folder, which is made when it is not there."""
        root = os.fsencode(root)
        if not os.path.isdir(root):
            self.folder(root)
        folders = [root]
        while n > 0:
            made = self.add(self.dice.choice(folders))
            n -= made is not None
            if made and os.path.isdir(made) and not os.path.islink(made) and made.count(b"/") - root.count(b"/") < 8:
                folders.append(made)
        return root

    def edit(self, root, n):
        """n random changes: new, gone, other contents, permissions, times, kinds and names."""
        root = os.fsencode(root)
        for _ in range(n):
            paths = [p for p in (os.path.join(root, p) for p in walk(root)) if os.path.lexists(p)]
            folders = [root] + [p for p in paths if os.path.isdir(p) and not os.path.islink(p)]
            act = self.dice.choice((self.add_one, self.remove, self.rewrite, self.rewrite, self.chmod, self.turn,
                                    self.rename))
            act(self.dice.choice(paths) if paths else None, folders)

    def add_one(self, _path, folders):
        self.add(self.dice.choice(folders))

    def remove(self, path, _folders):
        if path and os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        elif path:
            os.unlink(path)

    def rewrite(self, path, _folders):
        if path and os.path.isfile(path) and not os.path.islink(path):
            os.chmod(path, 0o600)
            self.file(path)

    def chmod(self, path, _folders):
        if path and not os.path.islink(path):
            self.finish(path, self.dice.choice((0o755, 0o700)) if os.path.isdir(path) else self.dice.choice(MODES))

    def turn(self, path, folders):
        """Another kind of thing under the same name."""
        if path:
            self.remove(path, folders)
            self.dice.choice((self.file, self.link, self.folder))(path)

    def rename(self, path, folders):
        to = os.path.join(self.dice.choice(folders), self.name())
        if path and not os.path.lexists(to) and not (to + b"/").startswith(path + b"/"):
            os.rename(path, to)
