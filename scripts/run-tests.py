#!/usr/bin/env python3
"""run-tests.py - what `make test` runs, in three stages that all run even when one fails:

    house  the layer check
    unit   cmocka tests and fuzz corpora, in a build with ASan and UBSan
    e2e    pytest against the release build

Ends with one line that sums them up: `N passed, N failed`. The names of stages in front choose
these only; all other arguments go to pytest: `run-tests.py e2e -k timeout`.

Of e2e each module is a pytest of its own, JOBS of them side by side (the tests mostly wait), the
longest first; then the tests marked `alone`, one after the other. A pytest that crashes is a
failure. So is one that takes longer than MODULE_SECONDS: it shows where it is and is killed. Whatever
failed is shown at the end, and build/e2e.junit.xml has every test's time.

What failed runs once more when its stage is over and the machine is quiet. A test that passes then
is unsteady: a bug of the test or of the program that wants mending, shown with its failure and
counted, and more than UNSTEADY_MAX of them in a stage fail the run. With UNSTEADY_MAX=0 nothing is tried twice.
"""
import collections
import concurrent.futures
import contextlib
import itertools
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
ASAN = ROOT / "build-asan"
E2E = ROOT / "tests" / "e2e"
JOBS = int(os.environ.get("JOBS") or min(4, (os.cpu_count() or 1) + 1))
MODULE_SECONDS = float(os.environ.get("MODULE_SECONDS") or 1000)
UNSTEADY_MAX = int(os.environ.get("UNSTEADY_MAX") or 8)

# These begin first, so that none of them is what everything waits for at the end.
LONGEST = ("behaviours", "handover", "tasks", "ssh_odd", "watchdog", "transfers", "attacks", "torture")

NO_TESTS = 5  # pytest's exit code
UNSTEADY = "flakyFailure"  # what JUnit files call it


class Count:
    def __init__(self, passed=0, failed=0, skipped=0, unsteady=0):
        self.passed, self.failed, self.skipped, self.unsteady = passed, failed, skipped, unsteady

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped
        self.unsteady += other.unsteady

    def __str__(self):
        unsteady = f", {self.unsteady} unsteady" if self.unsteady else ""
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped{unsteady}"


def run(*command, **env):
    return subprocess.run([str(c) for c in command], cwd=ROOT, env={**os.environ, **env},
                          stdin=subprocess.DEVNULL, check=False).returncode


def has_failed(case):
    return case.find("failure") is not None or case.find("error") is not None


def count_cases(cases):
    count = Count()
    for case in cases:
        if has_failed(case):
            count.failed += 1
        elif case.find(UNSTEADY) is not None:
            count.unsteady += 1
        elif case.find("skipped") is not None:
            count.skipped += 1
        else:
            count.passed += 1
    return count


def read_cases(path):
    """The test cases of a JUnit file; none when it is not there or was cut."""
    try:
        return list(ElementTree.parse(path).iter("testcase"))
    except (OSError, ElementTree.ParseError):
        return []


# ---- house and unit ---------------------------------------------------------


def house(_more):
    code = run(sys.executable, "scripts/check-layers.py")
    return Count(passed=int(code == 0), failed=int(code != 0))


def unit(_more):
    code = run("scripts/build.sh", "build-asan", "-Db_sanitize=address,undefined",
               "-Db_lundef=false", "--", "all")
    if code != 0:
        return Count(failed=1)
    junit = ASAN / "meson-logs" / "testlog.junit.xml"
    junit.unlink(missing_ok=True)
    code = meson_test("--suite", "unit", "--suite", "fuzz")
    count = count_cases(read_cases(junit))
    failed = [] if code == 0 else failed_programs(ASAN / "meson-logs" / "testlog.json")
    if 0 < len(failed) <= UNSTEADY_MAX and meson_test("--logbase", "again", *failed) == 0:
        print("==== unsteady, they passed when run again:", *failed, sep="\n", flush=True)
        count.failed, count.unsteady, code = 0, len(failed), 0
    # A stage that failed without a failed test crashed, or lost its tests.
    if count.failed == 0 and (code != 0 or count.passed < 10):
        count.failed = 1
    return count


def meson_test(*more):
    return run("meson", "test", "-C", ASAN, "--no-rebuild", "--quiet", "--print-errorlogs", *more,
               UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1")


def failed_programs(log):
    """Their names as meson takes them, by its log: one JSON object a line."""
    if not log.exists():
        return []
    tests = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    return [t["name"].rpartition(" / ")[2] for t in tests if t["result"] not in ("OK", "SKIP")]


# ---- e2e --------------------------------------------------------------------


def name_of(case):
    return f"{case.get('classname')}::{case.get('name')}"


class Worker:
    """One pytest, in a session of its own: it can be ended with whatever it started."""

    running = set()
    lock = threading.Lock()

    def __init__(self, name, folder, *arguments):
        self.name, self.junit, self.log = name, folder / f"{name}.xml", folder / f"{name}.log"
        self.argv = [sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider",
                     f"--junitxml={self.junit}", *map(str, arguments)]
        self.cases, self.count, self.seconds, self.wrong = [], Count(), 0, None

    def run(self):
        began = time.monotonic()
        with open(self.log, "wb") as log, self.lock:
            self.process = subprocess.Popen(self.argv, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=log,
                                            stderr=subprocess.STDOUT, start_new_session=True)
            self.running.add(self)
        try:
            code = self.process.wait(MODULE_SECONDS)
        except subprocess.TimeoutExpired:
            code = None
            self.process.send_signal(signal.SIGABRT)  # pytest's faulthandler shows every thread
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(10)
        self.end()
        with self.lock:
            self.running.discard(self)
        self.seconds = time.monotonic() - began
        self.judge(code)
        return self

    def end(self):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def judge(self, code):
        """What it counted. One that ended badly without a failed test is a failure itself."""
        self.cases = read_cases(self.junit)
        self.count = count_cases(self.cases)
        if code is None:
            self.wrong = f"it took more than {MODULE_SECONDS:.0f} s"
        elif code not in (0, 1, NO_TESTS):
            self.wrong = f"pytest was killed by signal {-code}" if code < 0 else f"pytest failed with code {code}"
        elif bool(self.count.failed) != (code == 1) or (code == 0 and not self.cases):
            self.wrong = f"pytest ended with code {code}, which its {self.junit.name} does not explain"
        if self.wrong:
            self.count.failed += 1

    def failures(self):
        found = [name_of(c) for c in self.cases if has_failed(c)]
        return found + ([f"{self.name}: {self.wrong}"] if self.wrong else [])


def modules():
    """The longest first, then the others by their size."""
    def rank(path):
        name = path.stem.removeprefix("test_")
        return LONGEST.index(name) if name in LONGEST else len(LONGEST), -path.stat().st_size
    return sorted(E2E.glob("test_*.py"), key=rank)


def run_workers(workers, jobs):
    """Runs them, at most `jobs` at once, and says of each what came of it."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        try:
            waiting = [pool.submit(w.run) for w in workers]
            for done in concurrent.futures.as_completed(waiting):
                worker = done.result()
                if worker.cases or worker.wrong:
                    print(f"{worker.name}: {worker.count} in {worker.seconds:.0f} s", flush=True)
        except BaseException:  # of whoever wants us to end
            pool.shutdown(wait=False, cancel_futures=True)
            with Worker.lock:
                left = list(Worker.running)
            for worker in left:
                worker.process.send_signal(signal.SIGINT)  # so that they tidy up
            for worker in left:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    worker.process.wait(20)
                worker.end()
            raise


def merge(workers, path):
    """All test cases in one JUnit file."""
    suites = ElementTree.Element("testsuites")
    for worker in workers:
        suite = ElementTree.SubElement(suites, "testsuite", name=worker.name, time=f"{worker.seconds:.3f}",
                                       tests=str(len(worker.cases)), failures=str(worker.count.failed),
                                       skipped=str(worker.count.skipped))
        suite.extend(worker.cases)
    ElementTree.ElementTree(suites).write(path, encoding="utf-8", xml_declaration=True)


def tell(workers):
    """Why tests were skipped, and of those that failed everything."""
    skips = collections.Counter(s.get("message") for w in workers for c in w.cases for s in c.findall("skipped"))
    for why, times in skips.most_common():
        print(f"skipped {times}: {why}")
    failed = [w for w in workers if w.count.failed]
    for worker in workers:
        if worker.count.failed or worker.count.unsteady:
            print(f"==== {worker.name}\n{worker.log.read_text(errors='replace')}")
    unsteady = [name_of(c) for w in workers for c in w.cases if c.find(UNSTEADY) is not None]
    if unsteady:
        print("==== unsteady, they passed when run again:", *unsteady, sep="\n")
    if failed:
        print("==== failed:")
    for worker in failed:
        print("\n".join(worker.failures()))
    sys.stdout.flush()


def try_again(workers, folder):
    """Runs once more what failed, if that is little, and marks what passed then as unsteady."""
    cases = [c for w in workers for c in w.cases if has_failed(c)]
    failed = sorted({name_of(c) for c in cases})
    if not 0 < len(failed) <= UNSTEADY_MAX:
        return
    again = Worker("again", folder, *(E2E / name.replace("::", ".py::", 1) for name in failed))
    run_workers([again], 1)
    passed = {name_of(c) for c in again.cases} - set(again.failures())
    for case in (c for c in cases if name_of(c) in passed):
        for why in (*case.findall("failure"), *case.findall("error")):
            why.tag = UNSTEADY
    for worker in workers:
        worker.count = count_cases(worker.cases)
        worker.count.failed += worker.wrong is not None


def e2e(more):
    folder = ROOT / "build" / "e2e"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    together = [Worker(m.stem, folder, m, "--alone=no", *more) for m in modules()]
    alone = Worker("alone", folder, E2E, "--alone=only", *more)
    run_workers(together, JOBS)
    run_workers([alone], 1)
    workers = [*together, alone]
    try_again(workers, folder)
    merge(workers, ROOT / "build" / "e2e.junit.xml")
    total = Count()
    for worker in workers:
        total.add(worker.count)
    tell(workers)
    total.failed += missing(workers, more)
    return total


def missing(workers, more):
    """How many modules ran no test at all though all were to run."""
    if more:
        lost = [] if any(w.cases for w in workers) else ["any module"]
    else:
        seen = {c.get("classname").split(".")[-1] for w in workers for c in w.cases}
        lost = [m.stem for m in modules() if m.stem not in seen]
    for name in lost:
        print(f"no test of {name} ran")
    return len(lost)


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    stages = {"house": house, "unit": unit, "e2e": e2e}
    more = list(itertools.dropwhile(stages.__contains__, sys.argv[1:]))
    chosen = sys.argv[1:len(sys.argv) - len(more)] or list(stages)
    total = Count()
    for name in chosen:
        print(f"== {name}", flush=True)
        began = time.monotonic()
        count = stages[name](more)
        total.add(count)
        print(f"== {name}: {count} in {time.monotonic() - began:.0f} s", flush=True)
    unsteady = f", {total.unsteady} unsteady" if total.unsteady else ""
    print(f"{total.passed} passed, {total.failed} failed{unsteady}", flush=True)
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
