"""What the tables share: state folders, servers, the clock (bench.c), rows of text."""
import json
import os
import shutil
import subprocess
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
BWRAP = shutil.which("bwrap")


class Programs:
    """The programs of one build; bench.c is compiled beside them."""

    def __init__(self, build):
        self.build = os.path.abspath(build)
        self.anybox = os.path.join(self.build, "anybox")
        self.bench = os.path.join(self.build, "bench")

    def make(self):
        if not shutil.which(os.environ.get("CC", "cc")) and os.path.exists(self.bench):
            return  # a machine without a compiler was given the program
        os.makedirs(self.build, exist_ok=True)
        sources = sorted(os.path.join(HERE, f) for f in os.listdir(HERE) if f.endswith(".c"))
        subprocess.run([os.environ.get("CC", "cc"), "-O2", "-D_GNU_SOURCE", "-o", self.bench, *sources], check=True)

    def clock(self, *args):
        """Runs bench.c; its lines as a dictionary."""
        out = subprocess.run([self.bench, *map(str, args)], check=True, stdout=subprocess.PIPE, text=True).stdout
        return {k: float(v) for k, v in (line.split() for line in out.splitlines())}


class Home:
    """A state folder of its own, with a configuration of its own; its boxes are removed at
    the end. `settings` are lines of [local]."""

    def __init__(self, programs, *settings):
        self.programs, self.settings = programs, settings

    def __enter__(self):
        self.path = tempfile.mkdtemp(prefix="anybox-bench-")
        self.config = os.path.join(self.path, "anybox.toml")
        with open(self.config, "w") as f:
            f.write("\n".join(["[local]", *self.settings]) + "\n")
        return self

    def __exit__(self, *_):
        subprocess.run([*self.server, "rm", "--all"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
        shutil.rmtree(self.path, ignore_errors=True)

    @property
    def server(self):
        return ["env", f"ANYBOX_HOME={self.path}", self.programs.anybox, "--config", self.config]


class Refused(Exception):
    """A tool answered an error."""


class Client:
    """A server and the few calls that need no clock. `wrap` turns its command into one that
    runs it elsewhere."""

    def __init__(self, home, wrap=list):
        self.proc = subprocess.Popen(wrap(home.server), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ask("initialize", {"protocolVersion": "2025-06-18", "capabilities": {},
                                "clientInfo": {"name": "bench", "version": "1"}})

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.proc.stdin.close()
        self.proc.stdout.read()
        self.proc.wait()

    def ask(self, method, params):
        self.proc.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}) + "\n")
        self.proc.stdin.flush()
        answer = json.loads(self.proc.stdout.readline())
        if "error" in answer:
            raise Refused(answer["error"]["message"])
        return answer["result"]

    def call(self, tool, **arguments):
        result = self.ask("tools/call", {"name": tool, "arguments": arguments})
        answer = json.loads(result["content"][0]["text"])
        if result.get("isError"):
            raise Refused(answer["error"])
        return answer


def row(what, ours, peer, ratio, aim=""):
    print(f"  {what:<46} {ours:>12} {peer:>14} {ratio:>8}  {aim}", flush=True)


def head(title, ours="anybox", peer="peer"):
    print(f"\n{title}")
    row("", ours, peer, "ratio", "aim")


def left_out(what, why):
    print(f"  {what}: left out, {why}", flush=True)


def us(v):
    return f"{v / 1000:.2f} ms" if v >= 1000 else f"{v:.0f} us"


def slower(ours, peer):
    """How many times as long as the peer."""
    return f"{ours / peer:.2f}x"


def faster(ours, peer):
    """How many times as fast as the peer."""
    return f"{peer / ours:.1f}x"


def file_system_of(path):
    """Its type, from the longest mount point that leads to it."""
    path, best = os.path.realpath(path), ("", "?")
    with open("/proc/self/mountinfo") as f:
        for line in f:
            left, right = line.split(" - ", 1)
            point = left.split()[4]
            inside = path == point or path.startswith(point.rstrip("/") + "/")
            if inside and len(point) >= len(best[0]):
                best = (point, right.split()[0])
    return best[1]


def idle_percent(seconds):
    """How much of the processors nobody uses now: what others do is in our figures."""
    def read():
        with open("/proc/stat") as f:
            ticks = [int(v) for v in f.readline().split()[1:9]]
        return ticks[3] + ticks[4], sum(ticks)

    before = read()
    time.sleep(seconds)
    now = read()
    return 100 * (now[0] - before[0]) / max(1, now[1] - before[1])
