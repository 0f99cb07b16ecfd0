"""What only sandboxes of an OpenSandbox platform do: the platform's ways, and its failures. What they
do like all others is in test_behaviours.py."""
import base64
import contextlib
import filecmp
import json
import os
import re
import shutil
import socket
import sqlite3
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta, timezone

import openapi
import opensandbox_server
import pytest
from host import command_line, free_port, wait_until
from test_ports import forwarding

POOL = 0


@pytest.fixture
def serve(host, platform):
    """Starts servers that are configured for the platform."""
    host.pool.update(OPENSANDBOX_SERVER=platform.url, OPEN_SANDBOX_API_KEY=platform.key,
                     OPENSANDBOX_DEFAULT_IMAGE="python:3.12", ANYBOX_SERVER_TOOLSET="all",
                     ANYBOX_OPENSANDBOX_WORK_DIR=platform.nowhere)

    def start(*args, **env):
        return host.server(*args, env=env)
    return start


@pytest.fixture
def made(serve, platform):
    """A client with a sandbox, which is client.sandbox."""
    client = serve()
    client.box_id = client.tool("create_sandbox", name="work")["sandbox_id"]
    client.sandbox, = platform.sandboxes.values()
    return client


def headers_of_execd(platform):
    return [{k.lower(): v for k, v in h.items()} for h in platform.execd_headers]


# ---- the stream of a command --------------------------------------------------------------------

def test_a_command_does_not_wait_for_the_end_of_its_stream(made, platform):
    platform.quirks.tail_s = 3
    began = time.monotonic()
    for i in range(6):
        assert made.bash(f"echo {i}")["stdout"] == f"{i}\n"
    assert time.monotonic() - began < 15, "six tails of 3 s were waited for"


def test_connections_are_used_again(made):
    before = made.sandbox.execd.connections
    for i in range(30):
        assert made.bash(f"echo {i}")["exit_code"] == 0
        time.sleep(0.05)
    assert made.sandbox.execd.connections - before <= 15, "half of the commands had one of their own"


def test_an_error_at_the_end_of_a_good_stream_is_an_error(made, platform):
    platform.quirks.late_error = {"code": "RUNTIME_ERROR", "message": "session is busy"}
    error = made.tool_error("exec_bash", command="echo QUIRK")
    assert "RUNTIME_ERROR" in error["error"] and "session is busy" in error["error"]
    assert made.bash("echo on")["stdout"] == "on\n"


@pytest.mark.parametrize("after", [2, 3, 5])
def test_a_stream_that_breaks_off_loses_nothing(made, platform, after):
    platform.quirks.drop_after = after
    answer = made.bash("echo one; sleep 0.3; echo two; sleep 0.3; printf QUIRK; echo err >&2; exit 7", timeout_s=60)
    assert (answer["exit_code"], answer["stdout"], answer["stderr"]) == (7, "one\ntwo\nQUIRK", "err\n")


def test_a_long_rest_of_a_broken_stream_has_its_own_lines(made, platform):
    """It comes in pieces that end anywhere; a command may print the mark that it finds in its environment."""
    platform.quirks.drop_after = 3
    answer = made.bash("echo one; sleep 0.3; : QUIRK; seq 3900; env | grep -c '^ANYBOX_RUN='; env | grep ^ANYBOX_RUN=", timeout_s=60)
    lines = answer["stdout"].splitlines()
    assert lines[:-2] == ["one", *map(str, range(1, 3901))] and lines[-2] == "1", lines
    assert re.fullmatch("ANYBOX_RUN=[0-9a-f]{32}", lines[-1])


@pytest.mark.parametrize("more", ["", "trap : USR1; "], ids=["plain", "below"])
def test_a_stream_that_breaks_off_loses_nothing_where_outputs_are_removed(made, platform, more):
    platform.quirks.tidies, platform.quirks.drop_after = True, 3
    call = made.start_tool("exec_bash", {"timeout_s": 500, "command":
                           more + "echo one; until [ -e go ]; do sleep 0.1; done; printf QUIRK; echo err >&2; exit 7"})
    outputs = made.sandbox.home / ".outputs"
    held = lambda: [f for f in os.listdir(outputs) if len(f) > 50] if outputs.exists() else []
    assert wait_until(lambda: len(held()) == 2), "its files have other names"
    (made.sandbox.home / "go").touch()
    answer = made.finish_tool(call)
    assert (answer["exit_code"], answer["stdout"], answer["stderr"]) == (7, "one\nQUIRK", "err\n")
    assert wait_until(lambda: not held()), "they are removed"


def test_what_a_broken_stream_lost_is_told(made, platform):
    platform.quirks.tidies = platform.quirks.drop_last = True
    error = made.tool_error("exec_bash", command="echo QUIRK; exit 5", timeout_s=60)
    assert error["connection_error"] is True and "exit status 5" in error["error"], error


@pytest.mark.parametrize("early, told, after", [("\\377", "\ufffd\n", 3), ("a\\r\\nb\\r", "a\nb\n", 4), ("\\r\\n\\n", "\n\n\n", 4)],
                         ids=["no text", "CR", "empty"])
def test_the_rest_of_a_broken_stream_begins_where_it_broke(made, platform, early, told, after):
    """Whatever a line was and however it ended, of which execd does not tell."""
    platform.quirks.drop_after = after
    answer = made.bash(f"printf '{early}\\n'; sleep 0.3; echo two; echo QUIRK; exit 7", timeout_s=60)
    assert (answer["exit_code"], answer["stdout"]) == (7, told + "two\nQUIRK\n"), answer


@pytest.mark.parametrize("name", ["../../../../v1/sandboxes", "a?b", "x" * 100])
def test_a_sandbox_cannot_choose_what_we_ask_the_server_for(made, platform, name):
    platform.quirks.proxy_only, platform.quirks.named, platform.quirks.drop_after = True, name, 3
    del platform.seen[:]
    error = made.tool_error("exec_bash", command="echo one; sleep 0.3; echo QUIRK", timeout_s=60)
    assert error["connection_error"] is True and error["stdout"].startswith("one")
    assert not [p for _, _, p in platform.seen if "status" in p or p.endswith(("/sandboxes", name))], platform.seen


@pytest.mark.long
def test_a_stream_without_pings_is_doubted_and_goes_on(made, platform):
    platform.quirks.silent = True
    assert made.bash("sleep 25; echo QUIRK", timeout_s=60)["stdout"] == "QUIRK\n"


def test_a_flood_costs_bounded_memory(made, platform):
    platform.quirks.flood = 300_000
    answer = made.bash("echo QUIRK", timeout_s=120)
    assert answer["exit_code"] == 0 and len(answer["stdout"]) < 21000 and answer["truncated"] is True
    with open(f"/proc/{made.pid}/status", encoding="ascii") as status:
        assert int(status.read().split("VmRSS:")[1].split()[0]) < 150 * 1024


@pytest.mark.parametrize("tidies", [False, True])
def test_a_command_that_is_left_goes_on_as_a_task(serve, platform, tidies):
    platform.quirks.tidies = tidies
    client = serve(ANYBOX_DEFAULTS_EXEC_WINDOW="3")
    client.tool("create_sandbox", name="work")
    sandbox, = platform.sandboxes.values()
    for trap in "", "trap 'echo bye' USR1; ":
        answer = client.bash(trap + "echo early; until [ -e go ]; do sleep 0.1; done; rm go; echo late; exit 5")
        assert "exit_code" not in answer and answer["stdout"] == "early\n", answer
        (sandbox.home / "go").touch()
        done = client.tool("check_background_task", task_id=answer["task_id"], wait_s=30)
        assert done["exit_code"] == 5 and "early\nlate\n" in done["log_tail"], done
    assert "\0" not in json.dumps(done)


def test_a_job_in_the_background_outlives_its_server(serve, host):
    client = serve()
    client.tool("create_sandbox", name="work")
    job = client.tool("exec_bash_background", command="sleep 1; echo finished; exit 3")
    client.process.kill()
    client.killed = True
    other = serve()
    done = other.tool("check_background_task", task_id=job["task_id"], wait_s=30)
    assert done["exit_code"] == 3 and "finished" in done["log_tail"], done


@pytest.fixture
def small(serve, platform, host):
    """A client with a sandbox that has the programs of busybox only: no bash, no python."""
    if not shutil.which("busybox"):
        pytest.skip("busybox is not installed")
    programs = platform.folder / "programs"
    programs.mkdir()
    subprocess.run(["busybox", "--install", "-s", programs], check=True)
    platform.quirks.programs = programs
    client = serve(ANYBOX_DEFAULTS_EXEC_WINDOW="3")
    client.tool("create_sandbox", name="small")
    client.sandbox, = platform.sandboxes.values()
    yield client
    shutil.rmtree(programs)


def test_busybox_alone_is_enough(small):
    ran = small.bash("echo hi; echo e >&2; printf $0; exit 3")
    assert (ran["exit_code"], ran["stdout"], ran["stderr"]) == (3, "hi\nsh", "e\n")
    assert small.bash("sleep 1000", timeout_s=1)["timed_out"] is True
    left = small.bash("echo early; until [ -e go ]; do sleep 0.1; done; echo late; exit 5")
    assert left["stdout"] == "early\n" and left["running"] is True, left
    (small.sandbox.home / "go").touch()
    done = small.tool("check_background_task", task_id=left["task_id"], wait_s=30)
    assert done["exit_code"] == 5 and done["log_tail"] == "early\nlate\n", done
    job = small.tool("exec_bash_background", command="echo begun; exit 4")
    done = small.tool("check_background_task", task_id=job["task_id"], wait_s=30)
    assert done["exit_code"] == 4 and "begun" in done["log_tail"], done


def test_files_with_busybox_alone(small):
    for name, size in (("d/a b\nc", 7), ("d/e/f", 200000)):
        small.tool("write_remote_file", remote_path=name, content="x" * size)
        got, = small.tool("download_files", paths=[name])["files"]
        assert base64.b64decode(got["content"]) == b"x" * size
    small.bash("ln -s nowhere d/link")
    listed = small.tool("list_remote_files", remote_path="d", recursive=True)["entries"]
    assert {(f["path"], f["is_dir"]) for f in listed} == {
        ("d/a b\nc", False), ("d/e", True), ("d/e/f", False), ("d/link", False)}, listed
    assert {f["size"] for f in listed if f["path"] in ("d/a b\nc", "d/e/f")} == {7, 200000}
    assert {f["path"] for f in small.tool("list_remote_files", remote_path="d")["entries"]} == {"d/a b\nc", "d/e", "d/link"}


def test_a_base64_that_cannot_write_one_line(small, platform):
    old = platform.quirks.programs / "base64"
    old.unlink()
    old.write_text(f"""#!{platform.quirks.programs}/sh
case $1 in -w*) echo usage >&2; exit 1;; esac; exec busybox base64 "$@"
""", encoding="ascii")
    old.chmod(0o755)
    small.tool("write_remote_file", remote_path="f", content="x" * 5000)
    assert small.tool("read_remote_file", remote_path="f")["content"] == "x" * 5000


def test_what_needs_more_than_busybox_says_so(small, host):
    assert "python3" in small.tool_error("execute_python_code", code="1 + 1")["error"]
    (host.folder / "tree").mkdir()
    (host.folder / "tree" / "f").write_text("x", encoding="ascii")
    said = host.run("sync", str(host.folder / "tree"), "small:tree")
    assert said.returncode != 0 and "GNU" in said.stderr + said.stdout, said


# ---- secrets ------------------------------------------------------------------------------------

def test_the_key_never_goes_to_a_sandbox_and_its_token_is_its_own(made, serve, platform):
    made.bash("true")
    made.tool("write_remote_file", remote_path="f", content="x" * 100000)
    heard = headers_of_execd(platform)
    assert heard and not any("open-sandbox-api-key" in h for h in heard)
    assert all(h.get("x-test-route") for h in heard), "the endpoint's own headers go with each request"
    token = platform.orders[-1]["env"]["EXECD_ACCESS_TOKEN"]
    assert len(token) == 64 and platform.orders[-1]["env"]["EXECD_API_GRACE_SHUTDOWN"] == "20ms"
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"http://127.0.0.1:{made.sandbox.listen()}/ping")
    assert refused.value.code == 401
    made.tool("create_sandbox", name="other")
    assert platform.orders[-1]["env"]["EXECD_ACCESS_TOKEN"] != token
    assert serve().bash("echo in", sandbox_name="work")["stdout"] == "in\n", "another process knows the token"


def test_through_the_server_where_there_is_no_direct_way(serve, platform):
    platform.quirks.proxy_only = True
    client = serve()
    client.tool("create_sandbox", name="work")
    assert client.bash("echo via")["stdout"] == "via\n"
    client.tool("write_remote_file", remote_path="f", content="y" * 300000)
    assert client.bash("wc -c < f")["stdout"].strip() == "300000"
    assert platform.proxied > 0
    assert all(h.get("open-sandbox-api-key") == platform.key for h in headers_of_execd(platform)[-3:])


def test_an_address_from_which_nothing_comes_back_is_tried_once(serve, platform):
    """As a pod's, from outside of its cluster."""
    platform.quirks.silent_address = True
    client = serve()
    client.tool("create_sandbox", 120, name="work")
    assert client.bash("echo via")["stdout"] == "via\n" and platform.proxied > 0
    asked = platform.asked_direct
    client.tool("create_sandbox", 120, name="other")
    assert client.bash("echo via")["stdout"] == "via\n"
    assert asked > 0 and platform.asked_direct == asked, "that it leads nowhere is remembered"


def test_a_request_that_the_proxy_could_not_pass_on_is_tried_again(serve, platform):
    platform.quirks.proxy_only = True
    client = serve()
    client.tool("create_sandbox", name="work")
    platform.quirks.unheard = ("/command", 3)
    assert client.bash("echo x >> ran; cat ran")["stdout"] == "x\n" and platform.quirks.unheard[1] == 0


@pytest.mark.parametrize("mesh, told", [(False, "BACKEND_RESPONSE_FAILED"), (True, "connection termination")])
def test_a_command_whose_answer_the_proxy_lost_runs_once(serve, platform, mesh, told):
    platform.quirks.proxy_only, platform.quirks.mesh = True, mesh
    client = serve()
    client.tool("create_sandbox", name="work")
    platform.quirks.unanswered = 1
    error = client.tool_error("exec_bash", command="echo QUIRK >> ran")
    assert error["code"] == "unreachable" and told in error["error"], error
    assert platform.quirks.unanswered == 0 and client.bash("cat ran")["stdout"] == "QUIRK\n"


def test_a_file_is_whole_or_there_is_an_error(serve, platform):
    """Of what was read for a request that was not passed on, nothing is left for another."""
    platform.quirks.proxy_only = True
    client = serve()
    client.tool("create_sandbox", name="work")
    platform.quirks.unheard, lines = ("/files/upload", 1), "".join(f"{i}\n" for i in range(400_000))
    error = client.tool_error("write_remote_file", remote_path="f", content=lines)
    assert error["code"] == "unreachable", error
    assert client.bash("cat f")["exit_code"] == 1, "nothing took its place"
    client.tool("write_remote_file", remote_path="f", content=lines)
    assert client.bash("wc -l < f")["stdout"].strip() == "400000"


def test_an_execd_that_answers_pings_only_is_waited_for(serve, platform):
    platform.quirks.unready = 3
    client = serve()
    client.tool("create_sandbox", name="work")
    assert client.bash("echo on")["stdout"] == "on\n"
    platform.quirks.unready = 3
    assert client.bash("echo on")["stdout"] == "on\n"


@pytest.fixture(scope="module")
def signed(tmp_path_factory):
    """A folder with a certificate authority of our own, ca.pem, and what it signed for 127.0.0.1."""
    if not shutil.which("openssl"):
        pytest.skip("openssl is not installed")
    folder = tmp_path_factory.mktemp("signed")
    for words in ("req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca -keyout ca-key.pem -out ca.pem",
                  "req -newkey rsa:2048 -nodes -subj /CN=server -keyout key.pem -out server.csr",
                  "x509 -req -in server.csr -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days 2 -extfile names -out cert.pem"):
        (folder / "names").write_text("subjectAltName=IP:127.0.0.1\n", encoding="ascii")
        subprocess.run(["openssl", *words.split()], cwd=folder, check=True, capture_output=True)
    for path in (*folder.parents[:2], folder):
        path.chmod(0o755)
    return folder


@pytest.fixture
def secure(signed, host):
    """A platform that speaks https; configured, but for who signed it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(signed / "cert.pem", signed / "key.pem")
    made = opensandbox_server.Platform(tls=context)
    host.pool.update(OPENSANDBOX_SERVER=made.url + "/v1/", OPEN_SANDBOX_API_KEY=made.key,
                     OPENSANDBOX_DEFAULT_IMAGE="python:3.12", ANYBOX_SERVER_TOOLSET="all",
                     ANYBOX_OPENSANDBOX_WORK_DIR=made.nowhere)
    try:
        yield made
    finally:
        made.close()


@pytest.mark.parametrize("plain", [False, True], ids=["all", "server"])
def test_https_with_an_authority_of_its_own(secure, signed, host, plain):
    secure.quirks.plain_sandboxes = plain
    host.pool["SSL_CERT_FILE"] = str(signed / "ca.pem")
    client = host.server()
    client.tool("create_sandbox", name="work")
    assert client.bash("echo safe")["stdout"] == "safe\n"
    client.tool("write_remote_file", remote_path="f", content="y" * 300000)
    assert client.tool("read_remote_file", remote_path="f", max_bytes=1000)["file_size"] == 300000
    assert len(host.run("exec", "work", "cat", "f").stdout) == 300000
    got, = client.tool("download_files", sandbox_id="work", paths=["f"])["files"]
    assert got["size"] == 300000
    assert fetch(deploy(client, free_port())["url"] + "/x").startswith(b"me /x")
    assert (secure.proxied > 0) is plain, "sandboxes without https are reached through the server"
    client.tool("delete_sandbox", sandbox_id="work")


def test_a_certificate_that_nobody_trusts_is_a_sentence(secure, host, signed):
    error = host.server().tool_error("create_sandbox")
    assert error["code"] == "unreachable" and "opensandbox.ca_file" in error["error"], error
    error = host.server(env={"ANYBOX_OPENSANDBOX_CA_FILE": str(signed / "names")}).tool_error("create_sandbox")
    assert "names no file of certificates" in error["error"], error
    assert not secure.orders


# ---- files ----------------------------------------------------------------------------------------

def upload_headers(platform):
    return [h for h in headers_of_execd(platform) if "multipart" in h.get("content-type", "")]


def peak_kib(process):
    """Its largest size so far; 0 when it has ended."""
    with contextlib.suppress(OSError, IndexError):
        with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
            return int(status.read().split("VmHWM:")[1].split()[0])
    return 0


def copy(host, *words):
    """anybox cp, and the largest size that was seen."""
    process, peak = host.popen("cp", *words), 0
    while process.poll() is None:
        peak = max(peak, peak_kib(process))
        time.sleep(0.002)
    assert process.returncode == 0
    return peak


def test_large_files_pass_in_constant_memory(made, host, platform):
    near, back = host.project / "near", host.project / "back"
    with open(near, "wb") as file:
        for i in range(192):
            file.write(bytes([i]) * (1 << 20))
    assert 0 < copy(host, "near", "work:far") < 128 * 1024
    assert 0 < copy(host, "work:far", "back") < 128 * 1024
    assert filecmp.cmp(near, back, shallow=False)
    head = upload_headers(platform)[-1]
    assert int(head["content-length"]) > near.stat().st_size and "transfer-encoding" not in head


@contextlib.contextmanager
def halfway(host, platform):
    """anybox cp of 64 MiB, of which nothing is read until this is left."""
    near, asked = host.project / "near", len(upload_headers(platform))
    near.write_bytes(b"x" * (64 << 20))
    platform.quirks.upload_gate = threading.Event()
    copying = host.popen("cp", "near", "work:far", stderr=subprocess.PIPE, text=True)
    try:
        assert wait_until(lambda: len(upload_headers(platform)) > asked)
        yield near, copying
    finally:
        platform.quirks.upload_gate.set()


def test_a_file_that_grows_is_sent_as_it_was(made, host, platform):
    with halfway(host, platform) as (near, copying):
        with open(near, "ab") as file:
            file.write(b"y" * 100)
    assert copying.communicate(timeout=120) and copying.returncode == 0
    assert (made.sandbox.home / "far").stat().st_size == 64 << 20


def test_a_file_that_becomes_shorter_is_not_sent(made, host, platform):
    with halfway(host, platform) as (near, copying):
        os.truncate(near, 1000)
    said = copying.communicate(timeout=120)[1]
    assert copying.returncode != 0 and "became shorter while it was sent" in said, said
    assert wait_until(lambda: not [n for n in os.listdir(made.sandbox.home) if n.startswith((".anybox-sync", "far"))])


def test_what_has_no_size_is_sent_to_its_end(made, host, platform):
    copied = host.run("cp", "/dev/stdin", "work:far", input="z" * 400000)
    assert copied.returncode == 0, copied.stderr
    assert (made.sandbox.home / "far").read_bytes() == b"z" * 400000
    assert upload_headers(platform)[-1]["transfer-encoding"] == "chunked"


# ---- life -----------------------------------------------------------------------------------------

def test_a_paused_sandbox_goes_on_when_it_is_used(made, serve, platform):
    made.bash("echo kept > f")
    request = urllib.request.Request(f"{platform.url}/v1/sandboxes/{made.sandbox.id}/pause", method="POST",
                                     headers={"OPEN-SANDBOX-API-KEY": platform.key})
    urllib.request.urlopen(request)
    listed, = serve().tool("list_sandboxes")["sandboxes"]
    assert listed["connection_alive"] is False and "paused" in listed["connection_error"]
    assert serve().bash("cat f", sandbox_name="work")["stdout"] == "kept\n"
    assert made.sandbox.state == "Running"


def test_a_sandbox_that_is_paused_behind_our_back_goes_on(made, host):
    for tool, args in (("exec_bash", {"command": "echo on"}), ("write_remote_file", {"remote_path": "f", "content": "x"})):
        assert host.run("pause", "work").returncode == 0 and made.sandbox.state == "Paused"
        answer = made.tool(tool, 120, **args)
        assert answer.get("stdout") == "on\n" or answer["status"] == "written"
        assert made.sandbox.state == "Running"
    assert len([c for c in made.sandbox.commands.values() if "echo on" in c.order["command"]]) == 1, "it ran once"


@pytest.mark.parametrize("way", ["auto", "proxy"])
def test_a_pod_has_no_address_before_it_runs_and_another_after_a_pause(serve, host, platform, way):
    platform.quirks.pods = True
    client = serve(ANYBOX_OPENSANDBOX_CONNECTION=way)
    client.tool("create_sandbox", name="work")
    sandbox, = platform.sandboxes.values()
    assert client.bash("echo kept > f; echo made")["stdout"] == "made\n"
    assert host.run("pause", "work").returncode == 0 and sandbox.state == "Paused"
    assert client.bash("cat f; echo x >> ran; cat ran")["stdout"] == "kept\nx\n"
    assert sandbox.state == "Running"


def test_use_renews_the_life_of_a_sandbox(made, serve, platform):
    made.sandbox.expires = datetime.now(timezone.utc) + timedelta(seconds=100)
    serve().bash("true", sandbox_name="work")
    assert wait_until(lambda: made.sandbox.expires > datetime.now(timezone.utc) + timedelta(seconds=500))


@pytest.mark.parametrize("renews", ["false", "true"])
def test_a_timeout_that_was_given_is_kept_unless_it_is_renewed(serve, platform, renews):
    client = serve()
    answer = client.tool("create_sandbox", name="work", timeout=600)
    assert answer["expires_at"]
    sandbox, = platform.sandboxes.values()
    end = datetime.now(timezone.utc) + timedelta(seconds=200)
    sandbox.metadata["anybox-life"] = str(int(end.timestamp()))
    sandbox.expires = datetime.now(timezone.utc) + timedelta(seconds=100)
    serve(ANYBOX_OPENSANDBOX_AUTO_RENEW=renews).bash("true", sandbox_name="work")
    assert wait_until(lambda: sandbox.expires > datetime.now(timezone.utc) + timedelta(seconds=120))
    assert (sandbox.expires > end) is (renews == "true")


@pytest.mark.long
def test_a_task_that_nobody_attends_keeps_its_sandbox(serve, platform):
    """The watchdog looks at it often enough, however long its own interval is."""
    client = serve(ANYBOX_OPENSANDBOX_TIMEOUT="60")
    client.tool("create_sandbox", name="work")
    sandbox, = platform.sandboxes.values()
    job = client.tool("exec_bash_background", command="sleep 80; echo whole", interval_s=300)
    assert job["watch_id"], job
    client.close()
    first = sandbox.expires
    assert wait_until(lambda: sandbox.expires > first + timedelta(seconds=30) or not platform.sandboxes, 120, 0.2)
    assert platform.sandboxes, "it ended under the task"
    done = serve().tool("check_background_task", 180, task_id=job["task_id"], wait_s=120)
    assert done["exit_code"] == 0 and "whole" in done["log_tail"]


def test_a_sandbox_that_expired_is_told_and_gone(made, platform):
    platform.expire(made.sandbox)
    assert wait_until(lambda: not platform.sandboxes, 20)
    error = made.tool_error("exec_bash", command="true", sandbox_name="work")
    assert error["code"] == "gone" and "create_sandbox" in error["error"], error
    assert made.tool("list_sandboxes").get("sandboxes", []) == []


def test_a_sandbox_that_expires_in_the_middle_of_a_command(made, platform):
    call = made.start_tool("exec_bash", {"command": "echo begun; sleep 1000", "timeout_s": 500})
    assert wait_until(lambda: any("sleep 1000" in c.order["command"] for c in list(made.sandbox.commands.values())), 20)
    platform.expire(made.sandbox)
    result = call.result(60)["result"]
    text = result["content"][0]["text"]  # how it ended may still be told, or only that the sandbox did
    assert "ended" in text if result.get("isError") else json.loads(text)["signal"] == "SIGKILL", result
    assert made.tool_error("exec_bash", command="true", sandbox_name="work")["code"] == "gone"


@pytest.mark.parametrize("goes", [False, True])
def test_sandboxes_are_kept_at_exit_unless_configured(serve, platform, goes):
    client = serve(ANYBOX_OPENSANDBOX_DELETE_AT_EXIT="true" if goes else "false")
    client.tool("create_sandbox", name="work")
    client.close()
    assert bool(platform.sandboxes) is not goes


# ---- creates ---------------------------------------------------------------------------------------

def test_what_was_ordered_reaches_the_platform(serve, platform):
    client = serve()
    client.tool("create_sandbox", name="my.box_", image="node:22", env={"A": "b"}, memory="1536m", cpus=1.5, timeout=120,
                egress=["*.pypi.org"], volumes=[{"name": "data", "mount_path": "/data", "claim": "c", "read_only": True}])
    order = platform.orders[-1]
    shown, = client.tool("list_sandboxes")["sandboxes"]
    assert (shown["limits"]["memory_mb"], shown["limits"]["cpus"], shown["network"]) == (1536, 1.5, "internet")
    assert order["image"] == {"uri": "node:22"} and order["timeout"] == 120
    assert order["resourceLimits"] == {"cpu": "1500m", "memory": "1536Mi"}
    assert order["env"]["A"] == "b" and order["metadata"]["anybox-name"] == "my.box"
    assert order["networkPolicy"] == {"defaultAction": "deny", "egress": [{"action": "allow", "target": "*.pypi.org"}]}
    assert order["volumes"] == [{"name": "data", "mountPath": "/data", "readOnly": True, "pvc": {"claimName": "c"}}]
    client.tool("create_sandbox", name="plain")
    assert "networkPolicy" not in platform.orders[-1] and "volumes" not in platform.orders[-1]
    assert client.tool("create_sandbox", name="shut", network="none")["network"] == "none"
    assert platform.orders[-1]["networkPolicy"] == {"defaultAction": "deny", "egress": []}
    error = client.tool_error("create_sandbox", provider="local", egress=["x.org"])
    assert error["code"] == "unsupported" and "opensandbox" in error["error"]


@pytest.mark.parametrize("lost", ["late", "broken", "gateway"])
def test_a_create_without_an_answer_leaves_nothing(serve, platform, lost):
    if lost == "late":
        platform.quirks.create_delay_s = 4
    elif lost == "gateway":
        platform.quirks.create_answer = (504, b"<html>504 Gateway Time-out</html>", "text/html")
    else:
        platform.quirks.create_answers = False
    client = serve(ANYBOX_OPENSANDBOX_CREATE_TIMEOUT="1")
    error = client.tool_error("create_sandbox", 120, name="work")
    assert error["code"] == "unreachable" and (lost != "late" or "create_timeout" in error["error"]), error
    assert platform.orders and wait_until(lambda: not platform.sandboxes, 30)
    assert client.tool("list_sandboxes").get("sandboxes", []) == []


@pytest.mark.long
def test_a_create_that_comes_to_something_much_later_leaves_nothing(serve, platform):
    """As one whose image took long to fetch."""
    platform.quirks.create_late = threading.Event()
    client = serve(ANYBOX_OPENSANDBOX_CREATE_TIMEOUT="1")
    assert client.tool_error("create_sandbox", 120, name="work")["code"] == "unreachable"
    platform.quirks.create_late.set()
    assert wait_until(lambda: platform.sandboxes)
    assert wait_until(lambda: client.tool("list_sandboxes") and not platform.sandboxes, 180, 2)


def test_a_create_whose_server_is_killed_is_cleared_up_by_the_next(serve, platform):
    platform.quirks.create_delay_s = 3
    client = serve()
    client.start_tool("create_sandbox", {"name": "work"})
    assert wait_until(lambda: platform.sandboxes, 20)
    client.process.kill()
    client.process.wait()
    client.killed = True
    other = serve()
    assert wait_until(lambda: other.tool("list_sandboxes").get("sandboxes", []) == [] and not platform.sandboxes, 30)


def test_no_more_than_the_limit_over_all_instances(serve, host, platform):
    config = host.folder / "config.json"
    config.write_text(json.dumps({
        "server": {"name": "opensandbox-mcp", "version": "1.0.0", "description": "x", "other": 1},
        "opensandbox": {"server_url": platform.url, "default_image": "python:3.12", "default_timeout": 900,
                        "max_concurrent_sandboxes": 2, "auto_cleanup": True, "cleanup_after_minutes": 5},
        "logging": {"level": "INFO", "file": "mcp-server.log", "max_size_mb": 10}, "unknown": True}))
    os.chmod(host.folder, 0o777)
    del host.pool["OPENSANDBOX_SERVER"], host.pool["OPENSANDBOX_DEFAULT_IMAGE"]
    one, two = serve("--config", str(config)), serve("--config", str(config))
    one.tool("create_sandbox", name="a")
    assert platform.orders[-1]["image"]["uri"] == "python:3.12" and platform.orders[-1]["timeout"] == 300
    two.tool("create_sandbox", name="b")
    error = one.tool_error("create_sandbox", name="c")
    assert error["code"] == "limit" and "delete_sandbox" in error["error"]
    two.tool("delete_sandbox", sandbox_id="b")
    one.tool("create_sandbox", name="c")
    host.pool["OPENSANDBOX_SERVER"] = platform.url


# ---- what is wrong is said -----------------------------------------------------------------------------

def test_no_server_is_a_sentence(serve, platform):
    client = serve(OPENSANDBOX_SERVER=f"http://127.0.0.1:{platform.dead_port}")
    error = client.tool_error("create_sandbox")
    assert error["code"] == "unreachable" and str(platform.dead_port) in error["error"]
    assert "OPENSANDBOX_SERVER" in error["error"]


@pytest.mark.parametrize(("key", "code"), [("wrong", "INVALID_API_KEY"), ("", "MISSING_API_KEY")])
def test_a_wrong_key_is_a_sentence(serve, key, code):
    error = serve(OPEN_SANDBOX_API_KEY=key).tool_error("create_sandbox")
    assert error["code"] == "denied" and code in error["error"] and "OPEN_SANDBOX_API_KEY" in error["error"]


@pytest.mark.parametrize(("more", "code", "words"), [
    ({"image": "no-such/image:1"}, "invalid", "SANDBOX_IMAGE_PULL_FAILED"),
    ({"timeout": 59}, "invalid", "60"),
    ({"timeout": 0}, "invalid", "timeout"),
])
def test_a_wrong_order_is_a_sentence(serve, platform, more, code, words):
    error = serve().tool_error("create_sandbox", **more)
    assert error["code"] == code and words in error["error"], error
    assert not platform.sandboxes


@pytest.mark.parametrize(("status", "body", "code", "words"), [
    (429, {"code": "QUOTA", "message": "exceeded quota: sandboxes"}, "limit", "delete_sandbox"),
    (422, {"detail": [{"type": "x", "loc": ["body", "env"], "msg": "Input should be a valid dictionary"}]}, "invalid",
     "env: Input should be a valid dictionary"),
    (404, {"detail": "Not Found"}, "gone", "Not Found"),
    (500, b"Internal Server Error", "system", "Internal Server Error"),
    (503, b"Service Unavailable", "unreachable", "try again"),
])
def test_the_servers_own_words_are_told(serve, platform, status, body, code, words):
    platform.quirks.refuse_create = (status, body)
    error = serve(ANYBOX_OPENSANDBOX_CREATE_TIMEOUT="5").tool_error("create_sandbox", 60)
    assert error["code"] == code and words in error["error"] and str(status) in error["error"], error


def test_without_an_image_there_is_advice(serve):
    error = serve(OPENSANDBOX_DEFAULT_IMAGE="").tool_error("create_sandbox")
    assert error["code"] == "invalid" and "OPENSANDBOX_DEFAULT_IMAGE" in error["error"]


def test_nothing_runs_on_this_machine_instead(serve):
    error = serve().tool_error("exec_bash", command="echo here")
    assert "create_sandbox" in error["error"] and "OPENSANDBOX_SERVER" in error["error"]


def test_the_toolset_alone_means_the_usual_place(host):
    client = host.server("--toolset", "opensandbox")
    error = client.tool_error("create_sandbox", image="python:3.12")
    assert "http://localhost:8080" in error["error"] or error["code"] in ("denied", "invalid"), error


def test_a_server_that_was_restarted_is_no_loss(made, platform):
    call = made.start_tool("exec_bash", {"command": "sleep 2; echo through", "timeout_s": 60})
    assert wait_until(lambda: any("through" in c.order["command"] for c in list(made.sandbox.commands.values())), 20)
    platform.stop()
    assert made.bash("echo direct")["stdout"] == "direct\n", "a sandbox is reached without the server"
    assert made.tool_error("create_sandbox", name="b")["code"] == "unreachable"
    platform.restart()
    assert made.finish_tool(call)["stdout"] == "through\n"
    made.tool("create_sandbox", name="b")
    assert len(platform.sandboxes) == 2


def test_doctor_says_how_it_is(serve, host, platform):
    good = host.run("doctor")
    assert platform.url in good.stdout and "OpenSandbox server" in good.stdout, good.stdout
    bad = host.run("doctor", env={"OPEN_SANDBOX_API_KEY": "wrong"})
    assert "OPEN_SANDBOX_API_KEY" in bad.stdout


# ---- the tools in O's shapes -----------------------------------------------------------------------------

def test_the_tools_of_the_opensandbox_server(serve, platform):
    client = serve("--toolset", "opensandbox")
    made = client.tool("create_sandbox", image="python:3.12", timeout=600, env={"A": "1"})
    assert made["status"] == "running" and made["created_at"].endswith("Z")
    box = made["sandbox_id"]
    ran = client.tool("run_command", sandbox_id=box, command="echo $A; echo e >&2; exit 3", timeout=300)
    assert (ran["exit_code"], ran["stdout"], ran["stderr"]) == (3, "1\n", "e\n") and isinstance(ran["duration"], float)
    data = bytes(range(256)) * 1000
    client.tool("upload_files", sandbox_id=box,
                files=[{"path": "a/b.bin", "content": base64.b64encode(data).decode()}])
    got, = client.tool("download_files", sandbox_id=box, paths=["a/b.bin"])["files"]
    assert base64.b64decode(got["content"]) == data and got["size"] == len(data)
    listed, = client.tool("list_sandboxes")["sandboxes"]
    assert (listed["id"], listed["image"], listed["status"]) == (box, "python:3.12", "running")
    assert client.tool("delete_sandbox", sandbox_id=box)["status"] == "deleted" and not platform.sandboxes


def test_run_command_streams_its_output_as_progress(serve):
    client = serve()
    box = client.tool("create_sandbox")["sandbox_id"]
    future = client.start_tool("run_command", {"sandbox_id": box, "command": "for i in 1 2 3; do echo step $i; sleep 1; done"},
                               progress_token="t")
    assert client.finish_tool(future)["exit_code"] == 0
    assert any("step" in p.get("message", "") for p in client.progress("t"))


def test_many_are_listed_with_few_questions(serve, platform):
    client = serve()
    for i in range(8):
        client.tool("create_sandbox", name=f"b{i}")
    other = serve()
    before = len([s for s in platform.seen if s[1] == "server"])
    assert len(other.tool("list_sandboxes")["sandboxes"]) == 8
    assert len([s for s in platform.seen if s[1] == "server"]) - before <= 6


def test_a_thousand_are_listed_in_pages_and_block_nobody(made, serve, host, platform):
    order, others = made.sandbox.order, []
    with contextlib.closing(sqlite3.connect(host.home / "anybox.db")) as db, db:
        db.row_factory = sqlite3.Row
        row = dict(db.execute("SELECT * FROM boxes").fetchone())
        del row["seq"]
        for i in range(999):
            row.update(id=f"{i:032x}", ref=f"{i:032x}", name=f"other-{i}")
            db.execute(f"INSERT INTO boxes({','.join(row)}) VALUES({','.join('?' * len(row))})", list(row.values()))
            metadata = {**order["metadata"], "anybox-box": row["id"], "anybox-name": row["name"]}
            others.append(opensandbox_server.Sandbox(platform, {**order, "metadata": metadata}))
    platform.sandboxes.update({s.id: s for s in others})
    other = serve()
    assert other.bash("echo in", sandbox_name="work")["stdout"] == "in\n"
    asked = lambda: [s for s in platform.seen if s == ("GET", "server", "/sandboxes")]
    before = len(asked())
    platform.quirks.list_gate = threading.Event()
    try:
        call = other.start_tool("list_sandboxes", {})
        assert wait_until(lambda: len(asked()) > before, 30), "the platform is asked for a list"
        assert other.bash("echo beside", sandbox_name="work")["stdout"] == "beside\n"
        other.tool("write_remote_file", remote_path="f", content="x", sandbox_name="work")
        assert not call.done(), "it still waits for the list"
    finally:
        platform.quirks.list_gate.set()
    listed = other.finish_tool(call, 120)["sandboxes"]
    assert len({s["sandbox_id"] for s in listed}) == 1000
    assert len(asked()) - before <= 100, "in pages"
    for sandbox in others:  # they are nothing but folders
        platform.sandboxes.pop(sandbox.id)
        sandbox.home.rmdir()


def test_a_sandbox_that_is_killed_from_outside_is_told(made, platform):
    platform.remove(made.sandbox)
    assert made.tool_error("exec_bash", command="true", sandbox_name="work")["code"] == "gone"


@pytest.mark.parametrize("reason, stays", [("CONTAINER_EXITED_ERROR", False), ("FAILED", True)])
def test_what_is_left_of_a_dead_sandbox_is_removed(made, platform, reason, stays):
    """But not where the platform only says that something failed, which may have been a pause."""
    platform.kill(made.sandbox)
    made.sandbox.reason = reason
    error = made.tool_error("exec_bash", command="true", sandbox_name="work")
    assert error["code"] == "gone" and reason in error["error"], error
    assert made.tool("list_sandboxes").get("sandboxes", []) == []
    assert bool(platform.sandboxes) is stays


def test_interrupted_calls_leave_no_process(made):
    call = made.start_tool("exec_bash", {"command": "sleep 98761 & sleep 98762"})
    assert wait_until(lambda: sum(command_line(p).startswith("sleep ") for p in made.sandbox.processes()) == 2)
    made.cancel(call.request_id)
    assert wait_until(lambda: not list(made.sandbox.processes()), 20)


# ---- ports ------------------------------------------------------------------------------------------------

APP = """import http.server, os, time
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.headers.get("Upgrade"):
            self.send_response(101 if self.path == "/live" else 200)
            self.end_headers()
            while self.path == "/live" and (word := self.rfile.readline()):
                self.wfile.write(word.upper())
            if self.path == "/no":
                self.connection.settimeout(0.5)
                try:
                    self.wfile.write(b"more came: " + self.rfile.read(4))
                except OSError:
                    self.wfile.write(b"no more came")
            self.close_connection = True
            return
        body = f"{os.environ['WHO']} {self.path} {self.headers.get('X-Forwarded-Host')}".encode()
        body = b"x" * 5_000_000 if self.path == "/big" else body
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(201)
        self.end_headers()
        self.wfile.write(str(len(body)).encode())
    def log_message(self, *a): pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"""


def fetch(url, data=None):
    with urllib.request.urlopen(url, data, timeout=60) as answer:
        return answer.read()


def deploy(client, port):
    return client.tool("deploy_app", 120, files=[{"path": "app.py", "content": APP}], start_command="exec python3 app.py",
                       port=port, env={"WHO": "me"}, health_path="/health")


@pytest.mark.parametrize("proxied", [False, True], ids=["direct", "proxied"])
def test_an_application_has_a_url_that_opens_from_here(serve, platform, proxied):
    platform.quirks.proxy_only = proxied
    client = serve()
    client.tool("create_sandbox", name="work")
    before = platform.proxied
    answer = deploy(client, free_port())
    assert answer["status"] == "running" and answer["health"]["status"] == 200, answer
    url = answer["url"]
    assert fetch(url + "/x?y=%20z") == f"me /x?y=%20z {url[7:]}".encode()
    assert fetch(url + "/in", b"p" * 3_000_000) == b"3000000"
    with ThreadPoolExecutor(8) as many:
        assert {len(got) for got in many.map(fetch, [url + "/big"] * 16)} == {5_000_000}
    assert (platform.proxied > before) is proxied
    client.process.kill()
    client.process.wait()
    client.killed = True
    assert fetch(url + "/still").startswith(b"me /still"), "it opens after the server was killed"


def test_what_is_no_request_to_the_port_is_refused(made):
    url = deploy(made, free_port())["url"]
    port = int(url.rpartition(":")[2])
    for said in (b"GET /../../command HTTP/1.1\r\n\r\n", b"GET /%2e%2e/%252e%252e/ping HTTP/1.1\r\n\r\n",
                 b"GET /a\\..\\x HTTP/1.1\r\n\r\n", b"\x16\x03\x01 hello", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
                 b"SSH-2.0-OpenSSH_9.2\r\n", b"PING\n"):
        with socket.create_connection(("127.0.0.1", port), 60) as client:
            client.sendall(said)
            heard = b"".join(iter(lambda: client.recv(65536), b""))
        assert heard.startswith(b"HTTP/1.1 400") and b"HTTP/1" in heard.partition(b"\r\n\r\n")[2], said


@pytest.mark.long
def test_who_waits_for_a_greeting_is_told_that_there_is_none(made):
    port = int(deploy(made, free_port())["url"].rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), 120) as client:
        heard = b"".join(iter(lambda: client.recv(65536), b""))
    assert heard.startswith(b"HTTP/1.1 408") and b"only HTTP/1 requests" in heard, heard


@pytest.mark.parametrize("proxied", [False, True], ids=["direct", "proxied"])
def test_a_change_of_protocol_lasts_and_is_waited_for(serve, platform, proxied):
    platform.quirks.proxy_only = proxied
    client = serve()
    client.tool("create_sandbox", name="work")
    port = int(deploy(client, free_port())["url"].rpartition(":")[2])
    ask = b"GET %s HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\n"
    with socket.create_connection(("127.0.0.1", port), 60) as live, live.makefile("rb") as heard:
        live.sendall(ask % b"/live")
        assert b" 101 " in heard.readline()
        while heard.readline().strip():
            pass
        for word in b"one\n", b"two\n":
            live.sendall(word)
            assert heard.readline() == word.upper()
    with socket.create_connection(("127.0.0.1", port), 60) as plain:
        plain.sendall(ask % b"/no" + b"GET /ping HTTP/1.1\r\n\r\n")
        heard = b"".join(iter(lambda: plain.recv(65536), b""))
        assert b" 200 " in heard and heard.endswith(b"no more came"), "nothing is smuggled behind it"


def test_a_port_that_nothing_listens_on_is_a_sentence(made, host):
    nobody = free_port()
    error = made.tool_error("deploy_app", 120, start_command="sleep 1000", port=nobody, health_timeout=2)
    assert error["status"] == "failed" and f"nothing listens at port {nobody}" in error["error"]
    with forwarding(host, "work", f"0:{nobody}") as (process, port):
        with pytest.raises(OSError):
            fetch(f"http://127.0.0.1:{port}")
        assert f"nothing listens on port {nobody}" in process.stderr.readline()


def test_people_pause_and_resume(made, host):
    for _ in range(2):
        assert host.run("pause", "work").returncode == 0
        assert made.sandbox.state == "Paused"
    for _ in range(2):
        assert host.run("resume", "work").returncode == 0
        assert made.sandbox.state == "Running"
    assert made.bash("echo on")["stdout"] == "on\n"


def test_the_stand_in_is_compared_with_the_platforms_specification(made, platform):
    """The platform fixture does so after each test; here that it would find something."""
    if openapi.why_not():
        pytest.skip(openapi.why_not())
    made.bash("echo out; echo err >&2; exit 3")
    made.tool("write_remote_file", remote_path="f", content="x")
    made.tool("list_remote_files")
    heard = {(api, method, openapi.template_of(api, path)) for api, method, path, *_ in platform.exchanges.values()}
    assert {("server", "POST", "/sandboxes"), ("server", "GET", "/sandboxes/{sandboxId}/endpoints/{port}"),
            ("execd", "POST", "/command")} <= heard
    for exchange in (("server", "POST", "/sandboxes", {"timeout": 5}, 202, {"id": "a"}),
                     ("server", "GET", "/sandboxes", None, 200, {"items": [{"id": 1}]}),
                     ("server", "GET", "/sandboxes/x", None, 418, {}), ("execd", "GET", "/other", None, 200, {}),
                     ("execd", "POST", "/command", {"command": "true"}, 200, {"type": "other"})):
        assert openapi.problems([exchange]), exchange
