"""The tables of making boxes: against bwrap, against Docker, by the second, and what an
idle one costs."""
import contextlib
import os
import statistics
import subprocess
import time

import engine
from kit import BWRAP, Client, Home, Refused, faster, head, left_out, row, slower, us

GAP_MS = 40
BURST = 16          # the pool of the burst rows
REFILL_MS = 1500    # for a pool of that size
LINKS = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
SMALL = ("/usr", "/opt", "/etc/ssl/certs", "/etc/alternatives", "/etc/ld.so.cache")
OURS = ("/tmp", "/var/tmp", "/home/user", "/workspace", "/run", "/proc", "/dev")


# ---- the peer: bwrap -------------------------------------------------------------------------

def bwrap(binds, links):
    """The namespaces of our boxes, tmpfs where they can write, proc and dev."""
    args = [BWRAP, "--unshare-all"]
    for path in binds:
        args += ["--ro-bind", path, path]
    for target, path in links:
        args += ["--symlink", target, path]
    for path in ("/tmp", "/home/user", "/workspace"):
        args += ["--tmpfs", path]
    return [*args, "--proc", "/proc", "--dev", "/dev", "--chdir", "/workspace", "/bin/bash", "-c", "true"]


def small_view():
    links = [(os.readlink(p), p) for p in LINKS if os.path.islink(p)]
    plain = [p for p in LINKS if os.path.isdir(p) and not os.path.islink(p)]
    return bwrap([p for p in SMALL if os.path.exists(p)] + plain, links)


def our_view(programs):
    """What a box has, as it sees it itself: the mounts that are not its own, and the links."""
    script = "cat /proc/self/mountinfo; find / /etc -xdev -maxdepth 1 -type l -printf 'link %p %l\\n'"
    with Home(programs) as home:
        out = subprocess.run([*home.server, "run", "bash", "-c", script], check=True, stdout=subprocess.PIPE,
                             text=True).stdout.splitlines()
    links = [(line.split()[2], line.split()[1]) for line in out if line.startswith("link ")]
    mounts = (line.split(" - ") for line in out if not line.startswith("link "))
    points = sorted(left.split()[4] for left, right in mounts if right.split()[0] != "tmpfs")
    within = lambda p, tops: any(p == t or p.startswith(t + "/") for t in tops)
    binds = []
    for p in points:
        if p != "/" and not within(p, OURS) and not within(p, binds):
            binds.append(p)
    return bwrap(binds, [(t, p) for t, p in links if not within(p, OURS)])


# ---- what this build and machine have -----------------------------------------------------------

def about(programs):
    """What a box's isolation is, and whether there is a pool."""
    with Home(programs) as home, Client(home) as client:
        isolation = client.call("create_sandbox")["isolation"]
    with Home(programs, "pool = 0") as home, Client(home) as client:
        try:
            client.call("create_sandbox")
            return isolation, True
        except Refused as e:
            if "unknown key" not in str(e):
                raise
            return isolation, False


def aim_off(isolation):
    return "<= 4x (cgroup v1)" if "v1" in isolation else "<= 2x (cgroup v2)" if "v2" in isolation else "<= 2x"


# ---- the tables ------------------------------------------------------------------------------------

def race(programs, rounds, contenders):
    """Medians of contenders that run in one race; each is (key, kind, command)."""
    args = []
    for _, kind, command in contenders:
        args += [*(["--"] if args else []), kind, *command]
    got = programs.clock("race", rounds, GAP_MS, *args)
    return {c[0]: got[f"c{i}_us"] for i, c in enumerate(contenders)}


@contextlib.contextmanager
def our_servers(programs, pool):
    """[(key, server)] with the pool as it is by default, and without."""
    with Home(programs) as first, Home(programs, *(["pool = 0"] if pool else [])) as second:
        yield ([("pool", first.server)] if pool else []) + [("off", second.server)]


def create_table(programs, facts, quick):
    isolation, pool = facts
    rounds = 10 if quick else 40
    head(f"create_sandbox and the first exec_bash of `true`, {rounds} rounds", peer="bwrap")
    if not BWRAP:
        return left_out("all of it", "bwrap is not installed")
    with our_servers(programs, pool) as ours:
        got = race(programs, rounds, [
            *((key, "create", server) for key, server in ours),
            ("small", "run", small_view()),
            ("view", "run", our_view(programs)),
            ("bash", "run", ["/bin/bash", "-c", "true"]),
        ])
    for key, name, aim in (("pool", "from the pool", "<= 1.0x"), ("off", "pool off", aim_off(isolation))):
        if key not in got:
            left_out(name, "no pool in this build")
            continue
        row(f"{name}; bwrap with a small view", us(got[key]), us(got["small"]), slower(got[key], got["small"]), aim)
        row(f"{name}; bwrap with our view", us(got[key]), us(got["view"]), slower(got[key], got["view"]))
    row("to compare: bash -c true on the host", "", us(got["bash"]), "")


def docker_table(programs, facts, quick):
    rounds = 3 if quick else 15
    head(f"against Docker, {rounds} rounds", peer="Docker")
    with engine.Docker() as docker, our_servers(programs, facts[1]) as ours, Home(programs) as live:
        if not docker.ready:
            return left_out("all of it", docker.why)
        print(f"  {docker.what}")
        got = race(programs, rounds, [
            *((key, "create", server) for key, server in ours),
            ("exec", "exec", live.server),
            ("run", "run", docker.command("run", "--rm", "--network", "none", docker.image, "bash", "-c", "true")),
            ("cli", "run", docker.command("exec", docker.container, "bash", "-c", "true")),
            ("api", "engine", [docker.socket, docker.container]),
        ])
    for key, name, aim in (("pool", "from the pool", ">= 50x faster"), ("off", "pool off", "")):
        if key in got:
            row(f"create and exec, {name}; docker run", us(got[key]), us(got["run"]), faster(got[key], got["run"]), aim)
    row("exec_bash of `true`; docker exec", us(got["exec"]), us(got["cli"]), faster(got["exec"], got["cli"]),
        ">= 20x faster")
    row("exec_bash of `true`; Engine API, no CLI", us(got["exec"]), us(got["api"]), faster(got["exec"], got["api"]))


def rate_table(programs, facts, quick):
    head("creates per second on two cores (2, 4 or 8 calls in flight: the best)", peer="bwrap, twice")
    if not BWRAP:
        return left_out("all of it", "bwrap is not installed")
    pool = facts[1]

    def one(what, aim, settings, rounds, count, settle_ms):
        with Home(programs, *settings) as home:
            got = programs.clock("rate", rounds, count, settle_ms, *home.server, "--", *small_view())
        best = max((got[f"depth{d}_per_s"], d) for d in (2, 4, 8))
        row(f"{what}, {count} at a time, {best[1]} in flight", f"{best[0]:.0f}/s", f"{got['peer_per_s']:.0f}/s",
            f"{best[0] / got['peer_per_s']:.2f}x", aim)

    one("pool off", ">= 1.5x", ["pool = 0"] if pool else [], 2 if quick else 9, 20 if quick else 40, 300)
    if not pool:
        return left_out("bursts from the pool", "no pool in this build")
    one(f"pool of {BURST}", ">= 3x", [f"pool = {BURST}"], 2 if quick else 7, BURST, REFILL_MS)


def slab_kb():
    """What is in use of the kernel's slab, object by object; only root may know. Its pages tell
    less: new objects begin with the holes that others have left."""
    with open("/proc/slabinfo") as f:
        rows = [line.split() for line in f if not line.startswith(("slabinfo", "#"))]
    return sum(int(r[1]) * int(r[3]) for r in rows) / 1024


def memory_kb():
    """Used by everything on this machine: what is not available, and the slab that counts as
    available but is in use by what lives. And the slab alone."""
    def reading():
        with open("/proc/meminfo") as f:
            kb = {line.split(":")[0]: int(line.split()[1]) for line in f}
        slab = slab_kb() if os.geteuid() == 0 else kb["Slab"]
        time.sleep(0.1)
        return kb["MemTotal"] - kb["MemAvailable"] - kb["SUnreclaim"] + slab, slab

    readings = [reading() for _ in range(9)]
    return [statistics.median(r[i] for r in readings) for i in (0, 1)]


def grown_by(batches, each, make):
    """[memory, slab] of one of those that make() makes. In batches, of which the median one
    counts: others live on this machine, too."""
    before = memory_kb()
    grown = []
    for batch in range(batches):
        for i in range(each):
            make(batch * each + i)
        time.sleep(0.7)
        now = memory_kb()
        grown.append([(b - a) / each for a, b in zip(before, now)])
        before = now
    return [statistics.median(g[i] for g in grown) for i in (0, 1)]


def idle_peer(programs, batches, each):
    """The same for bwrap with our view and a process that sleeps; it has no cgroups. None
    without bwrap."""
    if not BWRAP:
        return None
    command = [BWRAP, "--die-with-parent", *our_view(programs)[1:-1], "echo ready; exec sleep infinity"]
    running = []

    def make(_):
        running.append(subprocess.Popen(command, stdout=subprocess.PIPE))
        running[-1].stdout.readline()

    try:
        return grown_by(batches, each, make)
    finally:
        for process in running:
            process.kill()
            process.communicate()


def memory_table(programs, quick):
    batches, each = (5, 20) if quick else (10, 50)
    head(f"host memory of {batches * each} idle boxes, each, all in", peer="bwrap")
    peer = idle_peer(programs, 5, 20)

    def tell(what, ours, aim):
        row(what, f"{ours[0]:.0f} kB", f"{peer[0]:.0f} kB" if peer else "", slower(ours[0], peer[0]) if peer else "",
            f"{aim}, but others were busy here" if ours[0] < ours[1] else aim)
        row("  of it kernel slab", f"{ours[1]:.0f} kB", f"{peer[1]:.0f} kB" if peer else "", "")

    with Home(programs, "pool = 0") as home, Client(home) as client:
        client.call("create_sandbox", name="first")
        time.sleep(2)
        start = memory_kb()
        tell("made, not used yet", grown_by(batches, each, lambda i: client.call("create_sandbox", name=f"idle-{i}")),
             "<= 512 kB")
        if quick:
            return
        for i in range(batches * each):
            client.call("exec_bash", command="true", sandbox_name=f"idle-{i}")
        time.sleep(65)  # then a box has given up the process that it kept for the next command
        tell("each has run `true`, a minute ago", [(b - a) / (batches * each) for a, b in zip(start, memory_kb())],
             "<= 512 kB")
