"""The driver of execute_python_code as a text: with what the build's Python made of it, and by its sources where
another Python runs it."""
import base64
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PARTS = [ROOT / "src/core/python" / f"{name}.py" for name in ("boot", "keep", "work", "show", "call")]


class Driver:
    """The driver, run for each call as in a box that has no other way."""

    def __init__(self, text, folder):
        (folder / "home").mkdir()
        (folder / "work").mkdir()
        self.text, self.folder = text, folder

    def call(self, code):
        """Frames: [(letter, payload), ...]"""
        payload = b"token=%s\nonce=1\ntimeout_ms=60000\nmax_chars=1000\nimage_bytes=0\n\n" % (b"a" * 32) + code.encode()
        done = subprocess.run([sys.executable, "-c", self.text], cwd=self.folder / "work", timeout=120, check=True,
                              input=(len(payload) + 1).to_bytes(4, "big") + b"C" + payload, stdout=subprocess.PIPE,
                              env={"HOME": str(self.folder / "home"), "PATH": "/usr/bin:/bin"})
        data, frames = b"".join(base64.b64decode(line) for line in done.stdout.splitlines()), []
        while data:
            size = int.from_bytes(data[:4], "big")
            frames.append((data[4:5].decode(), data[5:4 + size].decode()))
            data = data[4 + size:]
        return frames


def said(frames, letter):
    return "".join(payload for kind, payload in frames if kind == letter)


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    header = tmp_path_factory.mktemp("driver") / "driver.h"
    subprocess.run([sys.executable, ROOT / "scripts/embed_py.py", "--compiled", header, *PARTS], check=True)
    numbers = re.findall(r"-?\d+(?=,)", header.read_text())
    return bytes(int(n) & 0xff for n in numbers).decode()


@pytest.mark.parametrize("is_same", [True, False], ids=["the_builds_python", "another_python"])
def test_the_driver_runs_by_its_code_or_by_its_sources(text, tmp_path, is_same):
    if not is_same:
        text, n = re.subn(r"(?m)^MADE_FOR = .*$", "MADE_FOR = 'another'", text)
        assert n == 1
    driver = Driver(text, tmp_path)
    try:
        # All that was compiled when the driver was made lies in its line 1.
        first = driver.call("import sys\nx = 20\nsys._getframe(1).f_code.co_firstlineno == 1")
        assert said(first, "V") == str(is_same) and "exit=0\n" in said(first, "D")
        assert said(driver.call("x + 1"), "V") == "21"
        failed = driver.call("def half(n):\n    return n / 0\nhalf(x)")
        told = said(failed, "E")
        assert "exit=1\n" in said(failed, "D")
        assert told.startswith("Traceback (most recent call last):\n")
        assert told.endswith("ZeroDivisionError: division by zero\n")
        assert "half(x)" in told and "<anybox>" not in told
    finally:
        driver.call("import os\nos.kill(os.getppid(), 9)")
