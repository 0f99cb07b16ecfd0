"""What is in force is told, and what a machine refuses is told with the reason and the fix.

Each refusal here is a real one: the test takes away what a box needs, in the namespaces of
the process that runs anybox. Machines that cannot be played (Ubuntu's AppArmor, SELinux,
Kubernetes...) are rows of tests/unit/provider/test_local_obstacle.c."""
import ctypes
import json
import pathlib
import subprocess
import sys

import pytest
from host import IS_ROOT

pytestmark = pytest.mark.every_tier

WHO = {"root": "root", "subuid": "user with subuids", "plain": "user"}

# Refuses clone() with any flag of a new user namespace, as a container's filter does.
FILTER = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None, use_errno=True)
clone = 56 if os.uname().machine == "x86_64" else 220
rules = [(0x20, 0, 0, 0), (0x15, 0, 3, clone), (0x20, 0, 0, 16), (0x45, 0, 1, 0x10000000),
         (0x06, 0, 0, 0x00050000 | ERRNO), (0x06, 0, 0, 0x7fff0000)]
code = b"".join(struct.pack("HBBI", *r) for r in rules)
room = ctypes.create_string_buffer(code)
program = struct.pack("HxxxxxxQ", len(rules), ctypes.addressof(room))
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, program) == 0, os.strerror(ctypes.get_errno())
os.execv(sys.argv[1], sys.argv[1:])
"""


# All of the system in a plain folder, as who sets up a chroot would.
CHROOT = """
root=$1
shift
mkdir -p "$root"
for entry in /*; do
    if [ -L "$entry" ]; then cp -P "$entry" "$root/"
    elif [ -d "$entry" ]; then mkdir -p "$root$entry" && mount --rbind "$entry" "$root$entry" || exit 125
    fi
done
exec chroot "$root" "$@"
"""


class Refusing:
    """A tier whose programs run behind a command that takes something away."""

    def __init__(self, tier, *before, after=()):
        self.tier, self.before, self.after = tier, before, after

    def __getattr__(self, name):
        return getattr(self.tier, name)

    def wrap(self, argv):
        return [*self.before, *self.tier.wrap([*self.after, *argv])]


@pytest.fixture
def refused(host):
    """The sentences of create_sandbox and of doctor; nothing may be left of the attempt."""
    def attempt(*before, after=()):
        if before and not IS_ROOT:
            pytest.skip("only root can take that away")
        usual = host.tier
        host.tier = Refusing(usual, *before, after=after)
        try:
            client = host.server()
            error = client.tool_error("create_sandbox", name="x")
            assert client.tool("list_sandboxes")["sandboxes"] == []
            client.close()
            done = host.run("doctor", "--json")
            assert done.returncode == 1, done.stdout
            lines = {line["what"]: line for line in json.loads(done.stdout) if line["section"] == "provider local"}
        finally:
            host.tier = usual
        assert lines["trial sandbox"]["state"] == "FAIL"
        assert host.residue() == []
        return error, lines["trial sandbox"], lines
    return attempt


def check(told, code, *words):
    error, trial, _ = told
    assert error["code"] == code, error
    for word in words:
        assert word in error["error"], (word, error)
        assert word in trial["found"] + trial["fix"], (word, trial)


# ---- what is in force ------------------------------------------------------------------


def test_what_is_in_force_is_told_everywhere(host, tier):
    client = host.server()
    made = client.tool("create_sandbox", name="told", memory="64m")
    who, *rest = made["isolation"].split(", ")
    assert who == WHO.get(tier.name, who)
    cgroups = [part for part in rest if part.startswith("cgroup v")]
    assert cgroups or "rlimits (memory per process)" in rest, made
    assert ("Landlock" in rest) == (ctypes.CDLL(None).syscall(444, None, 0, 1) >= 6), made
    assert made["limits"]["memory_mb"] == 64, made
    listed, = client.tool("list_sandboxes")["sandboxes"]
    assert listed["isolation"] == made["isolation"] and listed["limits"] == made["limits"]
    table = host.run("ls").stdout
    assert made["isolation"] in table, table
    doctor = host.run("doctor").stdout
    assert f"({made['isolation']})" in doctor, doctor


def test_a_limit_that_cannot_be_met_is_refused_with_the_fix(client):
    made = client.tool("create_sandbox", name="plain")
    if "rlimits" not in made["isolation"]:
        pytest.skip("every limit can be met here")
    assert made["limits"]["cpus"] is None, made
    error = client.tool_error("create_sandbox", name="x", cpus=0.5)
    assert error["code"] == "unsupported" and "cpus cannot be limited here" in error["error"], error
    fixes = ("run anybox as root", "loginctl enable-linger", "Delegate=", "/sys/fs/cgroup", "unified_cgroup_hierarchy")
    assert any(fix in error["error"] for fix in fixes) and "leave cpus out" in error["error"], error


# ---- what is refused --------------------------------------------------------------------


def test_a_kernel_setting_without_namespaces(refused, tier):
    """In a user namespace of its own the setting can be changed without harm."""
    if tier.name != "root":
        pytest.skip("the users of these tests are not mapped there")
    # Root there, with few ids: the setting counts for everyone below.
    told = refused("unshare", "-Ur", "sh", "-c", 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"', "sh")
    check(told, "unsupported", "user.max_user_namespaces is 0", "sudo sysctl -w user.max_user_namespaces=15000")
    assert told[2]["user namespaces"]["state"] == "FAIL"


@pytest.mark.only_tiers("root")
def test_a_chroot(refused, host):
    told = refused("unshare", "-m", "sh", "-c", CHROOT, "sh", str(host.folder / "chroot"))
    check(told, "unsupported", "in a chroot", "systemd-nspawn or bwrap")


def test_a_filter_of_who_started_it(refused):
    told = refused(after=(sys.executable, "-c", FILTER.replace("ERRNO", "1")))
    check(told, "unsupported", "seccomp filter")


def test_a_kernel_without_user_namespaces(refused):
    """It says EINVAL, so the filter does."""
    told = refused(after=(sys.executable, "-c", FILTER.replace("ERRNO", "22")))
    check(told, "unsupported", "this kernel has no user namespaces", "CONFIG_USER_NS")


def test_a_hidden_proc(refused):
    told = refused("unshare", "-m", "sh", "-c", 'mount -t tmpfs tmpfs /proc/bus && exec "$@"', "sh")
    check(told, "unsupported", "hide", "/proc")


@pytest.mark.only_tiers("subuid")
def test_a_newuidmap_without_rights(refused):
    told = refused(after=("setpriv", "--no-new-privs"))
    check(told, "unsupported", "no_new_privs", "/etc/subuid")


@pytest.mark.only_tiers("subuid")
def test_a_newuidmap_that_is_not_set_user_id(refused, host):
    weak = host.folder / "newuidmap"
    weak.write_bytes(pathlib.Path("/usr/bin/newuidmap").read_bytes())
    weak.chmod(0o755)
    told = refused("unshare", "-m", "sh", "-c", f'mount --bind {weak} /usr/bin/newuidmap && exec "$@"', "sh")
    check(told, "unsupported", "no more rights", "sudo chmod u+s /usr/bin/newuidmap")


def test_the_filter_of_these_tests_filters():
    fork = "import os, sys; sys.exit(os.waitpid(os.fork() or os._exit(0), 0)[1])"
    argv = [sys.executable, "-c", FILTER.replace("ERRNO", "1"), sys.executable, "-c", fork]
    assert subprocess.run(argv, check=False).returncode == 0  # what is not a namespace passes
