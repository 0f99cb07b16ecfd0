"""Where the suite of behaviours runs: one row for each kind of sandbox.

A place gives a client whose active sandbox is fresh: its work folder is empty and nobody's
processes but the test's are in it. The client tells what differs: `name` of the sandbox, its
`provider`, `home`, and `work`, the folder that commands and relative paths begin in."""
import contextlib
import os
import shutil

import ssh_servers


@contextlib.contextmanager
def local(host, _world):
    client = host.server()
    made = client.tool("create_sandbox", name="work")
    client.name, client.provider, client.box_id = "work", "local", made["sandbox_id"]
    client.home, client.work, client.user = "/home/user", "/workspace", "user"
    yield client


def empty(folder):
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry, ignore_errors=True)
        else:
            os.unlink(entry)


def ssh(*settings, waits=False):
    """An account on a server of the test's world; `settings` are lines of [[ssh]]. With `waits`
    its agent is there before the test begins."""
    @contextlib.contextmanager
    def place(host, world):
        config = host.folder / "ssh.toml"
        config.write_text("\n".join([
            "[[ssh]]", 'name = "work"', f'host = "{world.server.address}"', f"port = {world.server.port}",
            f'user = "{world.user.name}"', f'key_file = "{world.key}"', *settings, ""]))
        client = host.server("--config", str(config))
        client.name, client.provider, client.box_id = "work", "ssh", "ssh:work"
        client.home = client.work = str(world.user.home)
        client.user = world.user.name
        if waits:
            ssh_servers.wait_for_agent(client)
        try:
            yield client
        finally:
            world.user.kill_all()
            empty(world.user.home)
            shutil.rmtree(host.home / "outputs", ignore_errors=True)  # for as long as the host is there
    return place


def docker(agent=True):
    """A container of an engine that the tests started: the same one for each, emptied in between.
    Without the agent, it is used by the engine's own exec."""
    @contextlib.contextmanager
    def place(host, engine):
        box_id = engine.lend(host, agent)
        client = host.server()
        client.tool("select_sandbox", sandbox_id=box_id)
        client.name, client.provider, client.box_id = "work", "docker", box_id
        client.home, client.work, client.user = "/home/user", "/app/results", "user"
        client.init = engine.of_box(box_id)["State"]["Pid"]
        try:
            yield client
        finally:
            engine.empty(box_id)
            shutil.rmtree(host.home / "outputs", ignore_errors=True)  # for as long as the box is there
    return place


@contextlib.contextmanager
def opensandbox(host, platform):
    """A sandbox of the stand-in platform, which begins in its own home folder."""
    host.pool.update(OPENSANDBOX_SERVER=platform.url, OPEN_SANDBOX_API_KEY=platform.key,
                     OPENSANDBOX_DEFAULT_IMAGE="python:3.12", ANYBOX_SERVER_TOOLSET="default",
                     ANYBOX_OPENSANDBOX_WORK_DIR=platform.nowhere)
    client = host.server()
    made = client.tool("create_sandbox", name="work")
    client.name, client.provider, client.box_id = "work", "opensandbox", made["sandbox_id"]
    client.home, client.work, client.user = made["home"], made["work_dir"], platform.user
    yield client


PLACES = {
    "local": local,
    "ssh": ssh('agent = "never"'),
    "ssh-agent": ssh(waits=True),
    "docker": docker(),
    "docker-exec": docker(agent=False),
    "opensandbox": opensandbox,
}

# Each kind of user makes boxes in another way; to a host everybody comes alike.
EVERY_TIER = {"local"}

# Slow, and a second way to the same engine: beyond the suite itself only with --long.
SUITE_ONLY = {"docker-exec"}
