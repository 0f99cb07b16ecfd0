"""What the tests of the watchdog share: a place for tasks, a webhook, a job that can go on."""
import contextlib
import http.server
import shutil
import threading

import pytest

import ssh_servers
from host import wait_until


class Spot:
    """A client whose active box is a place for tasks, and a watchdog that looks often."""

    def __init__(self, host, world=None, server=None):
        self.host, self.world = host, world
        self.env = ssh_servers.hosts(world.entry(server or world.server)) if world else {}
        self.client = self.new_client()
        if not world:
            self.client.tool("create_sandbox", name="work")

    def new_client(self):
        return self.host.server(env=self.env)

    def start(self, command, name, **more):
        more.setdefault("interval_s", 1)
        more.setdefault("notify_local", False)
        return self.client.tool("exec_bash_background", command=command, session_name=name, **more)

    def events(self, watch_id=0):
        got = self.client.tool("list_background_watch_events", watch_id=watch_id, limit=200)["events"]
        return list(reversed(got))

    def types(self, watch_id):
        return [event["event_type"] for event in self.events(watch_id)]

    def watch(self, watch_id):
        return self.client.tool("get_background_watch", watch_id=watch_id)["watch"]

    def until(self, watch_id, status, timeout=60):
        assert wait_until(lambda: self.watch(watch_id)["status"] == status, timeout), (
            self.watch(watch_id), self.types(watch_id), self.host.stderr())
        return self.watch(watch_id)

    def bash(self, command):
        return self.client.bash(command, timeout_s=30)["stdout"]

    def interrupt(self, name):
        """As a machine that goes down: nobody of the task can say a word."""
        self.bash(f"d=$(cat ~/.anybox/tasks/{name}); until [ -s $d/pid -a -s $d/job ]; do sleep 0.1; done; "
                  "for f in pid job; do read run pid born <$d/$f; kill -KILL $pid; done; "
                  f"tmux kill-session -t ={name} 2>/dev/null; true")


def on(*places):
    """Where a test runs: what has nothing to do with the place is tried in one."""
    return pytest.mark.parametrize("spot", places, indirect=True)


BOTH = on("local", "ssh")


@pytest.fixture
def spot(request, host):
    if getattr(request, "param", "local") == "local":
        yield Spot(host)
        return
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    world = request.getfixturevalue("world")
    yield Spot(host, world)
    clean_up(host, world)


def clean_up(host, world):
    host.end_watchdog()
    world.user.kill_all()
    for name in ".codex_logs", ".anybox", "wd":
        shutil.rmtree(world.user.home / name, ignore_errors=True)


class Hook(http.server.BaseHTTPRequestHandler):
    """Takes events; refuses the first ones."""

    def do_POST(self):  # noqa: N802
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.seen.append((dict(self.headers), body))
        if len(self.server.seen) <= self.server.hold:
            self.server.free.wait(60)
        self.send_response(503 if len(self.server.seen) <= self.server.refuse else 204)
        self.end_headers()

    def log_message(self, *args):
        pass


@contextlib.contextmanager
def hook(refuse=0, port=0, hold=0):
    """The first `refuse` are refused, and the first `hold` are not answered at all."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Hook)
    server.daemon_threads, server.block_on_close = True, False
    server.seen, server.refuse, server.hold, server.free = [], refuse, hold, threading.Event()
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server, f"http://127.0.0.1:{server.server_address[1]}/hook"
    finally:
        server.free.set()
        server.shutdown()
        server.server_close()


def resuming(spot, name, **more):
    """A job in two shards that counts its own runs; the second half needs the checkpoint."""
    spot.bash("mkdir -p ~/wd")
    job = "echo $$ >>~/wd/runs; echo 1 >~/wd/ck; sleep 300"
    resume = "echo resumed >>~/wd/runs; cat ~/wd/ck; sleep 1; echo done >>~/wd/runs"
    more.setdefault("resume_delay_s", 0)
    return spot.start(job, name, cwd="~/wd", auto_resume=True, resume_command=resume,
                      checkpoint_path="~/wd/ck", checkpoint_format="json", **more)
