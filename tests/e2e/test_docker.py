"""Sandboxes that are containers: what a container is asked to be, what is left alone, and what
happens when containers, engines and servers die. What every kind of sandbox does alike is in
test_behaviours.py."""
import base64
import contextlib
import io
import json
import os
import pathlib
import re
import socket
import subprocess
import tarfile
import threading
import time
import urllib.parse

import pytest
from dockerd import IMAGE, Engine, cached_archive, why_not
from host import free_port, wait_until
from http_server import HttpServer
from mcp_client import ToolFailed
from registry import Registry


@pytest.fixture
def docker(host, engine):
    """A host whose servers know the engine; what its tests leave at the engine is a failure."""
    host.more_env = engine.env
    yield host
    if host.home.exists():
        host.sweep()
    left = [c["Names"] for c in engine.containers() if c["Labels"].get("anybox.instance") == instance(host)]
    assert not left, left


def instance(host):
    kept = host.home / "docker_instance"
    return kept.read_text() if kept.exists() else "none"


def make(client, _timeout=60, **more):
    return client.tool("create_sandbox", _timeout, provider="docker", **more)


# ---- what it is ---------------------------------------------------------------------------------

def test_it_is_hardened_by_default(docker, engine):
    made = make(docker.server())
    said = engine.of_box(made["sandbox_id"])
    config, limits = said["Config"], said["HostConfig"]
    assert config["User"] == "1000:1000"
    assert limits["CapDrop"] == ["ALL"] and not limits["CapAdd"] and limits["Privileged"] is False
    assert limits["SecurityOpt"] == ["no-new-privileges"]
    assert limits["NetworkMode"] == "none" and limits["LogConfig"]["Type"] == "none"
    assert limits["Memory"] == limits["MemorySwap"] == 1 << 30
    assert limits["NanoCpus"] == 10**9 and limits["PidsLimit"] == 1024
    assert {"Name": "nofile", "Hard": 4096, "Soft": 4096} in limits["Ulimits"]
    assert not limits["Binds"] and not limits["Devices"] and not said["Mounts"] and not limits["DeviceRequests"]
    assert limits["PidMode"] == limits["UTSMode"] == limits["UsernsMode"] == "" and limits["IpcMode"] == "private"
    assert limits["RestartPolicy"]["Name"] == "no" and limits["PublishAllPorts"] is False


def test_what_holds_inside(docker):
    client = docker.server()
    make(client)
    status = client.bash("cat /proc/self/status; id -u; id -un; ls /sys/class/net; cat /proc/1/comm")["stdout"]
    assert "CapEff:\t0000000000000000" in status and "CapBnd:\t0000000000000000" in status
    assert "NoNewPrivs:\t1" in status and "Seccomp:\t2" in status
    assert status.endswith("1000\nuser\nlo\nboxinit\n")
    for closed in "/etc/passwd", "/.anybox/boxinit", "/bin/bash":
        assert client.bash(f"echo x >> {closed}")["exit_code"] != 0


def test_the_answer_tells_what_was_made(docker):
    made = make(docker.server(), name="told", memory="256m", cpus=0.5, timeout=600)
    assert (made["provider"], made["image"], made["network"]) == ("docker", IMAGE, "none")
    assert made["limits"]["memory_mb"] == 256 and made["limits"]["cpus"] == 0.5
    assert made["work_dir"] == "/app/results" and made["isolation"].startswith("container")
    assert made["expires_at"]


def test_both_work_folders_are_one(docker):
    client = docker.server()
    make(client)
    client.tool("write_remote_file", remote_path="/workspace/a", content="one")
    assert client.bash("cat /app/results/a; pwd")["stdout"] == "one/app/results\n"


def test_the_keys_of_mcp_sandboxs_configuration_hold(docker, engine, tmp_path):
    config = tmp_path / "config.toml"
    config.write_text(f"""[docker]
default_image = "{IMAGE}"
container_work_dir = "/srv/out"
mem_limit = "64m"
memswap_limit = "96m"
open_mount_directory = true
""")
    client = docker.server("--config", str(config), env={"ANYBOX_DOCKER_DEFAULT_IMAGE": ""})
    made = make(client, name="kept")
    said = engine.of_box(made["sandbox_id"])["HostConfig"]
    assert (made["image"], made["work_dir"], made["limits"]["memory_mb"]) == (IMAGE, "/srv/out", 64)
    assert (said["Memory"], said["MemorySwap"]) == (64 << 20, 96 << 20)
    assert client.bash("pwd; echo 1 > f; cat /workspace/f /app/results/f")["stdout"] == "/srv/out\n1\n1\n"
    assert [f.read_text() for f in (tmp_path / "data").glob("kept-*/f")] == ["1\n"]


def test_network_internet_is_the_network_that_the_operator_names(docker, engine):
    status, said = engine.call("POST", "/networks/create", {"Name": "tests", "Driver": "bridge", "Internal": True})
    if status != 201:
        pytest.skip(f"this machine gives the engine no network: {said.decode()}")
    try:
        client = docker.server(env={"ANYBOX_DOCKER_NETWORK": "tests"})
        made = make(client, network="internet")
        assert made["network"] == "internet"
        assert list(engine.of_box(made["sandbox_id"])["NetworkSettings"]["Networks"]) == ["tests"]
        assert client.bash("ls /sys/class/net")["stdout"].split() == ["eth0", "lo"]
        none = make(client, name="alone")["sandbox_id"]
        assert client.bash("ls /sys/class/net", sandbox_id=none)["stdout"].split() == ["lo"]
        for box in made["sandbox_id"], none:
            client.tool("delete_sandbox", sandbox_id=box)
        for name in "host", "none", "container:x":
            wrong = docker.server(env={"ANYBOX_DOCKER_NETWORK": name})
            assert wrong.tool_error("create_sandbox", provider="docker", network="internet")["code"] == "invalid"
    finally:
        engine.ask("DELETE", "/networks/tests")


def test_a_gpu_that_is_allowed_and_not_there_is_told(docker):
    client = docker.server(env={"ANYBOX_DOCKER_ALLOW_GPU": "true"})
    error = client.tool_error("create_sandbox", provider="docker", gpu=True)
    assert error["code"] == "unsupported" and "nvidia-container-toolkit" in error["error"]


def test_its_first_process_reaps(docker):
    client = docker.server()
    make(client)
    client.bash("for i in 1 2 3 4 5; do (sleep 0.1 & exec true) & done; wait")
    assert wait_until(lambda: client.bash("ps -eo stat=,comm= | grep -E '^Z|sleep'")["stdout"] == "")


def test_environment_reaches_commands_and_the_hosts_does_not(docker):
    client = docker.server(env={"SECRET_OF_THE_HOST": "x"})
    make(client, env={"MINE": "grüße \"$(x)\""})
    said = client.bash("env")["stdout"]
    assert 'MINE=grüße "$(x)"\n' in said and "SECRET_OF_THE_HOST" not in said
    assert "HOME=/home/user\n" in said and "USER=user\n" in said and "LANG=C.UTF-8\n" in said


def test_memory_and_processes_are_limited_and_told(docker):
    client = docker.server()
    make(client, memory="64m", pids=32)
    hungry = client.bash("exec python3 -c 'x = bytearray(1 << 30)'", timeout_s=60)
    assert hungry["exit_code"] != 0 and hungry["oom_killed"] is True
    answer = client.bash(f"python3 -c '{FORKS}'", timeout_s=60)
    assert 16 < int(answer["stdout"]) < 32
    assert client.bash("echo still here")["stdout"] == "still here\n"


FORKS = """
import os, signal, time
children = []
try:
    while True:
        pid = os.fork()
        if pid == 0:
            time.sleep(1000)
        children.append(pid)
except OSError:
    print(len(children))
for pid in children:
    os.kill(pid, signal.SIGKILL)
"""
FORK = """
import os, time
while True:
    try:
        if os.fork() == 0:
            time.sleep(1000)
    except OSError:
        time.sleep(0.05)
"""


def test_when_no_process_is_left_it_says_so_and_can_be_deleted(docker, engine):
    client = docker.server()
    made = make(client, pids=24)
    client.tool("write_remote_file", remote_path="fork.py", content=FORK)
    client.bash("python3 fork.py >/dev/null 2>&1 </dev/null &", timeout_s=30)

    def refused():
        try:
            client.bash("true")
        except ToolFailed as failed:
            return failed.answer
        return None
    error = wait_until(refused, 60)
    assert error["code"] == "limit" and "24" in error["error"]
    client.tool("delete_sandbox", sandbox_id=made["sandbox_id"])
    assert engine.call("GET", f"/containers/anybox-{made['sandbox_id'][:12]}/json")[0] == 404


def test_a_read_only_root_has_writable_folders(docker, engine):
    client = docker.server(env={"ANYBOX_DOCKER_READ_ONLY": "true"})
    made = make(client)
    assert engine.of_box(made["sandbox_id"])["HostConfig"]["ReadonlyRootfs"] is True
    answer = client.bash("touch /app/results/a ~/b /tmp/c && ls /workspace; touch /x /.anybox/y")
    assert answer["stdout"] == "a\n" and answer["stderr"].count("Read-only") == 2
    assert len(engine.volumes()) == engine.volumes_of_read_only
    client.tool("delete_sandbox", sandbox_id=made["sandbox_id"])
    assert engine.volumes() == []


@pytest.fixture
def small_engine(session_folder, engine):  # which says whether there can be any
    """An engine whose own disk is small, and a file to fill it with."""
    folder = session_folder / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=700m", "none", str(folder)], check=True)
    made = Engine(folder / "e")
    try:
        made.start()
        made.import_image(IMAGE, cached_archive(os.environ.get("ANYBOX_BUILD") or "build"))
        yield made, folder / "ballast"
    finally:
        made.close()
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_an_engine_whose_disk_is_full_is_a_sentence(host, small_engine):
    engine, ballast = small_engine
    host.more_env = engine.env
    client = host.server()
    with open(ballast, "wb") as f, contextlib.suppress(OSError):
        while True:
            f.write(bytes(1 << 20))
    error = client.tool_error("create_sandbox", 120, provider="docker")
    assert "no space left on device" in error["error"], error
    ballast.unlink()
    made = make(client, 120)
    assert client.bash("echo on")["stdout"] == "on\n"
    client.tool("delete_sandbox", sandbox_id=made["sandbox_id"])
    assert not engine.containers()


def test_a_disk_limit_is_kept_or_refused(docker, engine):
    client = docker.server()
    error = client.tool_error("create_sandbox", provider="docker", disk="8m")
    assert error["code"] == "unsupported" and "read_only" in error["error"] and "disk" in error["error"]
    kept = docker.server(env={"ANYBOX_DOCKER_READ_ONLY": "true"})
    make(kept, disk="8m")
    answer = kept.bash("head -c 20000000 /dev/zero > big; wc -c < big")
    assert "No space left" in answer["stderr"] and int(answer["stdout"]) <= 8 << 20
    assert kept.bash("rm big; echo ok > small; cat small")["stdout"] == "ok\n"


def test_reuse_gives_the_same_sandbox_and_no_other(docker):
    client = docker.server()
    first = make(client, name="again", memory="128m")
    second = make(docker.server(), name="again", memory="128m", reuse=True)
    assert (second["sandbox_id"], second["reused"]) == (first["sandbox_id"], True)
    for other, word in ({"memory": "256m"}, "memory"), ({"network": "internet"}, "network"), ({"image": "other:1"}, "image"):
        error = client.tool_error("create_sandbox", provider="docker", name="again", reuse=True, **other)
        assert error["code"] == "exists" and f"another {word}" in error["error"]
    error = client.tool_error("create_sandbox", provider="local", name="again", reuse=True)
    assert error["code"] == "exists" and "another provider" in error["error"]


# ---- what may be asked for ------------------------------------------------------------------------

def test_what_the_operator_did_not_allow_is_refused(docker, engine):
    client = docker.server()
    before = len(engine.containers())
    for asked, word in ({"network": "host"}, "allow_host_network"), ({"gpu": True}, "allow_gpu"):
        error = client.tool_error("create_sandbox", provider="docker", **asked)
        assert error["code"] == "denied" and word in error["error"]
    assert len(engine.containers()) == before


def test_the_operator_can_allow_the_hosts_network(docker, engine):
    made = make(docker.server(env={"ANYBOX_DOCKER_ALLOW_HOST_NETWORK": "true"}), network="host")
    assert engine.of_box(made["sandbox_id"])["HostConfig"]["NetworkMode"] == "host"
    assert made["network"] == "host"


@pytest.mark.parametrize("image", ["../x", "a b", "x\ny", "--privileged", "x?all=1", "x#y", "/etc", "x" * 300, "a//b", "a%2e",
                                   "x\",\"HostConfig\":{\"Privileged\":true},\"a\":\""])
def test_names_of_images_reach_nothing_else(docker, engine, image):
    error = docker.server().tool_error("create_sandbox", provider="docker", image=image)
    assert error["code"] == "invalid" and "image" in error["error"]


def test_texts_of_a_caller_stay_texts(docker, engine):
    """Whatever is in the environment or its values, the container is the same."""
    evil = '"],"HostConfig":{"Privileged":true,"Binds":["/:/host"]},"x":["'
    client = docker.server()
    made = make(client, env={"A": evil, "B": "a\nb\\\t\u2028"})
    said = engine.of_box(made["sandbox_id"])
    assert said["HostConfig"]["Privileged"] is False and not said["HostConfig"]["Binds"]
    assert f"A={evil}" in said["Config"]["Env"]
    assert client.bash('printf %s "$A"')["stdout"] == evil


def test_arguments_that_no_tool_has_change_nothing(docker, engine):
    client = docker.server()
    made = make(client, privileged=True, binds=["/:/host"], labels={"anybox.id": "x"}, mounts=["/etc:/e"],
                cap_add=["SYS_ADMIN"], devices=["/dev/mem"])
    said = engine.of_box(made["sandbox_id"])
    assert said["HostConfig"]["Privileged"] is False and not said["HostConfig"]["Binds"] and not said["Mounts"]
    assert said["Config"]["Labels"]["anybox.id"] == made["sandbox_id"]
    error = client.tool_error("create_sandbox", provider="docker", volumes=[{"name": "v", "mount_path": "/e", "host_path": "/etc"}])
    assert error["code"] == "unsupported" and "volumes" in error["error"]


@pytest.mark.parametrize("root", ["/", "/etc", "/etc/x", "/proc", "/var", "/var/run/x", "/dev/x", "STATE", "STATE/x", "LINK"])
def test_no_folder_of_the_system_is_mounted(docker, engine, root):
    if root == "LINK":
        root = str(docker.folder / "link")
        os.symlink("/etc", root)
    root = root.replace("STATE", str(docker.home))
    before = len(engine.containers())
    client = docker.server(env={"ANYBOX_DOCKER_OPEN_MOUNT_DIRECTORY": "true", "ANYBOX_DOCKER_MOUNT_ROOT": root})
    error = client.tool_error("create_sandbox", provider="docker")
    assert error["code"] == "denied" and "mount_root" in error["error"], error
    assert len(engine.containers()) == before


def test_a_folder_of_the_host_is_the_work_folder_where_the_operator_says_so(docker):
    root = docker.folder / "data"
    client = docker.server(env={"ANYBOX_DOCKER_OPEN_MOUNT_DIRECTORY": "true", "ANYBOX_DOCKER_MOUNT_ROOT": str(root)})
    made = make(client, name="shared")
    client.bash("echo kept > result.txt; ln -s /etc/shadow link")
    folder, = root.iterdir()
    assert folder.name.startswith("shared-") and (folder / "result.txt").read_text() == "kept\n"
    client.tool("delete_sandbox", sandbox_id=made["sandbox_id"])
    assert (folder / "result.txt").exists()


# ---- whose it is ------------------------------------------------------------------------------------

def foreign(engine, name, labels, image=IMAGE):
    made = engine.ask("POST", f"/containers/create?name={name}",
                      {"Image": image, "Cmd": ["sleep", "1000"], "Labels": labels, "HostConfig": {"NetworkMode": "none"}})
    engine.ask("POST", f"/containers/{made['Id']}/start")
    return made["Id"]


def test_containers_of_others_are_left_alone(docker, engine):
    """Neither a container without our labels, nor one that only looks like ours."""
    client = docker.server()
    made = make(client, name="mine")
    box = made["sandbox_id"]
    others = [foreign(engine, "somebody", {}),
              foreign(engine, "alike", {"anybox.id": box, "anybox.instance": "0" * 32}),
              foreign(engine, "half", {"anybox.instance": "0" * 32})]
    try:
        for cid in others:
            for word in cid, cid[:12], f"docker:{cid}", f"docker:{cid[:12]}":
                assert client.tool_error("exec_bash", command="true", sandbox_id=word)["code"] == "not_found"
                assert client.tool_error("delete_sandbox", sandbox_id=word)["code"] == "not_found"
        assert [b["name"] for b in client.tool("list_sandboxes")["sandboxes"]] == ["mine"]
        client.tool("delete_sandbox", sandbox_id=box)
        docker.server().tool("list_sandboxes")
        assert {c["Id"] for c in engine.containers()} >= set(others)
    finally:
        for cid in others:
            engine.call("DELETE", f"/containers/{cid}?force=1")


def test_a_container_that_took_a_boxes_name_is_not_the_box(docker, engine):
    client = docker.server()
    made = make(client)
    name = f"anybox-{made['sandbox_id'][:12]}"
    engine.ask("DELETE", f"/containers/{name}?force=1&v=1")
    other = foreign(engine, name, {"anybox.id": made["sandbox_id"]})
    try:
        fresh = docker.server()
        assert fresh.tool_error("exec_bash", command="true", sandbox_id=made["sandbox_id"])["code"] == "gone"
        assert other in {c["Id"] for c in engine.containers()}
    finally:
        engine.call("DELETE", f"/containers/{other}?force=1")


def test_another_state_folder_sees_nothing_of_it(docker, engine):
    client = docker.server()
    made = make(client)
    other = docker.server(env={"ANYBOX_HOME": str(docker.folder / "other")})
    assert other.tool("list_sandboxes")["sandboxes"] == []
    assert other.tool_error("exec_bash", command="true", sandbox_id=made["sandbox_id"])["code"] == "not_found"
    make(other, name="theirs")
    other.tool("delete_sandbox", sandbox_name="theirs")
    assert client.bash("echo here")["stdout"] == "here\n"


def test_an_image_with_links_and_odd_files_is_prepared_inside_its_root(docker, engine, tmp_path):
    """Where an image has links in the places that are written, they lead nowhere outside."""
    target = tmp_path / "outside"
    target.mkdir()
    base = io.BytesIO(pathlib.Path(os.environ.get("ANYBOX_BUILD") or "build", "e2e-image.tar").read_bytes())
    out = io.BytesIO()
    with tarfile.open(fileobj=base) as old, tarfile.open(fileobj=out, mode="w") as tar:
        for entry in old:
            if not entry.name.startswith("etc/"):
                tar.addfile(entry, old.extractfile(entry) if entry.isfile() else None)
        for name, link in (("app", str(target)), (".anybox", str(target)), ("home", "../../../../../.." + str(target)), ("etc", "/")):
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = tarfile.SYMTYPE, link
            tar.addfile(entry)
    engine.import_image("odd:latest", out.getvalue())
    client = docker.server()
    result = client.result("tools/call", {"name": "create_sandbox", "arguments": {"provider": "docker", "image": "odd:latest"}})
    assert list(target.iterdir()) == []
    if not result.get("isError"):
        assert client.bash("echo ok")["stdout"] == "ok\n"
    engine.call("DELETE", "/images/odd:latest?force=1")


def test_the_user_of_an_image_is_kept_unless_it_is_root(docker, engine):
    archive = pathlib.Path(os.environ.get("ANYBOX_BUILD") or "build", "e2e-image.tar").read_bytes()
    for user, uid in ("1234:1235", "1234:1235"), ("root", "1000:1000"), ("0", "1000:1000"), ("nosuch", "1000:1000"):
        engine.import_image("user:latest", archive, [f"USER {user}"])
        client = docker.server()
        made = make(client, image="user:latest")
        assert engine.of_box(made["sandbox_id"])["Config"]["User"] == uid
        assert client.bash("id -u; touch x ~/y && echo fine", sandbox_id=made["sandbox_id"])["stdout"] == \
            uid.split(":")[0] + "\nfine\n"
        client.tool("delete_sandbox", sandbox_id=made["sandbox_id"])
    engine.call("DELETE", "/images/user:latest?force=1")


# ---- bad input ------------------------------------------------------------------------------------

def test_no_engine_is_a_sentence_with_the_fix(host):
    client = host.server(env={"DOCKER_HOST": f"unix://{host.folder}/no.sock"})
    error = client.tool_error("create_sandbox", provider="docker")
    assert error["code"] == "unreachable" and "systemctl start docker" in error["error"]
    assert str(host.folder) in error["error"]
    assert client.bash("echo local works")["stdout"] == "local works\n"


def test_a_socket_that_nobody_serves(host):
    path = host.folder / "dead.sock"
    dead = socket.socket(socket.AF_UNIX)
    dead.bind(str(path))
    dead.close()
    error = host.server(env={"DOCKER_HOST": f"unix://{path}"}).tool_error("create_sandbox", provider="docker")
    assert error["code"] == "unreachable" and "not running" in error["error"]


@pytest.mark.parametrize("address", ["ssh://me@host", "npipe:////./pipe/docker", "tcp://", "tcp://a b:1", "tcp://host:99999", "docker"])
def test_addresses_that_are_none(host, address):
    error = host.server(env={"DOCKER_HOST": address}).tool_error("create_sandbox", provider="docker")
    assert error["code"] == "invalid" and "unix:///" in error["error"] and "tcp://" in error["error"]


@pytest.mark.every_tier
@pytest.mark.only_tiers("plain")
def test_no_permission_is_a_sentence_with_the_fix(host, engine):
    client = host.server(env=engine.env)
    os.chmod(engine.socket, 0o660)
    error = client.tool_error("create_sandbox", provider="docker")
    assert error["code"] == "denied" and "usermod -aG docker" in error["error"]


def test_what_is_no_engine_is_told(host):
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(host.folder / "odd.sock"))
    server.listen()

    def answer():
        connection, _ = server.accept()
        connection.recv(4096)
        connection.sendall(b"220 smtp ready\r\n")
        connection.close()
    threading.Thread(target=answer, daemon=True).start()
    error = host.server(env={"DOCKER_HOST": f"unix://{host.folder}/odd.sock"}).tool_error("create_sandbox", provider="docker")
    assert error["code"] == "protocol" and "DOCKER_HOST" in error["error"]
    server.close()


def test_an_unknown_image_says_where_images_come_from(docker):
    client = docker.server(env={"ANYBOX_DOCKER_PULL": "false"})
    error = client.tool_error("create_sandbox", provider="docker", image="no-such-image:1")
    assert error["code"] == "not_found" and "anybox image pull no-such-image:1" in error["error"]


def test_a_pull_that_fails_is_a_sentence(docker):
    """The registry's address is one that nobody listens at."""
    error = docker.server().tool_error("create_sandbox", 110, provider="docker", image="127.0.0.1:9/no/such:1")
    assert "could not be pulled" in error["error"] and "127.0.0.1:9/no/such:1" in error["error"]


def test_wrong_settings_are_told(host):
    for setting, value, word in ("WORK", "relative", "absolute"), ("WORK", "/a/../b", "absolute"), ("USER", "root", "number"):
        name = {"WORK": "ANYBOX_DOCKER_CONTAINER_WORK_DIR", "USER": "ANYBOX_DOCKER_USER"}[setting]
        said = host.run("doctor", env={name: value}).stdout
        assert "FAIL  problem" in said and word in said


# ---- its end ------------------------------------------------------------------------------------------

def gone(client, box_id):
    def ended():
        return not any(b["sandbox_id"] == box_id for b in client.tool("list_sandboxes")["sandboxes"])
    assert wait_until(ended, 60)
    return client.tool_error("exec_bash", command="true", sandbox_id=box_id)


def test_its_lifetime_is_kept_without_us(docker, engine):
    client = docker.server()
    made = make(client, timeout=8)
    client.kill()
    name = f"anybox-{made['sandbox_id'][:12]}"
    assert wait_until(lambda: engine.of_box(made["sandbox_id"])["State"]["Status"] == "exited", 60)
    error = gone(docker.server(), made["sandbox_id"])
    assert error["code"] == "gone" and "lifetime of 8 s" in error["error"]
    assert engine.call("GET", f"/containers/{name}/json")[0] == 404, "the sweep removes it"


def test_an_idle_one_ends_and_says_why(docker, engine):
    client = docker.server()
    made = make(client, idle_timeout_s=6)  # the first command may take seconds to get there
    assert client.bash("echo once")["stdout"] == "once\n"
    error = gone(client, made["sandbox_id"])
    assert error["code"] == "gone" and "idle for 6 s" in error["error"]


def test_a_running_command_is_no_idleness(docker):
    client = docker.server()
    make(client, idle_timeout_s=6)
    assert client.bash("sleep 10; echo done", timeout_s=60)["stdout"] == "done\n"


def test_code_inside_cannot_give_itself_more_time(docker, engine):
    """It finds the agent's socket and speaks with it, as its own user; nobody answers."""
    client = docker.server()
    make(client, timeout=600)
    script = """
import socket, glob
for path in glob.glob('/.anybox/run/*/agent.sock'):
    s = socket.socket(socket.AF_UNIX); s.settimeout(20); s.connect(path)
    print(len(s.recv(100)))
"""
    assert client.bash(f"python3 -c \"{script}\"", timeout_s=60)["stdout"] == "0\n"
    assert client.bash("cat /proc/1/environ /proc/1/maps; ls /proc/1/fd; cat /.anybox/boxinit")["exit_code"] != 0
    assert client.bash("kill -9 1; kill -STOP 1; echo alive")["stdout"] == "alive\n"


def test_a_container_that_is_killed_is_told_and_removed(docker, engine):
    client = docker.server()
    made = make(client)
    assert client.bash("true")["exit_code"] == 0
    engine.ask("POST", f"/containers/anybox-{made['sandbox_id'][:12]}/kill")
    error = client.tool_error("exec_bash", command="true", sandbox_id=made["sandbox_id"])
    assert error["code"] == "gone" and "killed" in error["error"]
    client.tool("list_sandboxes")
    assert wait_until(lambda: engine.call("GET", f"/containers/anybox-{made['sandbox_id'][:12]}/json")[0] == 404)


def test_killed_under_a_running_command(docker, engine):
    client = docker.server()
    made = make(client)
    call = client.start_tool("exec_bash", {"command": "touch begun; sleep 300", "timeout_s": 300})
    other = docker.server()
    assert wait_until(lambda: other.bash("ls", sandbox_id=made["sandbox_id"])["stdout"] == "begun\n", 60)
    engine.ask("POST", f"/containers/anybox-{made['sandbox_id'][:12]}/kill")
    with pytest.raises(ToolFailed) as failed:
        client.finish_tool(call, 60)
    assert failed.value.answer["code"] == "gone"


@pytest.mark.parametrize("is_used", [False, True])
def test_a_paused_one_says_how_it_goes_on(docker, engine, is_used):
    """Nothing that is asked meanwhile happens later, whether it was spoken with before or not."""
    client = docker.server()
    short = make(client, name="still")["sandbox_id"][:12]
    if is_used:
        assert client.bash("sleep 1000 >/dev/null 2>&1 & echo $!")["exit_code"] == 0
    done = docker.run("pause", "still")
    assert (done.returncode, done.stdout) == (0, "still\n"), done.stderr
    assert engine.of_box(short)["State"]["Status"] == "paused"
    shown, = client.tool("list_sandboxes")["sandboxes"]
    assert shown["status"] == "paused" and "anybox resume" in json.dumps(shown)
    assert re.search(r"still .* paused ", docker.run("ls").stdout)
    # The engine tells those who have spoken with it a moment after the pause.
    assert wait_until(lambda: f"anybox resume {short}" in client.tool_error("exec_bash", command="true")["error"])
    error = client.tool_error("exec_bash", command="touch /tmp/later")
    assert error["code"] == "unreachable" and f"anybox resume {short}" in error["error"] and "task_id" not in error
    for tool, arguments in ("read_remote_file", {"remote_path": "/etc/passwd"}), ("execute_python_code", {"code": "1"}):
        assert "anybox resume" in client.tool_error(tool, **arguments)["error"]
    for _ in range(2):
        assert docker.run("resume", "still").returncode == 0
    left = client.bash("pgrep -c sleep; ls /tmp/later")
    assert left["stdout"] == f"{int(is_used)}\n" and "No such file" in left["stderr"]


def test_a_paused_one_can_be_deleted(docker, engine):
    client = docker.server()
    made = make(client, name="still")
    assert client.bash("true")["exit_code"] == 0
    assert docker.run("pause", made["sandbox_id"]).returncode == 0
    client.tool("delete_sandbox", sandbox_name="still")
    assert engine.call("GET", f"/containers/anybox-{made['sandbox_id'][:12]}/json")[0] == 404


def test_a_paused_ones_lifetime_is_over_at_the_next_look(docker):
    client = docker.server()
    made = make(client, name="still", timeout=5)
    docker.run("pause", "still")  # on a machine that is too slow for that it ends by itself, the same way
    assert wait_until(lambda: docker.run("ls").stdout == "no sandboxes\n", 60)
    error = client.tool_error("exec_bash", command="true", sandbox_id=made["sandbox_id"])
    assert error["code"] == "gone" and "lifetime of 5 s" in error["error"]


def test_only_containers_are_paused(host):
    client = host.server()
    client.tool("create_sandbox", name="local")
    for command in "pause", "resume":
        done = host.run(command, "local")
        assert done.returncode == 1 and "local" in done.stderr and "pause" in done.stderr
        assert host.run(command, "none-such").returncode == 1
        assert host.run(command).returncode == 2


@pytest.mark.long
def test_the_time_of_a_pause_is_no_idleness(docker):
    client = docker.server()
    make(client, name="still", idle_timeout_s=15)
    assert client.bash("echo 1 > f")["exit_code"] == 0
    assert docker.run("pause", "still").returncode == 0
    time.sleep(20)
    assert docker.run("resume", "still").returncode == 0
    assert client.bash("cat f")["stdout"] == "1\n"


def test_it_outlives_the_server_that_made_it(docker):
    client = docker.server()
    made = make(client, name="kept")
    client.bash("echo file > f; sleep 1000 >/dev/null 2>&1 &")
    client.kill()
    again = docker.server()
    assert again.bash("cat f; pgrep -c sleep", sandbox_name="kept")["stdout"] == "file\n1\n"
    assert [b["sandbox_id"] for b in again.tool("list_sandboxes")["sandboxes"]] == [made["sandbox_id"]]


def test_servers_share_it(docker):
    one, other = docker.server(), docker.server()
    made = make(one, name="both")
    for client in one, other:
        client.bash("echo $$ >> who", sandbox_id=made["sandbox_id"])
    assert len(one.bash("cat who")["stdout"].split()) == 2
    other.tool("delete_sandbox", sandbox_name="both")
    assert one.tool_error("exec_bash", command="true", sandbox_id=made["sandbox_id"])["code"] == "gone"


def test_a_maker_that_is_killed_leaves_nothing(docker, engine):
    """Whenever it dies, the next one's sweep, or the engine, has nothing of it in the end."""
    client = docker.server()
    make(client, name="first")  # the image is prepared
    doomed = docker.server()
    doomed.request("tools/call", {"name": "create_sandbox", "arguments": {"provider": "docker", "name": "doomed"}})
    wait_until(lambda: len(engine.containers()) > 1 or doomed.process.poll() is not None, 20)
    doomed.kill()
    fresh = docker.server()
    fresh.tool("list_sandboxes")
    for box in fresh.tool("list_sandboxes")["sandboxes"]:
        fresh.tool("delete_sandbox", sandbox_id=box["sandbox_id"])


# ---- the engine's own death ---------------------------------------------------------------------------

@pytest.fixture
def own_engine(session_folder, engine):
    """One that the test may kill, with the image of the other."""
    made = Engine(session_folder / "mortal")
    made.start()
    try:
        made.import_image(IMAGE, cached_archive(os.environ.get("ANYBOX_BUILD") or "build"))
        yield made
    finally:
        made.close()


def test_an_engine_that_dies_is_told_and_found_again(host, own_engine):
    """Killed under a command: the call says so at once. Started again, sandboxes can be made, and
    what became of the old one is known."""
    host.more_env = own_engine.env
    client = host.server()
    made = make(client, name="old")
    call = client.start_tool("exec_bash", {"command": "touch begun; sleep 300", "timeout_s": 300})
    other = host.server()
    assert wait_until(lambda: other.bash("ls", sandbox_id=made["sandbox_id"])["stdout"] == "begun\n", 60)
    own_engine.kill()
    with pytest.raises(ToolFailed) as failed:
        client.finish_tool(call, 90)
    assert failed.value.answer["code"] in ("unreachable", "gone"), failed.value.answer
    error = client.tool_error("create_sandbox", 90, provider="docker")
    assert error["code"] == "unreachable" and "docker" in error["error"]
    assert client.bash("echo local", sandbox_id=client.tool("create_sandbox", provider="local")["sandbox_id"])["stdout"] == "local\n"
    own_engine.start()
    new = make(client, name="new")
    assert client.bash("echo again", sandbox_id=new["sandbox_id"])["stdout"] == "again\n"
    for box in client.tool("list_sandboxes")["sandboxes"]:
        client.tool("delete_sandbox", sandbox_id=box["sandbox_id"])
    assert wait_until(lambda: own_engine.containers() == [], 60)


def test_an_engine_that_is_stopped_takes_its_containers_along(host, own_engine):
    host.more_env = own_engine.env
    client = host.server()
    made = make(client)
    assert client.bash("true")["exit_code"] == 0
    own_engine.stop()
    own_engine.start()
    error = client.tool_error("exec_bash", command="true", sandbox_id=made["sandbox_id"])
    assert error["code"] == "gone" and ("stopped" in error["error"] or "killed" in error["error"]), error
    client.tool("list_sandboxes")
    assert wait_until(lambda: own_engine.containers() == [], 60)


@pytest.mark.long
def test_fifty_at_once(docker, engine):
    client = docker.server()
    calls = [client.start_tool("create_sandbox", {"provider": "docker", "name": f"n{i}", "memory": "32m"}) for i in range(50)]
    boxes = [client.finish_tool(c, 600)["sandbox_id"] for c in calls]
    runs = [client.start_tool("exec_bash", {"command": "echo $HOSTNAME $$; pwd", "sandbox_id": b}) for b in boxes]
    assert all(client.finish_tool(r, 600)["exit_code"] == 0 for r in runs)
    ends = [client.start_tool("delete_sandbox", {"sandbox_id": b}) for b in boxes]
    for end in ends:
        client.finish_tool(end, 600)
    assert not [c for c in engine.containers() if c["Labels"].get("anybox.instance") == instance(docker)]


# ---- by TLS ---------------------------------------------------------------------------------------------

CERTIFICATES = """
set -e
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca -keyout ca-key.pem -out ca.pem
printf 'subjectAltName=IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n' > extensions
for name in server client; do
    openssl req -newkey rsa:2048 -nodes -subj /CN=$name -keyout $name-key.pem -out $name.csr
    openssl x509 -req -in $name.csr -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days 2 -extfile extensions -out $name.pem
done
mkdir ours others
cp ca.pem ours; cp client.pem ours/cert.pem; cp client-key.pem ours/key.pem
openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=other -keyout other-key.pem -out others/ca.pem
"""


def test_an_engine_by_tls(host, session_folder, tmp_path):
    why = why_not()
    if why:
        pytest.skip(why)
    subprocess.run(["sh", "-c", CERTIFICATES], cwd=tmp_path, check=True, capture_output=True)
    port = free_port()
    engine = Engine(session_folder / "tls", "-H", f"tcp://127.0.0.1:{port}", "--tlsverify", "--tlscacert", tmp_path / "ca.pem",
                    "--tlscert", tmp_path / "server.pem", "--tlskey", tmp_path / "server-key.pem")
    try:
        engine.start()
        engine.import_image(IMAGE, cached_archive(os.environ.get("ANYBOX_BUILD") or "build"))
        host.more_env = {**engine.env, "DOCKER_HOST": f"tcp://127.0.0.1:{port}", "DOCKER_CERT_PATH": str(tmp_path / "ours")}
        client = host.server()
        made = make(client)
        assert client.bash("seq 1 3; cat", stdin="x" * 300000)["stdout"].startswith("1\n2\n3\nxxx")
        client.tool("delete_sandbox", sandbox_id=made["sandbox_id"])
        stranger = host.server(env={"DOCKER_CERT_PATH": str(tmp_path / "others")})
        assert stranger.tool_error("create_sandbox", provider="docker")["code"] == "denied"
        plain = host.server(env={"DOCKER_CERT_PATH": ""})
        assert "HTTPS" in plain.tool_error("create_sandbox", provider="docker")["error"]
    finally:
        engine.close()


# ---- images --------------------------------------------------------------------------------------------

def test_images_are_listed_prepared_once_and_removed(docker, engine):
    engine.import_image("listed:1", cached_archive(os.environ.get("ANYBOX_BUILD") or "build"))
    client = docker.server()
    for _ in range(2):
        made = make(client, image="listed:1")
        client.tool("delete_sandbox", sandbox_id=made["sandbox_id"])
    listed = docker.run("image", "list", "--docker").stdout
    assert listed.count("prepared of listed:1") == 1 and "listed:1 " in listed
    prepared, = (line.split()[0] for line in listed.splitlines() if "prepared of listed:1" in line)
    for name in prepared, "listed:1":
        assert docker.run("image", "rm", "--docker", name).returncode == 0
    assert "listed:1" not in docker.run("image", "list", "--docker").stdout
    assert docker.run("image", "rm", "--docker", "listed:1").returncode == 1
    assert "could not be pulled" in docker.run("image", "pull", "127.0.0.1:9/no/such:1").stderr


@pytest.fixture
def registry():
    started = []

    def start(*args, **more):
        started.append(Registry(*args, **more))
        return started[-1]
    yield start
    for one in started:
        one.close()


def test_a_pull_tells_how_it_goes(docker, registry):
    image = f"{registry().address}/image:1"
    done = docker.run("image", "pull", image)
    assert done.returncode == 0, done.stderr
    for said in "Pulling from image", "Pull complete", "Digest: sha256:":
        assert said in done.stderr
    assert image in docker.run("image", "list", "--docker").stdout
    assert docker.run("image", "rm", "--docker", image).returncode == 0


def test_a_registry_is_told_who_docker_login_was(docker, registry, tmp_path):
    """By the file, by a program, and by neither."""
    theirs = registry(person="me:pass:word")
    image, home = f"{theirs.address}/image:1", tmp_path / "home"
    (home / ".docker").mkdir(parents=True)
    config = home / ".docker/config.json"
    helper = tmp_path / "docker-credential-tests"
    helper.write_text(f"""#!/bin/sh
read -r server
[ "$1 $server" = "get {theirs.address}" ] && echo '{{"Username":"me","Secret":"pass:word"}}'
""")
    helper.chmod(0o755)
    right = base64.b64encode(b"me:pass:word").decode()
    wrong = base64.b64encode(b"me:password").decode()

    def pull(said, **env):
        config.write_text(said if isinstance(said, str) else json.dumps(said))
        done = docker.run("image", "pull", image,
                          env={"HOME": str(home), "PATH": f"{tmp_path}:{os.environ['PATH']}", **env})
        assert right not in done.stderr and "pass:word" not in done.stderr
        return done.returncode

    for said in {}, "no JSON", {"auths": {"other": {"auth": right}}}, {"auths": {theirs.address: {"auth": wrong}}}, \
            {"credsStore": "../tests"}, {"credsStore": "missing"}:
        assert pull(said) == 1, said
    assert not [path for path in theirs.asked if "blobs" in path]
    for said in {"auths": {f"https://{theirs.address}/v2/": {"auth": right}}}, {"credsStore": "tests"}, \
            {"credHelpers": {theirs.address: "tests"}, "credsStore": "missing"}, \
            {"credsStore": "missing", "auths": {theirs.address: {"auth": right}}}:
        assert pull(said) == 0, said
    said = {"auths": {theirs.address: {"auth": right}}}
    assert pull(said, DOCKER_CONFIG=str(tmp_path)) == 1
    assert pull(said, HOME=str(tmp_path), DOCKER_CONFIG=str(config.parent)) == 0
    assert [path for path in theirs.asked if "blobs" in path]
    assert docker.run("image", "rm", "--docker", image).returncode == 0


def test_an_image_that_is_missing_is_pulled_for_a_sandbox(docker, engine, registry):
    theirs = registry(cached_archive(os.environ.get("ANYBOX_BUILD") or "build"))
    client = docker.server()
    made = make(client, 120, image=f"{theirs.address}/image")
    assert client.bash("echo here")["stdout"] == "here\n"
    client.tool("delete_sandbox", sandbox_id=made["sandbox_id"])
    error = client.tool_error("create_sandbox", 120, provider="docker", image=f"{theirs.address}/other:1")
    assert error["code"] == "unreachable" and "could not be pulled" in error["error"]
    never = docker.server(env={"ANYBOX_DOCKER_PULL": "false"})
    error = never.tool_error("create_sandbox", provider="docker", image=f"{theirs.address}/image:2")
    assert error["code"] == "not_found" and "anybox image pull" in error["error"]


def test_the_default_image_is_there_before_the_first_sandbox(docker, engine, registry):
    """docker.prepull, of a server for many clients: pulled and prepared while nobody asks."""
    image = f"{registry().address}/image:1"
    web = HttpServer(docker, env={"ANYBOX_DOCKER_PREPULL": "true", "ANYBOX_DOCKER_DEFAULT_IMAGE": image})
    try:
        filters = json.dumps({"label": [f"anybox.image={image}"]})
        assert wait_until(lambda: engine.ask("GET", f"/images/json?filters={urllib.parse.quote(filters)}"), 60)
    finally:
        web.close()
    done = docker.run("image", "pull", image)
    assert done.returncode == 0 and "up to date" in done.stderr


def test_the_dockerfile_and_the_program_make_the_same():
    """Packages of images/python-sandbox/Dockerfile and of anybox image make --docker."""
    root = pathlib.Path(__file__).resolve().parent.parent.parent
    dockerfile = (root / "images/python-sandbox/Dockerfile").read_text()
    program = (root / "src/provider/docker/image_make.c").read_text()
    theirs = re.search(r"--no-install-recommends (.*?) \\\n", dockerfile).group(1).split()
    ours = "".join(re.findall(r'"([^"]*)"', program[program.index("#define PACKAGES"):program.index("#define OUTPUT_MAX")])).split(",")
    assert theirs == ours
    assert re.search(r"ENV PATH=(\S+)", dockerfile).group(1) == re.search(r'"ENV PATH=([^"]+)"', program).group(1)
