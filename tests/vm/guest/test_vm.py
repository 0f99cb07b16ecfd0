"""What only a machine with cgroup v2 and systemd shows; ANYBOX_VM_CASE says who runs this
(see guest/main). The other end-to-end tests run beside it."""
import os
import pathlib
import re
import subprocess
import time

import pytest

from host import wait_until

CASE = os.environ["ANYBOX_VM_CASE"]
TIER = {"root": "root, cgroup v2", "session": "user with subuids, cgroup v2", "scope": "user, cgroup v2",
        "linger": "user, cgroup v2", "plain": "user, rlimits (memory per process)"}.get(CASE)
TOP = pathlib.Path("/sys/fs/cgroup")

MANAGED = ("session", "scope", "linger")
LIMITED = ("root", *MANAGED)
EVERYONE = (*LIMITED, "plain")


def only(*cases):
    """Leaves a test out of the other cases."""
    return lambda test: test if CASE in cases else None


def cgroup_of(host, box_id):
    """The folder of a box's cgroup, of which there is one, from what anybox wrote down."""
    info = (host.home / "boxes" / box_id / "info").read_text()
    folder, = re.findall(r"^cgroup=(/sys/fs/cgroup/.*)$", info, re.M)
    return pathlib.Path(folder)


def systemctl(*args):
    manager = () if CASE == "root" else ("--user",)
    env = {**os.environ, "XDG_RUNTIME_DIR": f"/run/user/{os.getuid()}"}
    return subprocess.run(["systemctl", *manager, *args], env=env, capture_output=True, text=True, check=False).stdout


def test_this_machine_has_nothing_but_version_2():
    assert pathlib.Path("/proc/self/cgroup").read_text().startswith("0::/")
    assert (TOP / "cgroup.controllers").exists()


@only(*EVERYONE)
def test_the_tier_is_told(client):
    made = client.tool("create_sandbox", name="told")
    assert made["isolation"] == TIER


@only(*LIMITED)
def test_the_kernel_has_the_limits(host):
    client = host.server()
    made = client.tool("create_sandbox", name="limited", memory="128m", cpus=0.5, pids=50)
    folder = cgroup_of(host, made["sandbox_id"])
    assert (folder / "memory.max").read_text() == f"{128 << 20}\n"
    assert (folder / "memory.swap.max").read_text() == "0\n"
    assert (folder / "cpu.max").read_text() == "50000 100000\n"
    assert 50 <= int((folder / "pids.max").read_text()) < 70


@only(*LIMITED)
def test_the_box_is_alone_in_its_cgroup_and_takes_it_along(host):
    client = host.server()
    folder = cgroup_of(host, client.tool("create_sandbox", name="alone")["sandbox_id"])
    client.bash("sleep 500 &")

    def names():
        inside = (folder / "cgroup.procs").read_text().split()
        return {pathlib.Path(f"/proc/{pid}/comm").read_text().strip() for pid in inside}

    assert wait_until(lambda: "sleep" in names())  # a copy of the shell becomes it
    assert names() == {"boxinit", "sleep"}
    client.tool("delete_sandbox", sandbox_name="alone")
    assert wait_until(lambda: not folder.exists(), 3)


@only(*LIMITED)
def test_running_out_of_memory_is_told_and_survived(client):
    client.tool("create_sandbox", name="small", memory="64m")
    answer = client.bash("python3 -c 'x = bytearray(300 << 20); print(len(x))'", timeout_s=60)
    assert answer["exit_code"] != 0 and answer["oom_killed"] is True
    after = client.bash("echo alive")
    assert after["stdout"] == "alive\n" and not after.get("oom_killed")


@only(*LIMITED)
def test_a_busy_box_gets_its_share_of_the_processor(client):
    client.tool("create_sandbox", name="slow", cpus=0.25)
    began = time.monotonic()
    answer = client.bash("timeout 4 sh -c 'while :; do :; done'; times", timeout_s=30)
    took = time.monotonic() - began
    used = sum(60 * int(m) + float(s) for m, s in re.findall(r"(\d+)m([\d.]+)s", answer["stdout"].splitlines()[1]))
    assert 0.3 < used < 0.45 * took


@only(*LIMITED)
def test_processes_beyond_the_limit_are_refused(client):
    client.tool("create_sandbox", name="few", pids=20)
    answer = client.bash("for i in $(seq 60); do sleep 20 & done; jobs -r | wc -l", timeout_s=20)
    assert "Resource temporarily unavailable" in answer["stderr"]


@only("plain")
def test_a_limit_that_cannot_be_kept_is_refused_with_what_to_do(client):
    error = client.tool_error("create_sandbox", name="slow", cpus=0.5)
    assert error["code"] == "unsupported"
    assert "cpus cannot be limited here" in error["error"] and "enable-linger" in error["error"]


@only(*EVERYONE)
def test_doctor_tells_the_same(host):
    told = host.run("doctor").stdout
    line = next(line for line in told.splitlines() if "cgroups" in line)
    if CASE in LIMITED:
        assert "memory v2, cpu v2, pids v2" in line
    else:
        assert "memory no, cpu no, pids no" in line and "enable-linger" in told
    assert TIER in told


@only("root")
def test_root_leaves_the_tree_of_systemd_alone(host):
    tree = {p for p in TOP.rglob("*") if p.is_dir()}
    client = host.server(env={"ANYBOX_LOCAL_POOL": "0"})
    made = client.tool("create_sandbox", name="beside")
    assert cgroup_of(host, made["sandbox_id"]).parent == TOP / "anybox"
    client.tool("delete_sandbox", sandbox_name="beside")
    assert wait_until(lambda: not (TOP / "anybox").exists(), 3)
    assert not [p for p in TOP.rglob("*anybox*") if p.is_dir() and p not in tree]


@only("root")
def test_a_box_outlives_daemon_reload_and_keeps_its_limits(host):
    client = host.server()
    folder = cgroup_of(host, client.tool("create_sandbox", name="steady", cpus=0.5)["sandbox_id"])
    for args in ("daemon-reload",), ("start", "systemd-tmpfiles-clean.service"), ("daemon-reexec",):
        systemctl(*args)
    assert (folder / "cpu.max").read_text() == "50000 100000\n"
    assert client.bash("echo here")["stdout"] == "here\n"


@only(*MANAGED)
def test_a_user_asks_the_manager_and_leaves_no_unit(host):
    client = host.server()
    made = client.tool("create_sandbox", name="asked")["sandbox_id"]
    assert cgroup_of(host, made).name == f"anybox-{made}.scope"
    assert made in systemctl("list-units", "--all", "--plain", "anybox-*")
    client.tool("delete_sandbox", sandbox_name="asked")
    assert wait_until(lambda: made not in systemctl("list-units", "--all", "--plain", "anybox-*"), 5)


@only(*MANAGED)
def test_a_manager_that_refuses_is_no_obstacle_and_no_secret(host):
    systemctl("mask", "--runtime", "anybox.slice")
    try:
        client = host.server()
        made = client.tool("create_sandbox", name="without")
        assert made["isolation"] == TIER.replace("cgroup v2", "rlimits (memory per process)")
        assert client.bash("echo here")["stdout"] == "here\n"
        assert client.tool_error("create_sandbox", name="slow", cpus=0.5)["code"] == "unsupported"
        assert "memory no, cpu no, pids no" in host.run("doctor").stdout
    finally:
        systemctl("unmask", "--runtime", "anybox.slice")
    assert client.tool("create_sandbox", name="with")["isolation"] == TIER


@only(*MANAGED)
def test_a_box_of_a_server_in_the_session_outlives_that_server(host):
    first = host.server()
    first.tool("create_sandbox", name="lasting")
    first.bash("echo kept > /workspace/a")
    first.kill()
    assert host.server().bash("cat /workspace/a", sandbox_name="lasting")["stdout"] == "kept\n"


# ---- kernels that forbid user namespaces ------------------------------------------------------

# What forbids them to users: Debian's own setting, everybody's, and Ubuntu's of AppArmor.
DENIALS = {"kernel.unprivileged_userns_clone": ("0", "1"), "user.max_user_namespaces": ("0", "15000"),
           "kernel.apparmor_restrict_unprivileged_userns": ("1", "0")}
HOME = pathlib.Path("/tmp/vm-single")


def anybox(install, *args, user):
    """The program as root, or as the user without subuids."""
    HOME.mkdir(exist_ok=True)
    os.chown(HOME, 1001, 1001)
    who = ["setpriv", "--reuid", "1001", "--regid", "1001", "--clear-groups"] if user else []
    return subprocess.run([*who, str(install.anybox), *args], capture_output=True, text=True, check=False, cwd="/",
                          env={"HOME": str(HOME), "PATH": "/usr/bin:/bin", "ANYBOX_HOME": f"{HOME}/state-{user}"},
                          timeout=120)


@pytest.fixture(params=DENIALS)
def denied(request):
    setting = pathlib.Path("/proc/sys", *request.param.split("."))
    if not setting.exists():
        pytest.skip(f"untested: this kernel has no {request.param}")
    before = setting.read_text()
    setting.write_text(DENIALS[request.param][0])
    yield request.param
    setting.write_text(before)


@only("denied")
def test_a_kernel_that_forbids_user_namespaces_is_told_with_what_to_do(install, denied):
    ran = anybox(install, "run", "echo", "hello", user=True)
    assert ran.returncode != 0 and ran.stdout == ""
    assert denied in ran.stderr and "sudo sysctl -w" in ran.stderr
    told = anybox(install, "doctor", user=True)
    fix = f"{denied}={DENIALS[denied][1]}"
    assert told.returncode != 0 and f"sudo sysctl -w {fix}" in told.stdout
    subprocess.run(["sysctl", "-q", "-w", fix], check=True)
    assert anybox(install, "run", "echo", "hello", user=True).stdout == "hello\n"
    assert anybox(install, "doctor", user=True).returncode == 0


@only("denied")
def test_what_forbids_them_to_users_does_not_concern_root(install, denied):
    ran = anybox(install, "run", "echo", "hello", user=False)
    if denied == "user.max_user_namespaces":
        assert ran.returncode != 0 and "user.max_user_namespaces is 0" in ran.stderr
    else:
        assert ran.stdout == "hello\n"
