"""Tasks on odd hosts: busybox as the only shell and tools, no tmux, setsid, bash, python or perl, and whatever
shell a person logs in with."""
import os
import shutil
import subprocess

import pytest

import ssh_servers
import test_tasks
from host import wait_until
from test_tasks import (  # noqa: F401 - the core of that suite, in the places of this module
    test_a_list_without_arguments, test_a_missing_folder_is_an_error_and_nothing_is_made,
    test_a_running_name_is_refused_before_anything_is_touched, test_a_task_runs_in_the_background_and_tells_its_end,
    test_another_server_answers_after_a_kill, test_cancel_lets_it_tidy_up, test_huge_lines_and_binary_output,
    test_lines_and_cursor, test_names_are_exact, test_no_text_reaches_a_shell_unquoted, test_the_machine_restarts,
    test_waiting)

pytestmark = pytest.mark.only_tiers("root")
WINDOW = {"ANYBOX_DEFAULTS_EXEC_WINDOW": "2"}
FEW = ("awk", "cat", "chmod", "cmp", "cut", "date", "dd", "df", "env", "find", "grep", "head", "id", "kill", "ln", "ls", "mkdir",
       "mkfifo", "mv", "pgrep", "ps", "pwd", "rm", "rmdir", "sed", "seq", "sleep", "sort", "stat", "tail", "tee", "touch", "tr",
       "true", "uname", "wc")


def busybox_server(world):
    """An SSH server whose users find busybox and nothing else. Its file system is only its own."""
    program = shutil.which("busybox")
    if program is None:
        pytest.skip("busybox is not installed (busybox-static)")
    root = world.folder / "busybox"
    for name in "bin", "dev", "proc", "tmp", "etc", "usr", "mnt":
        (root / name).mkdir(parents=True)
    root.chmod(0o755)
    (root / "tmp").chmod(0o1777)
    shutil.copy(program, root / "bin" / "busybox")
    for name in subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split():
        if name not in ("busybox", "setsid", "timeout"):
            (root / "bin" / name).symlink_to("busybox")
    (root / "usr" / "bin").symlink_to("../bin")
    home = root / str(world.user.home).lstrip("/")
    home.mkdir(parents=True)
    world.user.own(home)
    (root / "etc" / "passwd").write_text(f"{world.user.name}:x:{world.user.uid}:{world.user.gid}::{world.user.home}:/bin/sh\n")
    prepare = (f"mount --bind {root} /mnt && mount -t proc proc /mnt/proc && mount --rbind /dev /mnt/dev && "
               f"mount --bind {world.user.home} /mnt{world.user.home} && exec \"$@\"")
    return world.sshd(wrap=lambda argv: ["unshare", "--mount", "--propagation", "private", "sh", "-c", prepare, "sh", *argv],
                      ChrootDirectory="/mnt", Subsystem="sftp internal-sftp", SetEnv="PATH=/bin")


def few_server(world):
    """sh is dash, with the tools of POSIX."""
    folder = world.folder / "few"
    folder.mkdir()
    for name in FEW:
        (folder / name).symlink_to(shutil.which(name))
    (folder / "sh").symlink_to("/bin/dash")
    return world.sshd(SetEnv=f"PATH={folder}")


MADE = {"busybox": busybox_server, "few": few_server}


@pytest.fixture(scope="module")
def made():
    return {}


@pytest.fixture(params=MADE)
def spot(request, host, world, made):
    if request.param not in made:
        made[request.param] = MADE[request.param](world)
    # One is reached as it is, in the other the agent may come.
    host.pool = {**host.pool, **({"ANYBOX_DEFAULTS_HOST_AGENT": "false"} if request.param == "few" else {})}
    with world.user.shell("/bin/sh"):
        yield test_tasks.Spot(host, request.param, world, made[request.param])
        host.end_watchdog()
        world.user.kill_all()
        for name in ".codex_logs", ".anybox", "wd":
            shutil.rmtree(world.user.home / name, ignore_errors=True)


# A shell of its own says other things in its own words: set -u ends dash with 2.
ENDINGS = [e for e in test_tasks.ENDINGS if "set -u" not in e[0]]


def test_the_exit_status_is_the_true_one(spot):  # noqa: F811
    for n, (command, _, _) in enumerate(ENDINGS):
        spot.start(command, f"ends{n}")
    for n, (command, code, sig) in enumerate(ENDINGS):
        answer = spot.end(f"ends{n}")
        assert (answer["exit_code"], answer.get("signal")) == (code, sig), command
        assert answer["log_tail"].splitlines()[-1] == f"EXIT_CODE={code}", command


def test_nothing_else_is_there(spot):  # noqa: F811
    """Else the other tests show nothing."""
    said = spot.bash("for p in tmux setsid bash python3 perl; do command -v $p; done; true")
    assert said.split() == (["setsid"] if spot.where == "busybox" else [])  # one that is in its shell


def test_cancel_ends_all_that_it_started(spot):  # noqa: F811
    spot.client.tool("write_remote_file", remote_path="wd/sleeper", content="trap '' TERM\nsleep 300\nsleep 300\n")
    spot.start("trap '' TERM; sh sleeper & sh sleeper; sleep 300", "tree", cwd="wd")
    assert wait_until(lambda: len(spot.world.user.processes("sleeper")) >= 2, 20), spot.check("tree")
    answer = spot.client.tool("cancel_background_task", tmux_session="tree", grace_s=1)
    assert (answer["result"], answer["status"]) == ("cancelled", "cancelled")
    assert spot.world.user.processes("sleeper") == []


def test_a_call_hands_over(spot):  # noqa: F811
    client = spot.host.server(env={**spot.env, **WINDOW})
    client.bash("true", timeout_s=30)  # who connects first uses up the window
    answer = client.bash("echo before; until [ -e wd-go ]; do sleep 0.2; done; rm wd-go; seq 1 300000; exit 6")
    assert answer["running"] is True and answer["stdout"] == "before\n"
    spot.bash("touch wd-go")
    end = spot.check(task_id=answer["task_id"], wait_s=30)
    assert (end["exit_code"], "log_incomplete" in end) == (6, False)
    assert end["log_tail"].endswith("299999\n300000\n") and end["log_size"] == 7 + sum(len(f"{i}\n") for i in range(1, 300001))


def test_it_is_watched_and_started_again_from_its_checkpoint(spot):  # noqa: F811
    spot.bash("mkdir -p wd")
    began = spot.client.tool(
        "exec_bash_background", command="echo x >>runs; echo 1 >ck; sleep 300", session_name="goes-on", cwd="wd",
        interval_s=1, notify_local=False, auto_resume=True, resume_delay_s=0, checkpoint_command="cat ck",
        resume_command="echo resumed >>runs")
    watch = lambda: spot.client.tool("get_background_watch", watch_id=began["watch_id"])["watch"]  # noqa: E731
    assert wait_until(lambda: watch()["last_checkpoint_text"] == "1\n", 60), watch()
    spot.bash("d=$(cat ~/.anybox/tasks/goes-on); for f in pid job; do read run pid born <$d/$f; kill -KILL $pid; done")
    assert wait_until(lambda: watch()["status"] == "completed", 60), watch()
    assert spot.bash("cat wd/runs") == "x\nresumed\n"


# ---- login shells ----------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["dash", "mksh", "zsh", "fish", "tcsh"])
def test_whatever_shell_one_logs_in_with(host, world, shell):
    path = shutil.which(shell)
    if path is None:
        pytest.skip(f"{shell} is not installed")
    with world.user.shell(path):
        spot = test_tasks.Spot(host, "tmux", world, world.server)  # noqa: F811
        client = spot.host.server(env={**spot.env, **WINDOW, "ANYBOX_DEFAULTS_HOST_AGENT": "false"})
        text = "it's !! \"so\" $HOME `x` \\ {a,b}"
        spot.client.tool("write_remote_file", remote_path="text", content=text)
        began = spot.start("cat text; echo; kill -9 $$", "story")
        answer = spot.end("story")
        assert (answer["exit_code"], answer["signal"], answer["task_id"]) == (137, "SIGKILL", began["task_id"])
        assert f"\n{text}\n" in answer["log_tail"]
        spot.start("sleep 300", "long")
        assert spot.client.tool("cancel_background_task", tmux_session="long")["result"] == "cancelled"
        handed = client.bash("echo 'on'; until [ -e wd-go ]; do sleep 0.1; done; rm wd-go; exit 5")
        assert handed["running"] is True
        spot.bash("touch wd-go")
        assert spot.check(task_id=handed["task_id"], wait_s=20)["exit_code"] == 5
        host.end_watchdog()
        world.user.kill_all()
        for name in ".codex_logs", ".anybox":
            shutil.rmtree(world.user.home / name, ignore_errors=True)
        os.unlink(world.user.home / "text")
