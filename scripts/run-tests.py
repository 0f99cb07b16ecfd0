#!/usr/bin/env python3
"""run-tests.py - what `make test` runs, in three stages that all run even when one fails:

    house  the layer check
    unit   cmocka tests and fuzz corpora, in a build with ASan and UBSan
    e2e    pytest against the release build

Ends with one line that sums them up: `N passed, N failed`. Arguments go to pytest.
"""
import os
import pathlib
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree

ROOT = pathlib.Path(__file__).resolve().parent.parent
ASAN = ROOT / "build-asan"


class Count:
    def __init__(self, passed=0, failed=0, skipped=0):
        self.passed, self.failed, self.skipped = passed, failed, skipped

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped


def run(*command, **env):
    return subprocess.run([str(c) for c in command], cwd=ROOT, env={**os.environ, **env},
                          stdin=subprocess.DEVNULL, check=False).returncode


def count_junit(path, code, fewest):
    """What a JUnit file counted. A stage that failed without a failed test (it crashed, or
    there were fewer tests than can be true) counts as one failure."""
    count = Count()
    if path.exists():
        for case in ElementTree.parse(path).iter("testcase"):
            if case.find("failure") is not None or case.find("error") is not None:
                count.failed += 1
            elif case.find("skipped") is not None:
                count.skipped += 1
            else:
                count.passed += 1
    if count.failed == 0 and (code != 0 or count.passed < fewest):
        count.failed = 1
    return count


def house():
    code = run(sys.executable, "scripts/check-layers.py")
    return Count(passed=int(code == 0), failed=int(code != 0))


def unit():
    code = run("scripts/build.sh", "build-asan", "-Db_sanitize=address,undefined",
               "-Db_lundef=false", "--", "all")
    if code != 0:
        return Count(failed=1)
    junit = ASAN / "meson-logs" / "testlog.junit.xml"
    junit.unlink(missing_ok=True)
    code = run("meson", "test", "-C", ASAN, "--no-rebuild", "--quiet", "--print-errorlogs",
               "--suite", "unit", "--suite", "fuzz",
               UBSAN_OPTIONS="halt_on_error=1:print_stacktrace=1")
    return count_junit(junit, code, fewest=10)


def e2e():
    junit = ROOT / "build" / "e2e.junit.xml"
    junit.unlink(missing_ok=True)
    code = run(sys.executable, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/e2e",
               f"--junitxml={junit}", *sys.argv[1:])
    return count_junit(junit, code, fewest=1 if sys.argv[1:] else 50)


def main():
    total = Count()
    for name, stage in ("house", house), ("unit", unit), ("e2e", e2e):
        print(f"== {name}", flush=True)
        began = time.monotonic()
        count = stage()
        total.add(count)
        print(f"== {name}: {count.passed} passed, {count.failed} failed, {count.skipped} skipped"
              f" in {time.monotonic() - began:.0f} s", flush=True)
    print(f"{total.passed} passed, {total.failed} failed", flush=True)
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
