"""Containers that our agent does not run in: the engine's own exec. What every kind of sandbox
does is in test_behaviours.py (docker-exec); here is when this way is taken, and what it keeps."""
import hashlib
import io
import json
import os
import tarfile

import pytest
from dockerd import cached_archive
from host import wait_until

BUILD = os.environ.get("ANYBOX_BUILD") or "build"


@pytest.fixture
def docker(host, engine):
    host.more_env = {**engine.env, "ANYBOX_DOCKER_AGENT": "false"}
    yield host
    if host.home.exists():
        host.sweep()


def make(client, **more):
    made = client.tool("create_sandbox", 120, provider="docker", **more)
    shown = next(b for b in client.tool("list_sandboxes")["sandboxes"] if b["sandbox_id"] == made["sandbox_id"])
    return {**made, **shown}


def works(client):
    """Commands, a file and a folder, with nothing but what the image has."""
    assert client.bash("echo in; echo err >&2; exit 5")["exit_code"] == 5
    client.tool("write_remote_file", remote_path="a/b.txt", content="text")
    assert client.bash("cat a/b.txt; id -u")["stdout"] == "text1000\n"
    assert len(client.tool("list_remote_files", path="a")["entries"]) == 1


def gone(client, box_id):
    assert wait_until(lambda: not any(b["sandbox_id"] == box_id for b in client.tool("list_sandboxes")["sandboxes"]), 60)
    return client.tool_error("exec_bash", command="true", sandbox_id=box_id)


def test_the_operator_keeps_the_agent_out_and_it_is_told(docker, engine):
    client = docker.server()
    made = make(client)
    assert made["via"] == "exec" and "no agent: docker.agent is false" in made["isolation"]
    works(client)
    config = engine.of_box(made["sandbox_id"])
    assert config["Path"] == "/bin/sh" and config["Config"]["User"] == "1000:1000"
    assert config["HostConfig"]["CapDrop"] == ["ALL"] and "no-new-privileges" in config["HostConfig"]["SecurityOpt"]
    assert client.bash("ls /.anybox")["stdout"] == "run\n"


def load_image(engine, name, architecture):
    """An image that says it is for another processor; its programs are this machine's."""
    layer = cached_archive(BUILD)
    config = json.dumps({"architecture": architecture, "os": "linux", "config": {},
                         "rootfs": {"type": "layers", "diff_ids": ["sha256:" + hashlib.sha256(layer).hexdigest()]}}).encode()
    manifest = json.dumps([{"Config": "config.json", "RepoTags": [name], "Layers": ["layer.tar"]}]).encode()
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for path, data in ("layer.tar", layer), ("config.json", config), ("manifest.json", manifest):
            entry = tarfile.TarInfo(path)
            entry.size = len(data)
            tar.addfile(entry, io.BytesIO(data))
    status, said = engine.call("POST", "/images/load?quiet=1", raw=out.getvalue(), kind="application/x-tar")
    assert status == 200, said


@pytest.fixture
def other(host, engine):
    host.more_env = engine.env
    yield host
    host.sweep()
    engine.call("DELETE", "/images/anybox-other:latest?force=1")


def test_an_image_for_a_processor_that_no_agent_is_for(other, engine):
    """The image's own programs run, here because it only says so; elsewhere by an emulator."""
    load_image(engine, "anybox-other:latest", "s390x")
    client = other.server()
    made = make(client, image="anybox-other:latest", name="other")
    assert made["via"] == "exec" and "none for s390x" in made["isolation"]
    works(client)
    assert make(client, name="usual")["via"] == "agent"


def test_an_image_that_hides_the_place_of_the_agent(other, engine):
    """A folder of it is a volume, in which nothing is that was put into the image."""
    engine.import_image("anybox-other:latest", cached_archive(BUILD), ["VOLUME /.anybox"])
    client = other.server()
    for name in "first", "second":  # it is not tried again
        made = make(client, image="anybox-other:latest", name=name)
        assert made["via"] == "exec" and "could not start it: no such file" in made["isolation"]
        works(client)
    assert len([c for c in engine.containers() if c["Image"].startswith("anybox/agent")]) >= 2


def test_its_times_are_kept_without_us(docker, engine):
    client = docker.server()
    short = make(client, timeout=15, name="short")["sandbox_id"]
    idle = make(client, idle_timeout_s=12, name="idle")["sandbox_id"]
    client.kill()
    for box_id in short, idle:
        assert wait_until(lambda box_id=box_id: engine.of_box(box_id)["State"]["Status"] == "exited", 60)
    after = docker.server()
    assert "lifetime of 15 s" in gone(after, short)["error"]
    assert "idle for 12 s" in gone(after, idle)["error"]


def test_a_running_command_is_no_idleness(docker):
    client = docker.server()
    make(client, idle_timeout_s=8)
    assert client.bash("sleep 13; echo done", timeout_s=90)["stdout"] == "done\n"


def test_its_first_process_reaps(docker):
    client = docker.server()
    make(client, idle_timeout_s=60)
    client.bash("for i in 1 2 3 4 5; do (setsid sleep 0.1 & exec true) & done; wait")
    assert wait_until(lambda: client.bash("ps -eo stat=,comm= | grep -E '^Z'")["stdout"] == "")
