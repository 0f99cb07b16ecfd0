"""What an operator relies on: read-only servers, the audit log, log lines, keys and owners."""
import fcntl
import json
import os
import re
import shutil
import signal
import sqlite3
import struct
import subprocess
import time

import pytest

from mcp_client import RpcFailed, ToolFailed

HASH = re.compile(r"[0-9a-f]{64}")


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


# ---- read-only -----------------------------------------------------------------------------

def test_a_read_only_server_lists_and_runs_what_reads(host):
    writer = host.server()
    writer.tool("create_sandbox", name="work")
    writer.tool("write_remote_file", remote_path="/workspace/a", content="hello")
    reader = host.server(env={"ANYBOX_SERVER_READ_ONLY": "true", "ANYBOX_SERVER_TOOLSET": "all"})
    shown = reader.result("tools/list")["tools"]
    assert shown and all(t["annotations"]["readOnlyHint"] for t in shown)
    names = {t["name"] for t in shown}
    assert {"list_sandboxes", "read_remote_file", "list_remote_files", "get_active_sandbox"} <= names
    assert reader.tool("read_remote_file", remote_path="/workspace/a")["content"] == "hello"
    assert [s["name"] for s in reader.tool("list_sandboxes")["sandboxes"]] == ["work"]
    for tool, arguments in (("exec_bash", {"command": "touch /workspace/b"}), ("create_sandbox", {}),
                            ("write_remote_file", {"remote_path": "/workspace/a", "content": "x"}),
                            ("delete_sandbox", {"sandbox_name": "work"})):
        with pytest.raises(ToolFailed) as failed:
            reader.tool(tool, **arguments)
        assert failed.value.answer["code"] == "denied" and "read-only" in failed.value.answer["error"]
    assert writer.tool("exec_bash", command="ls /workspace")["stdout"] == "a\n"


def test_a_read_only_server_makes_no_box_by_itself(host):
    reader = host.server(env={"ANYBOX_SERVER_READ_ONLY": "1"})
    with pytest.raises(ToolFailed):
        reader.tool("read_remote_file", remote_path="/etc/passwd")
    assert reader.tool("list_sandboxes")["sandboxes"] == []


# ---- audit -----------------------------------------------------------------------------------

def test_calls_are_recorded_over_servers_and_restarts(host):
    log = host.folder / "audit.log"
    env = {"ANYBOX_AUDIT_FILE": str(log)}
    first = host.server(env=env)
    made = first.tool("create_sandbox", name="work", env={"TOKEN": "hunter2"})
    second = host.server(env=env)
    futures = [c.request("tools/call", {"name": "exec_bash", "arguments": {"command": "echo hunter2"}})
               for c in (first, second) * 5]
    for future in futures:
        future.result(60)
    first.close()
    third = host.server(env=env)
    with pytest.raises(ToolFailed):
        third.tool("exec_bash", command="true", sandbox_name="nowhere")
    with pytest.raises(RpcFailed):
        third.result("tools/call", {"name": "no_such_tool"})  # no call of a tool
    lines = lines_of(log)
    assert len(lines) == 12 and "hunter2" not in log.read_text()
    assert [x["tool"] for x in lines] == ["create_sandbox"] + ["exec_bash"] * 11
    assert all(x["who"] == "user" and x["transport"] == "stdio" and HASH.fullmatch(x["prev"]) and
               HASH.fullmatch(x["arguments"]) and x["ms"] >= 0 for x in lines)
    assert {x["box"] for x in lines[:11]} == {made["sandbox_id"]}
    assert [x["outcome"] for x in lines] == ["ok"] * 11 + ["not_found"]
    assert len({x["call"] for x in lines}) == 12
    done = host.run("audit", "verify", env=env)
    assert done.returncode == 0 and "12 good lines" in done.stdout
    assert host.run("audit", "verify", str(log)).stdout == done.stdout

    text = log.read_text().replace('"outcome":"not_found"', '"outcome":"ok"')
    log.write_text(text)
    done = host.run("audit", "verify", env=env)
    assert done.returncode == 1 and "breaks at line 13" in done.stdout and "changed" in done.stdout
    log.write_text("".join(text.splitlines(True)[:5] + text.splitlines(True)[6:]))
    done = host.run("audit", "verify", env=env)
    assert done.returncode == 1 and "breaks at line 6" in done.stdout
    log.unlink()
    done = host.run("audit", "verify", env=env)
    assert done.returncode == 1 and "is gone" in done.stderr and "moved or removed" in done.stderr


def test_a_server_that_is_killed_leaves_a_good_log(host):
    log = host.folder / "audit.log"
    env = {"ANYBOX_AUDIT_FILE": str(log)}
    for _ in range(5):
        client = host.server(env=env)
        for _ in range(20):
            client.request("tools/call", {"name": "list_sandboxes", "arguments": {}})
        time.sleep(0.03)
        client.killed = True
        client.process.send_signal(signal.SIGKILL)
        client.process.wait(30)
    host.server(env=env).tool("list_sandboxes")
    done = host.run("audit", "verify", env=env)
    assert done.returncode == 0 and "good line" in done.stdout, done.stdout


def test_commands_are_in_the_audit_log_only_where_wanted(host):
    log = host.folder / "audit.log"
    host.server(env={"ANYBOX_AUDIT_FILE": str(log), "ANYBOX_AUDIT_COMMANDS": "yes"}).tool(
        "exec_bash", command="echo told")
    assert lines_of(log)[0]["command"] == "echo told"


def test_a_log_that_cannot_be_written_stops_calls(host):
    client = host.server(env={"ANYBOX_AUDIT_FILE": "/proc/version/audit.log"})
    assert client.result("tools/list")["tools"]
    with pytest.raises(ToolFailed) as failed:
        client.tool("exec_bash", command="true")
    assert "cannot be recorded" in failed.value.answer["error"]
    assert host.server().tool("list_sandboxes")["sandboxes"] == []


@pytest.mark.parametrize("words, mentions", [
    (["audit"], "say verify"),
    (["audit", "verify"], "audit.file is not set"),
    (["audit", "verify", "/no/such/file"], "there is no audit log /no/such/file"),
    (["audit", "verify", "/tmp"], "/tmp is a folder"),
    (["key"], "add, list or rm"),
    (["key", "add"], "which name"),
    (["key", "add", "a b"], "letters, digits"),
    (["key", "rm", "nobody"], "no key named nobody"),
    (["key", "list", "x"], "too much"),
    (["ls", "--all", "--owner", "x"], "not both"),
])
def test_wrong_uses_are_told(host, words, mentions):
    done = host.run(*words)
    assert done.returncode in (1, 2) and mentions in done.stderr


# ---- the log ------------------------------------------------------------------------------------

def test_requests_and_calls_are_lines_with_ids_and_durations(host):
    path = host.folder / "server.log"
    client = host.server(env={"ANYBOX_LOG": "info", "ANYBOX_LOG_FILE": str(path)})
    client.tool("exec_bash", command="echo hunter2")
    client.result("tools/call", {"name": "exec_bash", "arguments": {"command": "sleep 0.2"}},
                  request_id="my id\n")
    with pytest.raises(RpcFailed):
        client.result("no/such method")
    client.close()
    text = path.read_text()
    assert "hunter2" not in text
    requests = [x for x in text.splitlines() if " area=request " in x]
    calls = [x for x in text.splitlines() if " area=call " in x]
    assert len(calls) == 2 and len(requests) == 4  # with initialize
    assert re.search(r'call=[0-9a-f]{16} transport=stdio owner="" request="\\"my id\\\\n\\"" '
                     r"tool=exec_bash box=[0-9a-f]{32} ms=\d{3,5} outcome=ok$", calls[1])
    assert re.search(r'request="0" method="initialize" ms=\d+ outcome=ok$', requests[0])
    assert any(re.search(r'"my id.*method="tools/call" ms=\d{3,5} outcome=ok$', x) for x in requests)
    assert any(x.endswith('method="no/such method" ms=0 outcome=-32601') for x in requests)


# ---- keys and owners -------------------------------------------------------------------------------

def test_keys_are_made_shown_once_and_taken_back(host):
    assert "no keys" in host.run("key", "list").stdout
    key = host.run("key", "add", "ci").stdout.strip()
    assert re.fullmatch(r"abx_[A-Za-z0-9_-]{32}", key)
    assert host.run("key", "add", "ci").returncode == 1
    listed = host.run("key", "list").stdout
    assert re.search(r"^ci +\d{4}-", listed, re.M) and key not in listed
    stored = host.home / "http_keys"
    assert key not in stored.read_text() and stored.stat().st_mode & 0o777 == 0o600
    assert host.run("key", "rm", "ci").returncode == 0
    assert "no keys" in host.run("key", "list").stdout


def test_the_operator_sees_whose_boxes_there_are(host):
    host.server().tool("create_sandbox", name="mine")
    host.server().tool("create_sandbox", name="theirs")
    with sqlite3.connect(host.home / "anybox.db") as db:
        db.execute("UPDATE boxes SET owner = 'key:ci' WHERE name = 'theirs'")
    assert "theirs" not in host.run("ls").stdout
    everything = host.run("ls", "--all").stdout
    assert re.search(r"^user +mine ", everything, re.M)
    assert re.search(r"^key:ci +theirs ", everything, re.M)
    owners = {b["name"]: b["owner"] for b in json.loads(host.run("ls", "--all", "--json").stdout)}
    assert owners == {"mine": "user", "theirs": "key:ci"}
    assert host.run("exec", "theirs", "true").returncode == 125
    assert host.run("exec", "--owner", "key:ci", "theirs", "echo", "hi").stdout == "hi\n"
    assert host.run("rm", "--owner", "key:ci", "--all").returncode == 0
    assert "theirs" not in host.run("ls", "--all").stdout and "mine" in host.run("ls").stdout


# ---- the disk of the state folder --------------------------------------------------------------

FS_IOC_GETFLAGS, FS_TOPDIR_FL = 0x80086601, 0x00020000


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("mkfs.ext4", path=os.environ["PATH"] + ":/usr/sbin:/sbin"),
                    reason="needs root and mkfs.ext4")
@pytest.mark.parametrize("journal", [True, False], ids=["journal", "none"])
def test_folders_of_boxes_are_spread_only_where_that_is_quicker(host, tmp_path, journal):
    image, disk = tmp_path / "image", tmp_path / "disk"
    state = disk / "state"
    disk.mkdir()
    with open(image, "wb") as f:
        f.truncate(64 << 20)
    tools = {**os.environ, "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"}
    subprocess.run(["mkfs.ext4", "-q", "-O", "has_journal" if journal else "^has_journal", image], check=True, env=tools)
    if subprocess.run(["mount", "-o", "loop", image, disk], check=False, env=tools).returncode != 0:
        pytest.skip("no loop device can be had here")
    try:
        client = host.server(env={"ANYBOX_HOME": str(state), "ANYBOX_LOCAL_POOL": "0"})
        client.tool("create_sandbox", name="a")
        folder = os.open(state / "boxes", os.O_RDONLY)
        flags = struct.unpack("l", fcntl.ioctl(folder, FS_IOC_GETFLAGS, struct.pack("l", 0)))[0]
        os.close(folder)
        assert bool(flags & FS_TOPDIR_FL) is not journal
        client.tool("delete_sandbox", sandbox_name="a")
        client.close()
    finally:
        subprocess.run(["umount", "-l", disk], check=True, env=tools)
