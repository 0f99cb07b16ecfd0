"""The tables of sync: a tree of small files and one large file, to an SSH host and back, beside
rsync over OpenSSH's ControlMaster. Both sides lie on a tmpfs, connections are warm, and the
thresholds for the background are out of the way. Root only, as ssh.py."""
import contextlib
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import time

from kit import Client, Home, head, left_out, row, slower, us
from ssh import ONE_WAY_MS, Place, link, seconds, ssh_servers

FILE = 2048
A_FOLDER = 50  # files in each folder of the tree
NO_LIMIT = {"REMOTE_SANDBOX_INLINE_SYNC_MAX_FILES": str(10**9),
            "REMOTE_SANDBOX_INLINE_SYNC_MAX_BYTES": str(1 << 50)}


def why_not():
    if ssh_servers.why_not():
        return ssh_servers.why_not()
    for program in ("ssh", "rsync", "mount"):
        if not shutil.which(program):
            return f"{program} is not installed"
    return None


@contextlib.contextmanager
def tmpfs(folder):
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8g,mode=755", "bench", folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


def write_tree(folder, n):
    """n files of 2 KiB in folders, with times in the past, so that nothing looks just made."""
    rng = random.Random(n)
    folder.mkdir()
    for i in range(n):
        if i % A_FOLDER == 0:
            inner = folder / f"part-{i // A_FOLDER // 20:03d}" / f"dir-{i // A_FOLDER:05d}"
            inner.mkdir(parents=True)
        path = inner / f"file-{i:06d}.c"
        path.write_bytes(rng.randbytes(FILE))
        os.utime(path, (1.7e9 + i, 1.7e9 + i))
    return folder


def change(folder, n, round_):
    """n files of the tree get other contents, and a length of their own."""
    files = sorted(folder.rglob("file-*"))
    for path in files[round_::max(1, len(files) // n)][:n]:
        path.write_bytes(os.urandom(FILE + 1 + round_))


def peak_kb(pid):
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmHWM"))


def now_kb(pid):
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS"))


def is_running(pid):
    """One that has ended and that its parent has not looked at yet is not."""
    try:
        with open(f"/proc/{pid}/stat") as f:
            return f.read().rsplit(")", 1)[1].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


class Pair:
    """Two ways to the same host: our server, and rsync; each has a target of its own there."""

    def __init__(self, place, client, far):
        self.place, self.client, self.far = place, client, far
        self.ssh = " ".join(["ssh", *place.common])

    def up(self, source):
        answer = self.client.call("sync_local_to_remote", local_path=str(source), remote_path=f"{self.far}/ours")
        if answer["mode"] != "inline" or answer.get("failed_files"):
            sys.exit(f"the sync was not what is measured: {answer}")
        return answer

    def down(self, target):
        self.client.call("sync_remote_to_local", remote_path=f"{self.far}/ours", local_path=str(target))

    def rsync(self, *paths):
        argv = ["rsync", "-a", "-e", self.ssh, *map(str, paths)]
        subprocess.run(self.place.wrap(argv), check=True, stdin=subprocess.DEVNULL)

    def rsync_up(self, source):
        self.rsync(f"{source}/" if source.is_dir() else source, f"{self.place.where}:{self.far}/theirs")

    def rsync_down(self, target):
        self.rsync(f"{self.place.where}:{self.far}/theirs/", target)

    def clean(self):
        for name in ("ours", "theirs"):
            path = self.far / name
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)

    def both(self, ours, theirs, before=lambda i: None, n=3):
        """Medians in microseconds; who goes first changes, and `before` sets the scene."""
        took = []
        for i in range(n):
            before(i)
            pair = [0, 0]
            for which in ((0, 1) if i % 2 else (1, 0)):
                pair[which] = seconds((ours, theirs)[which]) * 1e6
            took.append(pair)
        return tuple(statistics.median(p[k] for p in took) for k in (0, 1))


def same(a, b):
    """The trees have the same names, lengths and times; a benchmark of a sync that does less is none."""
    def look(folder):
        return {str(p.relative_to(folder)): (p.stat().st_size, int(p.stat().st_mtime))
                for p in folder.rglob("*") if p.is_file()}
    if look(a) != look(b):
        sys.exit(f"{a} and {b} differ after a sync")


def tree_rows(pair, source, n, aims, rounds):
    def timed(what, aim, ours, theirs, before=lambda i: None):
        a, b = pair.both(ours, theirs, before, rounds)
        row(what, us(a), us(b), slower(a, b), aim)

    def up():
        pair.up(source)

    def rsync_up():
        pair.rsync_up(source)

    timed(f"{n:,} files of 2 KiB, all new", aims[0], up, rsync_up, lambda i: pair.clean())
    same(source, pair.far / "ours")
    timed("nothing has changed", aims[1], up, rsync_up)
    timed("1 % has changed", aims[2], up, rsync_up, lambda i: change(source, n // 100, i))
    same(source, pair.far / "ours")
    back = source.parent / "back"

    def empty(_):
        shutil.rmtree(back, ignore_errors=True)
        (back / "theirs").mkdir(parents=True)

    timed("all of it fetched", aims[0], lambda: pair.down(back / "ours"), lambda: pair.rsync_down(back / "theirs"), empty)
    same(source, back / "ours")
    shutil.rmtree(back)
    pair.clean()


def large_row(pair, source, size, aim, rounds):
    path = source.parent / "large"
    with open(path, "wb") as f:
        for _ in range(size >> 20):
            f.write(os.urandom(1 << 20))
    a, b = pair.both(lambda: pair.up(path), lambda: pair.rsync_up(path), lambda i: pair.clean(), rounds)
    row(f"one file of {size >> 20} MiB, new", us(a), us(b), slower(a, b), aim)
    if (pair.far / "ours").stat().st_size != size:
        sys.exit("the large file did not arrive whole")
    path.unlink()
    pair.clean()


def cancel_row(pair, folder, size, rounds):
    """From the call to its answer, when the worker is gone: a transfer that is in the middle of a file."""
    path = folder / "long"
    with open(path, "wb") as f:
        for _ in range(size >> 20):
            f.write(os.urandom(1 << 20))
    took = []
    while len(took) < rounds:
        pair.clean()
        task = pair.client.call("sync_local_to_remote_background", local_path=str(path),
                                remote_path=f"{pair.far}/ours")["task_id"]
        while not (now := pair.client.call("check_file_transfer_task", task_id=task)).get("progress", {}).get("bytes"):
            if now["status"] not in ("queued", "running"):
                sys.exit(f"the transfer was too quick to be cancelled: {now}")
        began = time.monotonic()
        answer = pair.client.call("cancel_file_transfer_task", task_id=task, force_kill_after_s=60)
        took.append((time.monotonic() - began) * 1e6)
        if answer["status"] != "cancelled" or is_running(now["pid"]):
            sys.exit(f"the transfer was not cancelled: {answer}")
    row("a transfer is cancelled and its worker gone", us(statistics.median(took)), "", "", "1 s")
    path.unlink()
    pair.clean()


def many_rows(pair, folder, n, rounds):
    source = write_tree(folder / "many", n)
    pid = pair.client.proc.pid
    with open(f"/proc/{pid}/clear_refs", "w") as f:
        f.write("5")  # its highest so far is forgotten
    before = now_kb(pid)
    pair.up(source)
    pair.rsync_up(source)
    a, b = pair.both(lambda: pair.up(source), lambda: pair.rsync_up(source), n=rounds)
    row(f"{n:,} files, nothing has changed", us(a), us(b), slower(a, b), "0.5x")
    grown = (peak_kb(pid) - before) * 1024
    row("memory of the server, for each of these files", f"{grown / n:.0f} B", "", "", "200 B")
    shutil.rmtree(source)
    pair.clean()


@contextlib.contextmanager
def paired(programs, place, near, far):
    os.environ.update(NO_LIMIT)
    try:
        with place.hosts(), Home(programs) as home:
            with open(home.config, "a") as f:
                f.write(f'[sync]\nallowed_roots = ["{near}"]\n')
            with Client(home, place.wrap) as client:
                client.call("exec_bash", command="true")
                time.sleep(0.5)  # what is pushed beside the first call
                yield Pair(place, client, far)
    finally:
        for name in NO_LIMIT:
            del os.environ[name]


def tables(programs, quick):
    head("sync, loopback", peer="rsync")
    if why_not():
        left_out("sync", why_not())
        return
    world = ssh_servers.World()
    rounds = 1 if quick else 3
    n = 500 if quick else 5000
    size = (32 if quick else 512) << 20
    try:
        with tmpfs(world.folder / "near") as near, tmpfs(world.folder / "far") as far:
            os.chown(far, world.user.uid, world.user.gid)
            source = write_tree(near / "tree", n)
            with Place(world, world.folder, world.server) as place, paired(programs, place, near, far) as pair:
                tree_rows(pair, source, n, ("0.6x", "0.4x", "0.5x"), rounds)
                large_row(pair, source, size, "0.8x", rounds)
                cancel_row(pair, near, max(size, 256 << 20), rounds)
                many_rows(pair, near, 5000 if quick else 100000, rounds)
            slow_table(programs, world, source, far, n, (size, rounds))
    finally:
        world.close()


def slow_table(programs, world, source, far, n, more):
    head(f"sync, a link with a round trip of {2 * ONE_WAY_MS} ms", peer="rsync")
    if link.why_not():
        left_out("a slow link", link.why_not())
        return
    folder = pathlib.Path(world.folder, "slow")
    folder.mkdir()
    with link.Link(ONE_WAY_MS) as line:
        server = world.sshd(address=line.address, wrap=line.far)
        with Place(world, folder, server, line.near) as place, \
                paired(programs, place, source.parent, far) as pair:
            tree_rows(pair, source, n, ("0.5x", "0.25x", "0.4x"), more[1])
            large_row(pair, source, more[0], "0.5x", more[1])
