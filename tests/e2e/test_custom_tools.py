"""[[tool]]: tools of the configuration, whose arguments are variables and never shell text."""
import json

import pytest
from http_server import HttpServer

TOOLS = """
[[tool]]
name = "bench"
title = "Benchmark"
description = "Runs the benchmark."
command = "printf '%s|%s|%s|%s' \\"$ARG_SIZE\\" \\"$ARG_WHAT\\" \\"$ARG_RATIO\\" \\"$ARG_DEEP\\"; pwd"
cwd = "/tmp"
timeout = 30
resource = "benchmark://{sandbox_id}/results"

[[tool.parameters]]
name = "size"
type = "integer"
description = "how many"
required = true

[[tool.parameters]]
name = "what"
choices = ["all", "some"]
default = "all"

[[tool.parameters]]
name = "ratio"
type = "number"
default = 0.5

[[tool.parameters]]
name = "deep"
type = "boolean"

[[tool]]
name = "say"
description = "Says it."
command = 'printf %s "$ARG_TEXT"'
read_only = true

[[tool.parameters]]
name = "text"
"""


def config(host, text=TOOLS):
    path = host.project / "anybox.toml"
    path.write_text(text)
    return str(path)


@pytest.fixture
def client(host):
    return host.server("--config", config(host))


def test_they_are_listed_like_any_other(client):
    tools = {t["name"]: t for t in client.result("tools/list")["tools"]}
    bench = tools["bench"]
    assert bench["title"] == "Benchmark" and bench["description"] == "Runs the benchmark."
    shape = bench["inputSchema"]
    assert shape["required"] == ["size"]
    assert {k: v["type"] for k, v in shape["properties"].items()} == {
        "size": "integer", "what": "string", "ratio": "number", "deep": "boolean", "sandbox_id": "string",
        "sandbox_name": "string"}
    assert shape["properties"]["what"]["enum"] == ["all", "some"]
    assert tools["say"]["annotations"]["readOnlyHint"] is True and bench["annotations"]["readOnlyHint"] is False


def test_arguments_are_variables(client):
    answer = client.tool("bench", size=7)
    assert answer["exit_code"] == 0 and answer["stdout"] == "7|all|0.5|false/tmp\n"
    answer = client.tool("bench", size="8", what="some", ratio=2, deep=True)
    assert answer["stdout"] == "8|some|2|true/tmp\n"


@pytest.mark.parametrize("text", ["$(touch /tmp/hit)", "`touch /tmp/hit`", "'; touch /tmp/hit; '", '"; touch /tmp/hit',
                                  "a\nb", "-n", "é", ""])
def test_nothing_that_a_caller_says_becomes_a_command(client, text):
    assert client.tool("say", text=text)["stdout"] == text
    assert client.bash("ls /tmp/hit 2>&1")["exit_code"] != 0


@pytest.mark.parametrize("arguments, said", [({}, "size"), ({"size": "x"}, "size must be an integer, not"),
                                             ({"size": 1, "what": "none"}, "all")])
def test_wrong_arguments_are_told(client, arguments, said):
    assert said in client.tool_error("bench", **arguments)["error"]


def test_the_last_answer_is_a_resource(client):
    box = client.tool("create_sandbox", name="one")["sandbox_id"]
    templates = {t["uriTemplate"] for t in client.result("resources/templates/list")["resourceTemplates"]}
    assert "benchmark://{sandbox_id}/results" in templates and not any("scheme" in t for t in templates)
    uri = f"benchmark://{box}/results"
    assert client.error("resources/read", {"uri": uri})["code"] == -32002
    client.result("resources/subscribe", {"uri": uri})
    answer = client.tool("bench", size=1)
    client.wait_for(lambda: any(n["method"] == "notifications/resources/updated" for n in client.notifications))
    for word in (box, "one"):
        content = client.result("resources/read", {"uri": f"benchmark://{word}/results"})["contents"][0]
        assert json.loads(content["text"]) == answer
    assert client.error("resources/read", {"uri": f"benchmark://{box}/other"})["code"] == -32002
    assert client.error("resources/read", {"uri": f"other://{box}/results"})["code"] == -32002


def test_they_are_there_over_http(host):
    server = HttpServer(host, "--config", config(host))
    try:
        assert server.tool("say", text="hello")["stdout"] == "hello"
        assert "/mcp/tools/bench" in json.loads(server.request("GET", "/openapi.json").body)["paths"]
        status, answer = server.call("nothing")
        assert status == 404 and {"bench", "say"} <= set(answer["available"])
    finally:
        server.close()
        server.kill()


@pytest.mark.parametrize("text, said", [
    ('[[tool]]\nname = "Bad Name"\ndescription = "x"\ncommand = "true"\n', "name"),
    ('[[tool]]\nname = "x"\ndescription = "x"\n', "command"),
    ('[[tool]]\nname = "x"\ncommand = "true"\n', "description"),
    ('[[tool]]\nname = "x"\ndescription = "x"\ncommand = "true"\nresource = "sandbox://list"\n', "resource"),
    ('[[tool]]\nname = "x"\ndescription = "x"\ncommand = "true"\ntimeout = 0\n', "timeout"),
    ('[[tool]]\nname = "x"\ndescription = "x"\ncommand = "true"\ncolour = "red"\n', "colour"),
    ('[[tool]]\nname = "x"\ndescription = "x"\ncommand = "true"\n[[tool.parameters]]\nname = "p"\ntype = "list"\n', "type"),
    ('[[tool]]\nname = "x"\ndescription = "x"\ncommand = "true"\n[[tool.parameters]]\nname = "p"\ntype = "integer"\n'
     'default = "many"\n', "default"),
    ('[[tool]]\nname = "x"\ndescription = "x"\ncommand = "true"\n[[tool.parameters]]\nname = "p"\n'
     'choices = ["a", "b"]\ndefault = "c"\n', "none of its choices"),
    ('[[tool]]\nname = "x"\ndescription = "x"\ncommand = "true"\nresource = "benchmark://{sandbox_id}/results"\n',
     "same resource"),
    ('[tool]\nname = "x"\n', "[[tool]]")])
def test_a_wrong_one_is_told_by_doctor_and_the_others_work(host, text, said):
    path = config(host, TOOLS + text if text.startswith("[[") else text)
    doctor = host.run("--config", path, "doctor")
    assert said in doctor.stdout and "anybox.toml:" in doctor.stdout
    names = {t["name"] for t in host.server("--config", path).result("tools/list")["tools"]}
    assert "x" not in names and "exec_bash" in names
    assert text.startswith("[tool]") or {"bench", "say"} <= names


def test_ours_are_not_replaced(host):
    path = config(host, '[[tool]]\nname = "exec_bash"\ndescription = "x"\ncommand = "echo theirs"\n')
    client = host.server("--config", path)
    assert client.bash("echo ours")["stdout"] == "ours\n"
    assert [t["name"] for t in client.result("tools/list")["tools"]].count("exec_bash") == 1
    assert "exec_bash is a tool of anybox, and is not replaced" in host.run("--config", path, "doctor").stdout


def test_a_read_only_server_offers_those_that_change_nothing(host):
    client = host.server("--config", config(host), env={"ANYBOX_SERVER_READ_ONLY": "true"})
    names = {t["name"] for t in client.result("tools/list")["tools"]}
    assert "say" in names and "bench" not in names
