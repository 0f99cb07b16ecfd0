"""The life of boxes: made, found, chosen, shared, ended, and nothing left of them."""
import os
import random
import re
import signal
import threading
import time

import pytest
from host import command_line, is_running, pid_inside, wait_until
from mcp_client import ToolFailed

pytestmark = pytest.mark.every_tier
POOL = 0


def listed(client):
    return {b["name"]: b for b in client.tool("list_sandboxes")["sandboxes"]}


def test_a_box_is_made_listed_and_deleted(client):
    made = client.tool("create_sandbox", name="first")
    assert re.fullmatch("[0-9a-f]{32}", made["sandbox_id"])
    assert made["name"] == "first" and made["status"] == "running"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", made["created_at"])
    shown = listed(client)["first"]
    assert shown["sandbox_id"] == made["sandbox_id"]
    assert shown["connection_alive"] is True and shown["is_active"] is True
    gone = client.tool("delete_sandbox", sandbox_id=made["sandbox_id"])
    assert gone["sandbox_id"] == made["sandbox_id"] and gone["status"] == "deleted"
    assert listed(client) == {}


def test_a_box_without_a_name_gets_one(client):
    names = {client.tool("create_sandbox")["name"] for _ in range(3)}
    assert len(names) == 3 and all(names)


def test_the_first_command_makes_a_box_by_itself(client):
    assert client.bash("echo hello")["stdout"] == "hello\n"
    boxes = listed(client)
    assert len(boxes) == 1 and next(iter(boxes)).startswith("default-proj-")
    client.bash("echo 1 > /workspace/kept")
    assert client.bash("cat /workspace/kept")["stdout"] == "1\n"
    assert len(listed(client)) == 1


def test_the_work_folder_has_the_name_that_containers_know_too(client):
    client.tool("create_sandbox", name="both")
    client.tool("write_remote_file", remote_path="/app/results/a", content="one")
    assert client.bash("pwd; cat a; readlink /app/results; touch /app/x")["stdout"] == "/workspace\none/workspace\n"
    assert client.tool("list_remote_files", remote_path="/app/results/")["entries"][0]["path"] == "/app/results/a"
    assert client.bash("ls -A /app")["stdout"] == "results\n"


def test_two_first_commands_of_two_servers_make_one_box(host):
    clients = [host.server() for _ in range(4)]
    calls = [c.start_tool("exec_bash", {"command": "echo $HOSTNAME"}) for c in clients]
    assert len({c.finish_tool(f)["stdout"] for c, f in zip(clients, calls)}) == 1
    assert len(listed(clients[0])) == 1


def test_another_folder_has_another_default_box(host):
    other = host.folder / "other"
    other.mkdir()
    other.chmod(0o755)
    first, second = host.server(), host.server(cwd=other)
    first.bash("echo first > /workspace/f")
    assert second.bash("ls /workspace")["stdout"] == ""
    assert {n.split("-")[1] for n in listed(first)} == {"proj", "other"}


def test_the_new_box_is_selected_when_none_was_and_select_changes_it(client):
    one = client.tool("create_sandbox", name="one")["sandbox_id"]
    client.tool("create_sandbox", name="two")
    assert client.tool("get_active_sandbox")["active_sandbox"] in ("one", one)
    client.bash("touch /workspace/in-one")
    chosen = client.tool("select_sandbox", sandbox_name="two")
    assert chosen["status"] == "selected" and chosen["active_sandbox"] == "two"
    assert client.bash("ls /workspace")["stdout"] == ""
    client.tool("select_sandbox", sandbox_id=one)
    assert client.bash("ls /workspace")["stdout"] == "in-one\n"


def test_deleting_the_selected_box_unselects_it(client):
    client.tool("create_sandbox", name="one")
    client.tool("create_sandbox", name="two")
    client.tool("delete_sandbox", sandbox_name="one")
    assert client.tool("get_active_sandbox")["active_sandbox"] == "two", "the only box is the active one"


def test_a_box_is_named_by_id_short_id_reference_or_name(client):
    client.tool("create_sandbox", name="other")
    made = client.tool("create_sandbox", name="target")["sandbox_id"]
    client.bash("touch /workspace/here", sandbox_name="target")
    for which in ({"sandbox_id": made}, {"sandbox_id": made[:12]}, {"sandbox_id": f"local:{made}"},
                  {"sandbox_name": "target"}, {"sandbox_id": "target"}):
        assert client.bash("ls /workspace", **which)["stdout"] == "here\n", which


@pytest.mark.parametrize("which", [{"sandbox_name": "tar"}, {"sandbox_id": "0" * 32}, {"sandbox_name": "nobody"},
                                   {"sandbox_id": "TARGET"}])
def test_an_unknown_box_lists_what_exists(client, which):
    client.tool("create_sandbox", name="target")
    error = client.tool_error("exec_bash", command="true", **which)
    assert error["code"] == "not_found"
    assert "target" in error["error"]
    assert client.tool_error("select_sandbox", **which)["code"] == "not_found"


def test_a_name_is_taken_once_and_free_again_after_delete(client):
    client.tool("create_sandbox", name="same")
    error = client.tool_error("create_sandbox", name="same")
    assert error["code"] == "exists" and "same" in error["error"]
    client.tool("delete_sandbox", sandbox_name="same")
    client.tool("create_sandbox", name="same")


def test_reuse_gives_the_live_box_of_that_name(client):
    first = client.tool("create_sandbox", name="again", reuse=True)
    client.bash("touch /workspace/kept", sandbox_name="again")
    second = client.tool("create_sandbox", name="again", reuse=True)
    assert second["sandbox_id"] == first["sandbox_id"]
    assert client.bash("ls /workspace", sandbox_name="again")["stdout"] == "kept\n"


def test_what_create_gives_as_environment_is_in_every_command(client):
    client.tool("create_sandbox", name="env", env={"COLOUR": "blue", "HOME2": "é"})
    assert client.bash('echo "$COLOUR $HOME2"')["stdout"] == "blue é\n"
    assert client.bash('echo "$COLOUR"', env={"COLOUR": "red"})["stdout"] == "red\n"


def test_boxes_are_apart_from_each_other(client):
    client.tool("create_sandbox", name="one")
    client.tool("create_sandbox", name="two")
    client.bash("echo secret > /tmp/x; echo secret > /workspace/x; sleep 500 &", sandbox_name="one")
    answer = client.bash("ls /tmp /workspace /home/user; cat /proc/[0-9]*/cmdline | tr '\\0' ' '", sandbox_name="two")
    assert "x\n" not in answer["stdout"] and "sleep 500" not in answer["stdout"]


def test_boxes_survive_the_server_and_its_death(host):
    first = host.server()
    first.tool("create_sandbox", name="lasting")
    first.bash("echo 1 > /workspace/a; sleep 600 &")
    first.close()
    second = host.server()
    second.bash("echo 2 >> /workspace/a", sandbox_name="lasting")
    second.kill(signal.SIGKILL)
    third = host.server()
    answer = third.bash("cat /workspace/a; cat /proc/[0-9]*/cmdline | tr '\\0' ' '", sandbox_name="lasting")
    assert answer["stdout"].startswith("1\n2\n") and "sleep 600" in answer["stdout"]


def test_the_selection_seeds_the_next_server_of_the_same_folder(host):
    first = host.server()
    first.tool("create_sandbox", name="one")
    first.tool("create_sandbox", name="two")
    first.tool("select_sandbox", sandbox_name="two")
    first.close()
    assert host.server().tool("get_active_sandbox")["active_sandbox"] == "two"


def test_two_servers_have_their_own_selection(host):
    first, second = host.server(), host.server()
    first.tool("create_sandbox", name="one")
    first.tool("create_sandbox", name="two")
    second.tool("select_sandbox", sandbox_name="two")
    assert first.tool("get_active_sandbox")["active_sandbox"] == "one"


def test_a_box_that_another_server_deleted_is_gone_with_a_reason(host):
    first, second = host.server(), host.server()
    made = first.tool("create_sandbox", name="short")["sandbox_id"]
    assert first.bash("true", sandbox_id=made)["exit_code"] == 0
    second.tool("delete_sandbox", sandbox_id=made)
    error = first.tool_error("exec_bash", command="true", sandbox_id=made)
    assert error["code"] in ("gone", "not_found")
    assert "create_sandbox" in error["error"] or "ended" in error["error"] or "deleted" in error["error"]


def inits(host):
    return [pid for pid in host.install.box_inits() if pid_inside(pid) == 1]


def test_a_box_whose_init_was_killed_is_gone_and_everything_with_it(host):
    client = host.server()
    made = client.tool("create_sandbox", name="doomed")["sandbox_id"]
    client.bash("setsid sleep 700 & sleep 701 &")
    before = host.install.box_processes()
    assert len(before) >= 3
    for pid in inits(host):
        os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: not any(is_running(p) for p in before))
    error = client.tool_error("exec_bash", command="true", sandbox_id=made)
    assert error["code"] in ("gone", "unreachable")
    assert "doomed" not in listed(client)
    assert wait_until(lambda: not host.residue()), "list sweeps what a dead box left"
    client.tool("create_sandbox", name="doomed")
    assert client.bash("echo again", sandbox_name="doomed")["stdout"] == "again\n"


def test_a_call_that_is_under_way_when_init_dies_is_answered(host):
    client = host.server()
    client.tool("create_sandbox", name="doomed")
    call = client.start_tool("exec_bash", {"command": "echo started; sleep 60", "sandbox_name": "doomed"})
    assert wait_until(lambda: any("sleep" in command_line(p) for p in host.install.box_processes()))
    for pid in inits(host):
        os.kill(pid, signal.SIGKILL)
    try:
        answer = client.finish_tool(call)
        assert answer["connection_error"] is True
    except ToolFailed as failed:
        assert failed.answer["code"] in ("gone", "unreachable")


def test_deleting_a_box_ends_what_runs_in_it(host):
    client = host.server()
    client.tool("create_sandbox", name="busy")
    call = client.start_tool("exec_bash", {"command": "trap '' TERM; sleep 60", "sandbox_name": "busy"})
    assert wait_until(lambda: any("sleep" in command_line(p) for p in host.install.box_processes()))
    began = time.monotonic()
    client.tool("delete_sandbox", sandbox_name="busy")
    assert time.monotonic() - began < 20
    assert wait_until(lambda: not host.install.box_processes())
    try:
        assert client.finish_tool(call)["connection_error"] is True
    except ToolFailed as failed:
        assert failed.answer["code"] in ("gone", "unreachable")


def test_deleting_twice_or_nothing_is_told(client):
    made = client.tool("create_sandbox", name="once")["sandbox_id"]
    client.tool("delete_sandbox", sandbox_id=made)
    try:
        assert client.tool("delete_sandbox", sandbox_id=made)["status"]
    except ToolFailed as failed:
        assert failed.answer["code"] in ("not_found", "gone")
    assert client.tool_error("delete_sandbox", sandbox_name="never-was")["code"] == "not_found"


def test_kill_minus_nine_of_servers_at_random_moments_leaves_nothing(host):
    """Servers die while they create, run and delete; the next one sweeps what is left."""
    dice = random.Random(20261115)
    for round_number in range(12):
        client = host.server()
        for i in range(3):
            client.start_tool("create_sandbox", {"name": f"r{round_number}-{i}"})
        client.start_tool("exec_bash", {"command": "sleep 100 & seq 100000"})
        client.start_tool("delete_sandbox", {"sandbox_name": f"r{round_number}-0"})
        time.sleep(dice.uniform(0.0, 0.25))
        client.kill(signal.SIGKILL)
    after = host.server()
    wait_until(lambda: all(b["connection_alive"] for b in listed(after).values()))
    for name, shown in listed(after).items():
        assert shown["connection_alive"], f"{name} is listed but dead"
        assert after.bash("echo ok", sandbox_name=name)["stdout"] == "ok\n"
    host.note_ids()
    for name in listed(after):
        after.tool("delete_sandbox", sandbox_name=name)
    after.tool("list_sandboxes")
    assert wait_until(lambda: not host.residue()), host.residue()


def test_kill_minus_nine_of_inits_at_random_moments_leaves_nothing(host):
    assert not host.install.box_inits()
    dice = random.Random(7)
    client = host.server()
    stop = threading.Event()

    def killer():
        while not stop.is_set():
            for pid in host.install.box_inits():
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
            stop.wait(dice.uniform(0.0, 0.15))

    thread = threading.Thread(target=killer)
    thread.start()
    try:
        for i in range(15):
            made = client.start_tool("create_sandbox", {"name": f"k{i}"})
            ran = client.start_tool("exec_bash", {"command": "sleep 0.1; echo ok", "sandbox_name": f"k{i}"})
            for call in made, ran:
                assert "result" in call.result(20), "a dead box is an answer, not a protocol error"
    finally:
        stop.set()
        thread.join()
    host.note_ids()
    for name in listed(client):
        client.tool("delete_sandbox", sandbox_name=name)
    client.tool("list_sandboxes")
    assert wait_until(lambda: not host.residue()), host.residue()
    client.tool("create_sandbox", name="after")
    assert client.bash("echo fine", sandbox_name="after")["stdout"] == "fine\n"


def test_that_the_selected_box_died_is_told_once_then_a_new_one_is_made(host):
    client = host.server()
    client.tool("create_sandbox", name="mortal")
    client.bash("echo data > /workspace/f")
    killed = inits(host)
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    assert wait_until(lambda: not any(is_running(p) for p in killed))
    error = client.tool_error("exec_bash", command="cat /workspace/f")
    assert error["code"] == "gone" and "mortal" in error["error"]
    answer = client.bash("ls -A /workspace")
    assert answer["stdout"] == "" and "note" in answer


def test_more_boxes_than_the_operator_allows_are_refused(host):
    client = host.server(env={"ANYBOX_LOCAL_MAX_BOXES": "2"})
    client.tool("create_sandbox", name="a")
    client.tool("create_sandbox", name="b")
    error = client.tool_error("create_sandbox", name="c")
    assert error["code"] == "limit" and "2" in error["error"]
    client.tool("delete_sandbox", sandbox_name="a")
    client.tool("create_sandbox", name="c")


def test_check_resources_gives_load_memory_and_the_idle_score(client):
    client.tool("create_sandbox", name="one")
    shown = client.tool("list_sandboxes", check_resources=True)["sandboxes"][0]["resources"]
    assert shown["cpu"]["count"] >= 1 and shown["cpu"]["load_1m"] >= 0
    assert 0 <= shown["memory"]["used_pct"] <= 100 and shown["memory"]["total_mb"] > 0
    cpu = 1 - min(shown["cpu"]["load_1m"] / shown["cpu"]["count"], 1)
    free = 1 - shown["memory"]["used_pct"] / 100
    gpus = shown.get("gpu") or []
    idle = 1 - sum(g["util_pct"] for g in gpus) / len(gpus) / 100 if gpus else 1
    assert shown["idle_score"] == pytest.approx(0.4 * cpu + 0.4 * free + 0.2 * idle, abs=0.003)
    assert "resources" not in client.tool("list_sandboxes")["sandboxes"][0]


def test_get_active_without_any_box_makes_none(client):
    answer = None
    try:
        answer = client.tool("get_active_sandbox")
    except ToolFailed as failed:
        answer = failed.answer
    assert answer.get("active_sandbox") is None
    assert listed(client) == {}


def test_the_active_box_tells_how_it_is_reached(box):
    answer = box.tool("get_active_sandbox")
    assert answer["active_sandbox"] == "work" and answer["connection_alive"] is True


def test_an_image_is_refused_with_who_can_take_it(client):
    error = client.tool_error("create_sandbox", image="python:3.12")
    assert error["code"] in ("unsupported", "invalid")
    assert "docker" in error["error"]
    assert listed(client) == {}


def test_a_network_that_is_not_there_is_refused(client):
    assert client.tool_error("create_sandbox", network="everything")["code"] == "invalid"
    assert client.tool("create_sandbox", network="none")["status"] == "running"


def test_m_short_id_is_among_the_answers_of_create(client):
    made = client.tool("create_sandbox", name="m")
    assert made["sandbox_name"] == "m"
    assert made.get("sandbox_short_id", made["sandbox_id"][:12]) == made["sandbox_id"][:12]


def test_many_boxes_at_once(client):
    calls = [client.start_tool("create_sandbox", {"name": f"m{i}"}) for i in range(12)]
    for call in calls:
        client.finish_tool(call)
    runs = [client.start_tool("exec_bash", {"command": "hostname", "sandbox_name": f"m{i}"}) for i in range(12)]
    assert all(client.finish_tool(r)["exit_code"] == 0 for r in runs)
    for i in range(12):
        client.tool("delete_sandbox", sandbox_name=f"m{i}")
    assert listed(client) == {}


def test_resources_are_limits_as_platforms_spell_them(client):
    limits = client.tool("create_sandbox", resources={"memory": "256Mi", "pids": 100})["limits"]
    assert (limits["memory_mb"], limits["pids"]) == (256, 100)
    limits = client.tool("create_sandbox", resources={"memory": "1Gi"}, memory="128m")["limits"]
    assert limits["memory_mb"] == 128
    try:
        assert client.tool("create_sandbox", resources={"cpu": "500m"})["limits"]["cpus"] == 0.5
    except ToolFailed as failed:
        assert "cpus cannot be limited here" in str(failed)
    for wrong, said in (({"cores": 1}, "cores"), ({"cpu": "lots"}, "cpu"), ({"memory": "1"}, "16m"), (7, "resources")):
        assert said in client.tool_error("create_sandbox", resources=wrong)["error"]
