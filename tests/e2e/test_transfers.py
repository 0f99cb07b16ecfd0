"""Syncs in the background: a worker process that outlives the server, what it tells, how it is ended,
and what is left when it dies."""
import contextlib
import os
import pathlib
import signal
import stat
import time

import pytest
import ssh_servers
import trees
from http_server import OTHER, HttpServer
from host import command_line, is_running, links, pid_inside, wait_until
from mcp_client import ToolFailed

POOL = 0
ENDED = ("completed", "failed", "cancelled")


@pytest.fixture(autouse=True)
def low_threshold(host):
    """Ten files are many here. Workers that a test which failed has stopped do not stay."""
    host.pool["REMOTE_SANDBOX_INLINE_SYNC_MAX_FILES"] = "10"
    yield
    for pid in workers(host):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def write_small(folder, n=20):
    folder.mkdir()
    for i in range(n):
        (folder / f"f{i}").write_bytes(b"%d " % i * 500)
        os.utime(folder / f"f{i}", (1.6e9 + i, 1.6e9 + i))
    give_away(folder)
    return folder


def write_large(folder, files=60, size=2 << 20):
    """A while on the way: what is random cannot be packed."""
    folder.mkdir()
    for i in range(files):
        (folder / f"f{i:03d}").write_bytes(os.urandom(size + i))
    give_away(folder)
    return folder


def give_away(folder):
    """To whoever the server runs as."""
    owner = folder.parent.stat()
    for path in (folder, *folder.rglob("*")):
        os.chown(path, owner.st_uid, owner.st_gid)


def up(client, folder, **more):
    return client.tool("sync_local_to_remote", local_path=str(folder), remote_path=folder.name, **more)


def check(client, task, **more):
    return client.tool("check_file_transfer_task", task_id=task, **more)


def finished(client, task, timeout=90):
    found = wait_until(lambda: (c := check(client, task))["status"] in ENDED and c, timeout, 0.1)
    assert found, check(client, task)
    return found


def caught(client, task):
    """The worker, stopped when something of its files has arrived. It is let go for moments only, so
    that it is not through before it has told so."""
    seen = check(client, task, last_n_lines=0)
    for _ in range(200):
        assert seen["status"] not in ENDED, f"it was too quick: {seen}"
        if "pid" in seen:
            os.kill(seen["pid"], signal.SIGSTOP)
        seen = check(client, task, last_n_lines=0)
        if seen["status"] == "running" and seen["progress"].get("bytes"):
            return seen
        time.sleep(0.3)  # it tells how far it is when it was some time ago that it did
        if "pid" in seen:
            os.kill(seen["pid"], signal.SIGCONT)
        time.sleep(0.02)
    raise AssertionError("it does not begin")


def let_go(seen):
    os.kill(seen["pid"], signal.SIGCONT)


def workers(host):
    return [pid for pid in map(int, filter(str.isdigit, os.listdir("/proc")))
            if "transfer-worker" in command_line(pid) and is_running(pid)
            and os.path.realpath(f"/proc/{pid}/exe") == str(host.install.anybox)]


def streams(pid):
    """The pipes and sockets that a process holds."""
    return {f for f in links(pid).values() if f.startswith(("pipe:", "socket:"))}


def has_agent(request):
    """Without it nobody can tell at once that what is temporary on the far side is nobody's: it goes
    after an hour."""
    return request.node.callspec.params["place"] not in ("ssh", "docker-exec")


def left_over(request, client):
    return client.bash("ls -a tree | grep anybox-sync")["stdout"] if has_agent(request) else ""


def mirrored(client, folder, target):
    """What the box has, fetched by the product itself into an empty folder, in one call or more."""
    answer = client.tool("sync_remote_to_local", remote_path=folder.name, local_path=str(target))
    if answer["mode"] == "background":
        assert finished(client, answer["task_id"])["status"] == "completed"
    return trees.differences(trees.look(folder), trees.look(target))


def test_a_sync_of_many_files_goes_on_in_the_background(place, host):
    folder = write_small(host.project / "tree")
    answer = up(place, folder)
    assert answer["mode"] == "background" and answer["auto_switched"] is True
    assert answer["direction"] == "local_to_remote" and answer["status"] == "queued"
    assert answer["pid"] > 0 and answer["task_id"] == 1
    log = pathlib.Path(answer["log_file"])
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    assert stat.S_IMODE(log.parent.stat().st_mode) == 0o700
    done = finished(place, 1)
    assert done["status"] == "completed" and "running" not in done and "stale" not in done
    assert done["result"]["uploaded_files"] == 20 and done["result"]["synced_type"] == "directory"
    assert done["result"]["phase"] == "complete" and done["result"]["duration_s"] > 0
    assert done["sandbox"] == "work" and done["local_path"] == str(folder)
    assert "== transfer task 1" in done["log_tail"] and "[transfer] completed" in done["log_tail"]
    assert place.bash("ls tree | wc -l; cat tree/f19")["stdout"] == "20\n" + "19 " * 500
    assert not mirrored(place, folder, host.project / "back")
    again = up(place, folder)
    assert again["mode"] == "inline" and again["uploaded_files"] == 0 and again["skipped_files"] == 20


def test_a_fetch_of_many_files_goes_on_in_the_background(place, host):
    place.bash("mkdir -p far/empty; for i in $(seq 30); do echo $i > far/f$i; done")
    answer = place.tool("sync_remote_to_local", remote_path="far", local_path="near")
    assert answer["mode"] == "background" and answer["direction"] == "remote_to_local"
    done = finished(place, answer["task_id"])
    assert done["status"] == "completed" and done["result"]["downloaded_files"] == 30
    assert (host.project / "near/f30").read_text() == "30\n" and (host.project / "near/empty").is_dir()


def test_it_tells_how_far_it_is_and_goes_on_without_the_server(place, host):
    folder = write_large(host.project / "tree")
    task = up(place, folder)["task_id"]
    seen = caught(place, task)
    assert seen["running"] is True and seen["pid"] in workers(host)
    assert seen["progress"]["phase"] == "uploading" and seen["progress"]["total_files"] == 60
    assert 0 < seen["progress"]["bytes"] <= seen["progress"]["total_bytes"]
    let_go(seen)
    place.process.send_signal(signal.SIGKILL)
    place.killed = True
    other = host.server(*[a for a in place.argv[place.argv.index(str(host.install.anybox)) + 1:]])
    done = finished(other, task)
    assert done["status"] == "completed", done
    assert done["result"]["uploaded_files"] == 60
    assert [t["task_id"] for t in other.tool("check_file_transfer_task")["transfers"]] == [task]
    assert other.bash("ls tree | wc -l; stat -c %s tree/f059", sandbox_name="work")["stdout"] == \
        f"60\n{(2 << 20) + 59}\n"


def test_a_worker_that_was_killed_is_stale_and_the_same_sync_goes_on(place, host, request):
    folder = write_large(host.project / "tree")
    task = up(place, folder)["task_id"]
    seen = caught(place, task)
    os.kill(seen["pid"], signal.SIGKILL)
    stale = wait_until(lambda: (c := check(place, task)).get("stale") and c)
    assert stale["status"] == "running" and "running" not in stale and "same arguments" in stale["hint"]
    whole = place.bash("cd tree && for f in f*; do stat -c '%n %s' $f; done")["stdout"].split()
    sizes = {f"f{i:03d}": (2 << 20) + i for i in range(60)}
    assert all(sizes[n] == int(s) for n, s in zip(whole[::2], whole[1::2])), "a file is half"
    again = up(place, folder)
    if again["mode"] == "background":
        again = finished(place, again["task_id"])["result"]
    assert again["uploaded_files"] + again.get("skipped_files", 0) == 60
    assert again.get("skipped_files", 0) >= len(whole) // 2, "what had arrived was sent again"
    assert left_over(request, place) == "" and place.bash("ls tree | wc -l")["stdout"] == "60\n"


def test_a_person_can_resume_it(box, host):
    folder = write_large(host.project / "tree")
    task = up(box, folder)["task_id"]
    seen = caught(box, task)
    refused = host.run("transfer-worker", "--task-id", str(task))
    assert refused.returncode == 1 and "under way" in refused.stderr
    os.kill(seen["pid"], signal.SIGKILL)
    assert wait_until(lambda: check(box, task).get("stale"))
    resumed = host.run("transfer-worker", "--task-id", str(task))
    assert resumed.returncode == 0, resumed.stderr
    assert "[transfer] completed" in resumed.stdout
    assert check(box, task)["status"] == "completed"
    assert "complete" in host.run("transfer-worker", "--task-id", str(task)).stderr
    assert host.run("transfer-worker", "--task-id", "99").returncode == 2
    assert host.run("transfer-worker").returncode == 2


def test_it_can_be_resumed_under_its_number(box, host):
    folder = write_large(host.project / "tree")
    task = box.tool("sync_local_to_remote_background", local_path=str(folder), remote_path="tree")["task_id"]
    seen = caught(box, task)
    assert box.tool_error("sync_local_to_remote_background", task_id=task)["code"] == "exists"
    os.kill(seen["pid"], signal.SIGKILL)
    assert wait_until(lambda: check(box, task).get("stale"))
    again = box.tool("sync_local_to_remote_background", task_id=task)
    assert again["task_id"] == task and again["pid"] != seen["pid"] and "auto_switched" not in again
    done = finished(box, task)
    assert done["status"] == "completed" and "resumed at" in done["log_tail"]
    assert done["result"]["uploaded_files"] + done["result"].get("skipped_files", 0) == 60
    assert box.tool_error("sync_local_to_remote_background", task_id=task)["code"] == "invalid"


def test_cancel_is_quick_and_leaves_whole_files(place, host, request):
    folder = write_large(host.project / "tree")
    task = up(place, folder)["task_id"]
    seen = caught(place, task)
    other = host.server(*[a for a in place.argv[place.argv.index(str(host.install.anybox)) + 1:]])
    let_go(seen)
    began = time.monotonic()
    answer = other.tool("cancel_file_transfer_task", task_id=task, force_kill_after_s=60)
    took = time.monotonic() - began
    assert answer == {"task_id": task, "status": "cancelled", "terminated": True}
    assert took < 20, took  # it is milliseconds on a machine that has time
    assert not is_running(seen["pid"])
    done = check(place, task)
    assert done["status"] == "cancelled" and "running" not in done and "stale" not in done
    again = place.tool("cancel_file_transfer_task", task_id=task)
    assert again == {"task_id": task, "status": "cancelled", "already_finished": True}
    found = place.bash("cd tree && for f in f*; do stat -c '%n %s' $f; done")["stdout"].split()
    assert all(int(s) == (2 << 20) + int(n[1:]) for n, s in zip(found[::2], found[1::2]))
    rest = up(place, folder)
    assert rest["mode"] == "inline" or finished(place, rest["task_id"])["status"] == "completed"
    assert left_over(request, place) == "" and place.bash("ls tree | wc -l")["stdout"] == "60\n"


def test_a_worker_that_does_not_listen_is_killed(box, host):
    folder = write_large(host.project / "tree")
    task = up(box, folder)["task_id"]
    seen = caught(box, task)
    answer = box.tool("cancel_file_transfer_task", task_id=task, force_kill_after_s=0.2)
    assert answer == {"task_id": task, "status": "cancelled", "terminated": True, "force_killed": True}
    assert not is_running(seen["pid"])


def test_a_failure_is_a_sentence(box, host):
    folder = write_small(host.project / "tree")
    box.bash("mkdir tree && chmod 0 tree")
    with contextlib.suppress(ToolFailed):  # who looks first is told at once
        done = finished(box, up(box, folder)["task_id"])
        assert done["status"] == "failed" and done["error"]
    box.bash("chmod 755 tree")


def test_a_box_that_is_gone_makes_it_fail(box, host):
    folder = write_large(host.project / "tree")
    task = up(box, folder)["task_id"]
    box.tool("delete_sandbox", sandbox_id=box.box_id, force=True)
    done = finished(box, task)
    assert done["status"] in ("failed", "completed")
    if done["status"] == "failed":
        assert done["error"] and "hint" in done


def test_what_ran_before_is_of_no_use_to_others(host):
    """Workers hold neither the client's descriptors nor secrets that others could see."""
    client = host.server(env={"SECRET_OF_MINE": "hunter2"})
    client.tool("create_sandbox", name="work")
    folder = write_large(host.project / "tree")
    task = up(client, folder)["task_id"]
    seen = caught(client, task)
    proc = pathlib.Path(f"/proc/{seen['pid']}")
    assert b"hunter2" not in (proc / "environ").read_bytes()
    assert (proc / "cmdline").read_bytes().split(b"\0")[1:4] == [b"transfer-worker", b"--task-id", b"%d" % task]
    assert streams(client.process.pid) and not streams(client.process.pid) & streams(seen["pid"])
    assert os.getsid(seen["pid"]) == seen["pid"]
    let_go(seen)
    client.tool("cancel_file_transfer_task", task_id=task)


def test_passwords_of_hosts_stay_in_the_pipe(host, world):
    if not hasattr(world.user, "password"):
        pytest.skip("only root can make users to log in as")
    server = world.sshd(PasswordAuthentication="yes", UsePAM="no")
    entry = {**world.entry(server), "name": "work", "password": world.user.password}
    entry.pop("key_file", None)
    client = host.server(env=ssh_servers.hosts(entry))
    folder = write_large(host.project / "tree")
    task = up(client, folder)["task_id"]
    seen = caught(client, task)
    secret = world.user.password.encode()
    proc = pathlib.Path(f"/proc/{seen['pid']}")
    assert secret not in (proc / "environ").read_bytes() + (proc / "cmdline").read_bytes()
    let_go(seen)
    assert finished(client, task)["status"] == "completed"
    for path in host.home.rglob("*"):
        assert not path.is_file() or secret not in path.read_bytes(), path




def test_each_key_has_its_own_transfers(host):
    with contextlib.closing(HttpServer(host, env={"ANYBOX_SYNC_ALLOWED_ROOTS": str(host.project)})) as web:
        folder = write_small(host.project / "tree")
        web.tool("create_sandbox", name="work")
        task = web.tool("sync_local_to_remote", local_path=str(folder), remote_path="tree")["task_id"]
        for tool in ("check_file_transfer_task", "cancel_file_transfer_task"):
            answer = web.call(tool, {"task_id": task}, key=OTHER)[1]
            assert answer["code"] == "not_found", answer
        assert web.tool("check_file_transfer_task", key=OTHER) == {"transfers": []}
        assert wait_until(lambda: web.tool("check_file_transfer_task", task_id=task)["status"] == "completed", 60)
        found = web.tool("check_file_transfer_task")["transfers"]
        assert [t["task_id"] for t in found] == [task] and found[0]["result"]["uploaded_files"] == 20


@pytest.mark.long
def test_a_transfer_keeps_its_box_alive(host):
    """Nothing moves for longer than the box may be idle: what writes the files in it is stopped."""
    client = host.server()
    client.tool("create_sandbox", name="work", idle_timeout_s=10)
    folder = write_large(host.project / "tree")
    task = up(client, folder)["task_id"]
    seen = caught(client, task)
    writers = [pid for pid in host.install.box_processes() if pid_inside(pid) not in (None, 1)]
    assert writers
    for pid in writers:
        os.kill(pid, signal.SIGSTOP)
    let_go(seen)
    time.sleep(15)
    for pid in writers:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)
    done = finished(client, task)
    assert done["status"] == "completed", done
    assert client.bash("ls tree | wc -l", sandbox_name="work")["stdout"] == "60\n"
