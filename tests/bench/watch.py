"""The tables of the watchdog: a round of many watches of one host beside a round of one, the same with checkpoints and with a
year of events in the database, and what it costs when it has nothing to do. Root only, as ssh.py."""
import os
import shutil
import sqlite3
import subprocess
import sys
import time

from kit import HERE, Client, Home, head, left_out, row, slower, us

sys.path[:0] = [os.path.join(HERE, "../e2e")]

import ssh_servers  # noqa: E402

MANY = 200


def database(home):
    return sqlite3.connect(os.path.join(home.path, "anybox.db"), timeout=60)


def execute(home, sql, *values):
    db = database(home)
    with db:
        found = db.execute(sql, values).fetchall()
    db.close()
    return found


def end(home):
    """The watchdog that a client has started."""
    path = os.path.join(home.path, "watchdog.lock")
    if not os.path.exists(path):
        return
    with open(path) as f:
        pid = int(f.read() or 0)
    if pid and os.path.exists(f"/proc/{pid}"):
        os.kill(pid, 15)
        while os.path.exists(f"/proc/{pid}"):
            time.sleep(0.02)


def copies(home, n):
    names = [c[1] for c in execute(home, "PRAGMA table_info(watches)") if c[1] != "id"]
    execute(home, f"WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < ?) INSERT INTO watches "
                  f"({','.join(names)}) SELECT {','.join('watches.' + c for c in names)} FROM n, watches WHERE watches.id = 1", n)


def add_events(home, n):
    execute(home, "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) INSERT INTO watch_events "
                  "(watch_id, owner, type, summary, payload, created_s) "
                  "SELECT 1, '', 'running_restored', 'it runs again', '{}', ? FROM n", n, int(time.time()))


def watchdog(home):
    return subprocess.Popen([*home.server, "watchdog", "run"], stdin=subprocess.DEVNULL)


def a_round(home, n):
    """Seconds from the start of a watchdog to the end of its first round: with login and all."""
    execute(home, "UPDATE watches SET last_checked_s = 0, revision = revision + 1, "
                  "next_check_s = CASE WHEN id <= ? THEN 0 ELSE 1e15 END", n)
    began = time.monotonic()
    process = watchdog(home)
    while execute(home, "SELECT count(*) FROM watches WHERE last_checked_s > 0")[0][0] < n:
        time.sleep(0.005)
    took = time.monotonic() - began
    process.terminate()
    process.wait()
    return took


def best(home, n, rounds):
    return min(a_round(home, n) for _ in range(rounds))


def cpu_s(pid):
    total = 0
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/schedstat") as f:
            total += int(f.read().split()[0])
    return total / 1e9


def resident_mb(pid):
    with open(f"/proc/{pid}/status") as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS")) / 1024


def idle_rows(home, seconds):
    process = watchdog(home)
    while execute(home, "SELECT count(*) FROM watches WHERE last_checked_s > 0")[0][0] < MANY:
        time.sleep(0.05)
    time.sleep(2)
    before = cpu_s(process.pid)
    time.sleep(seconds)
    used = (cpu_s(process.pid) - before) / seconds
    row(f"{MANY} watches that are not due, of a core", f"{100 * used:.3f} %", "", "", "0.1 %")
    row("resident memory after a round", f"{resident_mb(process.pid):.1f} MB", "", "", "15 MB")
    process.terminate()
    process.wait()


def rows(programs, world, quick):
    os.environ.update(ssh_servers.hosts(world.entry(world.server, "bench", known_hosts=str(world.folder / "kh"))))
    try:
        with Home(programs) as home:
            with Client(home) as client:
                client.call("exec_bash_background", command="sleep 3600", session_name="bench", interval_s=3600,
                            notify_local=False)
            end(home)
            del os.environ["REMOTE_SANDBOX_LIST"]
            copies(home, MANY)
            rounds, events = (3, 100_000) if quick else (7, 1_000_000)
            one, many = best(home, 1, rounds), best(home, MANY, rounds)
            row(f"start, login and a round of {MANY}, beside of 1", us(many * 1e6), us(one * 1e6), slower(many, one), "2 s")
            for what in "path", "command":
                execute(home, f"UPDATE watches SET checkpoint_{what} = '/bin/true'")
                checked = best(home, MANY, rounds)
                execute(home, f"UPDATE watches SET checkpoint_{what} = ''")
                row(f"the same with a checkpoint's {what} each, beside without", us(checked * 1e6), us(many * 1e6),
                    slower(checked, many), "2 s")
            execute(home, "UPDATE watches SET next_check_s = 0, last_checked_s = 0, revision = revision + 1")
            idle_rows(home, 10 if quick else 30)
            add_events(home, events)
            late = best(home, MANY, rounds)
            row(f"the same after {events:,} events, beside before", us(late * 1e6), us(many * 1e6), slower(late, many), "flat")
    finally:
        os.environ.pop("REMOTE_SANDBOX_LIST", None)


def table(programs, quick):
    head("the watchdog, one SSH host on loopback", peer="peer")
    if ssh_servers.why_not() or not shutil.which("tmux"):
        left_out("the watchdog", ssh_servers.why_not() or "tmux is not installed")
        return
    world = ssh_servers.World()
    try:
        rows(programs, world, quick)
    finally:
        world.user.kill_all()
        world.close()
