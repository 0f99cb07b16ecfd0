"""How the server behaves as a child process: its end, its descriptors, odd input."""
import contextlib
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import time

import pytest
from host import is_running, links, wait_until
from mcp_client import MODERN

MIB = 1 << 20


def test_an_empty_input_ends_it_at_once_and_well(host):
    took, worked = [], []
    for _ in range(5):
        began, before = time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)
        done = host.run()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        took.append(time.monotonic() - began)
        worked.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
        assert (done.returncode, done.stdout) == (0, "")
    assert min(took) < 5 and min(worked) < 0.2
    assert not host.home.exists(), "a start without a call writes nothing"


def test_it_ends_on_eof(client):
    client.end_input()
    code, took = client.wait()
    assert code == 0 and took < 15


def test_it_ends_on_eof_while_a_command_runs_and_kills_nothing_else(box):
    box.start_tool("exec_bash", {"command": "sleep 60"})
    time.sleep(0.3)
    box.end_input()
    code, took = box.wait()
    assert code == 0 and took < 15


def test_requests_before_eof_are_still_answered(host):
    client = host.server()
    futures = [client.request("tools/list") for _ in range(20)]
    call = client.start_tool("list_sandboxes")
    client.end_input()
    assert all(f.result(30)["result"]["tools"] for f in futures)
    assert client.finish_tool(call)["sandboxes"] == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("busy", [False, True], ids=["idle", "busy"])
def test_it_ends_on_signals(box, number, busy):
    if busy:
        box.start_tool("exec_bash", {"command": "trap '' TERM INT HUP; sleep 60"})
        time.sleep(0.3)
    box.kill(number)
    code, took = box.wait()
    assert code in (0, -number, 128 + number) and took < 15


def test_a_second_signal_ends_it_at_once(box):
    box.start_tool("exec_bash", {"command": "sleep 60"})
    time.sleep(0.2)
    box.kill(signal.SIGTERM)
    box.kill(signal.SIGTERM)
    assert box.wait()[1] < 15


def test_it_ends_when_nobody_reads_its_output_any_more(host):
    process = host.popen(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    process.stdout.close()
    began = time.monotonic()
    try:
        for i in range(50):
            process.stdin.write(b'{"jsonrpc":"2.0","id":%d,"method":"ping"}\n' % i)
            process.stdin.flush()
            time.sleep(0.02)
    except BrokenPipeError:
        pass
    code = process.wait(30)
    assert time.monotonic() - began < 20
    assert code >= 0, "not killed by SIGPIPE"
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()


def test_it_ends_when_its_parent_was_killed_though_the_pipe_stays_open(host, tmp_path):
    # The middle process starts the server with a pipe whose writing end we hold too, and is killed.
    reader, writer = os.pipe()
    script = ("import os,subprocess,sys,time\n"
              "p=subprocess.Popen(sys.argv[1:],stdin=0,stdout=subprocess.PIPE)\n"
              "print(p.pid,flush=True)\ntime.sleep(60)\n")
    argv = host.tier.wrap([host.install.anybox])
    middle = subprocess.Popen([sys.executable, "-c", script, *argv], stdin=reader, stdout=subprocess.PIPE,
                              env=host.env(), cwd=host.project)
    os.close(reader)
    pid = int(middle.stdout.readline())
    os.write(writer, b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n')
    assert is_running(pid)
    middle.kill()
    middle.wait()
    middle.stdout.close()
    ended = wait_until(lambda: not is_running(pid))
    os.close(writer)
    assert ended, "an orphan goes on"


def test_carriage_returns_blank_lines_and_a_byte_order_mark_are_fine(host):
    client = host.server(initialize=False)
    client.send_bytes(b"\xef\xbb\xbf")
    pong = client.expect("a", "ping")
    client.send_bytes(b'\r\n\n  \n{"jsonrpc":"2.0","id":"a","method":"ping"}\r\n\r\n')
    assert pong.result(30)["result"] == {}
    assert client.result("tools/list")["tools"]


def test_a_message_in_pieces_and_many_at_once_are_the_same(client):
    line = b'{"jsonrpc":"2.0","id":"slow","method":"ping"}\n'
    slow = client.expect("slow", "ping")
    for i in range(len(line)):
        client.send_bytes(line[i:i + 1])
    assert slow.result(30)["result"] == {}
    many = [client.expect(f"m{i}", "ping") for i in range(500)]
    client.send_bytes(b"".join(b'{"jsonrpc":"2.0","id":"m%d","method":"ping"}\n' % i for i in range(500)))
    assert all(f.result(30)["result"] == {} for f in many)


def test_a_last_line_without_its_end_is_still_a_message(host):
    client = host.server(initialize=False)
    pong = client.expect(1, "ping")
    client.send_bytes(b'{"jsonrpc":"2.0","id":1,"method":"ping"}')
    client.end_input()
    assert pong.result(30)["result"] == {}


@pytest.mark.parametrize("garbage", [
    b"hello", b"\xff\xfe\xfd", b"\x00", b"{" * 5000, b"[" * 100000, b'{"jsonrpc":"2.0","id":"x","method":"\xc3"}',
    b'"' + b"a" * 100000, b"Content-Length: 40", b'{"a":' * 3000 + b"1" + b"}" * 3000, b"1e999999", b"\x1b[31m"])
def test_garbage_is_answered_with_an_error_and_survived(client, garbage):
    client.send_line(garbage)
    assert client.result("ping") == {}
    errors = [a for a in client.answers if "error" in a.message]
    assert len(errors) == 1
    assert errors[0].message["error"]["code"] in (-32700, -32600, -32601)


def test_a_line_of_20_mib_is_refused_and_survived(client):
    client.send_line(b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"' + b"a" * (20 * MIB) + b'"}}')
    assert client.result("ping", timeout=30) == {}
    errors = client.answers_without_id()
    assert [e["error"]["code"] for e in errors] == [-32600]
    assert "16" in errors[0]["error"]["message"], "says what is accepted"
    assert resident_mib(client.pid) < 100


def test_a_line_that_never_ends_costs_bounded_memory(client):
    for _ in range(40):
        client.send_bytes(b"x" * MIB)
    assert resident_mib(client.pid) < 100
    client.send_bytes(b"\n")
    assert client.result("ping") == {}


def resident_mib(pid):
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


def test_a_message_of_5_mib_is_taken(client):
    future = client.expect("big", "ping")
    client.send_line(b'{"jsonrpc":"2.0","id":"big","method":"ping","params":{"x":"' + b"a" * (5 * MIB) + b'"}}')
    assert future.result(30)["result"] == {}


def test_stderr_that_nobody_reads_does_not_block_it(host):
    client = host.server(env={"ANYBOX_LOG": "debug"}, stderr=subprocess.PIPE)
    for i in range(3000):
        client.send_line(b"garbage %d" % i)
    assert client.result("ping", timeout=20) == {}
    for _ in range(50):
        client.tool("list_sandboxes")
    client.process.stderr.close()


def test_a_slow_reader_gets_every_answer(host):
    process = host.popen(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    for i in range(400):  # about 4 MB of answers, while we read nothing
        process.stdin.write(b'{"jsonrpc":"2.0","id":%d,"method":"tools/list"}\n' % i)
    process.stdin.flush()
    time.sleep(1)
    ids = [json.loads(process.stdout.readline())["id"] for _ in range(400)]
    assert sorted(ids) == list(range(400))
    process.stdin.close()
    assert process.wait(30) == 0
    assert process.stdout.read() == b""
    process.stdout.close()


def test_a_client_that_reads_nothing_and_leaves_does_not_keep_it_alive(host):
    process = host.popen(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    for i in range(300):
        process.stdin.write(b'{"jsonrpc":"2.0","id":%d,"method":"tools/list"}\n' % i)
    process.stdin.close()
    began = time.monotonic()
    process.wait(30)
    assert time.monotonic() - began < 20
    process.stdout.close()


def test_fifty_calls_at_once_and_ping_lists_and_cancel_in_between(box):
    calls = [box.start_tool("exec_bash", {"command": f"until [ -e go ]; do sleep 0.2; done; echo {i}"})
             for i in range(50)]
    assert box.result("ping") == {}
    assert box.result("tools/list")["tools"]
    box.cancel(calls[0].request_id)
    box.bash("touch go")  # no call ends before that
    answers = [box.finish_tool(c) for c in calls[1:]]
    assert [a["stdout"] for a in answers] == [f"{i}\n" for i in range(1, 50)]
    assert not calls[0].done()


def test_a_call_that_is_answered_does_not_count_any_more(host):
    config = host.folder / "c.toml"
    config.write_text("[server]\nmax_calls = 1\n")
    config.chmod(0o644)
    client = host.server("--config", str(config))
    for _ in range(200):
        client.tool("get_active_sandbox")


def test_more_calls_than_the_limit_are_told_so_and_the_rest_work(host):
    config = host.folder / "c.toml"
    config.write_text("[server]\nmax_calls = 2\n")
    config.chmod(0o644)
    client = host.server("--config", str(config))
    client.bash("true")
    calls = [client.start_tool("exec_bash", {"command": "sleep 1; echo done"}) for _ in range(6)]
    results = [c.result(30)["result"] for c in calls]
    texts = [json.loads(r["content"][0]["text"]) for r in results]
    assert sum(t.get("stdout") == "done\n" for t in texts) >= 2
    for text in texts:
        assert text.get("stdout") == "done\n" or text["code"] == "limit"


def test_the_wire_is_private(box):
    """What a child, or a stray printf, would write to never is the wire."""
    fds = links(box.pid)
    ours = os.readlink(f"/proc/self/fd/{box.process.stdin.fileno()}")
    out = os.readlink(f"/proc/self/fd/{box.process.stdout.fileno()}")
    assert fds[0] == "/dev/null"
    assert fds[1] == fds[2]
    for fd, target in fds.items():
        if target in (ours, out):
            flags = pathlib.Path(f"/proc/{box.pid}/fdinfo/{fd}").read_text()
            octal = int(flags.split("flags:")[1].split()[0], 8)
            assert octal & os.O_CLOEXEC, f"fd {fd} goes to children"


def test_boxes_hold_nothing_of_the_client(box, install):
    pipes = {os.readlink(f"/proc/self/fd/{f.fileno()}") for f in (box.process.stdin, box.process.stdout)}
    for pid in install.box_processes():
        with contextlib.suppress(FileNotFoundError):  # it has just ended
            assert not set(links(pid).values()) & pipes, f"process {pid} of the box holds the client's pipe"


def test_a_sibling_that_only_probes_leaves_nothing(host):
    for _ in range(10):
        probe = host.server(version=MODERN)
        found = probe.request("server/discover", request_id="server-discover-probe-1")
        time.sleep(0.02)
        assert found.result(30)["result"]["supportedVersions"][0] == MODERN
        probe.end_input()
        probe.kill(signal.SIGTERM)
        assert probe.wait()[1] < 15
    assert not host.home.exists(), "a probe writes nothing"
    assert not host.residue()


def test_lists_and_handshake_touch_no_disk(host):
    client = host.server()
    client.result("tools/list")
    client.result("ping")
    assert not host.home.exists()
    assert client.tool("list_sandboxes")["sandboxes"] == []


def test_many_instances_share_one_state_folder(host):
    clients = [host.server() for _ in range(8)]
    calls = [c.start_tool("create_sandbox", {"name": f"box{i}"}) for i, c in enumerate(clients)]
    for client, call in zip(clients, calls):
        client.finish_tool(call)
    for client in clients:
        names = {b["name"] for b in client.tool("list_sandboxes")["sandboxes"]}
        assert names == {f"box{i}" for i in range(8)}


def test_a_broken_configuration_does_not_stop_it(host):
    config = host.folder / "broken.toml"
    config.write_text("[defaults]\nexec_timeout_s = \"soon\"\nno_such_key = 1\n")
    config.chmod(0o644)
    client = host.server("--config", str(config))
    assert client.result("tools/list")["tools"]
    try:
        answer = client.tool("list_sandboxes")
    except Exception as failed:  # isError is as good, when it tells the same
        answer = failed.answer
    assert "broken.toml" in json.dumps(answer)


def test_the_server_names_itself_once_on_the_process_list(client):
    assert pathlib.Path(f"/proc/{client.pid}/exe").resolve().name == "anybox"


def test_messages_never_exceed_one_mib(box):
    box.bash("head -c 3000000 /dev/zero | tr '\\0' 'x' > /workspace/big")
    answer = box.tool("read_remote_file", remote_path="/workspace/big", max_bytes=3000000)
    assert answer["truncated"] is True
    box.bash("head -c 5000000 /dev/zero | tr '\\0' '\\001'", max_output_chars=10000000)
    assert max(len(line) for line in box.lines) <= MIB
