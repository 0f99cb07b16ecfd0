"""run_tests: small real projects of each framework, whose runners count the same as we do."""
import base64
import json
import pathlib

import pytest

PROJECTS = pathlib.Path(__file__).parent / "projects"
# What some runners need where there is no home to speak of.
ENV = {"GOCACHE": "/tmp/go", "GOFLAGS": "-mod=mod", "GOTOOLCHAIN": "local", "CARGO_HOME": "/tmp/cargo",
       "PATH": "/usr/local/go/bin:/usr/local/bin:/usr/bin:/bin"}
LONG = (pytest.mark.long, pytest.mark.timeout(400))  # they build a standard library first


@pytest.fixture
def client(host):
    return host.server()


def put(client, name, to=None):
    """The project as a folder in the box."""
    root = PROJECTS / name
    files = [{"path": f"{to or name}/{f.relative_to(root)}", "content": base64.b64encode(f.read_bytes()).decode()}
             for f in sorted(root.rglob("*")) if f.is_file()]
    assert not client.tool("upload_files", files=files)["failed"]


def have(client, program):
    look = program if " " in program else f"command -v {program}"
    if client.bash(look, env=ENV)["exit_code"] != 0:
        pytest.skip(f"{program} is not on this machine")


def summary(answer):
    return {k: v for k, v in answer["summary"].items() if k != "duration"}


def failed(answer):
    return [(f["name"], (f["file"] or "").rpartition("/")[2], f["line"]) for f in answer["failures"]]


@pytest.mark.parametrize("name, needs, framework, counts, failures", [
    ("pytest", "python3 -c 'import pytest'", "pytest", (2, 1, 1, 1),
     [("test_sum.test_fails", "test_sum.py", 9), ("test_sum.test_errors", "test_sum.py", 19)]),
    ("node", "node", "node", (2, 3, 1, 0), [("fails", "sum.test.js", 6), ("inner fails", "sum.test.js", 12)]),
    pytest.param("go", "go", "go", (2, 3, 1, 0),
                 [("example.com/sum.TestFails", "sum_test.go", 8),
                  ("example.com/sum.TestParts/broken", "sum_test.go", 17)], marks=LONG),
    pytest.param("cargo", "cargo", "cargo", (1, 1, 1, 0), [("tests::fails", "lib.rs", 10)], marks=LONG),
    ("ctest", "ctest", "ctest", (1, 1, 1, 0), [("fails", "", None)]),
    ("make", "make", "make", (1, 1, 2, 0), [("fails", "sum.c", 12)])])
def test_a_project_is_found_run_and_read(client, name, needs, framework, counts, failures):
    have(client, needs)
    put(client, name)
    answer = client.tool("run_tests", 350, path=name, timeout=340, env=ENV)
    assert answer["framework"] == framework, answer
    assert answer["success"] is False and answer["exit_code"] != 0
    assert summary(answer) == dict(zip(("passed", "failed", "skipped", "errors"), counts), total=sum(counts)), answer
    assert failed(answer) == failures
    assert all(f["message"] for f in answer["failures"])
    assert client.bash("ls -d /tmp/anybox-tests-* 2>/dev/null || true")["stdout"] == ""


def test_unittest_where_there_is_no_pytest(client):
    put(client, "unittest")
    answer = client.tool("run_tests", path="unittest", framework="unittest")
    assert summary(answer) == {"passed": 2, "failed": 1, "skipped": 1, "errors": 1, "total": 5}
    assert failed(answer) == [("test_errors (test_sum.Sum.test_errors)", "test_sum.py", 16),
                              ("test_fails (test_sum.Sum.test_fails)", "test_sum.py", 9)]
    # Without the module the same folder is found to be unittest's.
    client.bash("mkdir -p none/pytest && echo 'raise ImportError' > none/pytest/__init__.py")
    answer = client.tool("run_tests", path="unittest", env={"PYTHONPATH": "/workspace/none"})
    assert answer["framework"] == "unittest" and answer["summary"]["total"] == 5


def test_one_file_arguments_and_markers(client):
    have(client, "python3 -c 'import pytest'")
    put(client, "pytest")
    answer = client.tool("run_tests", path="pytest/test_sum.py", args=["-k", "passes or fails"])
    assert summary(answer)["total"] == 2 and answer["summary"]["passed"] == 1
    answer = client.tool("run_tests", path="pytest", markers="slow", args=["-W", "ignore"])
    assert answer["success"] is True and summary(answer) == {"passed": 1, "failed": 0, "skipped": 0, "errors": 0,
                                                            "total": 1}
    assert "-m pytest" in answer["command"] and "slow" in answer["command"]


def test_a_command_of_ones_own_is_read_as_what_it_prints(client):
    answer = client.tool("run_tests", command="echo TAP version 13; echo ok 1 - a; echo not ok 2 - b; exit 1")
    assert answer["framework"] == "command" and answer["exit_code"] == 1
    assert summary(answer) == {"passed": 1, "failed": 1, "skipped": 0, "errors": 0, "total": 2}
    answer = client.tool("run_tests", command="echo all is well")
    assert answer["success"] is True and answer["stdout"] == "all is well\n"
    assert set(answer["summary"].values()) == {None} and answer["failures"] == []


def test_nothing_reaches_a_shell_that_was_meant_as_data(client):
    evil = "x$(touch /tmp/hit)`touch /tmp/hit`'\";touch /tmp/hit;#"
    client.tool_error("run_tests", path=evil)
    client.bash("mkdir -p d && echo 'def test_a(): pass' > d/test_a.py")
    client.tool("run_tests", path="d", args=[evil], framework="unittest")
    client.tool("run_tests", path="d", args=["--", evil], framework="make")
    assert client.bash("ls /tmp/hit 2>&1")["exit_code"] != 0


@pytest.mark.parametrize("arguments, said", [
    ({"path": "nowhere"}, "no file or folder nowhere"),
    ({"path": "empty"}, "no tests were found"),
    ({"framework": "rspec"}, "framework"),
    ({"path": "empty", "framework": "cargo", "env": {"PATH": "/usr/bin:/bin"}}, "cargo is not installed"),
    ({"args": ["a\nb"]}, "line break"),
    ({"task_id": "0123456789abcdef"}, "0123456789abcdef")])
def test_what_cannot_be_run_is_a_sentence(client, arguments, said):
    client.bash("mkdir -p empty")
    if "cargo" in said and client.bash("PATH=/usr/bin:/bin command -v cargo")["exit_code"] == 0:
        pytest.skip("cargo is on this machine")
    assert said in client.tool_error("run_tests", **arguments)["error"]


@pytest.mark.parametrize("tool, arguments", [("run_tests", {}), ("deploy_app", {"start_command": "x", "port": 80})])
def test_a_dead_host_is_not_said_to_run_anything(host, tool, arguments):
    dead = json.dumps([{"name": "dead", "host": "127.0.0.1", "port": 1, "user": "nobody"}])
    client = host.server(env={"REMOTE_SANDBOX_LIST": dead, "ANYBOX_SERVER_TOOLSET": "all"})
    answer = client.tool_error(tool, sandbox_name="dead", **arguments)
    assert answer["code"] == "unreachable" and "refused" in answer["error"]
    assert "still run" not in json.dumps(answer) and not answer["error"].startswith("path")


def test_a_time_out_is_told(client):
    answer = client.tool("run_tests", command="echo ok 1; sleep 600", timeout=1)
    assert answer["timed_out"] is True and answer["success"] is False


def test_a_long_run_is_handed_over_and_read_later(host):
    client = host.server(env={"ANYBOX_DEFAULTS_EXEC_WINDOW": "1"})
    client.bash("mkdir p && printf 'import time, unittest\\nclass A(unittest.TestCase):\\n"
                "    def test_long(self):\\n        time.sleep(5)\\n' > p/test_long.py", timeout_s=60)
    answer = client.tool("run_tests", path="p", framework="unittest")
    assert "exit_code" not in answer and "run_tests" in answer["note"]
    task = answer["task_id"]
    client.tool("check_background_task", task_id=task, wait_s=60)
    answer = client.tool("run_tests", task_id=task)
    assert answer["success"] is True and summary(answer)["passed"] == 1
    assert answer["framework"] == "unittest"


def test_coverage(client):
    have(client, "python3 -c 'import pytest'")
    put(client, "pytest")
    answer = client.tool("run_tests", path="pytest", coverage=True)
    if client.bash("python3 -c 'import pytest_cov'")["exit_code"] == 0:
        assert 0 < answer["coverage_percent"] <= 100
    else:
        assert answer["coverage_percent"] is None and "pytest-cov" in answer["coverage_note"]


@pytest.mark.long
@pytest.mark.timeout(400)
def test_coverage_of_go(client):
    have(client, "go")
    put(client, "go")
    client.bash("printf 'package sum\\n\\nfunc A() int { return 1 }\\n\\nfunc B() int { return 2 }\\n' > go/sum.go; "
                "printf 'package sum\\n\\nimport \"testing\"\\n\\nfunc TestA(t *testing.T) { A() }\\n' > go/sum_test.go")
    answer = client.tool("run_tests", 350, path="go", coverage=True, timeout=340,
                         env=ENV)
    assert answer["success"] is True and answer["coverage_percent"] == 50
    assert "ok" in answer["stdout"] and "{" not in answer["stdout"]


def test_a_flood_of_output_does_not_hide_the_end(client):
    answer = client.tool("run_tests", command="yes noise | head -c 30000000; echo; echo 1..1; echo ok 1 - a")
    assert summary(answer)["passed"] == 1 and answer["truncated"] is True


def write(client, **files):
    """Small files by their paths."""
    listed = [{"path": path, "content": text, "encoding": "utf-8"} for path, text in files.items()]
    assert not client.tool("upload_files", files=listed)["failed"]


UNIT = "import unittest\nclass T(unittest.TestCase):\n    def test_a(self): pass\n"


def test_unittest_finds_packages_and_plain_folders(client):
    write(client, **{"a/tests/__init__.py": "", "a/tests/helpers.py": "K = 1\n", "a/lib/__init__.py": "K = 1\n",
                     "a/tests/test_x.py": "from .helpers import K\nfrom lib import K\n" + UNIT,
                     "b/src/app/tests/test_y.py": UNIT})
    for path in ("a", "a/tests/test_x.py", "b", "/workspace/b/src/app/tests/test_y.py"):
        answer = client.tool("run_tests", path=path, framework="unittest")
        assert answer["success"] is True and answer["summary"]["passed"] == 1, answer


def test_a_file_is_run_in_its_project(client):
    have(client, "python3 -c 'import pytest'")
    have(client, "node")
    write(client, **{"p/pytest.ini": "[pytest]\n", "p/lib.py": "K = 1\n",
                     "p/deep/test_a.py": "from lib import K\ndef test_a(): pass\n",
                     "n/package.json": '{"scripts": {"test": "node --test"}}',
                     "n/deep/a.test.js": "require('node:test')('a', () => {})\n"})
    for path, framework in (("p/deep/test_a.py", "pytest"), ("/workspace/n/deep/a.test.js", "node")):
        answer = client.tool("run_tests", path=path)
        assert answer["framework"] == framework and answer["success"] is True, answer
        assert summary(answer)["passed"] == 1


def test_what_was_not_run_is_told(client):
    have(client, "node")
    node = {"package.json": '{"scripts": {"test": "node --test"}}', "a.test.js": "require('node:test')('a', () => {})\n"}
    write(client, **{f"both/{k}": v for k, v in node.items()}, **{"both/test_a.py": UNIT},
          **{f"mono/web/{k}": v for k, v in node.items()},
          **{"many/a/go.mod": "module a\n", "many/b/Cargo.toml": "[package]\n"},
          **{"none/test_a.py": "x = 1\n"},
          **{"init/package.json": '{"scripts": {"test": "echo \\"Error: no test specified\\" && exit 1"}}'})
    answer = client.tool("run_tests", path="both")
    assert answer["framework"] == "node" and answer["success"] is True and "test" in answer["note"], answer
    assert client.tool("run_tests", path="mono")["summary"]["passed"] == 1
    said = client.tool_error("run_tests", path="many")["error"]
    assert "a/go.mod" in said and "b/Cargo.toml" in said and "path" in said
    answer = client.tool("run_tests", path="none", framework="unittest")
    assert answer["summary"]["total"] == 0 and "no test was run" in answer["note"]
    assert "no tests were found" in client.tool_error("run_tests", path="init")["error"]


def test_a_runner_that_is_missing_or_dies_is_told(client):
    have(client, "npm")
    write(client, **{"v/package.json": '{"scripts": {"test": "vitest"}}', "j/package.json": '{"scripts": {"test": "jest"}}',
                     "d/test_a.py": "import os\nos._exit(3)\n"})
    for path, runner in (("v", "vitest"), ("j", "jest")):
        said = client.tool_error("run_tests", path=path)["error"]
        assert said.startswith(f"{runner} is not installed") and "npm install" in said
    answer = client.tool("run_tests", path="d", framework="unittest")
    assert answer["exit_code"] == 3 and answer["summary"]["total"] is None and "exit code 3" in answer["note"]


def test_a_build_that_fails_shows_what_it_printed(client):
    have(client, "cmake --version")
    write(client, **{"c/CMakeLists.txt": "message(FATAL_ERROR no-such-luck)\n"})
    answer = client.tool("run_tests", path="c", timeout=60)
    assert answer["success"] is False and "built" in answer["note"] and "no-such-luck" in answer["stderr"]


def test_colours_hide_nothing_and_hundreds_of_failures_stay_short(client):
    red = r"printf '\033[31m\033[1m= 2 failed, 3 passed in 0.10s =\033[0m\n'; exit 1"
    assert client.tool("run_tests", command=red)["summary"]["failed"] == 2
    have(client, "python3 -c 'import pytest'")
    write(client, **{"m/test_m.py": "import pytest\n@pytest.mark.parametrize('i', range(300))\n"
                                    "def test_m(i): assert False, 'x' * 3000\n"})
    answer = client.tool("run_tests", path="m", timeout=100)
    assert summary(answer)["failed"] == 300 and answer["failures_truncated"] is True
    assert len(json.dumps(answer["failures"])) < 40000
