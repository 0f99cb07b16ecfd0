"""The watchdog: events, deliveries, and jobs that are started again exactly once."""
import contextlib
import hashlib
import hmac
import json
import os
import pathlib
import shutil
import signal
import subprocess
import time

import pytest

import ssh_servers
from host import is_running, wait_until
from mcp_client import ToolFailed
from watching import BOTH, Spot, hook, on, resuming, spot  # noqa: F401

pytestmark = pytest.mark.only_tiers("root")


# ---- watching ----------------------------------------------------------------------------------


@on("ssh")
def test_an_end_is_an_event_and_a_file(spot):
    began = spot.start("echo working; sleep 1; exit 7", "train", watch_name="Training", run_id="r-1",
                       metadata_json='{"a": [1]}')
    watch = spot.until(began["watch_id"], "completed")
    assert watch["last_exit_code"] == 7 and watch["last_state"] == "completed"
    assert watch["metadata"] == {"a": [1]} and watch["run_id"] == "r-1"
    assert spot.types(began["watch_id"]) == ["completed"]
    event = spot.events(began["watch_id"])[0]
    assert event["payload"]["exit_code"] == 7 and "working" in event["payload"]["log_tail"]
    assert "Training" in event["summary"] and event["payload"]["watch"]["tmux_session"] == "train"
    path = spot.host.home / "events" / f"event-{event['id']}.json"
    assert wait_until(path.exists)
    assert json.loads(path.read_text()) == event
    assert path.stat().st_mode & 0o777 == 0o600 and path.parent.stat().st_mode & 0o777 == 0o700
    assert spot.client.tool("check_background_task", watch_id=began["watch_id"])["exit_code"] == 7


@on("ssh")
def test_an_interruption_is_told_once_and_nothing_is_started_unasked(spot):
    began = spot.start("sleep 300", "lost")
    assert wait_until(lambda: spot.watch(began["watch_id"])["last_state"] == "running", 30)
    spot.interrupt("lost")
    assert wait_until(lambda: "interrupted" in spot.types(began["watch_id"]), 30)
    seen = spot.watch(began["watch_id"])["last_checked_ts"]
    assert wait_until(lambda: spot.watch(began["watch_id"])["last_checked_ts"] > seen + 1, 30)
    assert spot.types(began["watch_id"]) == ["interrupted"]
    assert spot.watch(began["watch_id"])["status"] == "active"


@BOTH
def test_an_interrupted_job_goes_on_from_its_checkpoint_once(spot):
    began = resuming(spot, "again")
    assert wait_until(lambda: spot.bash("cat ~/wd/ck 2>/dev/null; true") == "1\n", 30)
    spot.interrupt("again")
    watch = spot.until(began["watch_id"], "completed")
    assert watch["last_exit_code"] == 0 and watch["resume_attempts"] == 1
    assert spot.types(began["watch_id"]) == ["interrupted", "resume_started", "completed"]
    runs = spot.bash("cat ~/wd/runs").split()
    assert runs[1:] == ["resumed", "done"] and runs[0].isdigit()
    started = spot.events(began["watch_id"])[1]
    assert started["payload"]["resume_attempt"] == 1 and started["payload"]["checkpoint_text"] == "1\n"
    log = spot.bash(f"cat {began['log_file']}")
    assert log.count("== session: again") == 2 and log.rstrip().endswith("EXIT_CODE=0")
    for known in ({"tmux_session": "again"}, {"watch_id": began["watch_id"]}):  # the run that was resumed
        task = spot.client.tool("check_background_task", **known)
        assert (task["status"], task["exit_code"]) == ("exited", 0) and "1\n" in task["log_tail"]


@on("ssh")
def test_a_job_that_finished_is_never_started_again(spot):
    began = resuming(spot, "fin")
    spot.client.tool("cancel_background_task", tmux_session="fin")
    watch = spot.until(began["watch_id"], "task_cancelled")
    assert watch["resume_attempts"] == 0
    assert spot.types(began["watch_id"]) == ["task_cancelled"]
    again = spot.start("echo x; exit 3", "fin2", auto_resume=True, resume_command="echo no >>~/wd/runs",
                       checkpoint_command="echo 1", resume_delay_s=0)
    spot.until(again["watch_id"], "completed")
    assert "no" not in spot.bash("cat ~/wd/runs")


def test_no_attempt_left_is_an_end(spot):
    began = spot.start("sleep 300", "max", auto_resume=True, resume_command="sleep 301",
                       checkpoint_command="echo 1", resume_delay_s=0, max_resume_attempts=1)
    assert wait_until(lambda: spot.watch(began["watch_id"])["last_state"] == "running", 30)
    spot.interrupt("max")
    assert wait_until(lambda: "resume_started" in spot.types(began["watch_id"]), 30)
    spot.interrupt("max")
    spot.until(began["watch_id"], "exhausted")
    assert spot.types(began["watch_id"]) == ["interrupted", "resume_started", "interrupted",
                                             "resume_exhausted"]


@on("ssh")
def test_a_later_run_of_the_name_ends_the_watch(spot):
    began = spot.start("true", "same", interval_s=300)
    spot.until(began["watch_id"], "completed")
    first = spot.start("sleep 300", "name", interval_s=2)
    assert wait_until(lambda: spot.watch(first["watch_id"])["last_state"] == "running", 30)
    spot.host.end_watchdog()
    spot.interrupt("name")
    second = spot.start("sleep 300", "name")
    spot.until(first["watch_id"], "replaced")
    assert spot.watch(second["watch_id"])["status"] == "active"


def test_a_cancelled_watch_leaves_the_task_alone(spot):
    began = spot.start("sleep 300", "free")
    answer = spot.client.tool("cancel_background_watch", watch_id=began["watch_id"])
    assert answer["watch"]["status"] == "cancelled"
    assert spot.client.tool("check_background_task", tmux_session="free")["running"] is True
    listed = spot.client.tool("list_background_watches", status="cancelled")["watches"]
    assert [w["id"] for w in listed] == [began["watch_id"]]


def test_progress_log_and_checkpoint_are_read_live(spot):
    spot.bash("mkdir -p ~/wd; echo '{\"step\": 4}' >~/wd/ck.json")
    began = spot.start("echo line-1; echo line-2; sleep 300", "live", cwd="~/wd",
                       checkpoint_path="ck.json", checkpoint_format="json", interval_s=300)
    wid = began["watch_id"]
    progress = spot.client.tool("get_background_watch_progress", watch_id=wid)
    assert progress["live"]["errors"] == [] and progress["live"]["task"]["running"] is True
    assert progress["live"]["checkpoint"]["parsed"] == {"step": 4}
    assert "live" not in spot.client.tool("get_background_watch_progress", watch_id=wid, refresh_live=False)
    spot.client.tool("check_background_task", tmux_session="live", wait_s=30, until="^line-2$", **{"from": 0})
    log = spot.client.tool("read_background_watch_log", watch_id=wid, last_n_lines=1)
    assert log["log"]["log_tail"] == "line-2\n"
    check = spot.client.tool("read_background_watch_checkpoint", watch_id=wid)
    assert check["checkpoint"]["parsed"] == {"step": 4} and "file_result" in check


@on("ssh")
def test_a_task_that_runs_can_be_watched_later(spot):
    began = spot.start("sleep 1; exit 4", "later", watch=False)
    assert "watch_id" not in began
    watched = spot.client.tool("watch_background_task", tmux_session="later", interval_s=1,
                               notify_local=False)
    assert watched["watch"]["log_file"] == began["log_file"]
    assert spot.until(watched["watch_id"], "completed")["last_exit_code"] == 4


# ---- deliveries --------------------------------------------------------------------------------


def test_a_webhook_is_signed_and_tried_again(spot):
    with hook(refuse=1) as (server, url):
        began = spot.start("exit 0", "hooked", webhook_url=url)
        spot.until(began["watch_id"], "completed")
        assert wait_until(lambda: len(server.seen) >= 2, 60), "it was not tried again"
        (first, body), (second, again) = server.seen[:2]
    assert body == again and first["X-Anybox-Delivery"] == second["X-Anybox-Delivery"]
    event = json.loads(body)
    assert event == spot.events(began["watch_id"])[0] and str(event["id"]) == first["X-Anybox-Delivery"]
    key = (spot.host.home / "webhook_key").read_bytes()
    for headers in first, second:
        code = hmac.new(key, headers["X-Anybox-Timestamp"].encode() + b"." + body, hashlib.sha256)
        assert headers["X-Anybox-Signature"] == "sha256=" + code.hexdigest()
    assert (spot.host.home / "webhook_key").stat().st_mode & 0o777 == 0o600


def test_a_command_gets_the_seed_s_variables(spot):
    out = spot.host.folder / "told"
    began = spot.start("echo 'loss\x1b[2J 0.1'; exit 0", "told",
                       event_command=f"env | grep ^RSMCP_ >'{out}.new'; mv '{out}.new' '{out}'")
    spot.until(began["watch_id"], "completed")
    assert wait_until(out.exists)
    text = out.read_text()
    for name in ("EVENT_FILE", "EVENT_JSON", "EVENT_TYPE", "WATCH_ID", "SANDBOX_NAME", "TMUX_SESSION",
                 "LOG_FILE", "SUGGESTED_PROMPT"):
        assert f"RSMCP_{name}=" in text, name
    assert "RSMCP_EVENT_TYPE=completed\n" in text and "\x1b" not in text
    assert "not instructions" in text and text.index("not instructions") < text.index("<<<")


def test_a_slow_command_holds_up_nobody(spot):
    slow = spot.start("exit 0", "slow", event_command="sleep 60")
    quick = spot.start("sleep 1; exit 0", "quick")
    spot.until(slow["watch_id"], "completed")
    spot.until(quick["watch_id"], "completed", 45)


def descriptors(pid):
    found = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.add(os.readlink(f"/proc/{pid}/fd/{fd}"))
    return found


# ---- the process -------------------------------------------------------------------------------


@on("ssh")
def test_it_survives_its_clients_and_holds_nothing_of_theirs(spot):
    began = spot.start("sleep 3; exit 5", "alone")
    pid = spot.host.watchdog_pid()
    assert pid is not None
    assert os.getsid(pid) == pid
    shared = descriptors(pid) & descriptors(spot.client.process.pid)
    assert not [link for link in shared if link.startswith(("pipe:", "socket:"))], shared
    environ = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
    assert b"REMOTE_" not in environ.replace(b"REMOTE_SANDBOX_MCP_HOME", b"")
    spot.client.close()
    assert wait_until(lambda: list((spot.host.home / "events").glob("event-*.json")), 30)
    assert is_running(pid)
    spot.client = spot.new_client()
    assert spot.until(began["watch_id"], "completed")["last_exit_code"] == 5


def test_only_one_runs(spot):
    spot.start("sleep 300", "one")
    second = spot.host.run("watchdog", "run")
    assert second.returncode == 1 and f"pid {spot.host.watchdog_pid()}" in second.stderr
    status = spot.host.run("watchdog", "status")
    assert f"running, pid {spot.host.watchdog_pid()}" in status.stdout
    answer = spot.client.tool("get_watchdog_status")
    assert answer["running"] is True and answer["heartbeat_stale"] is False
    assert answer["watch_counts"]["active"] == 1


@BOTH
def test_killed_at_any_moment_every_job_still_runs_once(spot):
    spot.bash("mkdir -p ~/wd")
    watches = {}
    for i in range(4):
        name = f"k{i}"
        watches[name] = spot.start(
            "sleep 300", name, auto_resume=True, resume_delay_s=0,
            resume_command=f"echo x >>~/wd/{name}; sleep 1", checkpoint_command="echo 1")["watch_id"]
    assert wait_until(lambda: all(spot.watch(w)["last_state"] == "running" for w in watches.values()), 30)
    for name in watches:
        spot.interrupt(name)
    until = time.monotonic() + 60
    pause = 0.05
    while time.monotonic() < until and any(spot.watch(w)["status"] == "active" for w in watches.values()):
        pid = spot.host.watchdog_pid()
        if pid is not None:
            time.sleep(pause)
            pause = min(pause * 1.5, 5)
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        spot.host.run("watchdog", "start")
    for name, watch_id in watches.items():
        spot.until(watch_id, "completed")
        assert spot.bash(f"cat ~/wd/{name}") == "x\n"
        assert spot.types(watch_id)[0] == "interrupted" and spot.types(watch_id)[-1] == "completed"
        ids = [event["id"] for event in spot.events(watch_id)]
        for event_id in ids:
            assert wait_until((spot.host.home / "events" / f"event-{event_id}.json").exists)


@on("ssh")
def test_two_watchdogs_start_it_once(spot, tmp_path):
    """Two state folders, one host (a local box belongs to one): the host decides."""
    began = resuming(spot, "both", resume_delay_s=2)
    other = spot.host.server(env={**spot.env, "ANYBOX_HOME": str(tmp_path / "other")})
    watched = other.tool("watch_background_task", tmux_session="both", log_file=began["log_file"],
                         cwd="~/wd", auto_resume=True, resume_command="echo other >>~/wd/runs; sleep 1",
                         checkpoint_path="~/wd/ck", resume_delay_s=2, interval_s=1, notify_local=False)
    try:
        assert wait_until(lambda: spot.bash("cat ~/wd/ck 2>/dev/null; true") == "1\n", 30)
        spot.interrupt("both")
        done = lambda: (spot.watch(began["watch_id"])["status"],  # noqa: E731
                        other.tool("get_background_watch", watch_id=watched["watch_id"])["watch"]["status"])
        assert wait_until(lambda: "active" not in done(), 60), done()
        runs = spot.bash("cat ~/wd/runs").split()[1:]
        assert runs in (["resumed", "done"], ["other"])
        assert sorted(done()) == ["completed", "replaced"]
    finally:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            os.kill(int((tmp_path / "other" / "watchdog.lock").read_text()), signal.SIGTERM)


def test_a_host_that_goes_and_comes_back(host, world):
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    server = world.sshd()
    spot = Spot(host, world, server)  # noqa: F811
    began = spot.start("sleep 300", "away", alert_after_failures=2)
    assert wait_until(lambda: spot.watch(began["watch_id"])["last_state"] == "running", 30)
    server.stop()
    assert wait_until(lambda: "ssh_unreachable" in spot.types(began["watch_id"]), 60)
    server.start()
    assert wait_until(lambda: "running_restored" in spot.types(began["watch_id"]), 60)
    assert spot.types(began["watch_id"]) == ["ssh_unreachable", "running_restored"]
    host.end_watchdog()
    subprocess.run(["pkill", "-KILL", "-u", world.user.name], check=False)


def test_a_sandbox_that_ends_ends_its_watches(host):
    spot = Spot(host)
    began = spot.start("sleep 300", "inside")
    assert wait_until(lambda: spot.watch(began["watch_id"])["last_state"] == "running", 30)
    spot.client.tool("delete_sandbox", sandbox_name="work", force=True)
    assert spot.until(began["watch_id"], "gone")
    assert spot.types(began["watch_id"]) == ["sandbox_gone"]


# ---- bad input ----------------------------------------------------------------------------------


WRONG = (
    ({"interval_s": 0}, "interval_s"),
    ({"resume_plan_json": "{"}, "resume_plan_json is not JSON"),
    ({"metadata_json": "[1]"}, "metadata_json must be a JSON object"),
    ({"webhook_url": "gopher://x"}, "http:// or https://"),
    ({"auto_resume": True}, "resume_command"),
    ({"checkpoint_format": "xml"}, "text or json"),
)


def test_a_wrong_watch_is_an_error_before_anything_runs(spot):
    for wrong, words in WRONG:
        with pytest.raises(ToolFailed, match=words):
            spot.start("echo ran", "wrong", **wrong)
    assert spot.bash("ls -a ~ /workspace").count(".codex_logs") == 0
    assert spot.client.tool("list_background_watches")["watches"] == []


def test_unknown_watches_are_named(host):
    client = host.server()
    for tool in ("get_background_watch", "cancel_background_watch", "get_background_watch_progress",
                 "read_background_watch_log", "read_background_watch_checkpoint"):
        with pytest.raises(ToolFailed, match="no watch with the watch_id 77"):
            client.tool(tool, watch_id=77)
    with pytest.raises(ToolFailed, match="status must be active"):
        client.tool("list_background_watches", status="odd")


def test_a_host_of_the_environment_is_kept_only_where_allowed(host, world):
    client = host.server(env=ssh_servers.hosts(world.entry(world.server)))
    with pytest.raises(ToolFailed, match="persist_current_sandboxes=false"):
        client.tool("exec_bash_background", command="true", persist_current_sandboxes=False)
    assert not (host.home / "watch_hosts").exists() or not list((host.home / "watch_hosts").iterdir())
    client.tool("exec_bash_background", command="true", notify_local=False)
    kept = [p for p in (host.home / "watch_hosts").iterdir()]
    assert len(kept) == 1 and kept[0].stat().st_mode & 0o777 == 0o600
    host.end_watchdog()
    subprocess.run(["pkill", "-KILL", "-u", world.user.name], check=False)
