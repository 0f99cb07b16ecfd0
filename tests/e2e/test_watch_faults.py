"""The watchdog when things go wrong around it: many at once, full disks, machines that restart,
webhooks that are away; and what it hands to the managers of services."""
import contextlib
import json
import os
import pathlib
import plistlib
import shutil
import signal
import sqlite3
import subprocess

import pytest

import ssh_servers
from host import is_running, wait_until
from watching import Spot, hook, on, spot  # noqa: F401

pytestmark = pytest.mark.only_tiers("root")
MANY = 200
LOOKS = 4  # exchanges that many may take


@contextlib.contextmanager
def counting(world):
    """Each command that the far machine is asked for starts the user's shell: they are counted."""
    folder = world.folder / "shell"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    folder.chmod(0o755)
    count, shell = folder / "count", folder / "sh"
    count.touch()
    count.chmod(0o666)
    shell.write_text(f"#!/bin/bash\necho x >>{count}\nexec /bin/bash \"$@\"\n")
    shell.chmod(0o755)
    with world.user.shell(shell):
        yield lambda: len(count.read_text().split())


def copies(host, watch_id, n):
    """As many watches more, of the same task, none of them looked at yet."""
    db = sqlite3.connect(host.home / "anybox.db", timeout=20)
    names = [c[1] for c in db.execute("PRAGMA table_info(watches)") if c[1] != "id"]
    with db:
        for i in range(n):
            db.execute(f"INSERT INTO watches ({','.join(names)}) SELECT {','.join(names)} FROM watches WHERE id = ?",
                       (watch_id,))
        db.execute("UPDATE watches SET last_checked_s = 0, next_check_s = 0, state = 0, revision = revision + 1")
    db.close()


def execute(host, sql):
    db = sqlite3.connect(host.home / "anybox.db", timeout=20)
    with db:
        db.execute(sql)
    db.close()


def counts(host, where):
    db = sqlite3.connect(host.home / "anybox.db", timeout=20)
    n = db.execute(f"SELECT count(*) FROM {where}").fetchone()[0]
    db.close()
    return n


@pytest.mark.parametrize("checkpoint", ["none", "file", "command"])
def test_two_hundred_watches_of_a_host_are_one_round_of_few_exchanges(host, world, checkpoint):
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")
    proxy = world.proxy(world.server.port)
    entry = world.entry(proxy, agent="never")
    client = host.server(env=ssh_servers.hosts(entry))
    client.bash("echo 'step 3' >ck.txt", timeout_s=30)
    how = {"command": {"checkpoint_command": "cat ~/ck.txt"}, "file": {"checkpoint_path": "~/ck.txt"}, "none": {}}[checkpoint]
    began = client.tool("exec_bash_background", command="sleep 300", session_name="many", interval_s=3600,
                        notify_local=False, **how)
    assert wait_until(lambda: counts(host, "watches WHERE state = 1") == 1, 30)
    client.close()
    host.end_watchdog()
    execute(host, "UPDATE watches SET checkpoint_text = ''")
    with counting(world) as asked:
        copies(host, began["watch_id"], MANY - 1)
        assert host.run("watchdog", "start").returncode == 0
        assert wait_until(lambda: counts(host, "watches WHERE state = 1") == MANY, 60)
        assert 1 <= asked() <= LOOKS + 1, asked()  # and one to get to know the machine
        read = counts(host, "watches WHERE checkpoint_text = 'step 3' || char(10)")
        assert read == (MANY if how else 0)
    host.end_watchdog()
    world.user.kill_all()


def is_ahead(host, one, other):
    """Has all watches looked at anew. Was this one seen before the other? On a machine so busy that
    one takes long by itself it is not, so a caller asks more than once."""
    checked = "watches WHERE last_checked_s > 0 AND session"
    host.end_watchdog()
    execute(host, "UPDATE watches SET last_checked_s = 0, next_check_s = 0, state = 0, checkpoint_text = '', "
                  "revision = revision + 1")
    assert host.run("watchdog", "start").returncode == 0
    assert wait_until(lambda: counts(host, f"{checked} = '{one}'") == 1, 60)
    return counts(host, f"{checked} = '{other}'") == 0


@pytest.mark.parametrize("spot", ["local", "ssh"], indirect=True)
def test_a_checkpoint_that_hangs_holds_up_no_other(spot):  # noqa: F811
    more = {"interval_s": 3600, "cwd": "~/wd"}
    spot.bash("mkdir -p ~/wd; echo 7 >~/wd/n")
    watches = [spot.start("sleep 300", name, **how, **more)["watch_id"] for name, how in (
        ("hangs", {"checkpoint_command": "echo early; sleep 4711 & sleep 4711; echo late"}),
        ("quick", {"checkpoint_command": "cat n"}), ("file", {"checkpoint_path": "n"}),
        ("much", {"checkpoint_command": "yes"}), ("lost", {"checkpoint_path": "no-such-file"}))]
    checked = "watches WHERE last_checked_s > 0"
    assert wait_until(lambda: counts(spot.host, checked) == 5, 90)
    assert any(is_ahead(spot.host, "quick", "hangs") for _ in range(5)), "the others waited for it"
    assert wait_until(lambda: counts(spot.host, f"{checked} AND session != 'hangs'") == 4, 60)
    text = [spot.watch(w)["last_checkpoint_text"] for w in watches[1:]]
    assert text[:2] == ["7\n", "7\n"] and text[2] == "y\n" * 10000 and "not there" in text[3], text
    assert wait_until(lambda: counts(spot.host, checked) == 5, 60)
    assert "took too long" in spot.watch(watches[0])["last_checkpoint_text"]
    left = "for p in /proc/[0-9]*; do tr '\\0' ' ' <$p/cmdline; echo; done 2>/dev/null | grep -c 'sleep 471[1]' || true"
    assert wait_until(lambda: spot.bash(left) == "0\n", 20), "what it started runs on"


@on("ssh")
def test_a_full_disk_is_waited_for(spot, request):  # noqa: F811
    """The state folder is full: nothing can be stored, so nothing is told; then everything is."""
    spot.client.close()
    shutil.rmtree(spot.host.home, ignore_errors=True)
    spot.host.home.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=3m,mode=700", "none", str(spot.host.home)], check=True)
    request.addfinalizer(lambda: subprocess.run(["umount", "-l", str(spot.host.home)], check=False))
    spot.client = spot.new_client()
    began = spot.start("until [ -e ~/wd-go ]; do sleep 0.1; done; rm ~/wd-go; exit 6", "full")
    assert wait_until(lambda: spot.watch(began["watch_id"])["last_state"] == "running", 30)
    pid = spot.host.watchdog_pid()
    with open(spot.host.home / "filler", "wb", buffering=0) as f, contextlib.suppress(OSError):
        while True:
            f.write(b"x" * 4096)
    with open(spot.host.home / "filler2", "wb", buffering=0) as f, contextlib.suppress(OSError):
        while True:
            f.write(b"x")
    spot.bash("touch ~/wd-go")
    assert wait_until(lambda: "EXIT_CODE=6" in spot.bash(f"tail -n 1 {began['log_file']}"))
    seen = spot.watch(began["watch_id"])["last_checked_ts"]
    assert not wait_until(lambda: spot.watch(began["watch_id"])["status"] != "active", 3), seen
    assert is_running(pid) and spot.host.watchdog_pid() == pid
    os.unlink(spot.host.home / "filler")
    os.unlink(spot.host.home / "filler2")
    assert spot.until(began["watch_id"], "completed")["last_exit_code"] == 6
    event = spot.events(began["watch_id"])[0]
    assert wait_until((spot.host.home / "events" / f"event-{event['id']}.json").exists, 40)
    spot.host.end_watchdog()
    spot.client.close()


@pytest.mark.parametrize("what", ["machine", "tmux"])
@on("ssh")
def test_after_a_restart_every_job_goes_on_once(spot, what):  # noqa: F811
    spot.bash("mkdir -p ~/wd")
    watches = {name: spot.start("sleep 300", name, auto_resume=True, resume_delay_s=0, checkpoint_command="echo 1",
                                resume_command=f"echo x >>~/wd/{name}; sleep 0.2")["watch_id"]
               for name in ("r0", "r1", "r2")}
    assert wait_until(lambda: all(spot.watch(w)["last_state"] == "running" for w in watches.values()), 30)
    if what == "machine":
        spot.world.user.kill_all()  # tmux, jobs, supervisors, connections: all at once
    else:
        spot.bash("tmux kill-server")
    for name, watch_id in watches.items():
        assert spot.until(watch_id, "completed")["resume_attempts"] == 1
        assert "resume_started" in spot.types(watch_id)
    client = spot.new_client()
    for name in watches:
        assert client.bash(f"cat ~/wd/{name}", timeout_s=30)["stdout"] == "x\n"


def test_a_webhook_that_is_away_gets_it_later(spot):  # noqa: F811
    port = ssh_servers.free_port()
    began = spot.start("exit 0", "away", webhook_url=f"http://127.0.0.1:{port}/hook")
    spot.until(began["watch_id"], "completed")
    assert wait_until(lambda: counts(spot.host, "deliveries WHERE tries > 0") == 1, 30)
    with hook(port=port) as (server, _):
        assert wait_until(lambda: server.seen, 60), "it was not tried again"
        assert server.seen[0][0]["X-Anybox-Delivery"] == str(spot.events(began["watch_id"])[0]["id"])
        assert wait_until(lambda: counts(spot.host, "deliveries WHERE next_s > 0") == 0)
        assert len(server.seen) == 1


def test_killed_while_a_webhook_is_under_way_it_is_sent_again(spot):  # noqa: F811
    with hook(hold=1) as (server, url):
        began = spot.start("exit 0", "cut", webhook_url=url)
        assert wait_until(lambda: len(server.seen) == 1, 40)
        spot.host.kill_watchdog()
        assert spot.host.run("watchdog", "start").returncode == 0
        assert wait_until(lambda: len(server.seen) >= 2, 40)
        assert wait_until(lambda: counts(spot.host, "deliveries WHERE next_s > 0") == 0)
        numbers = {headers["X-Anybox-Delivery"] for headers, _ in server.seen}
        assert numbers == {str(spot.events(began["watch_id"])[0]["id"])}


def test_a_clock_that_is_set_back_holds_up_nothing(spot):  # noqa: F811
    """What is stored is as it would be after years in which the clock was wrong."""
    port = ssh_servers.free_port()
    began = spot.start("until [ -e ~/go ]; do sleep 0.1; done", "clock", interval_s=3600,
                       webhook_url=f"http://127.0.0.1:{port}/hook")
    assert wait_until(lambda: spot.watch(began["watch_id"])["last_state"] == "running", 30)
    spot.host.end_watchdog()
    spot.bash("touch ~/go")
    assert spot.client.tool("check_background_task", tmux_session="clock", wait_s=20)["exit_code"] == 0
    execute(spot.host, "UPDATE watches SET last_checked_s = last_checked_s + 1e9, next_check_s = next_check_s + 1e9, "
                       "revision = revision + 1")
    assert spot.host.run("watchdog", "start").returncode == 0
    spot.until(began["watch_id"], "completed")
    assert wait_until(lambda: counts(spot.host, "deliveries WHERE tries > 0") == 1, 30)
    spot.host.end_watchdog()
    execute(spot.host, "UPDATE deliveries SET next_s = next_s + 1e9")
    with hook(port=port) as (server, _):
        assert spot.host.run("watchdog", "start").returncode == 0
        assert wait_until(lambda: len(server.seen) == 1, 30), "it waits for a time to come"


FAKETIME = next(pathlib.Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)


@pytest.mark.skipif(FAKETIME is None, reason="faketime is not installed")
@on("ssh")
def test_a_clock_that_jumps_loses_and_repeats_nothing(spot, tmp_path):  # noqa: F811
    """By years, forth and back, while jobs run, end, are interrupted and are started again."""
    clock = tmp_path / "clock"
    clock.write_text("+0\n")
    fake = {"LD_PRELOAD": str(FAKETIME), "FAKETIME_TIMESTAMP_FILE": str(clock), "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1", "FAKETIME_DONT_RESET": "1"}
    process = spot.host.popen("watchdog", "run", env={**spot.env, **fake}, stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=open(spot.host.stderr_file, "ab"))
    try:
        assert wait_until(lambda: spot.host.watchdog_pid() == process.pid, 30)
        spot.bash("mkdir -p ~/wd")
        with hook() as (server, url):
            watches = {}
            for name in "c0", "c1", "c2", "c3":
                watches[name] = spot.start(
                    "sleep 300", name, auto_resume=True, resume_delay_s=2, checkpoint_command="echo 1", webhook_url=url,
                    resume_command=f"echo x >>~/wd/{name}; sleep 1")["watch_id"]
            state = lambda name: spot.watch(watches[name])  # noqa: E731
            for name, jump in ("c0", "+400d"), ("c1", "-800d"), ("c2", "+3000d"), ("c3", "+0"):
                assert wait_until(lambda: state(name)["last_state"] == "running", 40)  # noqa: B023
                spot.interrupt(name)
                (tmp_path / "next").write_text(f"{jump}\n")
                (tmp_path / "next").rename(clock)  # nobody finds it empty
                spot.until(watches[name], "completed")
                assert state(name)["resume_attempts"] == 1 and process.poll() is None
            types = ["interrupted", "resume_started", "completed"]
            told = lambda: {(e["watch_id"], e["event_type"]) for _, body in server.seen for e in [json.loads(body)]}  # noqa: E731
            assert wait_until(lambda: told() >= {(w, t) for w in watches.values() for t in types}, 40), told()
            ids = [headers["X-Anybox-Delivery"] for headers, _ in server.seen]
            assert len(told()) == len(set(ids)) == 12, (told(), ids)
        for name in watches:
            assert spot.bash(f"cat ~/wd/{name}") == "x\n"
    finally:
        process.terminate()
        process.wait(20)


@on("ssh")
def test_a_job_whose_log_is_on_a_full_disk_still_has_its_exit_code(spot, request):  # noqa: F811
    folder = spot.world.user.home / "wd" / "small"
    spot.bash("mkdir -p ~/wd/small")
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size=256k,mode=700,uid={spot.world.user.uid}", "none", str(folder)],
                   check=True)
    request.addfinalizer(lambda: subprocess.run(["umount", "-l", str(folder)], check=False))
    began = spot.start("head -c 1000000 /dev/zero | tr '\\0' x; exit 9", "chatty", cwd="~/wd/small")
    watch = spot.until(began["watch_id"], "completed")
    assert watch["last_exit_code"] == 9
    log = folder / ".codex_logs/chatty.log"
    assert log.stat().st_size < 300_000, "the disk was not full: this shows nothing"


# ---- services --------------------------------------------------------------------------------


def test_systemd_takes_the_unit(host, tmp_path):
    text = host.run("watchdog", "unit").stdout
    assert f"ANYBOX_HOME={host.home}" in text and " watchdog run" in text
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    unit = tmp_path / "anybox-watchdog.service"
    unit.write_text(text)
    done = subprocess.run(["systemd-analyze", "verify", "--man=no", str(unit)], capture_output=True, text=True,
                          check=False)
    assert str(unit) not in done.stderr and "anybox-watchdog" not in done.stderr, done.stderr


def test_launchd_takes_the_plist(host):
    agent = plistlib.loads(host.run("watchdog", "plist").stdout.encode())
    assert agent["ProgramArguments"][0] == str(host.install.anybox)
    assert agent["ProgramArguments"][-2:] == ["watchdog", "run"]
    assert agent["EnvironmentVariables"]["ANYBOX_HOME"] == str(host.home)
    assert agent["RunAtLoad"] is True and agent["KeepAlive"]
