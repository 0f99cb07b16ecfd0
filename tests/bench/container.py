"""The table of docker sandboxes: a command through the agent beside the Engine API's own exec, and
create_sandbox beside the bare API's create and start, in turns on the same engine."""
import http.client
import json
import os
import socket
import statistics
import time

import engine
from kit import Client, Home, head, left_out, row, slower, us


class Api(http.client.HTTPConnection):
    """One connection that is kept, as a good client of the API would."""

    def __init__(self, path):
        super().__init__("docker", timeout=120)
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self.path)

    def ask(self, method, path, body=None):
        self.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": "application/json"})
        said = self.getresponse().read()
        return json.loads(said) if said.strip() and said[:1] in b"{[" else None

    def exec(self, container, *words):
        made = self.ask("POST", f"/containers/{container}/exec", {"Cmd": words or ["bash", "-c", "true"], "AttachStdout": True})
        self.ask("POST", f"/exec/{made['Id']}/start", {"Detach": False, "Tty": False})
        return self.ask("GET", f"/exec/{made['Id']}/json")["ExitCode"]

    def make(self, image):
        made = self.ask("POST", "/containers/create", {
            "Image": image, "User": "1000:1000", "Cmd": ["sleep", "1000"], "HostConfig": {
                "NetworkMode": "none", "CapDrop": ["ALL"], "SecurityOpt": ["no-new-privileges"], "LogConfig": {"Type": "none"},
                "Memory": 1 << 30, "MemorySwap": 1 << 30, "NanoCpus": 10**9, "PidsLimit": 1024}})
        self.ask("POST", f"/containers/{made['Id']}/start")
        return made["Id"]

    def remove(self, container):
        self.ask("DELETE", f"/containers/{container}?force=1&v=1")


def prepared(api, image):
    """The name of what anybox made of an image."""
    for row_ in api.ask("GET", "/images/json"):
        for tag in row_["RepoTags"] or []:
            if tag.startswith("anybox/agent:") and (row_["Labels"] or {}).get("anybox.image") == image:
                return tag
    return "none"


def clock(work):
    began = time.perf_counter()
    got = work()
    return (time.perf_counter() - began) * 1e6, got


def table(programs, quick):
    rounds = 3 if quick else 15
    head(f"docker sandboxes, {rounds} rounds", peer="Engine API")
    with engine.Docker() as docker:
        if not docker.ready:
            return left_out("all of it", docker.why)
        print(f"  {docker.what}")
        os.environ["DOCKER_HOST"] = f"unix://{docker.socket}"
        os.environ["ANYBOX_DOCKER_DEFAULT_IMAGE"] = f"{docker.image}:latest"
        api = Api(docker.socket)
        with Home(programs) as home, Client(home) as client:
            measure(client, api, docker, rounds)
        api.ask("DELETE", f"/images/{prepared(api, f'{docker.image}:latest')}")


def measure(client, api, docker, rounds):
    live = client.call("create_sandbox", provider="docker", name="live")["sandbox_id"]
    client.call("exec_bash", command="true", sandbox_id=live)
    execs, theirs, creates, bare = [], [], [], []
    for i in range(rounds):
        execs.append(clock(lambda: client.call("exec_bash", command="true", sandbox_id=live))[0])
        theirs.append(clock(lambda: api.exec(docker.container))[0])
        took, made = clock(lambda i=i: client.call("create_sandbox", provider="docker", name=f"n{i}"))
        creates.append(took)
        client.call("delete_sandbox", sandbox_id=made["sandbox_id"])
        took, made = clock(lambda: api.make(docker.image))
        bare.append(took)
        api.remove(made)
    client.call("delete_sandbox", sandbox_id=live)
    ours, peer = statistics.median(execs), statistics.median(theirs)
    row("exec_bash of `true`; the API's exec", us(ours), us(peer), f"{peer / ours:.1f}x", ">= 10x faster")
    ours, peer = statistics.median(creates), statistics.median(bare)
    row("create_sandbox; the API's create and start", us(ours), us(peer), slower(ours, peer), "<= 1.2x")
