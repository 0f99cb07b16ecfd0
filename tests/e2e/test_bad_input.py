"""Each wrong input is answered with a clear sentence, nothing is left, the server goes on."""
import re

import pytest

from mcp_client import ToolFailed

pytestmark = pytest.mark.every_tier


def refused(client, tool, arguments, *words, code="invalid"):
    """The call fails with that code, names what is wrong, and the server goes on."""
    error = client.tool_error(tool, **arguments)
    assert error["code"] == code, error
    for word in words:
        assert word in error["error"], (word, error["error"])
    assert error["error"][-1] not in "\n " and len(error["error"]) < 2000
    assert client.result("ping") == {}
    return error


@pytest.mark.parametrize("tool,arguments,names", [
    ("exec_bash", {}, "command"),
    ("exec_bash", {"command": ""}, "command"),
    ("exec_bash", {"command": "   "}, "command"),
    ("exec_bash", {"command": None}, "command"),
    ("exec_bash", {"command": ["ls"]}, "command"),
    ("exec_bash", {"command": {"a": 1}}, "command"),
    ("exec_bash", {"command": "a\0b"}, "command"),
    ("exec_bash", {"command": "true", "timeout_s": 0}, "timeout_s"),
    ("exec_bash", {"command": "true", "timeout_s": -5}, "timeout_s"),
    ("exec_bash", {"command": "true", "timeout_s": "soon"}, "timeout_s"),
    ("exec_bash", {"command": "true", "timeout_s": 1e300}, "timeout_s"),
    ("exec_bash", {"command": "true", "timeout_s": []}, "timeout_s"),
    ("exec_bash", {"command": "true", "max_output_chars": -1}, "max_output_chars"),
    ("exec_bash", {"command": "true", "env": "PATH"}, "env"),
    ("exec_bash", {"command": "true", "env": {"A=B": "x"}}, "env"),
    ("exec_bash", {"command": "true", "env": {"": "x"}}, "env"),
    ("exec_bash", {"command": "true", "env": {"A": "x\0y"}}, "env"),
    ("exec_bash", {"command": "true", "stdin": {"a": 1}}, "stdin"),
    ("exec_bash", {"command": "true", "cwd": "a\0b"}, "cwd"),
    ("exec_bash", {"command": "true", "sandbox_id": ["x"]}, "sandbox_id"),
    ("create_sandbox", {"memory": "lots"}, "memory"),
    ("create_sandbox", {"memory": -1}, "memory"),
    ("create_sandbox", {"memory": "1k"}, "memory"),
    ("create_sandbox", {"memory": "4m"}, "memory"),
    ("create_sandbox", {"memory": 0}, "memory"),
    ("create_sandbox", {"memory": "0"}, "memory"),
    ("create_sandbox", {"disk": 0}, "disk"),
    ("create_sandbox", {"disk": "-1m"}, "disk"),
    ("create_sandbox", {"disk": "1k"}, "disk"),
    ("create_sandbox", {"memory": "64m", "disk": "64m"}, "disk"),
    ("create_sandbox", {"cpus": 0}, "cpus"),
    ("create_sandbox", {"cpus": 0.001}, "cpus"),
    ("create_sandbox", {"cpus": -1}, "cpus"),
    ("create_sandbox", {"pids": 0}, "pids"),
    ("create_sandbox", {"pids": -5}, "pids"),
    ("create_sandbox", {"pids": 1}, "pids"),
    ("create_sandbox", {"pids": "many"}, "pids"),
    ("create_sandbox", {"open_files": 0}, "open_files"),
    ("create_sandbox", {"open_files": -1}, "open_files"),
    ("create_sandbox", {"open_files": 3}, "open_files"),
    ("create_sandbox", {"timeout": 0}, "timeout"),
    ("create_sandbox", {"timeout": -60}, "timeout"),
    ("create_sandbox", {"timeout": 1e12}, "timeout"),
    ("create_sandbox", {"idle_timeout_s": 0}, "idle_timeout_s"),
    ("create_sandbox", {"idle_timeout_s": -1}, "idle_timeout_s"),
    ("create_sandbox", {"env": 7}, "env"),
    ("create_sandbox", {"network": "wifi"}, "network"),
    ("create_sandbox", {"provider": "cloud"}, "provider"),
    ("create_sandbox", {"reuse": "perhaps"}, "reuse"),
    ("list_sandboxes", {"check_resources": "maybe"}, "check_resources"),
    ("list_remote_files", {"max_entries": 0}, "max_entries"),
    ("list_remote_files", {"max_entries": -1}, "max_entries"),
    ("list_remote_files", {"recursive": 7}, "recursive"),
    ("read_remote_file", {}, "remote_path"),
    ("read_remote_file", {"remote_path": "x", "max_bytes": -1}, "max_bytes"),
    ("read_remote_file", {"remote_path": "x", "offset": -1}, "offset"),
    ("read_remote_file", {"remote_path": 7.5}, "remote_path"),
    ("read_remote_file", {"remote_path": "a\0b"}, "remote_path"),
    ("write_remote_file", {"content": "x"}, "remote_path"),
    ("write_remote_file", {"remote_path": "x"}, "content"),
    ("write_remote_file", {"remote_path": "x", "content": "x", "encoding": "latin1"}, "encoding"),
    ("select_sandbox", {}, "sandbox"),
    ("check_file_transfer_task", {"task_id": -1}, "task_id"),
    ("check_file_transfer_task", {"task_id": "soon"}, "task_id"),
    ("check_file_transfer_task", {"task_id": 1, "last_n_lines": -1}, "last_n_lines"),
    ("cancel_file_transfer_task", {}, "task_id"),
    ("cancel_file_transfer_task", {"task_id": 1, "force_kill_after_s": "never"}, "force_kill_after_s"),
])
def test_a_wrong_argument_is_named(client, host, tool, arguments, names):
    refused(client, tool, arguments, names)
    assert not host.install.seen_processes(), "a box was made for a call that was wrong"
    assert client.tool("list_sandboxes")["sandboxes"] == []


@pytest.mark.parametrize("name", ["a/b", "a\nb", "..", ".", "../up", " ", "a b", "-dash", ".hidden", "x" * 65, "é",
                                  "a\tb", "a:b", "'; rm -rf /", "0123456789abcdef0123456789abcdef"])
def test_a_name_that_is_none_is_refused_and_says_what_is_accepted(client, host, name):
    error = refused(client, "create_sandbox", {"name": name}, "name")
    assert "letters" in error["error"] or "id" in error["error"]
    assert client.tool("list_sandboxes")["sandboxes"] == []
    assert not host.install.seen_processes()


@pytest.mark.parametrize("name", ["a", "A-1_b.c", "x" * 64, "7", "a.b"])
def test_a_good_name_is_taken_as_it_is(client, name):
    assert client.tool("create_sandbox", name=name)["name"] == name
    assert client.bash("echo ok", sandbox_name=name)["stdout"] == "ok\n"


def test_an_unknown_box_makes_none(client, host):
    for tool, more in (("exec_bash", {"command": "true"}), ("read_remote_file", {"remote_path": "x"}),
                       ("write_remote_file", {"remote_path": "x", "content": "y"}), ("list_remote_files", {}),
                       ("delete_sandbox", {}), ("select_sandbox", {}), ("run_command", {"command": "true"}),
                       ("execute_terminal_command", {"command": "true"})):
        refused(client, tool, {"sandbox_id": "no-such-box", **more}, "no-such-box", code="not_found")
    assert not host.install.seen_processes()


def test_an_unknown_transfer_is_told(client):
    for tool in ("check_file_transfer_task", "cancel_file_transfer_task"):
        refused(client, tool, {"task_id": 77}, "77", code="not_found")


def test_unknown_tools_and_wrong_shapes_do_not_disturb_what_runs(box):
    call = box.start_tool("exec_bash", {"command": "sleep 1; echo undisturbed"})
    for params in ({"name": "x"}, {"name": "exec_bash", "arguments": {"command": 1}}, {}, {"name": []}):
        box.request("tools/call", params).result(30)
    assert box.finish_tool(call)["stdout"] == "undisturbed\n"


def test_lenient_arguments_are_taken(client):
    client.tool("create_sandbox", name="l", memory="256m", pids="200", reuse="true", env='{"A": "1"}', gpu=None)
    answer = client.tool("exec_bash", command="echo $A $B", timeout_s="30", env={"B": 2}, unknown=[1], cwd=None,
                         sandbox_name="l")
    assert answer["stdout"] == "1 2\n"


def test_deep_and_wide_arguments_are_survived(client):
    deep = current = {}
    for _ in range(500):
        current["a"] = {}
        current = current["a"]
    client.request("tools/call", {"name": "list_sandboxes", "arguments": deep}).result(30)
    wide = {f"key{i}": i for i in range(20000)}
    assert not client.result("tools/call", {"name": "list_sandboxes", "arguments": wide}).get("isError")
    assert client.result("ping") == {}


def test_lone_surrogates_and_odd_code_points_are_survived(box):
    future = box.expect("s", "tools/call")
    box.send_line('{"jsonrpc":"2.0","id":"s","method":"tools/call","params":{"name":"exec_bash",'
                  '"arguments":{"command":"printf %s \\"\\ud800x\\u2028\\u0085\\u202e\\""}}}')
    message = future.result(30)
    assert "result" in message or message["error"]["code"] in (-32700, -32600)
    assert box.bash("echo on")["stdout"] == "on\n"


def test_a_write_of_five_megabytes_is_stored_or_refused_with_the_limit(box):
    content = "0123456789" * 500000
    try:
        answer = box.tool("write_remote_file", remote_path="big", content=content)
        assert answer["size"] == len(content)
        assert box.bash("wc -c < big")["stdout"].strip() == str(len(content))
    except Exception as failed:
        assert failed.answer["code"] in ("limit", "invalid") and "content" in failed.answer["error"]
        assert box.bash("ls -A")["stdout"] == ""


def test_errors_have_a_code_that_programs_can_use(client):
    codes = {client.tool_error("exec_bash", command="")["code"],
             client.tool_error("exec_bash", command="true", sandbox_name="nobody")["code"]}
    assert codes == {"invalid", "not_found"}
    assert all(c.isidentifier() for c in codes)


@pytest.mark.parametrize("limit,value", [("memory", "15t"), ("cpus", 4000), ("pids", 4194304), ("open_files", 1048576),
                                         ("disk", "15t")])
def test_a_limit_beyond_the_machine_is_refused_with_what_it_has(client, host, limit, value):
    error = refused(client, "create_sandbox", {"name": "huge", limit: value}, limit, "at most ")
    most = re.search(r"at most ([\d.]+)( MiB)?", error["error"])
    assert float(most.group(1)) > 0, "what to ask for instead"
    assert client.tool("list_sandboxes")["sandboxes"] == []
    assert not host.residue()
    done = host.run("run", f"--{limit.replace('_', '-')}", str(value), "true")
    assert done.returncode in (125, 2) and limit.replace("_", "-") in done.stderr.replace("_", "-"), done


def test_what_a_refusal_names_can_be_had(client):
    for limit in "pids", "open_files":
        error = refused(client, "create_sandbox", {limit: {"pids": 4194304, "open_files": 1048576}[limit]})
        most = int(re.search(r"at most (\d+)", error["error"]).group(1))
        try:
            made = client.tool("create_sandbox", **{limit: most})
        except ToolFailed as failed:  # for all processes together it may be too much again
            assert limit == "open_files" and "fs.file-max" in failed.answer["error"]
            most = int(re.search(r"at most (\d+)", failed.answer["error"]).group(1))
            made = client.tool("create_sandbox", **{limit: most})
        assert made["limits"][limit] == most
