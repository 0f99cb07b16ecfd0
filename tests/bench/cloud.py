"""The table of sandboxes of an OpenSandbox platform: a command beside one bare HTTP exchange with the
same execd, and files beside curl, in turns. The platform is the tests' stand-in, in a process of its own.

Who comes second finds a machine that is awake and memory that has just been freed, which is worth a fifth: each
command waits for the same moment, and who copies first changes."""
import http.client
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
import urllib.request

from kit import HERE, Client, Home, head, left_out, row, slower, us

STAND_IN = os.path.join(HERE, "..", "e2e", "opensandbox_server.py")
MIB = 1 << 20
PAUSE_S = 0.05


class Bare:
    """A sandbox of our own, and a client of its execd that knows when a command has ended."""

    def __init__(self, url):
        order = {"image": {"uri": "python:3.12"}, "entrypoint": ["tail", "-f", "/dev/null"], "resourceLimits": {},
                 "timeout": 3600, "env": {"EXECD_API_GRACE_SHUTDOWN": "20ms"}}
        request = urllib.request.Request(f"{url}/v1/sandboxes", json.dumps(order).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request) as answer:
            self.id = json.load(answer)["id"]
        with urllib.request.urlopen(f"{url}/v1/sandboxes/{self.id}/endpoints/44772") as answer:
            self.where = json.load(answer)["endpoint"].removesuffix("/proxy/44772")
        self.connection = http.client.HTTPConnection(self.where, timeout=60)
        self.connection.connect()

    def run(self, command):
        """Microseconds to the last event; the connection is used again."""
        began = time.perf_counter()
        self.connection.request("POST", "/command", json.dumps({"command": command}),
                                {"Content-Type": "application/json"})
        answer = self.connection.getresponse()
        while b'"execution_complete"' not in answer.readline():
            pass
        took = (time.perf_counter() - began) * 1e6
        answer.read()
        return took


def seconds(*words):
    began = time.perf_counter()
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - began


def in_turn(turn, ways):
    """Seconds of ours and of the peer's; every second time the peer is first."""
    took = {i: seconds(*ways[i]) for i in ((0, 1) if turn % 2 == 0 else (1, 0))}
    return took[0], took[1]


def commands(client, bare, box, rounds):
    ours, theirs = [], []
    for _ in range(rounds):
        time.sleep(PAUSE_S)
        began = time.perf_counter()
        client.call("exec_bash", command="true", sandbox_id=box)
        ours.append((time.perf_counter() - began) * 1e6)
        time.sleep(PAUSE_S)
        theirs.append(bare.run("true"))
    row(f"exec_bash of `true`, {rounds} rounds", us(statistics.median(ours)), us(statistics.median(theirs)),
        slower(statistics.median(ours), statistics.median(theirs)), "<= 1.2x")
    row("the slowest of them", us(max(ours)), us(max(theirs)), slower(max(ours), max(theirs)), "no second")


def files(home, bare, box, folder, mib, rounds):
    near, far = os.path.join(folder, "near"), os.path.join(folder, "far")
    with open(near, "wb") as f:
        for _ in range(mib):
            f.write(os.urandom(MIB))
    there = f"{folder}/there"
    meta = os.path.join(folder, "meta")
    with open(meta, "w", encoding="ascii") as f:
        json.dump({"path": there, "mode": 644}, f)
    uploads = [[*home.server, "cp", near, f"{box}:big"],
               ["curl", "-sSf", "-H", "Expect:", "-F", f"metadata=@{meta};type=application/json",
                "-F", f"file=@{near}", f"http://{bare.where}/files/upload"]]
    downloads = [[*home.server, "cp", f"{box}:big", far],
                 ["curl", "-sSf", "-o", f"{far}2", f"http://{bare.where}/files/download?path={there}"]]
    ways = {"uploads": [], "downloads": []}
    for turn in range(rounds):
        ways["uploads"].append(in_turn(turn, uploads))
        ways["downloads"].append(in_turn(turn, downloads))
        seconds(*home.server, "exec", box, "rm", "big")
        for path in there, far, f"{far}2":
            os.unlink(path)
    for what, pairs in ways.items():
        ours, theirs = (statistics.median(p[i] for p in pairs) for i in (0, 1))
        row(f"{what} of {mib} MiB; curl", f"{mib / ours:.0f} MiB/s", f"{mib / theirs:.0f} MiB/s",
            f"{theirs / ours:.2f}x", ">= 0.8x")


def table(programs, quick):
    head("sandboxes of an OpenSandbox platform", peer="bare HTTP")
    if not shutil.which("curl"):
        return left_out("all of it", "curl is not installed")
    server = subprocess.Popen([sys.executable, STAND_IN], stdout=subprocess.PIPE, text=True)
    try:
        url = server.stdout.readline().strip()
        os.environ.update(OPENSANDBOX_SERVER=url, OPENSANDBOX_DEFAULT_IMAGE="python:3.12")
        bare = Bare(url)
        with Home(programs) as home:
            with Client(home) as client:
                made = client.call("create_sandbox", name="bench")
                client.call("exec_bash", command="true", sandbox_id=made["sandbox_id"])
                commands(client, bare, made["sandbox_id"], 20 if quick else 100)
            folder = os.path.join(home.path, "files")
            os.mkdir(folder)
            os.chmod(home.path, 0o755)
            os.chmod(folder, 0o777)
            files(home, bare, "bench", folder, 128 if quick else 512, 2 if quick else 6)
    finally:
        for name in "OPENSANDBOX_SERVER", "OPENSANDBOX_DEFAULT_IMAGE":
            os.environ.pop(name, None)
        server.terminate()
        server.wait()
        server.stdout.close()
