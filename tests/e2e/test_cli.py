"""The command line, as people use it."""
import contextlib
import json
import os
import pty
import re
import signal
import sqlite3
import subprocess
import time

import pytest

from host import IS_ROOT, is_running, wait_until


def test_version_and_help(host):
    version = host.run("--version")
    assert re.fullmatch(r"anybox \d+\.\d+\.\d+\n", version.stdout) and version.returncode == 0
    overview = host.run("help")
    assert overview.stdout == host.run("--help").stdout == host.run("-h").stdout
    for command in "stdio", "run", "ls", "exec", "cp", "forward", "rm", "image", "key", "audit", "doctor", "demo", "tools", "config":
        assert re.search(rf"^  {command} ", overview.stdout, re.M)
        page = host.run("help", command)
        assert page.returncode == 0 and page.stdout.startswith(f"usage: anybox {command}")
        assert host.run(command, "--help").stdout == page.stdout


def test_on_a_terminal_it_explains_itself(host):
    master, slave = pty.openpty()
    done = host.run(stdin=slave)
    os.close(slave)
    os.close(master)
    assert done.returncode == 0 and "usage: anybox" in done.stdout


@pytest.mark.parametrize("words, mentions", [
    (["rnu", "true"], "did you mean 'run'?"),
    (["frobnicate"], "there is no command 'frobnicate'"),
    (["help", "frobnicate"], "there is no command 'frobnicate'"),
    (["run"], "which command?"),
    (["run", "--memry", "1g", "true"], "did you mean --memory?"),
    (["run", "--memory", "much", "true"], "--memory"),
    (["run", "--memory", "0", "true"], "--memory"),
    (["run", "--disk", "0", "true"], "--disk"),
    (["run", "--disk=-1m", "true"], "--disk"),
    (["run", "--cpus", "0", "true"], "--cpus"),
    (["run", "--pids", "0", "true"], "--pids"),
    (["run", "--open-files", "-1", "true"], "--open-files"),
    (["run", "--timeout", "0", "true"], "--timeout"),
    (["run", "--network", "wifi", "true"], "none, internet, host"),
    (["run", "--timeout", "-1", "true"], "--timeout"),
    (["exec"], "which sandbox"),
    (["exec", "box"], "which command"),
    (["rm"], "which sandbox"),
    (["rm", "--all", "x"], "not both"),
    (["cp", "a", "b"], "exactly one"),
    (["cp", "x:a", "y:b"], "exactly one"),
    (["image"], "make, list, pull or rm"),
    (["image", "push"], "make, list, pull, rm"),
    (["image", "rm"], "which image"),
    (["image", "list", "x"], "no arguments"),
    (["image", "make", "a", "b"], "one name at most"),
    (["image", "make", "--suit", "x"], "did you mean --suite?"),
    (["ls", "extra"], "no arguments"),
    (["--mode", "smoke"], "stdio or http"),
])
def test_wrong_use_is_told_and_ends_with_2(host, words, mentions):
    done = host.run(*words)
    assert done.returncode == 2, done
    assert mentions in done.stderr and done.stdout == ""
    assert not host.home.exists(), "a typing mistake must not make a state folder"


@pytest.mark.every_tier
def test_run_gives_the_command_its_streams_and_its_status(host):
    done = host.run("run", "sh", "-c", "cat; echo err >&2; exit 7", input="in\n")
    assert (done.returncode, done.stdout, done.stderr) == (7, "in\n", "err\n")
    assert host.run("run", "sh", "-c", "kill -9 $$").returncode == 128 + 9
    assert host.run("run", "printf", "%s|", "a b", "$HOME", "*").stdout == "a b|$HOME|*|"


def test_run_passes_bytes_as_they_are(host):
    data = bytes(range(256)) * 4096
    done = host.run("run", "cat", input=data, text=False)
    assert done.stdout == data and done.returncode == 0


def test_run_takes_cwd_env_and_limits(host):
    done = host.run("run", "--cwd", "/tmp", "--env", "A=1 2", "--env=B=", "--memory", "64m", "--pids",
                    "40", "--open-files", "77", "--", "sh", "-c", 'pwd; echo "$A" "${B-unset}"; ulimit -n')
    assert done.stdout == "/tmp\n1 2 \n77\n", done


def test_run_says_which_limit_was_reached(host):
    done = host.run("run", "--disk", "1m", "sh", "-c", "head -c 5000000 /dev/zero > f; exit 3")
    assert done.returncode == 3 and "the sandbox has no space left for files" in done.stderr


def test_run_says_why_it_could_not(host):
    missing = host.run("run", "no-such-program-here")
    assert missing.returncode == 127 and "no-such-program-here" in missing.stderr
    not_executable = host.run("run", "/etc/passwd")
    assert not_executable.returncode == 126, not_executable
    image = host.run("run", "--image", "debian:12", "true")
    assert image.returncode == 125 and "image" in image.stderr


def test_run_kills_at_its_timeout(host):
    started = time.monotonic()
    done = host.run("run", "--timeout", "2.5", "sh", "-c", "echo before; sleep 60")
    assert (done.returncode, done.stdout) == (124, "before\n") and "2.5 s" in done.stderr
    assert time.monotonic() - started < 30


def test_run_shows_output_at_once(host):
    p = host.popen("run", "sh", "-c", "echo first; read x; echo $x", stdin=subprocess.PIPE,
                   stdout=subprocess.PIPE)
    assert p.stdout.readline() == b"first\n"
    p.stdin.write(b"second\n")
    p.stdin.flush()
    assert p.stdout.readline() == b"second\n"
    assert p.wait(30) == 0
    p.stdin.close()
    p.stdout.close()


def test_run_leaves_nothing(host):
    assert host.run("run", "sh", "-c", "sleep 300 & echo x > file").returncode == 0
    assert wait_until(lambda: not host.residue()), host.residue()
    assert host.run("ls").stdout == "no sandboxes\n"


@pytest.mark.parametrize("signo", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_run_cleans_up_when_it_is_told_to_stop(host, signo):
    p = host.popen("run", "sh", "-c", "echo up; sleep 300", stdin=subprocess.DEVNULL,
                   stdout=subprocess.PIPE)
    assert p.stdout.readline() == b"up\n"
    p.send_signal(signo)
    assert p.wait(30) == 128 + signo
    p.stdout.close()
    assert wait_until(lambda: not host.residue()), host.residue()


def test_run_ends_quietly_when_nobody_reads(host):
    p = host.popen("run", "yes", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                   stderr=subprocess.PIPE)
    assert p.stdout.readline() == b"y\n"
    p.stdout.close()
    assert p.wait(30) == 128 + signal.SIGPIPE
    assert p.stderr.read() == b""
    p.stderr.close()


def test_a_box_of_run_is_nobodys_active_box(host, client):
    p = host.popen("run", "sh", "-c", "echo up; sleep 60", stdin=subprocess.DEVNULL,
                   stdout=subprocess.PIPE)
    assert p.stdout.readline() == b"up\n"
    assert client.tool("list_sandboxes")["sandboxes"] == []
    p.terminate()
    p.wait(30)
    p.stdout.close()


@pytest.mark.every_tier
def test_ls_exec_rm_share_the_boxes_of_agents(host, box):
    table = host.run("ls").stdout.splitlines()
    assert table[0].split() == ["NAME", "ID", "PROVIDER", "STATUS", "AGE", "EXPIRES", "ISOLATION"]
    assert len(table) == 2 and table[1].split()[:4] == ["work", box.box_id[:12], "local", "running"]
    listed = json.loads(host.run("ls", "--json").stdout)
    assert [b["id"] for b in listed] == [box.box_id]
    for name in "work", box.box_id, box.box_id[:12]:
        done = host.run("exec", "--cwd", "/", "--env", "X=7", name, "--", "sh", "-c", "pwd; exit $X")
        assert (done.returncode, done.stdout) == (7, "/\n"), done
    unknown = host.run("exec", "wrok", "true")
    assert unknown.returncode == 125 and "work" in unknown.stderr
    gone = host.run("rm", "work")
    assert gone.returncode == 0 and gone.stdout == "work\n"
    assert host.run("ls").stdout == "no sandboxes\n"
    assert host.run("rm", "nothing-of-that-name").returncode == 1


def test_rm_all(host, client):
    for name in "one", "two":
        client.tool("create_sandbox", name=name)
    done = host.run("rm", "--all")
    assert sorted(done.stdout.split()) == ["one", "two"] and done.returncode == 0
    assert host.run("rm", "--all").stdout == ""


def test_exec_kills_its_command_when_stopped(host, box):
    p = host.popen("exec", "work", "sh", "-c", "echo up; exec sleep 301", stdin=subprocess.DEVNULL,
                   stdout=subprocess.PIPE)
    assert p.stdout.readline() == b"up\n"
    p.send_signal(signal.SIGINT)
    assert p.wait(30) == 128 + signal.SIGINT
    p.stdout.close()
    left = box.tool("exec_bash", command="pgrep -f 'sleep 30[1]' || true")
    assert left["stdout"] == ""


def test_cp_both_ways(host, box):
    data = os.urandom(3 << 20)
    source = host.project / "data.bin"
    source.write_bytes(data)
    source.chmod(0o750)
    os.chown(source, host.tier.uid, -1)
    assert host.run("cp", "data.bin", "work:sub/copy.bin").returncode == 0
    assert host.run("cp", "data.bin", "work:sub").returncode == 0
    sums = host.run("exec", "work", "sh", "-c", "cmp sub/copy.bin sub/data.bin && stat -c %a sub/copy.bin")
    assert sums.stdout == "750\n", sums
    assert host.run("cp", "work:sub/copy.bin", "back.bin").returncode == 0
    assert (host.project / "back.bin").read_bytes() == data
    assert host.run("cp", "work:sub/copy.bin", ".").returncode == 0
    assert (host.project / "copy.bin").read_bytes() == data
    assert sorted(p.name for p in host.project.iterdir()) == ["back.bin", "copy.bin", "data.bin"]


def test_cp_of_what_is_not_there(host, box):
    missing = host.run("cp", "work:nothing", "x")
    assert missing.returncode == 1 and "nothing" in missing.stderr
    missing = host.run("cp", "nothing", "work:x")
    assert missing.returncode == 1 and "nothing" in missing.stderr
    assert list(host.project.iterdir()) == []


@pytest.mark.every_tier
def test_doctor(host):
    done = host.run("doctor")
    assert done.returncode == 0, done.stdout
    assert re.search(r"^provider local$", done.stdout, re.M)
    lines = json.loads(host.run("doctor", "--json").stdout)
    assert all(line["state"] in ("ok", "warn") for line in lines)
    assert {"program", "configuration", "state", "provider local"} <= {x["section"] for x in lines}


def test_doctor_tells_a_wrong_configuration(host):
    wrong = host.project / "anybox.toml"
    wrong.write_text("[local]\nmemry = \"1g\"\n")
    done = host.run("--config", str(wrong), "doctor")
    assert done.returncode == 1
    assert re.search(r"FAIL +problem:.*anybox.toml:2:1: .*memory", done.stdout), done.stdout
    ls = host.run("--config", str(wrong), "ls")
    assert ls.returncode == 1 and "memory" in ls.stderr


@pytest.mark.every_tier
def test_demo_goes_as_expected_and_leaves_nothing(host):
    started = time.monotonic()
    done = host.run("demo")
    assert done.returncode == 0, done.stdout + done.stderr
    assert time.monotonic() - started < 30
    assert "\033" not in done.stdout
    path = str(host.install.anybox)
    for line in (f"claude mcp add anybox -- {path}", f"codex mcp add anybox -- {path}",
                 "[mcp_servers.anybox]", '"mcpServers"', "code --add-mcp"):
        assert line in done.stdout
    assert not host.home.exists(), "the demo has a state folder of its own"
    assert not host.residue()


def test_demo_cleans_up_when_it_is_stopped(host):
    p = host.popen("demo", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    for line in p.stdout:
        if b"create_sandbox" in line:
            break
    p.send_signal(signal.SIGINT)
    p.stdout.read()
    p.stdout.close()
    assert p.wait(30) == 128 + signal.SIGINT
    assert wait_until(lambda: not host.residue()), host.residue()


@pytest.mark.parametrize("after", [0.005, 0.015, 0.03, 0.06])
def test_demo_leaves_nothing_whenever_it_is_stopped(host, after):
    p = host.popen("demo", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    p.stdout.readline()  # so that signals are caught
    time.sleep(after)
    p.send_signal(signal.SIGINT)
    p.stdout.read()
    p.stdout.close()
    assert p.wait(30) == 128 + signal.SIGINT
    assert wait_until(lambda: not host.residue()), host.residue()


def test_demo_ends_quietly_when_nobody_reads(host):
    p = host.popen("demo", stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    p.stdout.readline()
    p.stdout.close()
    assert p.stderr.read() == b"" and p.wait(30) == 128 + signal.SIGPIPE
    p.stderr.close()
    assert wait_until(lambda: not host.residue()), host.residue()


def test_tools_and_config_are_documented_from_the_tables(host, client):
    listed = {t["name"] for t in client.result("tools/list")["tools"]}
    described = {t["name"] for t in json.loads(host.run("tools", "--json").stdout)}
    assert listed <= described
    markdown = host.run("tools", "--markdown").stdout
    assert all(name in markdown for name in described)
    assert "| `local.memory` | size |" in host.run("config", "--markdown").stdout
    assert re.search(r"^local.pids +1024$", host.run("config").stdout, re.M)


def test_started_under_a_seeds_name(host):
    client = host.server(program=host.install.anybox.parent / "remote-sandbox-mcp")
    names = {t["name"] for t in client.result("tools/list")["tools"]}
    assert "exec_bash" in names and "create_sandbox" not in names


@pytest.mark.skipif(not IS_ROOT, reason="only root sees which processes are in boxes")
def test_a_killed_run_does_not_keep_its_box_for_long(host):
    """Its command would run on for ever; so the box has a hard end that only we extend."""
    p = host.popen("run", "sh", "-c", "echo up; sleep 300", stdin=subprocess.DEVNULL,
                   stdout=subprocess.PIPE)
    assert p.stdout.readline() == b"up\n"
    inits = host.install.box_inits()
    p.kill()
    p.wait()
    p.stdout.close()
    assert any(is_running(pid) for pid in inits)
    rows = "SELECT expires_ms / 1000 FROM boxes WHERE owner = 'run' AND state <> 2"
    with contextlib.closing(sqlite3.connect(host.home / "anybox.db")) as db:
        [(expires,)] = db.execute(rows)
        assert 0 < expires - time.time() <= 120
        for pid in inits:
            with contextlib.suppress(ProcessLookupError):  # what only helped to make it
                os.kill(pid, signal.SIGKILL)
        db.execute("UPDATE boxes SET expires_ms = 1 WHERE owner = 'run'")
        db.commit()
        assert host.run("run", "true").returncode == 0
        assert db.execute(rows).fetchall() == [], "the next run clears away behind a killed one"
    assert wait_until(lambda: not host.residue()), host.residue()


@pytest.mark.parametrize("words", [("exec", "nobody", "true"), ("rm", "nobody"), ("logs", "nobody"), ("attach", "nobody"),
                                   ("forward", "nobody", "80"), ("transfer-worker", "--task-id", "99")])
def test_what_people_are_told_are_commands_and_no_tools(host, words):
    said = host.run(*words).stderr
    assert "nobody" in said or "99" in said
    assert "create_sandbox" not in said and "check_" not in said
