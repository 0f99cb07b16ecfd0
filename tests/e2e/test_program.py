"""The program as a whole: exit codes, names it goes by, toolsets, settings, state folders."""
import json
import re
import shlex
import subprocess

import pytest
from host import NAMES
from mcp_client import ToolFailed


@pytest.mark.parametrize("argv,code", [
    (["run", "true"], 0), (["run", "false"], 1), (["run", "no-such-program"], 127), (["run", "/etc/passwd"], 126),
    (["run", "sh", "-c", "kill -TERM $$"], 143), (["run", "--timeout", "0.5", "sleep", "30"], 124),
    (["run", "--", "echo", "--memory"], 0), (["run"], 2), (["run", "--memory", "lots", "true"], 2),
    (["run", "--no-such-option", "true"], 2), (["run", "--image", "python:3", "true"], 125),
    (["exec"], 2), (["exec", "nobody", "true"], 125), (["rm"], 2), (["rm", "nobody"], 1), (["nonsense"], 2),
    (["--nonsense"], 2), (["help"], 0), (["--help"], 0), (["help", "run"], 0), (["help", "nonsense"], 2),
    (["--version"], 0), (["ls"], 0), (["ls", "extra"], 2), (["tools"], 0), (["config"], 0)])
def test_exit_codes(host, argv, code):
    done = host.run(*argv)
    assert done.returncode == code, done.stderr
    if code == 2:
        assert done.stderr.startswith("anybox") and done.stdout == ""
    if code == 0:
        assert done.stderr == ""


def test_run_as_the_readme_shows_it(host):
    assert host.run("run", "python3", "-c", "print(1)").stdout == "1\n"


def test_rm_of_an_unknown_box_names_it_and_what_exists(host):
    host.server().tool("create_sandbox", name="existing")
    done = host.run("rm", "missing")
    assert done.returncode == 1 and "missing" in done.stderr and "existing" in done.stderr


def test_doctor_and_run_tell_that_boxinit_is_missing(host):
    alone = host.folder / "alone" / "anybox"
    alone.parent.mkdir()
    alone.parent.chmod(0o755)
    alone.write_bytes(host.install.anybox.read_bytes())
    alone.chmod(0o755)
    done = host.run("doctor", program=alone)
    assert done.returncode == 1 and "boxinit" in done.stdout
    done = host.run("run", "true", program=alone)
    assert done.returncode == 125 and "boxinit" in done.stderr
    client = host.server(program=alone)
    assert "boxinit" in client.tool_error("exec_bash", command="true")["error"]
    assert client.tool("list_sandboxes")["sandboxes"] == []


def test_version_is_one_line(host):
    assert re.fullmatch(r"anybox \d+\.\d+\.\d+\n", host.run("--version").stdout)


@pytest.mark.parametrize("name", NAMES)
def test_the_seeds_names_start_a_server_with_their_tools(host, name):
    # Two of them were HTTP servers and still are, unless told otherwise.
    words = ["stdio"] if name in ("mcp-sandbox", "mcp-python-sandbox") else []
    client = host.server(*words, program=host.install.anybox.parent / name)
    tools = {t["name"] for t in client.result("tools/list")["tools"]}
    expected = {"remote-sandbox-mcp": "exec_bash", "opensandbox-mcp-server": "run_command"}
    assert expected.get(name, "execute_terminal_command") in tools


@pytest.mark.parametrize("toolset,shown,hidden", [
    ("opensandbox", "run_command", "exec_bash"), ("mcp-sandbox", "execute_terminal_command", "exec_bash"),
    ("remote-sandbox", "exec_bash", "run_command"), ("all", "run_command", None)])
def test_a_toolset_is_what_is_shown_and_every_tool_answers(host, toolset, shown, hidden):
    client = host.server("--toolset", toolset, env={"ANYBOX_DEFAULTS_PROVIDER": "local"})
    tools = {t["name"] for t in client.result("tools/list")["tools"]}
    assert shown in tools and hidden not in tools
    assert client.bash("echo any")["stdout"] == "any\n"
    assert client.tool("run_command", command="echo any")["stdout"] == "any\n"


def answer_or_error(client, tool):
    try:
        return json.dumps(client.tool(tool))
    except ToolFailed as failed:
        return failed.text


def test_a_wrong_toolset_is_told_to_the_agent(host):
    client = host.server("--toolset", "nonsense")
    assert client.result("tools/list")["tools"]
    assert "nonsense" in answer_or_error(client, "list_sandboxes") or "nonsense" in host.stderr()


def test_a_wrong_setting_is_named_with_file_line_and_the_nearest_right_one(host):
    config = host.folder / "wrong.toml"
    config.write_text("[local]\nmemry = \"1g\"\n")
    config.chmod(0o644)
    done = host.run("--config", str(config), "ls")
    assert done.returncode == 1
    assert "wrong.toml:2" in done.stderr and "memory" in done.stderr
    client = host.server("--config", str(config))
    assert "wrong.toml:2" in answer_or_error(client, "list_sandboxes")
    assert "wrong.toml:2" in client.tool_error("exec_bash", command="true")["error"]


def test_settings_come_from_file_and_environment(host):
    config = host.folder / "good.toml"
    config.write_text("[local]\npids = 50\nmax_boxes = 1\n[defaults]\nexec_timeout = 1\n")
    config.chmod(0o644)
    client = host.server("--config", str(config), env={"ANYBOX_LOCAL_MAX_BOXES": "2"})
    assert client.bash("sleep 20")["timed_out"] is True
    client.tool("create_sandbox", name="second")
    assert client.tool_error("create_sandbox", name="third")["code"] == "limit"


@pytest.mark.parametrize("state", ["/proc/nowhere", "/dev/null/x"])
def test_a_state_folder_that_cannot_be_is_an_error_that_names_it(host, state):
    client = host.server(env={"ANYBOX_HOME": state})
    assert client.result("tools/list")["tools"]
    assert state.rsplit("/", 1)[0] in client.tool_error("exec_bash", command="true")["error"]
    assert host.run("run", "true", env={"ANYBOX_HOME": state}).returncode == 125


@pytest.mark.parametrize("variable", ["REMOTE_SANDBOX_MCP_HOME", "XDG_STATE_HOME"])
def test_the_state_folder_may_come_from_other_variables(host, variable):
    env = host.env(**{variable: str(host.home)})
    del env["ANYBOX_HOME"]
    done = subprocess.run(host.tier.wrap([host.install.anybox, "run", "true"]), env=env, cwd=host.project,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0, done.stderr
    assert host.home.is_dir() and not (host.user_home / ".local").exists()


def test_a_very_long_state_path_works(host):
    deep = host.project / ("d" * 100) / ("e" * 100)
    done = host.run("run", "echo", "deep", env={"ANYBOX_HOME": str(deep)})
    assert done.stdout == "deep\n", done.stderr


def test_closed_standard_descriptors_do_no_harm(host):
    command = shlex.join(host.tier.wrap([host.install.anybox, "run", "true"]))
    done = subprocess.run(["sh", "-c", f"{command} <&- >&- 2>&-; echo $?"], env=host.env(), cwd=host.project,
                          capture_output=True, text=True, timeout=30, check=False)
    assert done.stdout == "0\n"
