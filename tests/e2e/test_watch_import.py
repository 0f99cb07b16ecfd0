"""What a remote-sandbox-mcp left on this machine: its watches go on here, nothing of it is
written, and as long as its own watchdog lives that one is left in charge."""
import hashlib
import json
import shutil
import sqlite3
import time

import pytest

from host import wait_until
from watching import Spot, clean_up

pytestmark = pytest.mark.only_tiers("root")

# As it makes them; see also what older ones lack in the unit tests.
SCHEMA = """
PRAGMA journal_mode = WAL;
CREATE TABLE watches (id INTEGER PRIMARY KEY AUTOINCREMENT, run_id TEXT DEFAULT '', name TEXT DEFAULT '',
  sandbox_name TEXT NOT NULL, tmux_session TEXT NOT NULL, log_file TEXT NOT NULL, cwd TEXT DEFAULT '',
  launch_command TEXT DEFAULT '', resume_command TEXT DEFAULT '', resume_plan_json TEXT DEFAULT '{}',
  checkpoint_path TEXT DEFAULT '', checkpoint_format TEXT DEFAULT 'text', checkpoint_command TEXT DEFAULT '',
  interval_s INTEGER DEFAULT 60, max_log_lines INTEGER DEFAULT 80, status TEXT DEFAULT 'active',
  last_state TEXT DEFAULT '', last_summary TEXT DEFAULT '', last_error TEXT DEFAULT '', last_exit_code INTEGER,
  last_log_digest TEXT DEFAULT '', last_log_tail TEXT DEFAULT '', last_checkpoint_text TEXT DEFAULT '',
  last_checkpoint_digest TEXT DEFAULT '', checkpoint_updated_ts INTEGER DEFAULT 0, webhook_url TEXT DEFAULT '',
  event_command TEXT DEFAULT '', auto_resume INTEGER DEFAULT 0, resume_attempts INTEGER DEFAULT 0,
  max_resume_attempts INTEGER DEFAULT 1, alert_after_failures INTEGER DEFAULT 2,
  consecutive_ssh_failures INTEGER DEFAULT 0, ssh_alert_sent INTEGER DEFAULT 0, notify_local INTEGER DEFAULT 1,
  resume_delay_s INTEGER DEFAULT 300, interrupted_ts INTEGER DEFAULT 0, resume_due_ts INTEGER DEFAULT 0,
  metadata_json TEXT DEFAULT '{}', created_ts INTEGER DEFAULT 0, updated_ts INTEGER DEFAULT 0,
  last_checked_ts INTEGER DEFAULT 0, next_check_ts INTEGER DEFAULT 0, last_event_ts INTEGER DEFAULT 0);
CREATE TABLE watch_events (id INTEGER PRIMARY KEY AUTOINCREMENT, watch_id INTEGER, event_type TEXT, summary TEXT,
  payload_json TEXT, created_ts INTEGER);
CREATE TABLE daemon_meta (key TEXT PRIMARY KEY, value TEXT, updated_ts INTEGER);
"""


class Left:
    """The state folder that a remote-sandbox-mcp left in the user's home."""

    def __init__(self, host, *entries, mode=0o600):
        self.folder = host.user_home / ".local/state/remote-sandbox-mcp"
        self.folder.mkdir(parents=True)
        self.db = self.folder / "watchdog.sqlite3"
        self.change(SCHEMA)
        self.db.chmod(0o600)
        config = self.folder / "config.json"
        config.write_text(json.dumps({"schema_version": 1, "saved_at": 1, "sandboxes": list(entries)}))
        config.chmod(mode)

    def change(self, sql, *values):
        db = sqlite3.connect(self.db)
        with db:
            (db.execute(sql, values) if values else db.executescript(sql))
        db.close()

    def watch(self, session, **more):
        row = {"sandbox_name": "box", "tmux_session": session, "log_file": f".codex_logs/{session}.log",
               "interval_s": 1, "notify_local": 0, **more}
        self.change(f"INSERT INTO watches ({','.join(row)}) VALUES ({','.join('?' * len(row))})", *row.values())

    def beat(self, when):
        self.change("INSERT OR REPLACE INTO daemon_meta VALUES ('heartbeat', ?, ?)",
                    json.dumps({"ts": when, "stale_after_s": 180}), int(when))

    def content(self):
        return {p.name: hashlib.sha256(p.read_bytes()).hexdigest() for p in self.folder.iterdir()}


@pytest.fixture
def there(host, world):
    """Somebody at the far machine, to start a job there by hand."""
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    yield Spot(host, world)
    clean_up(host, world)


def launch(there, name):
    """As remote-sandbox-mcp does: tmux, tee, and EXIT_CODE at the end."""
    there.bash("mkdir -p ~/wd ~/.codex_logs; "
               f"printf '%s\\n' '== session: {name}' '== command: x' >~/.codex_logs/{name}.log; "
               f"tmux new-session -d -s {name} 'echo old >>~/wd/runs; sleep 300'")


RESUME = {"auto_resume": 1, "resume_command": "echo new >>~/wd/runs; echo goes on", "resume_delay_s": 0,
          "checkpoint_command": "echo 4", "metadata_json": '{"mine": 1}', "name": "Training"}


def test_its_watches_go_on_here_and_nothing_of_it_is_written(there, world):
    left = Left(there.host, world.entry(world.server))
    launch(there, "old")
    left.watch("old", **RESUME)
    left.watch("done", status="completed")
    left.beat(time.time() - 1000)
    before = left.content()
    here = there.host.server()  # which knows no host
    watches = here.tool("list_background_watches")["watches"]
    assert [(w["tmux_session"], w["name"]) for w in watches] == [("old", "Training")]
    assert watches[0]["metadata"] == {"mine": 1, "remote_sandbox_mcp_watch_id": 1}
    there.client = here
    number = watches[0]["id"]
    assert wait_until(lambda: there.watch(number)["last_state"] == "running"), there.watch(number)
    there.client = there.new_client()
    there.bash("tmux kill-session -t =old")
    there.until(number, "completed")
    assert there.types(number) == ["interrupted", "resume_started", "completed"]
    assert there.bash("cat ~/wd/runs") == "old\nnew\n"
    assert left.content() == before
    there.host.end_watchdog()
    assert there.host.run("watchdog", "start").returncode == 0
    assert len(there.client.tool("list_background_watches")["watches"]) == 1


def test_its_own_watchdog_is_left_in_charge_while_it_lives(there, world):
    left = Left(there.host, world.entry(world.server))
    launch(there, "both")
    left.watch("both", **RESUME)
    left.beat(time.time())
    number = there.client.tool("list_background_watches")["watches"][0]["id"]
    assert wait_until(lambda: there.watch(number)["last_state"] == "running", 30)
    there.bash("tmux kill-session -t =both")
    assert wait_until(lambda: there.types(number) == ["interrupted"], 30)
    seen = there.watch(number)["last_checked_ts"]
    assert wait_until(lambda: there.watch(number)["last_checked_ts"] > seen + 1, 30)
    assert there.types(number) == ["interrupted"] and there.watch(number)["resume_attempts"] == 0
    left.beat(time.time() - 1000)
    there.until(number, "completed")
    assert there.bash("cat ~/wd/runs") == "old\nnew\n"


def test_what_others_can_get_at_is_not_used(host):
    left = Left(host, {"name": "box", "host": "127.0.0.1", "port": 1, "user": "u", "password": "p"}, mode=0o644)
    left.watch("w")
    left.db.chmod(0o666)
    client = host.server()
    assert client.tool("list_background_watches")["watches"] == []
    assert "other users can write it" in host.stderr()
    left.db.chmod(0o644)
    number = client.tool("list_background_watches")["watches"][0]["id"]
    look = lambda: client.tool("get_background_watch", watch_id=number)["watch"]["last_state"]  # noqa: E731
    assert wait_until(lambda: look() == "config_missing", 30), look()


def test_a_damaged_one_stands_in_nobody_s_way(host):
    left = Left(host)
    left.db.write_bytes(b"not a database" * 100)
    client = host.server()
    assert client.tool("list_background_watches")["watches"] == []
    assert "cannot be read" in host.stderr()
    assert left.db.read_bytes() == b"not a database" * 100
