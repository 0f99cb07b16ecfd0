"""deploy_app: from a folder to a URL that opens from here, and goes on opening."""
import os
import signal
import urllib.request

import pytest
from host import wait_until
from mcp_client import ToolFailed

APP = """import http.server, os
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(500 if self.path == "/broken" else 200)
        self.end_headers()
        self.wfile.write(("hello from " + os.environ.get("WHO", "nobody") + " " + self.path).encode())
    def log_message(self, *a): print("asked for", self.path, flush=True)
http.server.HTTPServer(("127.0.0.1", int(os.environ["PORT"])), Handler).serve_forever()
"""
FILES = [{"path": "app.py", "content": APP}]


def fetch(url):
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.read().decode()


@pytest.fixture
def client(host):
    return host.server(env={"ANYBOX_SERVER_TOOLSET": "all"})


def deploy(client, **more):
    return client.tool("deploy_app", files=FILES, start_command="exec python3 app.py", port=8123, **more)


def test_an_application_is_deployed_in_a_box_without_network(client):
    answer = deploy(client, env={"WHO": "me; touch /tmp/hit $(x)"}, health_path="/health")
    assert answer["status"] == "running" and answer["health"]["ok"] is True and answer["health"]["status"] == 200
    assert answer["deployment_id"] == answer["task_id"]
    assert fetch(answer["url"] + "/x") == "hello from me; touch /tmp/hit $(x) /x"
    assert "asked for /health" in answer["log_tail"]
    assert client.bash("ls /tmp/hit 2>&1; ls app")["stdout"].endswith("app.py\n")
    assert client.tool("check_background_task", task_id=answer["task_id"])["running"] is True


def test_the_url_opens_after_the_server_was_killed(host, client):
    answer = deploy(client)
    client.kill(signal.SIGKILL)
    client.wait()
    assert fetch(answer["url"]).startswith("hello")
    again = host.server(env={"ANYBOX_SERVER_TOOLSET": "all"})
    assert again.tool("check_background_task", task_id=answer["task_id"])["running"] is True
    replaced = deploy(again, restart=True, env={"WHO": "the next"})
    assert replaced["url"] == answer["url"] and replaced["task_id"] != answer["task_id"]
    assert fetch(replaced["url"]).startswith("hello from the next")


def test_deleting_the_box_ends_the_port(client):
    answer = deploy(client)
    url = answer["url"]
    assert fetch(url)
    client.tool("delete_sandbox", sandbox_id=answer["sandbox_id"], force=True)

    def closed():
        try:
            fetch(url)
        except OSError:
            return True
        return False

    assert wait_until(closed, 90, 0.5)


def test_a_local_folder_is_brought_over(host, client):
    source = host.project / "site"
    source.mkdir()
    (source / "app.py").write_text(APP)
    os.chown(source, host.project.stat().st_uid, -1)
    os.chown(source / "app.py", host.project.stat().st_uid, -1)
    answer = client.tool("deploy_app", source=str(source), start_command="python3 app.py", port=8124, name="site",
                         install_command="echo installed > installed")
    assert answer["status"] == "running" and fetch(answer["url"])
    assert client.bash("cat site/installed")["stdout"] == "installed\n"


def test_what_runs_is_not_replaced_unasked(client):
    first = deploy(client)
    error = client.tool_error("deploy_app", files=FILES, start_command="exec python3 app.py", port=8123)
    assert "restart=true" in error["error"]
    assert fetch(first["url"])
    other = client.tool("deploy_app", path="app", start_command="exec python3 app.py", port=8125, name="other")
    assert other["status"] == "running" and fetch(other["url"]) and fetch(first["url"])


def test_without_a_port_it_is_only_started(client):
    answer = client.tool("deploy_app", path=".", start_command="echo started; sleep 600")
    assert answer["status"] == "running" and "url" not in answer and answer["port"] is None


@pytest.mark.parametrize("arguments, said", [
    ({"start_command": "echo no luck; exit 3"}, "ended before"),
    ({"start_command": "sleep 600", "health_timeout": 1}, "nothing listens at port 8123"),
    ({"files": FILES, "start_command": "exec python3 app.py", "health_path": "/broken", "health_timeout": 8},
     "status 500")])
def test_what_does_not_come_up_is_told_with_its_log(client, arguments, said):
    answer = client.tool_error("deploy_app", port=8123, **arguments)
    assert answer["status"] == "failed" and said in answer["error"] and "log_tail" in answer
    assert "url" not in answer


def test_an_installation_that_fails_starts_nothing(client):
    answer = client.tool_error("deploy_app", path=".", install_command="echo why; exit 7", start_command="sleep 600")
    assert answer["status"] == "failed" and answer["exit_code"] == 7 and answer["stdout"] == "why\n"
    assert client.tool("check_background_task")["tasks"] == []


@pytest.mark.parametrize("arguments, said", [
    ({}, "start_command"), ({"start_command": " "}, "start_command is empty"),
    ({"start_command": "x", "port": 70000}, "port"), ({"start_command": "x", "path": "nowhere"}, "nowhere"),
    ({"start_command": "x", "source": ".", "files": FILES}, "not both"),
    ({"start_command": "x", "files": [{"path": "../../etc/x", "content": "y"}]}, "etc"),
    ({"start_command": "x", "port": 1, "health_path": "/ HTTP/1.1\r\nX: y"}, "health_path"),
    ({"start_command": "x", "source": "/etc"}, "allowed_roots")])
def test_bad_input_is_a_sentence(client, arguments, said):
    client.tool("create_sandbox", name="one")
    assert said in client.tool_error("deploy_app", **arguments)["error"]


def test_another_program_at_the_port_is_not_taken_for_it(client):
    first = deploy(client)
    error = client.tool_error("deploy_app", path="app", start_command="exec python3 app.py", port=8123, name="other")
    assert error["code"] == "exists" and "8123" in error["error"]
    assert [t["task_id"] for t in client.tool("check_background_task")["tasks"]] == [first["task_id"]]


def test_a_program_without_a_page_at_the_root_is_up(client):
    app = APP.replace('500 if self.path == "/broken" else 200', "404")
    files = [{"path": "app.py", "content": app}]
    answer = client.tool("deploy_app", files=files, start_command="exec python3 app.py", port=8123)
    assert answer["status"] == "running" and answer["health"] == {**answer["health"], "ok": True, "status": 404}
    answer = client.tool_error("deploy_app", path="app", start_command="exec python3 app.py", port=8123,
                               health_path="/health", health_timeout=12, restart=True)
    assert "/health was answered with status 404" in answer["error"]


def test_without_a_port_one_that_ends_at_once_is_told(client):
    answers = []

    def ended():  # on a machine that has no time it may still begin when the tool has looked
        try:
            client.tool("deploy_app", path=".", start_command="echo oh no; exit 3", restart=True)
        except ToolFailed as failed:
            answers.append(failed.answer)
        return answers

    assert wait_until(ended, 60)
    assert answers[0]["status"] == "failed" and "at once" in answers[0]["error"] and "oh no" in answers[0]["log_tail"]


def test_it_is_ended_by_its_name(host):
    client = host.server(env={"ANYBOX_SERVER_TOOLSET": "opensandbox", "ANYBOX_DEFAULTS_PROVIDER": "local"})
    box = client.tool("create_sandbox")["sandbox_id"]
    answer = deploy(client, sandbox_id=box, name="site")
    assert answer["stop"] == 'deploy_app(sandbox_id, name="site", stop=true)'
    stopped = client.tool("deploy_app", sandbox_id=box, name="site", stop=True)
    assert stopped["status"] == "stopped" and stopped["deployment_id"] == answer["deployment_id"]
    assert "nobody" in client.tool_error("deploy_app", sandbox_id=box, name="nobody", stop=True)["error"]
    assert deploy(client, sandbox_id=box, name="site")["status"] == "running"
