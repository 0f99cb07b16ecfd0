"""The tables of SSH: commands over a warm connection beside OpenSSH's ControlMaster and
paramiko with a poll, many at once, a first call beside libssh, a long file beside `ssh cat`,
and all that matters on a link with a round trip of 50 ms. Root only: it makes a user to log in
as and a slow link, with the servers of the end-to-end tests."""
import contextlib
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import time

from kit import HERE, Client, Home, head, left_out, row, slower, us
from web import KEY, Server

sys.path[:0] = [os.path.join(HERE, ".."), os.path.join(HERE, "../e2e")]

import link  # noqa: E402
import ssh_servers  # noqa: E402

ONE_WAY_MS = 25
HOSTS = 10

FETCH = """
import http.client, sys, time
began = time.monotonic()
c = http.client.HTTPConnection("127.0.0.1", int(sys.argv[1]))
c.request("GET", sys.argv[2], headers={"Authorization": "Bearer " + sys.argv[3]})
r, room, n = c.getresponse(), memoryview(bytearray(1 << 20)), 0
while True:
    got = r.readinto(room)
    if not got:
        break
    n += got
if r.status != 200 or n != int(sys.argv[4]):
    sys.exit(f"{r.status}, {n} bytes")
print(time.monotonic() - began)
"""

ECHO = """
import socket
listener = socket.create_server(("0.0.0.0", 7))
print("ready", flush=True)
while True:
    s = listener.accept()[0]
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    while True:
        d = s.recv(100)
        if not d:
            break
        s.sendall(d)
"""

ROUND_TRIP = """
import socket, statistics, sys, time
s = socket.create_connection((sys.argv[1], 7))
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
took = []
for _ in range(20):
    began = time.monotonic()
    s.sendall(b"x")
    s.recv(1)
    took.append(time.monotonic() - began)
print(statistics.median(took) * 1e6)
"""


def seconds(act):
    began = time.monotonic()
    act()
    return time.monotonic() - began


def median_us(n, act):
    act()
    return statistics.median(seconds(act) for _ in range(n)) * 1e6


class Place:
    """An SSH server, the way to it, and OpenSSH's client with a master connection to it."""

    def __init__(self, world, folder, server, wrap=list):
        self.world, self.folder, self.server, self.wrap = world, folder, server, wrap
        self.where = f"{world.user.name}@{server.address}"
        self.common = ["-i", str(world.key), "-p", str(server.port), "-o", "StrictHostKeyChecking=no",
                       "-o", f"UserKnownHostsFile={folder}/kh", "-o", f"ControlPath={folder}/mux-%p"]

    def __enter__(self):
        subprocess.run(self.wrap(["ssh", *self.common, "-MNf", self.where]), check=True, stderr=subprocess.DEVNULL)
        return self

    def __exit__(self, *_):
        subprocess.run(["ssh", *self.common, "-O", "exit", self.where], check=False, stderr=subprocess.DEVNULL)

    def entry(self, name="bench", server=None):
        return self.world.entry(server or self.server, name, known_hosts=str(self.folder / "known_hosts"))

    def ssh(self, command):
        subprocess.run(self.wrap(["ssh", *self.common, self.where, command]), check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    @contextlib.contextmanager
    def hosts(self, *entries):
        """What is started in here knows these hosts."""
        os.environ.update(ssh_servers.hosts(*(entries or [self.entry()])))
        try:
            yield
        finally:
            del os.environ["REMOTE_SANDBOX_LIST"]


def paramiko_poll(place):
    """One call as remote-sandbox-mcp makes it: a channel, and a look every 50 ms."""
    import paramiko
    client = paramiko.SSHClient()
    client.set_missing_host_key_policy(paramiko.AutoAddPolicy())
    client.connect(place.server.address, place.server.port, place.world.user.name,
                   key_filename=str(place.world.key), allow_agent=False, look_for_keys=False)

    def act():
        channel = client.get_transport().open_session()
        channel.exec_command("timeout 120s bash -c true")
        while not channel.exit_status_ready():
            time.sleep(0.05)
        channel.recv_exit_status()
        channel.close()

    return client, act


def warm_rows(programs, place, n):
    with place.hosts(), Home(programs) as home, Client(home) as client:
        ours = median_us(n, lambda: client.call("exec_bash", command="true"))
        master = median_us(n // 2, lambda: place.ssh("true"))
        row("`true`, beside ssh with a ControlMaster", us(ours), us(master), slower(ours, master), "0.6x")
        try:
            peer, act = paramiko_poll(place)
        except ImportError:
            left_out("paramiko", "python3-paramiko is not installed")
            return
        polled = median_us(max(10, n // 10), act)
        peer.close()
        row("`true`, beside paramiko with a 50 ms poll", us(ours), us(polled), slower(ours, polled), "0.05x")


def many_row(programs, place):
    with place.hosts(), Home(programs) as home, Client(home) as client:
        client.call("exec_bash", command="true")
        began = time.monotonic()
        for i in range(64):
            client.proc.stdin.write('{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"exec_bash",'
                                    '"arguments":{"command":"sleep 1"}}}\n' % (i + 10))
        client.proc.stdin.flush()
        for _ in range(64):
            client.proc.stdout.readline()
        row("64 times `sleep 1` at once (MaxSessions 10)", f"{time.monotonic() - began:.2f} s", "1 s", "", "1.5 s")


def first_row(programs, place, n):
    """Fresh programs each time; which of the two goes first changes."""
    program = os.path.join(programs.build, "libssh_first")
    source = os.path.join(HERE, "peers/libssh_first.c")
    made = subprocess.run([os.environ.get("CC", "cc"), "-O2", "-o", program, source, "-lssh"], check=False)
    if made.returncode != 0:
        left_out("a first call", "libssh's own client cannot be compiled (libssh-dev)")
        return

    def ours():
        with Home(programs) as home, Client(home, place.wrap) as client:
            return seconds(lambda: client.call("exec_bash", command="true")) * 1e6

    def theirs():
        argv = [program, place.server.address, str(place.server.port), place.world.user.name, str(place.world.key)]
        return float(subprocess.run(place.wrap(argv), check=True, stdout=subprocess.PIPE, text=True).stdout)

    with place.hosts():
        pairs = [(ours(), theirs()) if i % 2 else tuple(reversed((theirs(), ours()))) for i in range(n)]
    a, b = (statistics.median(p[i] for p in pairs) for i in (0, 1))
    row("the first call, beside libssh's own `true`", us(a), us(b), slower(a, b), "1.3x")


def file_row(programs, place, size):
    """Through GET /sandbox/file, beside `ssh cat` over a master connection."""
    name = "large"
    path = place.world.user.home / name
    with open(path, "wb") as f:
        for _ in range(size >> 20):
            f.write(os.urandom(1 << 20))
    place.world.user.own(path)
    with place.hosts(), Home(programs) as home:
        argv = [programs.anybox, "--config", home.config, "serve", "--port", "0"]
        env = {**os.environ, "ANYBOX_HOME": home.path, "ANYBOX_HTTP_KEYS": f"bench:{KEY}"}
        with Server(place.wrap(argv), env) as server:
            def fetch(what=name, length=size):
                query = f"/sandbox/file?sandbox_name=bench&file_path={what}"
                argv = [sys.executable, "-c", FETCH, str(server.port), query, KEY, str(length)]
                return float(subprocess.run(place.wrap(argv), check=True, stdout=subprocess.PIPE, text=True).stdout)

            place.world.user.write("warm", "x" * 1000)
            fetch("warm", 1000)
            pairs = [(fetch(), seconds(lambda: place.ssh(f"cat {name}"))) for _ in range(3)]
    path.unlink()
    rates = [size / 1e6 / statistics.median(p[i] for p in pairs) for i in (0, 1)]
    row(f"{size >> 20} MiB downloaded, beside `ssh cat`", f"{rates[0]:.0f} MB/s", f"{rates[1]:.0f} MB/s",
        f"{rates[0] / rates[1]:.2f}x", "0.8x")


def slow_exec_row(programs, place, line):
    with subprocess.Popen(line.far([sys.executable, "-c", ECHO]), stdout=subprocess.PIPE, text=True) as echo:
        echo.stdout.readline()
        trip = float(subprocess.run(line.near([sys.executable, "-c", ROUND_TRIP, line.address]), check=True,
                                    stdout=subprocess.PIPE, text=True).stdout)
        echo.kill()
    with place.hosts(), Home(programs) as home, Client(home, place.wrap) as client:
        for _ in range(5):  # the agent is pushed beside the first calls
            client.call("exec_bash", command="true")
            time.sleep(0.3)
        ours = median_us(20, lambda: client.call("exec_bash", command="true"))
    row("`true`, beside one round trip", us(ours), us(trip), slower(ours, trip), "1.1x")


def hosts_row(programs, place):
    servers = [place.world.sshd(address=place.server.address, wrap=place.server.wrap) for _ in range(HOSTS)]
    entries = [place.entry(f"host{i}", s) for i, s in enumerate(servers)]

    def look(*some):
        with place.hosts(*some), Home(programs) as home, Client(home, place.wrap) as client:
            return seconds(lambda: client.call("list_sandboxes", check_resources=True))

    one = max(look(e) for e in entries[:3])
    ten = look(*entries)
    row(f"{HOSTS} hosts looked at, beside the slowest", us(ten * 1e6), us(one * 1e6), slower(ten, one), "about 1x")


def table(programs, quick):
    head("SSH, loopback", peer="peer")
    if ssh_servers.why_not() or not shutil.which("ssh"):
        left_out("SSH", ssh_servers.why_not() or "ssh is not installed")
        return
    world = ssh_servers.World()
    try:
        with Place(world, world.folder, world.server) as place:
            warm_rows(programs, place, 30 if quick else 200)
            many_row(programs, place)
            first_row(programs, place, 5 if quick else 15)
            file_row(programs, place, (64 if quick else 256) << 20)
        slow_table(programs, world, quick)
    finally:
        world.close()


def slow_table(programs, world, quick):
    head(f"SSH, a link with a round trip of {2 * ONE_WAY_MS} ms", peer="peer")
    if link.why_not():
        left_out("a slow link", link.why_not())
        return
    folder = pathlib.Path(world.folder, "slow")
    folder.mkdir()
    with link.Link(ONE_WAY_MS) as line:
        server = world.sshd(address=line.address, wrap=line.far)
        with Place(world, folder, server, line.near) as place:
            slow_exec_row(programs, place, line)
            first_row(programs, place, 3 if quick else 9)
            file_row(programs, place, (16 if quick else 256) << 20)
            hosts_row(programs, place)
