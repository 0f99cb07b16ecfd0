"""Network "internet": out into the world, but not to this machine nor to private networks.

The world is two network namespaces that the test makes. In one of them anybox runs: it
plays the host, with services on all its addresses. The other plays everything outside: a
public address, and private ones that the host can reach and a box must not."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import pytest
import rootfs
from host import IS_ROOT, command_line, executable, is_running, namespace, pids, wait_until

pytestmark = pytest.mark.every_tier

MUST_RUN = os.environ.get("ANYBOX_MUST_RUN", "").split(",")
GROUP, PUBLIC, OWN = "239.1.2.3", "203.0.113.10", "203.0.113.1"
PRIVATE = ("10.66.0.10", "10.0.2.50", "172.16.9.10", "172.31.255.1", "192.168.77.10", "100.64.5.5",
           "169.254.169.254", "198.18.0.10", "192.0.0.10")

# Prohibited, unreachable, no such neighbour, nobody there, no answer.
REFUSED = re.compile(r"error: (\[Errno (13|101|113|111)\]|timed out)")

# Runs "$@" with the name server $1, a /dev/net/tun for everybody, and what $2 changes.
IN_NET = """
mount --bind "$1" /etc/resolv.conf && mount -t tmpfs tmpfs /dev/net &&
    mknod -m 666 /dev/net/tun c 10 200 && eval "$2" || exit 125
shift 2
exec "$@"
"""

# Talks to each how:address of argv, all at once: what the peer says, or the error.
TALK = """
import concurrent.futures, socket, struct, sys
def talk(target):
    how, to = target.split(":")
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM if how.startswith("tcp") else socket.SOCK_DGRAM) as s:
        s.settimeout(3)
        extra = []
        if how.endswith("device"):
            s.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, b"tap0")
        if how.endswith("pktinfo"):
            extra = [(socket.IPPROTO_IP, 8, struct.pack("=I8x", socket.if_nametoindex("tap0")))]
        if how.startswith("tcp"):
            s.connect((to, 8080))
        else:
            s.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_TTL, 8)
            s.sendmsg([target.encode()], extra, 0, (to, 8080))
        return s.recv(100).decode().strip()
def tell(target):
    try:
        return talk(target)
    except OSError as e:
        return f"error: {e}"
with concurrent.futures.ThreadPoolExecutor(100) as pool:
    for target, got in zip(sys.argv[1:], pool.map(tell, sys.argv[1:])):
        print(target, got)
"""


def run(*argv):
    subprocess.run([str(a) for a in argv], check=True, stdin=subprocess.DEVNULL)


class World:
    def __init__(self, folder):
        self.folder = folder
        self.host, self.out = f"abxh{os.getpid()}", f"abxo{os.getpid()}"
        self.peers = []
        self.resolv = folder / "resolv.conf"
        self.resolv.write_text(f"nameserver {PUBLIC}\n")

    def make(self):
        for name in self.host, self.out:
            run("ip", "netns", "add", name)
            run("ip", "-n", name, "link", "set", "lo", "up")
        run("ip", "-n", self.host, "link", "add", "veth0", "type", "veth", "peer", "name", "veth0", "netns", self.out)
        for name, address in (self.host, OWN), (self.out, PUBLIC):
            run("ip", "-n", name, "address", "add", f"{address}/24", "dev", "veth0")
            run("ip", "-n", name, "link", "set", "veth0", "up")
        for address in PRIVATE:
            run("ip", "-n", self.out, "address", "add", f"{address}/32", "dev", "veth0")
        run("ip", "-n", self.host, "route", "add", "default", "via", PUBLIC)
        self.peer(self.host, "host", OWN)
        self.peer(self.out, "internet", PUBLIC)

    def enter(self, name, argv):
        return ["nsenter", f"--net=/run/netns/{name}", *[str(a) for a in argv]]

    def peer(self, where, name, address):
        log = self.folder / name
        script = pathlib.Path(__file__).with_name("net_peer.py")
        self.peers.append(subprocess.Popen(self.enter(where, [sys.executable, script, name, log, address])))
        assert wait_until(lambda: log.exists() and "ready" in log.read_text())

    def heard(self, name):
        return (self.folder / name).read_text().splitlines()

    def stacks(self):
        """Every slirp4netns of this world's host."""
        here = f"net:[{os.stat(f'/run/netns/{self.host}').st_ino}]"
        return [pid for pid in pids() if executable(pid).endswith("/slirp4netns") and
                namespace(pid, "net") == here and is_running(pid)]

    def end(self):
        for peer in self.peers:
            peer.kill()
            peer.wait()
        for name in self.host, self.out:
            subprocess.run(["ip", "netns", "del", name], check=False, stderr=subprocess.DEVNULL)


class TierInWorld:
    def __init__(self, tier, world):
        self.tier, self.world = tier, world
        self.also = ":"  # a shell command

    def __getattr__(self, name):
        return getattr(self.tier, name)

    def wrap(self, argv):
        inside = ["unshare", "-m", "sh", "-c", IN_NET, "sh", self.world.resolv, self.also, *self.tier.wrap(argv)]
        return self.world.enter(self.world.host, inside)


@pytest.fixture(scope="module")
def world(session_folder):
    cannot = "only root makes network namespaces" if not IS_ROOT else next(
        (f"{name} is not installed" for name in ("ip", "slirp4netns") if not shutil.which(name)), None)
    if cannot:
        (pytest.fail if "local" in MUST_RUN and IS_ROOT else pytest.skip)(cannot)
    folder = session_folder / "world"
    folder.mkdir()
    made = World(folder)
    try:
        made.make()
        yield made
    finally:
        made.end()


@pytest.fixture
def host(tier, world, host):
    host.tier = TierInWorld(tier, world)
    yield host
    host.sweep()
    assert wait_until(lambda: not world.stacks()), "a slirp4netns has outlived its box"


@pytest.fixture
def box(client):
    made = client.tool("create_sandbox", name="work", network="internet")
    assert made["network"] == "internet"
    client.box_id = made["sandbox_id"]
    return client


def answers(text):
    return dict(line.split(" ", 1) for line in text.splitlines())


def talk(box, *targets, **more):
    answer = box.bash("python3 - " + " ".join(targets), stdin=TALK, **more)
    assert answer["exit_code"] == 0, answer["stderr"]
    return answers(answer["stdout"])


def test_it_reaches_the_internet_by_address_and_by_name(box, world):
    ways = [f"tcp:{PUBLIC}", f"udp:{PUBLIC}", f"tcp-device:{PUBLIC}", f"udp-pktinfo:{PUBLIC}", "tcp:www.example.org"]
    assert talk(box, *ways) == dict.fromkeys(ways, "internet")
    listed = box.tool("list_sandboxes")["sandboxes"]
    assert [s["network"] for s in listed] == ["internet"]
    assert len(world.stacks()) == 1


@pytest.mark.only_tiers("root", "subuid")
def test_a_box_of_an_image_reaches_the_same(host, tier):
    image = rootfs.make(host.folder / "image", tier.uid, python=True)
    client = host.server()
    client.tool("create_sandbox", name="work", network="internet", image=str(image))
    ways = [f"tcp:{PUBLIC}", "tcp:www.example.org"]
    assert talk(client, *ways) == dict.fromkeys(ways, "internet")
    closed = [f"{how}:{to}" for to in (*PRIVATE, OWN, "10.0.2.2") for how in ("tcp", "tcp-device")]
    for target, got in talk(client, *closed).items():
        assert REFUSED.match(got), (target, got)



@pytest.mark.only_tiers("root", "self")
def test_the_host_of_these_tests_reaches_it_all(world, tier):
    """Without this, what follows would prove nothing."""
    outside = [f"{how}:{to}" for how in ("tcp", "udp") for to in (PUBLIC, *PRIVATE)]
    own = [f"tcp:{to}" for to in (OWN, "127.0.0.1")]
    argv = world.enter(world.host, [sys.executable, "-", *outside, *own, f"udp:{GROUP}"])
    got = subprocess.run(argv, input=TALK, text=True, capture_output=True, check=True)
    said = answers(got.stdout)
    assert said.pop(f"udp:{GROUP}") in ("internet", "host")  # both hear it
    assert said == {**dict.fromkeys(outside, "internet"), **dict.fromkeys(own, "host")}
    assert f"udp udp:{GROUP}" in world.heard("internet")


def test_it_reaches_neither_the_host_nor_private_networks(box, world):
    addresses = ("127.0.0.1", "10.0.2.2", "10.0.2.3", OWN, "0.0.0.0", "255.255.255.255", GROUP, "224.0.0.251",
                 *PRIVATE)
    ways = [f"{how}:{to}" for to in addresses for how in ("tcp", "udp", "tcp-device", "udp-device", "udp-pktinfo")]
    before = {name: len(world.heard(name)) for name in ("host", "internet")}
    got = talk(box, *ways)
    assert set(got) == set(ways) and all(REFUSED.match(said) for said in got.values()), got
    for name, lines in before.items():
        assert world.heard(name)[lines:] == []


def test_it_cannot_change_its_routes(box):
    for command in ("ip route del 10.0.0.0/8", "ip route add 10.66.0.10 via 10.0.2.2",
                    "ip neigh add 10.66.0.10 lladdr 52:55:0a:00:02:02 dev tap0", "ip link set tap0 down",
                    "ip rule add to 10.0.0.0/8 lookup 99", "ip address add 10.66.0.1/24 dev tap0"):
        answer = box.bash(f"PATH=/usr/sbin:/sbin:$PATH; {command}")
        assert answer["exit_code"] != 0 and "not permitted" in answer["stderr"], (command, answer)


def test_ipv6_leads_nowhere(box):
    code = "import socket; s = socket.socket(socket.AF_INET6); s.settimeout(3); s.connect(('2001:db8::1', 80))"
    assert "No route to host" in box.bash("python3 -", stdin=code)["stderr"]


def test_without_a_network_nothing_is_reached(client, world):
    client.tool("create_sandbox", name="alone")
    ways = [f"tcp:{to}" for to in (PUBLIC, OWN, "10.0.2.2", "10.66.0.10")]
    assert all("unreachable" in said for said in talk(client, *ways).values())
    assert world.stacks() == []


def test_slirp4netns_has_nothing_that_it_does_not_need(box, world, tier):
    pid, = world.stacks()
    status = dict(line.split(":", 1) for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines())
    assert status["Seccomp"].strip() == "2" and status["NoNewPrivs"].strip() == "1", command_line(pid)
    net_bind, net_admin, sys_admin = 1 << 10, 1 << 12, 1 << 21
    allowed = net_bind if tier.name != "plain" else net_admin | sys_admin
    assert int(status["CapPrm"], 16) & ~allowed == 0 and namespace(pid, "user") != namespace("self", "user")
    uid = {"root": 1 << 16, "subuid": tier.uid, "plain": tier.uid}[tier.name]
    assert all(int(u) >= uid for u in status["Uid"].split()), status["Uid"]
    assert namespace(pid, "mnt") != namespace("self", "mnt")
    for path in "home", "root", "tmp", "var":
        inside = pathlib.Path(f"/proc/{pid}/root", path)
        assert not inside.exists() or list(inside.iterdir()) == [], inside
    assert pathlib.Path(f"/proc/{pid}/environ").read_bytes() == b""
    links = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
    known = ("/dev/null", "/dev/net/tun", "/net/tun", "pipe:", "net:", "user:", "anon_inode:", "socket:")
    assert all(link.startswith(known) for link in links), links


def test_slirp4netns_is_in_the_cgroups_of_its_box(box, world, install):
    pid, = world.stacks()
    init, = install.box_inits()
    assert pathlib.Path(f"/proc/{pid}/cgroup").read_text() == pathlib.Path(f"/proc/{init}/cgroup").read_text()


def test_it_ends_when_the_box_is_deleted(box, world):
    assert len(world.stacks()) == 1
    box.tool("delete_sandbox", sandbox_id=box.box_id)
    assert wait_until(lambda: not world.stacks())


def test_it_ends_when_init_is_killed(box, world, install):
    init, = install.box_inits()
    os.kill(init, signal.SIGKILL)
    assert wait_until(lambda: not world.stacks())


def test_it_ends_when_the_time_of_the_box_is_over(client, world):
    client.tool("create_sandbox", name="short", network="internet", timeout=5)
    assert len(world.stacks()) == 1
    assert wait_until(lambda: not world.stacks())


def test_it_outlives_the_server(host, world):
    first = host.server()
    made = first.tool("create_sandbox", name="work", network="internet")["sandbox_id"]
    first.kill()
    second = host.server()
    assert talk(second, f"tcp:{PUBLIC}", sandbox_id=made) == {f"tcp:{PUBLIC}": "internet"}
    assert len(world.stacks()) == 1


def test_when_it_is_killed_only_the_network_is_gone(box, world):
    pid, = world.stacks()
    os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: not world.stacks())
    assert box.bash("echo alive > f; cat f")["stdout"] == "alive\n"
    # At once, as soon as the kernel has looked at the interface again.
    assert wait_until(lambda: "unreachable" in talk(box, f"tcp:{PUBLIC}")[f"tcp:{PUBLIC}"])


def test_two_boxes_do_not_meet(client):
    client.tool("create_sandbox", name="a", network="internet")
    client.tool("create_sandbox", name="b", network="internet")
    serve = "import socket\ns = socket.create_server(('0.0.0.0', 8080))\nwhile True: s.accept()[0].close()"
    client.bash("cat > serve.py; setsid python3 serve.py >/dev/null 2>&1 &", stdin=serve, sandbox_name="a")
    ways = [f"{how}:10.0.2.100" for how in ("tcp", "tcp-device")]
    assert all("refused" in said for said in talk(client, *ways, sandbox_name="b").values())


def test_the_command_line_gives_one_too(host):
    code = f"import socket; print(socket.create_connection(('{PUBLIC}', 8080)).recv(99).decode())"
    got = host.run("run", "--network", "internet", "python3", "-c", code)
    assert got.stdout.strip() == "internet", got.stderr


@pytest.mark.parametrize("lack,words", [
    ("mount --bind /dev/null /usr/bin/slirp4netns", "apt-get install slirp4netns"),
    ("rm /dev/net/tun", "modprobe tun"),
    ("chmod 600 /dev/net/tun", "chmod 666 /dev/net/tun"),
])
def test_what_is_missing_is_told(host, world, lack, words):
    host.tier.also = lack
    client = host.server()
    error = client.tool_error("create_sandbox", network="internet")
    assert error["code"] == "unsupported" and words in error["error"]
    assert client.tool("list_sandboxes")["sandboxes"] == [] and world.stacks() == []
    assert client.tool("create_sandbox", network="none")["status"] == "running"
    doctor = host.run("doctor").stdout
    assert words in doctor, doctor


def test_a_slirp4netns_that_fails_is_told(host):
    host.tier.also = "mount --bind /bin/false /usr/bin/slirp4netns"
    error = host.server().tool_error("create_sandbox", network="internet")
    assert "could not be started" in error["error"] and "none" in error["error"]
