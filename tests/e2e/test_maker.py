"""The maker: one boxinit that gives birth to the plain boxes of a server. No box depends on
it, it holds nothing that is not its own, and it ends with its server."""
import array
import contextlib
import os
import pathlib
import random
import signal
import socket
import subprocess
import threading

import agent_client
import pytest
from host import children, is_running, links, namespace, parent, pid_inside, wait_until

pytestmark = pytest.mark.every_tier
NO_POOL = {"ANYBOX_LOCAL_POOL": "0"}


def with_maker(host):
    """A server that has made a box, and its maker."""
    client = host.server(env=NO_POOL)
    client.tool("create_sandbox", name="first")
    makers = host.install.makers()
    if not makers:
        pytest.skip("in this tier every box is made by a boxinit of its own")
    assert len(makers) == 1
    return client, makers[0]


def inits(host):
    return {pid for pid in host.install.box_inits() if pid_inside(pid) == 1}


def test_all_plain_boxes_of_a_server_have_one_maker(host):
    client, maker = with_maker(host)
    for i in range(3):
        client.tool("create_sandbox", name=f"b{i}")
        assert client.bash("echo $$; cat /proc/1/comm", sandbox_name=f"b{i}")["exit_code"] == 0
    assert host.install.makers() == [maker]
    assert {parent(pid) for pid in inits(host)} == {maker}
    assert client.bash("tr '\\0' ' ' < /proc/1/cmdline")["stdout"].split() == ["init", "box"]


def anonymous(pid):
    """{where: flags} of the memory of a process that is no file's."""
    found, where = {}, None
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
        words = line.split()
        if "-" in words[0] and not words[0].endswith(":"):
            where = words[0] if len(words) == 5 else None
        elif words[0] == "VmFlags:" and where:
            found[where] = words[1:]
    return found


def test_boxes_do_not_keep_what_their_maker_reads(host):
    client, maker = with_maker(host)
    read_into = {where for where, flags in anonymous(maker).items() if "dc" in flags}
    assert len(read_into) == 1, "it is not copied with the process"
    client.tool("create_sandbox", name="second")
    born = inits(host)
    assert len(born) == 2
    for pid in born:
        assert anonymous(pid) and not read_into & set(anonymous(pid))


def test_boxes_outlive_the_server_and_the_maker_does_not(host):
    client, maker = with_maker(host)
    client.close()
    assert not is_running(maker), "the server has waited for it"
    again = host.server(env=NO_POOL)
    assert again.bash("echo alive", sandbox_name="first")["stdout"] == "alive\n"


def test_a_server_that_is_killed_takes_its_maker_with_it(host):
    client, maker = with_maker(host)
    client.kill()
    assert wait_until(lambda: not is_running(maker))
    assert host.server(env=NO_POOL).bash("echo alive", sandbox_name="first")["stdout"] == "alive\n"


def test_a_server_that_is_killed_in_the_middle_of_a_create_leaves_nothing_of_it(host):
    client, maker = with_maker(host)
    os.kill(maker, signal.SIGSTOP)
    client.start_tool("create_sandbox", {"name": "half"})
    assert wait_until(lambda: len(list((host.home / "boxes").iterdir())) == 2)
    client.kill()
    os.kill(maker, signal.SIGCONT)
    assert wait_until(lambda: not is_running(maker))
    assert wait_until(lambda: len(inits(host)) == 1), "what was born then is not wanted"
    again = host.server(env=NO_POOL)
    assert [b["name"] for b in again.tool("list_sandboxes")["sandboxes"]] == ["first"]
    again.tool("create_sandbox", name="half")


def test_a_maker_that_was_killed_is_replaced(host):
    client, maker = with_maker(host)
    os.kill(maker, signal.SIGKILL)
    assert wait_until(lambda: not is_running(maker))
    client.tool("create_sandbox", name="second")
    now = host.install.makers()
    assert len(now) == 1 and now != [maker]
    assert not pathlib.Path(f"/proc/{maker}").exists(), "nor is it left as a zombie"
    for name in "first", "second":
        assert client.bash("echo alive", sandbox_name=name)["stdout"] == "alive\n"


def test_a_maker_that_dies_with_a_box_in_the_making_costs_nothing_but_time(host):
    client, maker = with_maker(host)
    os.kill(maker, signal.SIGSTOP)
    calls = [client.start_tool("create_sandbox", {"name": f"b{i}"}) for i in range(4)]
    assert wait_until(lambda: len(list((host.home / "boxes").iterdir())) == 5)
    os.kill(maker, signal.SIGKILL)
    for i, call in enumerate(calls):
        assert client.finish_tool(call)["name"] == f"b{i}"
        assert client.bash("echo alive", sandbox_name=f"b{i}")["stdout"] == "alive\n"
    assert len(inits(host)) == 5


def test_a_maker_that_is_silent_is_given_up(host):
    client, maker = with_maker(host)
    os.kill(maker, signal.SIGSTOP)
    client.tool("create_sandbox", name="second")
    assert wait_until(lambda: not is_running(maker))
    client.tool("create_sandbox", name="third")
    assert len(inits(host)) == 3


def test_makers_killed_at_random_moments_fail_no_create(host):
    client, _ = with_maker(host)
    dice = random.Random(3)
    stop = threading.Event()

    def killer():
        while not stop.wait(dice.uniform(0.0, 0.05)):
            for pid in host.install.makers():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass

    thread = threading.Thread(target=killer)
    thread.start()
    try:
        for i in range(8):
            calls = [client.start_tool("create_sandbox", {"name": f"k{i}-{k}"}) for k in range(3)]
            for call in calls:
                client.finish_tool(call)
    finally:
        stop.set()
        thread.join()
    assert len(inits(host)) == 25
    assert len(list((host.home / "boxes").iterdir())) == 25


def test_a_maker_makes_so_many_boxes_and_no_more(host):
    """Those of one have the layout of its memory in common."""
    client, maker = with_maker(host)
    for i in range(70):
        client.tool("create_sandbox", name="one")
        client.tool("delete_sandbox", sandbox_name="one")
    now = host.install.makers()
    assert len(now) == 1 and now != [maker]
    assert not is_running(maker)


def keepers(host):
    """Of roots that boxes share: boxinit outside of all boxes that is no maker."""
    return [pid for pid in host.install.seen_inits()
            if namespace(pid, "pid") == namespace("self", "pid") and not host.install.is_maker(pid)]


def test_a_keeper_ends_when_nothing_is_made_and_with_its_maker(host):
    client, maker = with_maker(host)
    assert wait_until(lambda: not keepers(host))
    client.tool("create_sandbox", name="second")
    os.kill(maker, signal.SIGKILL)
    assert wait_until(lambda: not keepers(host))
    assert client.bash("cat /etc/hostname", sandbox_name="second")["stdout"] == "second\n"


def stop_keepers(maker):
    """Those that there are: it may be that they have ended."""
    found = [pid for pid in children(maker.process.pid) if pid_inside(pid) != 1]
    for pid in found:
        try:
            os.kill(pid, signal.SIGSTOP)
        except ProcessLookupError:
            pass
    return [pid for pid in found if is_running(pid)]


@pytest.mark.skipif(not agent_client.HAS_SHARED_ROOTS, reason="no boxes that share a root")
def test_a_keeper_that_is_stopped_does_not_keep_boxes_from_being_made_and_ends_with_its_maker():
    with contextlib.ExitStack() as boxes:
        with agent_client.Maker() as maker:
            stopped = []
            while not stopped:
                boxes.enter_context(agent_client.Box(mode=1, maker=maker))
                stopped = stop_keepers(maker)
            for _ in range(2):
                b = boxes.enter_context(agent_client.Box(mode=1, maker=maker))
                assert b.sh("cat /etc/hostname").text == "box\n"
        assert wait_until(lambda: not [pid for pid in stopped if is_running(pid)])


def test_a_maker_holds_nothing_but_its_socket(host):
    """And that of the one who keeps a root for its boxes."""
    client, maker = with_maker(host)
    client.bash("sleep 60 & true", sandbox_name="first")
    assert wait_until(lambda: sorted(links(maker))[:4] == [0, 1, 2, 3] and len(links(maker)) <= 5), links(maker)
    assert all(to.startswith("socket:") for fd, to in links(maker).items() if fd > 2), links(maker)
    held = links(maker)
    assert [held[fd] for fd in range(3)] == ["/dev/null"] * 3 and held[3].startswith("socket:")
    assert pathlib.Path(f"/proc/{maker}/environ").read_bytes() == b""
    assert os.getsid(maker) == maker


def test_boxes_of_one_maker_have_nothing_of_each_other(host):
    client, _ = with_maker(host)
    ids = [client.tool("create_sandbox", name=f"b{i}")["sandbox_id"] for i in range(4)]
    for pid in inits(host):
        held = " ".join(links(pid).values())
        assert sum(i in held for i in ids) <= 1, held
        assert "anybox.db" not in held and "seqpacket" not in held
        assert all(fd < 32 for fd in links(pid))
    # A control may be open for a moment after the answer.
    assert wait_until(lambda: len({frozenset(links(pid)) for pid in inits(host)}) == 1), \
        "each is born with the same descriptors"


# ---- the maker itself -----------------------------------------------------------------------


class Maker:
    """boxinit maker, started by hand."""

    def __init__(self):
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        fd = theirs.detach()
        self.process = subprocess.Popen([agent_client.BOXINIT, "maker"], env={}, close_fds=False,
                                        preexec_fn=lambda: agent_client.place_fds([fd]))
        os.close(fd)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()
        assert self.process.wait(30) == 0

    def send(self, data, fds=()):
        rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        self.socket.sendmsg([data], rights)


class MadeBox(agent_client.Box):
    """A box that a maker makes."""

    def __init__(self, maker, **kw):
        self.maker = maker
        super().__init__(**kw)

    def start(self, spec, order, run_as, prefix, without):
        control, theirs = socket.socketpair()
        folder = os.open(self.folder, os.O_PATH)
        self.maker.send(spec, [theirs.fileno(), folder])
        theirs.close()
        os.close(folder)
        with control:
            self.give_order(control, order)


@pytest.fixture
def maker(tier):
    if tier.name != "root" or os.geteuid() != 0:
        pytest.skip("once is enough")
    with Maker() as m:
        yield m


def test_bad_messages_harm_no_other_box(maker):
    null = os.open("/dev/null", os.O_RDONLY)
    with MadeBox(maker) as one:
        maker.send(b"x")
        maker.send(b"x" * (40 << 10), [null, null])
        maker.send(b"x", [null] * 3)
        maker.send(b"x", [null] * 12)
        for spec in b"", b"\xff" * 200, os.urandom(300):
            with pytest.raises(agent_client.Failed):
                MadeBox(maker, raw_spec=spec)
        for wrong in {"network": 1}, {"image": "/tmp"}, {"mode": 2}, {"mode": 0}, {"keep_fd": True}, {"network": 9}:
            with pytest.raises(agent_client.Failed):
                MadeBox(maker, **wrong)
        with MadeBox(maker) as two:
            assert one.sh("echo one").out == b"one\n" and two.sh("echo two").out == b"two\n"
    os.close(null)


def test_a_box_that_nobody_waits_for_is_not_made(maker):
    folder = os.open("/dev", os.O_PATH)  # nothing is made there: the spec comes first
    ours, theirs = socket.socketpair()
    ours.close()
    maker.send(b"\1\0\0\0d", [theirs.fileno(), folder])
    theirs.close()
    os.close(folder)
    with MadeBox(maker) as box:
        assert box.sh("echo still here").out == b"still here\n"
