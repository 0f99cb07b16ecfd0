"""The scripts of src/core/task.h by themselves: under every sh there is here, with busybox as the only
programs, with a clock that goes backwards; and nothing in them that only GNU has."""
import pathlib
import re
import shutil
import subprocess
import time

import pytest

from host import wait_until

CORE = pathlib.Path(__file__).resolve().parents[2] / "src" / "core"
SCRIPTS = sorted(CORE.glob("task_*.sh"))
BUSYBOX = shutil.which("busybox")
SHELLS = {"dash": ["dash"], "bash": ["bash", "--posix"], "mksh": ["mksh"],
          "busybox": ["busybox", "sh"], "ksh": ["ksh"], "yash": ["yash"]}
RUN = "0123456789abcdef"
MARK = "ffffffffffffffffffffffffffffffff"


class Machine:
    """A home folder, a shell that is `sh` there, and programs."""

    def __init__(self, folder, shell, only=None):
        self.home, self.tools = folder / "home", folder / "bin"
        self.home.mkdir()
        self.tools.mkdir()
        program = shutil.which(SHELLS[shell][0])
        for name in only or ():
            (self.tools / name).symlink_to(BUSYBOX)
        self.path = f"{self.tools}:/usr/bin:/bin" if only is None else str(self.tools)
        if only is None:
            (self.tools / "sh").write_text(f"#!/bin/sh\nexec {program} {' '.join(SHELLS[shell][1:])} \"$@\"\n")
            (self.tools / "sh").chmod(0o755)

    def run(self, script, *arguments, stdin=""):
        text = (CORE / "task_lib.sh").read_text() + (CORE / f"task_{script}.sh").read_text()
        done = subprocess.run([str(self.tools / "sh"), "-c", text, "anybox", *map(str, arguments)], input=stdin,
                              capture_output=True, text=True, cwd=self.home, timeout=60, check=False,
                              env={"HOME": str(self.home), "PATH": self.path})
        assert done.stdout.endswith("end\t\n"), (done.stdout, done.stderr)
        assert done.stderr == "", done.stderr
        return done.stdout

    def start(self, command, name, run=RUN):
        said = self.run("start", "plain", name, "", f".codex_logs/{name}.log", run, len(command), "head", "", stdin=command)
        assert f"run\t{run}\n" in said, said

    def probe(self, *names, wait=0, until="", check=("", "", ""), limit=5):
        wants = [word for name in names for word in ("", name, "", RUN, "", 4000, *check)]
        said = self.run("probe", MARK, wait, until, limit, 20000, *wants)
        tasks = [dict(line.split("\t", 1) for line in part.splitlines() if "\t" in line) | {"said": part}
                 for part in said.split("task\t")[1:]]
        assert len(tasks) == len(names), said
        return tasks

    def cancel(self, name, grace=5):
        return self.run("cancel", "", name, "", RUN, grace)


@pytest.fixture
def machine(request, tmp_path):
    shell = request.param
    if shutil.which(SHELLS[shell][0]) is None:
        pytest.skip(f"{shell} is not installed")
    only = None
    if shell == "busybox":
        only = subprocess.run([BUSYBOX, "--list"], capture_output=True, text=True, check=True).stdout.split()
    return Machine(tmp_path, shell, only)


every_shell = pytest.mark.parametrize("machine", SHELLS, indirect=True)


@every_shell
def test_an_end_is_told_as_it_was(machine):
    jobs = {"plain": ("echo out; echo err >&2; exit 3", "exit", "3", "0"), "no_newline": ("printf x", "exit", "0", "0"),
            "killed": ("kill -9 $$", "signal", "137", "9"), "like_killed": ("exit 137", "exit", "137", "0"),
            "term": ("kill -TERM $$", "signal", "143", "15"), "execs": ("exec sh -c 'exit 4'", "exit", "4", "0")}
    for name, (command, *_) in jobs.items():
        machine.start(command, name)
    for name, (_, *wanted) in jobs.items():
        task, = machine.probe(name, wait=20)
        assert [task["state"], task["code"], task["signal"]] == wanted, (name, task)
        assert f"EXIT_CODE={wanted[1]}\n" in task["said"]
        assert "gaps" not in task


@every_shell
def test_nothing_that_stands_in_its_files_is_run(machine):
    """Somebody else may have written them: they can come with a repository."""
    machine.start("echo out", "done")
    task, = machine.probe("done", wait=20)
    started = machine.home / ".codex_logs/.anybox/done/started"
    run, _, rest = started.read_text().split(" ", 2)
    started.write_text(f"{run} a[$(touch$IFS$HOME/ran)] {rest}")
    task, = machine.probe("done")
    assert task["state"] == "exit" and "EXIT_CODE=0\n" in task["said"]
    assert not (machine.home / "ran").exists()


@every_shell
def test_it_runs_is_waited_for_and_ended(machine):
    machine.start("echo one; sleep 0.3; echo two; sleep 4741 & sleep 4741", "runs")
    task, = machine.probe("runs", wait=20, until="^two$")
    assert (task["state"], task["match"]) == ("running", "two")
    assert "result\tcancelled\n" in machine.cancel("runs")
    task, = machine.probe("runs")
    assert task["state"] == "cancelled"
    assert "result\tended\n" in machine.cancel("runs")


@every_shell
def test_checkpoints_of_all_in_one_look(machine):
    (machine.home / "ck").write_text("file\n")
    names = [f"t{i}" for i in range(3)]
    for name in names:
        machine.start("exit 0", name)
    for check, wanted in ((("", "", "echo said; pwd"), f"read\nsaid\n{machine.home}\n\n{MARK}\n"),
                          (("", "ck", ""), f"read\nfile\n\n{MARK}\n"), (("~/", "~/ck", ""), f"read\nfile\n\n{MARK}\n"),
                          (("", "", "sleep 4742 & echo x"), f"read\nx\n\n{MARK}\n"), (("", "none", ""), f"missing\n\n{MARK}\n"), (("none", "", "echo x"), f"cwd\n\n{MARK}\n"),
                          (("", "", "printf %20001s x"), f"read\n{' ' * 20000}\n{MARK}\n")):
        for task in machine.probe(*names, check=check):
            assert f"check\t{wanted}" in task["said"], (check, task["said"])
    began = time.monotonic()
    for task in machine.probe(*names, check=("", "", "sleep 4743"), limit=1):
        assert "check\tslow\n" in task["said"]
    assert time.monotonic() - began < 20
    gone = lambda: not subprocess.run(["pgrep", "-f", "sleep 474[3]"], capture_output=True, check=False).stdout  # noqa: E731
    assert wait_until(gone, 10)
    subprocess.run(["pkill", "-f", "sleep 474[2]"], check=False)
    assert not [p for p in pathlib.Path("/tmp").glob(f"anybox-{MARK}*")]


@every_shell
def test_a_checkpoint_that_is_ended_does_not_go_on_first(machine):
    """Of a command and what it waits for, what it waits for was killed first by chance."""
    names = [f"t{i}" for i in range(8)]
    for name in names:
        machine.start("exit 0", name)
    check = "i=0; while [ $i -lt 40 ]; do sleep 4745 & i=$((i + 1)); done; sleep 4745; echo late"
    for task in machine.probe(*names, check=("", "", check), limit=3):
        assert "check\tslow\n" in task["said"]


def test_a_clock_that_goes_backwards_makes_nothing_longer(tmp_path):
    machine = Machine(tmp_path, "dash")
    (machine.tools / "date").write_text(f'#!/bin/sh\nread n 2>/dev/null <{tmp_path}/n || n=1000000000\n'
                                        f'echo $((n - 100000)) >{tmp_path}/n\n'
                                        'case $* in *%s*) echo $n ;; *) exec /bin/date "$@" ;; esac\n')
    (machine.tools / "date").chmod(0o755)
    machine.start("trap '' TERM; echo up; while :; do sleep 0.2; done", "stays")
    for act in (lambda: machine.probe("stays", wait=2), lambda: machine.probe("stays", check=("", "", "sleep 4744"), limit=1),
                lambda: machine.cancel("stays", grace=2)):
        began = time.monotonic()
        act()
        assert time.monotonic() - began < 30
    assert machine.probe("stays")[0]["state"] == "cancelled"


GNU_ONLY = [r"\bsed\s+-[a-zA-Z]*[ir]", r"\bgrep\s+-[a-zA-Z]*P", r"\bdate\s+(-d|--|-I)", r"\breadlink\s+-f", r"\bcp\s+-[a-z]*a",
            r"\bxargs\s+-[a-z]*[rd]", r"\bhead\s+-n\s*-", r"\bps\s+(-e|aux|-[a-zA-Z]*[fw])", r"\bmktemp\b", r"\bseq\b",
            r"\bsort\s+-[a-z]*V", r"\bfind\b.*-(printf|quit|maxdepth)", r"\bln\s+-[a-z]*[rT]", r"\bmv\s+-[a-z]*[tT]",
            r"\btail\s+--", r"\bstat\s+-c(?!.*\|\| stat -f)", r"\bdf\s+(?!-P -k)", r"\bsleep\s+[0-9.]+[smh]", r"\bpgrep\b", r"\bpkill\b",
            r"\bwc\s+-[a-z]*L", r"\bdd\b.*(bs=[0-9]+[a-zA-Z]|status=|iflag)", r"\btr\s+-[a-z]*t", r"\bdu\s+-[a-z]*b", r"\btouch\s+-d",
            r"\s--(?!norc\b)[a-z]", r"\[\[", r"\blocal\s", r"<<<", r"\bsource\s", r"\bfunction\s", r"\becho\s+-[en]", r"&>",
            r"\$'", r"\bread\s+-(?!r\s)", r"\bprintf\s+-v", r"\bdeclare\b", r"\[\s[^]]*\s==\s"]


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda p: p.stem)
def test_nothing_in_them_is_gnu_s_or_bash_s_alone(script):
    lines = [line for line in script.read_text().splitlines() if not line.lstrip().startswith("#")]
    found = [(pattern, line) for line in lines for pattern in GNU_ONLY if re.search(pattern, line)]
    assert not found
    assert len(lines) > 10


@pytest.mark.parametrize("pattern, line", [(GNU_ONLY[0], "sed -i x f"), (GNU_ONLY[9], "seq 1 9"), (GNU_ONLY[15], "stat -c %s f"),
                                           (GNU_ONLY[-1], '[ "$a" == b ]'), (GNU_ONLY[25], "rm --force x")])
def test_the_patterns_find_what_they_are_for(pattern, line):
    assert re.search(pattern, line)
