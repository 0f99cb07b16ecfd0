"""execute_python_code: an interpreter for each sandbox that stays between calls. What depends on the way
to it is tried in every kind of sandbox, what the interpreter does by itself in one."""
import base64
import json
import re
import struct
import time
import zlib

import pytest
from host import wait_until
from http_server import OTHER, HttpServer
from mcp_client import ToolFailed
from test_behaviours import TEXTS, processes


def gone(client, name):
    """What is said of a sandbox that has ended, once it has."""
    def ended_now():
        return name not in [b["name"] for b in client.tool("list_sandboxes")["sandboxes"]]
    assert wait_until(ended_now, 60)
    return client.tool_error("exec_bash", command="true", sandbox_name=name)


def run(place, code, **more):
    return place.tool("execute_python_code", code=code, **more)


def printed(place, code, **more):
    answer = run(place, code, **more)
    assert (answer["exit_code"], answer["stderr"]) == (0, ""), answer
    return answer["stdout"]


def value(place, code, **more):
    answer = run(place, code, **more)
    assert (answer["exit_code"], answer["stderr"]) == (0, ""), answer
    return answer.get("result")


def blocks(place, code):
    return place.result("tools/call", {"name": "execute_python_code", "arguments": {"code": code}}, 60)["content"]


def slow_server(host, place, window):
    """Another server of the same sandbox that leaves code running after `window` seconds."""
    config = host.folder / "slow.toml"
    text = (host.folder / "ssh.toml").read_text() if getattr(place, "provider", "") == "ssh" else ""
    config.write_text(f"[defaults]\nexec_window = {window}\n{text}")
    other = host.server("--config", str(config))
    other.tool("select_sandbox", sandbox_name="work")
    return other


# ---- what stays ---------------------------------------------------------------------------------

def test_state_stays_between_calls(place):
    run(place, "import math as m\nx = 20\ndef twice(n):\n    return 2 * n\nf = open('log', 'w')\nf.write('one ')")
    run(place, "f.write('two'); f.close()")
    answer = run(place, "print(twice(x) + m.floor(2.9), open('log').read())")
    assert (answer["exit_code"], answer["stdout"], answer["stderr"]) == (0, "42 one two\n", "")
    assert 0 <= answer["duration"] < 30 and answer["timed_out"] is False and answer["signal"] is None


def test_it_starts_in_the_work_folder_and_has_no_input(place):
    assert printed(place, "import os, sys; print(os.getcwd(), sys.stdin.read() == '', __name__)") == \
        f"{place.work} True __main__\n"
    answer = run(place, "input()")
    assert answer["exit_code"] == 1 and "EOFError" in answer["stderr"]


def test_the_value_of_the_last_expression(box):
    assert value(box, "1 + 1") == "2"
    assert value(box, "x = 5\n\n[x, 'ü']  # a list\n") == "[5, 'ü']"
    for silent in "None", "x = 3", "for i in range(3):\n    i", "# nothing", "pass":
        assert value(box, silent) is None, silent
    assert value(box, "import asyncio\nawait asyncio.sleep(0)\nawait asyncio.sleep(0, 'awaited')") == "'awaited'"


def test_an_exception_is_told_by_the_users_lines(place):
    run(place, "import json\n\ndef load(text):\n    return json.loads(text)\n")
    answer = run(place, "a = 1\nload('{')\nb = 2")
    assert answer["exit_code"] == 1 and answer["stdout"] == "" and "result" not in answer
    lines = answer["stderr"].splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert "    load('{')" in lines and "    return json.loads(text)" in lines
    assert lines[-1].startswith("json.decoder.JSONDecodeError: ")
    assert answer["stderr"].count("  File ") == 3, "two lines of the user's, and where it went wrong"
    assert "anybox" not in answer["stderr"]
    assert value(place, "a") == "1"
    chained = run(place, "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    raise KeyError('k') from e")
    assert "direct cause" in chained["stderr"] and "ZeroDivisionError" in chained["stderr"]


@pytest.mark.parametrize("code", ["x =", "def f(:\n  pass", "  indented", "print 'two'", "'not closed",
                                  "return 5", "\ufffdx = 1", "a\u00a0= 1"])
def test_code_that_cannot_be_read_is_told(box, code):
    answer = run(box, code)
    assert answer["exit_code"] == 1 and "Error" in answer["stderr"], answer
    assert value(box, "'on'") == "'on'"


def test_a_nul_byte_is_refused(box):
    assert box.tool_error("execute_python_code", code="x = '\0'")["code"] == "invalid"


def test_the_exit_code_is_the_codes_own(box):
    for code, status in ("sys.exit()", 0), ("sys.exit(0)", 0), ("sys.exit(3)", 3), ("raise SystemExit(255)", 255), \
                        ("sys.exit('a reason')", 1), ("exit(4)", 4):
        answer = run(box, f"import sys\nkept = 1\n{code}")
        assert answer["exit_code"] == status, code
        assert ("a reason" in answer["stderr"]) == ("reason" in code)
    assert value(box, "kept") == "1"


def test_both_streams_and_those_of_its_programs(place):
    answer = run(place, "import os, subprocess, sys\nprint('out'); print('err', file=sys.stderr)\n"
                        "os.system('echo sub'); subprocess.run(['sh', '-c', 'echo suberr >&2'])\nsys.stdout.write('end')")
    assert answer["stdout"] == "out\nsub\nend" and answer["stderr"] == "err\nsuberr\n"


def test_texts_are_data(place):
    for text in [*TEXTS, "EOL", "EOF\n", "'; touch evil; '", "\r\n", "\x7f", "{}%(x)s"]:
        assert value(place, f"len({text!r})") == str(len(text))
    assert value(place, "import os; [n for n in os.listdir('.') if n == 'evil']") == "[]"


def test_streams_that_the_code_has_closed_or_moved_are_there_again(box):
    run(box, "import os, sys\nsys.stdout.close()\nos.close(2)")
    assert printed(box, "print('again')") == "again\n"
    run(box, "import io; sys.stdout = io.StringIO()\nprint('into nothing')")
    assert printed(box, "sys.stdout = sys.__stdout__ or open(1, 'w', closefd=False)\nprint('back', flush=True)") == "back\n"


def test_reset_begins_afresh(box):
    run(box, "x = 1")
    answer = run(box, "'x' in globals()", reset=True)
    assert answer["result"] == "False" and "note" not in answer
    assert run(box, "", reset=True)["exit_code"] == 0


def test_output_that_is_too_long_is_cut_and_can_be_read(place):
    answer = run(place, "for i in range(1, 100001): print(i)")
    assert answer["truncated"] is True and len(answer["stdout"]) < 21000
    assert answer["stdout"].startswith("1\n2\n") and answer["stdout"].endswith("99999\n100000\n")
    kept = re.search(r"output:[0-9a-zA-Z-]+", json.dumps(answer)).group()
    assert place.tool("read_remote_file", remote_path=kept)["content"].startswith("1\n2\n")


def test_answers_of_any_size_come_whole(place):
    """Frames whose sizes have bytes that end a line (10, 13) or are no text (133, 0x0d85)."""
    for size in (10, 13, 133, 0x0D85):
        text = "x" * (size - 3)  # a frame's letter and the quotes
        assert value(place, repr(text)) == repr(text)


def test_large_results_cost_bounded_memory(box):
    answer = run(box, "'x' * 100_000_000")
    assert answer["exit_code"] == 0 and len(answer["result"]) < 21000 and "100000000" in answer["result"]
    answer = run(box, "print('y' * 100_000_000)")
    assert answer["exit_code"] == 0 and len(answer["stdout"]) < 21000
    assert len(value(box, "list(range(10**6))")) < 21000
    with open(f"/proc/{box.pid}/status", encoding="ascii") as status:
        assert int(status.read().split("VmRSS:")[1].split()[0]) < 150 * 1024


# ---- time ---------------------------------------------------------------------------------------

def test_a_time_out_interrupts_and_keeps_the_state(place):
    run(place, "import time")  # to start the interpreter takes time, too
    answer = run(place, "n = 7\nprint('before')\ntime.sleep(600)", timeout_s=3)
    assert (answer["timed_out"], answer["exit_code"], answer["stdout"]) == (True, 124, "before\n")
    assert "[TIMEOUT]" in answer["stderr"] and "time.sleep(600)" in answer["stderr"]
    assert "kept" in answer["note"] and "restarted" not in answer
    assert value(place, "n") == "7"
    assert run(place, "while True: pass", timeout_s=1)["timed_out"] is True
    assert value(place, "n") == "7"


def test_code_that_does_not_react_is_killed_and_that_is_told(place):
    run(place, "import signal, time")
    answer = run(place, "n = 7\nsignal.signal(signal.SIGINT, signal.SIG_IGN)\ntime.sleep(600)", timeout_s=3)
    assert (answer["timed_out"], answer["exit_code"], answer["restarted"]) == (True, 124, True)
    assert "fresh" in answer["note"] and "killed" in answer["stderr"]
    assert value(place, "'n' in globals()") == "False"


def test_programs_of_the_code_end_with_its_time(box):
    run(box, "import subprocess\nsubprocess.run(['sleep', '987654'])", timeout_s=1)
    assert wait_until(lambda: "987654" not in processes(box), 20, 0.2)


def test_a_cancelled_call_interrupts_the_code(place):
    run(place, "import time\nn = 7")
    future = place.start_tool("execute_python_code", {
        "code": "open('begun', 'w').close()\ntry:\n    time.sleep(600)\nexcept KeyboardInterrupt:\n    n = 8"})
    assert wait_until(lambda: place.bash("ls begun")["exit_code"] == 0, 20, 0.2)
    place.cancel(future.request_id)
    assert value(place, "n") == "8"
    assert not future.done()


def test_calls_run_one_after_the_other(box):
    run(box, "import time\nlog = []")
    calls = [box.start_tool("execute_python_code", {
        "code": f"log.append(({i}, 'begin'))\ntime.sleep(0.05)\nlog.append(({i}, 'end'))"}) for i in range(8)]
    for call in calls:
        assert box.finish_tool(call)["exit_code"] == 0
    log = eval(value(box, "log"))  # pylint: disable=eval-used
    assert sorted(i for i, _ in log) == sorted([*range(8)] * 2)
    assert all(a[0] == b[0] and (a[1], b[1]) == ("begin", "end") for a, b in zip(log[::2], log[1::2]))


def test_code_that_takes_long_is_left_and_its_end_can_be_had(host, place):
    run(place, "import os, time")
    slow = slow_server(host, place, 3)
    slow.bash("true")  # who connects first uses up the window
    left = run(slow, "print('one', flush=True)\nwhile not os.path.exists('go'): time.sleep(0.05)\nprint('two')\n'end'")
    assert left["running"] is True and "exit_code" not in left and left["stdout"] == "one\n"
    busy = slow.tool_error("execute_python_code", code="1")
    assert busy["code"] == "exists" and "did not run" in busy["error"]
    place.bash("touch go")
    end = run(place, "")
    assert (end["exit_code"], end["stdout"], end["result"]) == (0, "two\n", "'end'")
    assert place.tool_error("execute_python_code", code=" ")["code"] == "invalid"


def test_code_that_was_left_is_a_use_of_the_sandbox(host):
    """It would end after four seconds without."""
    config = host.folder / "slow.toml"
    config.write_text("[defaults]\nexec_window = 1\n")
    client = host.server("--config", str(config))
    client.tool("create_sandbox", name="work", idle_timeout_s=4)
    assert run(client, "import time\nwhile True: time.sleep(0.1)")["running"] is True
    time.sleep(8)
    assert client.bash("pgrep -fc '^python3 -c KEEP'")["stdout"] == "3\n"  # keeper, interpreter, who waits for it
    assert value(client, "1", reset=True) == "1"
    error = gone(client, "work")
    assert error["code"] == "gone" and "idle for 4 s" in error["error"]


def test_keys_have_interpreters_of_their_own_on_a_host(host, world):
    config = host.folder / "ssh.toml"
    config.write_text(f"""[[ssh]]
name = "work"
host = "{world.server.address}"
port = {world.server.port}
user = "{world.user.name}"
key_file = "{world.key}"
""")
    web = HttpServer(host, "--config", str(config))
    try:
        web.tool("execute_python_code", code="x = 'of the tests'; import os")
        assert "NameError" in web.tool("execute_python_code", key=OTHER, code="x")["stderr"]
        assert web.tool("execute_python_code", code="x, 'ANYBOX_WHOSE' in os.environ")["result"] == "('of the tests', False)"
        user = host.server("--config", str(config))
        assert "NameError" in run(user, "x")["stderr"]
    finally:
        web.stop()
        world.user.kill_all()


def test_reset_ends_what_was_left_running(host, box):
    run(box, "import time")
    slow = slow_server(host, box, 1)
    assert run(slow, "time.sleep(600)")["running"] is True
    assert value(box, "'time' in globals()", reset=True) == "False"


def test_progress_tells_the_last_line(box):
    future = box.start_tool("execute_python_code", {
        "code": "import time\nfor i in range(6):\n    print('step', i)\n    time.sleep(0.4)"}, progress_token="t")
    assert box.finish_tool(future)["exit_code"] == 0
    assert any("step" in p.get("message", "") for p in box.progress("t"))


# ---- what the code does to its interpreter -------------------------------------------------------

def ended(place, code, status, signal):
    run(place, "x = 1")
    answer = run(place, f"print('last words', flush=True)\n{code}")
    assert (answer["exit_code"], answer["signal"], answer["stdout"]) == (status, signal, "last words\n")
    assert answer["restarted"] is True and "fresh" in answer["note"]
    assert value(place, "'x' in globals()") == "False"


def test_an_interpreter_that_is_killed_is_told_and_replaced(place):
    ended(place, "import os\nos.kill(os.getpid(), 9)", 137, "SIGKILL")


def test_an_interpreter_that_ends_is_told_and_replaced(box):
    ended(box, "import os\nos._exit(7)", 7, None)
    ended(box, "import ctypes\nctypes.string_at(0)", 139, "SIGSEGV")
    ended(box, "import os\nos.abort()", 134, "SIGABRT")


def test_a_keeper_that_is_gone_is_replaced_and_that_is_told(box):
    keeper = int(value(box, "x = 1\nimport os\nos.getppid()"))
    box.bash(f"kill -9 {keeper}")
    assert wait_until(lambda: box.bash(f"kill -0 {keeper}")["exit_code"] != 0, 20, 0.1)
    answer = run(box, "'x' in globals()")
    assert answer["result"] == "False" and "fresh" in answer["note"]


def test_deep_recursion_threads_and_forks(box):
    answer = run(box, "def down(n):\n    return down(n + 1)\ndown(0)")
    assert answer["exit_code"] == 1 and "RecursionError" in answer["stderr"] and len(answer["stderr"]) < 20000
    assert printed(box, "import threading\nt = [threading.Thread(target=print, args=(i,)) for i in range(50)]\n"
                          "[x.start() for x in t] and [x.join() for x in t]; None").count("\n") == 50
    answer = run(box, "import os\npid = os.fork()\nif pid:\n    os.waitpid(pid, 0)\nprint('parent' if pid else 'child')")
    assert sorted(answer["stdout"].split()) == ["child", "parent"] and answer["exit_code"] == 0
    assert value(box, "pid > 0") == "True"


def test_a_background_process_or_thread_does_not_hold_the_answer(box):
    run(box, "import subprocess, threading, time\np = subprocess.Popen(['sleep', '600'])\n"
               "threading.Thread(target=time.sleep, args=(600,), daemon=True).start()")
    assert value(box, "p.poll() is None") == "True"
    run(box, "p.kill()")


def test_what_code_writes_into_any_descriptor_is_no_later_answer(box):
    forged = "b'\\0\\0\\0\\x4aD' + b'0' * 32 + b'exit=77\\nforged=' + b'x' * 26"
    run(box, f"import os\nfor fd in range(3, 64):\n    try:\n        os.write(fd, {forged})\n    except OSError:\n        pass")
    for _ in range(3):
        assert value(box, "1 + 1") == "2"
    answer = run(box, "for fd in range(3, 64):\n    try:\n        os.write(fd, b'\\xff' * 100000)\n    except OSError:\n"
                        "        pass\nprint('x')")
    assert answer["exit_code"] in (0, 137)
    assert value(box, "40 + 2") == "42"
    run(box, "import os\nos.closerange(0, 256)")
    assert value(box, "40 + 2") == "42"


def test_files_of_the_work_folder_take_no_modules_place(box):
    for name in "traceback", "linecache", "json", "signal", "socket", "io", "enum":
        box.tool("write_remote_file", remote_path=f"{name}.py", content="raise SystemError('wrong module')")
    answer = run(box, "1 / 0", reset=True)
    assert "ZeroDivisionError" in answer["stderr"] and "wrong" not in answer["stderr"]
    box.tool("write_remote_file", remote_path="mine.py", content="VALUE = 'from a file'")
    assert value(box, "import mine; mine.VALUE") == "'from a file'"


def test_a_thousand_calls_leave_memory_where_it_was(box):
    size = "int(open('/proc/self/statm').read().split()[1]) * 4096"

    def server():
        with open(f"/proc/{box.pid}/statm", encoding="ascii") as f:
            return int(f.read().split()[1]) * 4096

    def some(n):
        for i in range(n):
            assert run(box, f"y = [{i}] * 1000\nprint(len(y))\ny[0]")["result"] == str(i)

    some(200)
    before, ours = int(value(box, size)), server()
    some(1000)
    assert int(value(box, size)) - before < 4 << 20
    assert server() - ours < 8 << 20


# ---- several servers -----------------------------------------------------------------------------

def test_another_server_has_the_same_interpreter(host, place):
    run(place, "shared = 'by the first'")
    other = slow_server(host, place, 30)
    assert value(other, "shared") == "'by the first'"
    run(other, "shared = 'by the second'")
    assert value(place, "shared") == "'by the second'"


def test_code_outlives_its_server_and_the_next_one_gets_its_end(host, place):
    run(place, "import os, time")
    other = slow_server(host, place, 30)
    other.start_tool("execute_python_code", {
        "code": "open('begun', 'w').close()\nwhile not os.path.exists('go'): time.sleep(0.05)\nprint('on')\nsurvived = 1"})
    assert wait_until(lambda: place.bash("ls begun")["exit_code"] == 0, 20, 0.2)
    other.kill()
    # The keeper and its interpreter, and nobody who passes on; a user may have other homes here, with their own.
    count = ("for p in $(pgrep -u $(id -u) -f '^python3 -c'); do "
             "grep -qzx \"HOME=$HOME\" /proc/$p/environ 2>/dev/null && echo $p; done | wc -l")
    assert wait_until(lambda: int(place.bash(count)["stdout"]) <= 2, 30, 0.2)
    place.bash("touch go")
    end = run(place, "")
    assert end["exit_code"] == 0 and "on\n" in end["stdout"]
    assert value(place, "survived") == "1"


# ---- files and images ----------------------------------------------------------------------------

def test_new_and_changed_files_are_listed(place):
    place.bash("echo old > old.txt; echo same > same.txt")
    answer = run(place, "import os\nos.makedirs('sub/deep')\nopen('sub/deep/a b.csv', 'w').write('1')\n"
                        "open('old.txt', 'a').write('more')\nopen('.hidden', 'w').write('x')\nNone")
    files = [f"{place.work}/sub/deep/a b.csv", f"{place.work}/old.txt"]
    assert sorted(answer["files"]) == sorted(files)
    assert len(answer["file_links"]) == 2
    for path in answer["files"]:
        assert place.tool("read_remote_file", remote_path=path)["content"]
    assert run(place, "open('same.txt').read(); None")["files"] == []
    found = blocks(place, "open('new.txt', 'w').close()")
    link, = (b for b in found if b["type"] == "resource_link")
    box = place.box_id.replace(":", "%3A")
    assert link["uri"] == f"sandbox://{box}/files{place.work}/new.txt" and link["name"] == "new.txt"
    assert json.loads(found[0]["text"])["file_links"] == [link["uri"]]
    place.tool("write_remote_file", remote_path="new.txt", content="of a resource")
    assert place.result("resources/read", {"uri": link["uri"]})["contents"][0]["text"] == "of a resource"


def test_too_many_files_are_not_all_looked_at_and_that_is_told(box):
    answer = run(box, "import os\nos.mkdir('many')\nfor i in range(150): open(f'many/{i}', 'w').close()")
    assert len(answer["files"]) == 100 and answer["files_in_all"] == 150 and "note" not in answer
    answer = run(box, "for i in range(150, 2200): open(f'many/{i}', 'w').close()")
    assert "2000" in answer["note"]


def png_size(data):
    raw = base64.b64decode(data)
    assert raw[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", raw[16:24])


def pixels(data):
    """Of an image of 8 bits, RGB or RGBA, without interlacing: {(x, y): colour}."""
    raw, at, body, kind = base64.b64decode(data), 8, b"", 0
    while at < len(raw):
        size, name = struct.unpack(">I4s", raw[at:at + 8])
        part = raw[at + 8:at + 8 + size]
        if name == b"IHDR":
            width, height, depth, kind, *_ = struct.unpack(">IIBBBBB", part)
            assert depth == 8 and kind in (2, 6)
        body += part if name == b"IDAT" else b""
        at += 12 + size
    step, rows, before = 3 if kind == 2 else 4, zlib.decompress(body), b""
    lines = []
    for y in range(height):
        start = y * (width * step + 1)
        how, line = rows[start], bytearray(rows[start + 1:start + 1 + width * step])
        before = before or bytes(len(line))
        for i, byte in enumerate(line):
            a = line[i - step] if i >= step else 0
            b, c = before[i], before[i - step] if i >= step else 0
            p = a + b - c
            paeth = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
            line[i] = (byte + (0, a, b, (a + b) // 2, paeth)[how]) & 255
        before = bytes(line)
        lines.append(before)
    return lambda x, y: tuple(lines[y][x * step:x * step + 3])


def needs(place, module):
    if run(place, f"import {module}")["exit_code"] != 0:
        pytest.skip(f"there is no {module} here")


def test_pictures_and_figures_of_libraries_that_are_like_the_real_ones(box):
    """The real ones are not on every machine; what is asked of them is little."""
    box.tool("write_remote_file", remote_path="matplotlib/__init__.py", content="")
    box.tool("write_remote_file", remote_path="matplotlib/pyplot.py", content="""
import os, struct, zlib
open_figures = {}
class Figure:
    dpi = 100
    def savefig(self, to, format, dpi):
        assert format == "png" and os.environ["MPLBACKEND"] == "Agg"
        def chunk(n, d): return struct.pack(">I", len(d)) + n + d + struct.pack(">I", zlib.crc32(n + d))
        w = int(4 * dpi / 100)
        noise = getattr(self, "noise", 0)
        line = b"\\0" + bytes([255, 0, 0]) * w
        to.write(b"\\x89PNG\\r\\n\\x1a\\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", w, 2, 8, 2, 0, 0, 0))
                 + chunk(b"IDAT", zlib.compress(line * 2)) + chunk(b"tEXt", os.urandom(int(noise * dpi / 100)))
                 + chunk(b"IEND", b""))
def figure(n=None):
    return open_figures.setdefault(n or len(open_figures) + 1, Figure())
def get_fignums(): return list(open_figures)
def close(which): open_figures.clear()
""")
    found = blocks(box, "import matplotlib.pyplot as plt\nplt.figure(); plt.figure(); None")
    images = [b for b in found if b["type"] == "image"]
    assert len(images) == 2 and all(i["mimeType"] == "image/png" for i in images)
    assert png_size(images[0]["data"]) == (4, 2) and pixels(images[0]["data"])(3, 1) == (255, 0, 0)
    assert all(b["type"] != "image" for b in blocks(box, "1")), "they are closed once they were shown"
    found = blocks(box, "f = plt.figure(); f.noise = 600_000; None")
    small, = (b for b in found if b["type"] == "image")
    assert png_size(small["data"]) == (2, 2), "one that is too large is made smaller"
    found = blocks(box, "for i in range(9): plt.figure(i + 1).noise = 100_000\n")
    text = json.loads(found[0]["text"])
    assert 1 <= len([b for b in found if b["type"] == "image"]) < 9 and "left out" in text["note"]


def test_figures_of_matplotlib(box):
    needs(box, "matplotlib")
    found = blocks(box, "import matplotlib.pyplot as plt\nfig = plt.figure(figsize=(2, 1), dpi=50, facecolor='#ff0000')\n"
                          "fig2 = plt.figure(figsize=(1, 1), dpi=50, facecolor='#0000ff')\nNone")
    red, blue = (b["data"] for b in found if b["type"] == "image")
    assert png_size(red) == (100, 50) and png_size(blue) == (50, 50)
    assert pixels(red)(5, 5) == (255, 0, 0) and pixels(blue)(20, 20) == (0, 0, 255)
    assert value(box, "plt.get_fignums()") == "[]"


def test_pictures_of_pil(box):
    needs(box, "PIL")
    found = blocks(box, "from PIL import Image\nImage.new('RGB', (8, 4), (1, 2, 3))")
    image, = (b["data"] for b in found if b["type"] == "image")
    assert png_size(image) == (8, 4) and pixels(image)(7, 3) == (1, 2, 3)
    assert "result" not in json.loads(found[0]["text"])


def test_data_frames_are_short_tables(box):
    needs(box, "pandas")
    text = value(box, "import pandas as pd\npd.DataFrame({'n': range(5000), 'name': 'x' * 10})")
    assert text.count("\n") < 30 and "[5000 rows x 2 columns]" in text
    assert "4999" in value(box, "pd.Series(range(5000))")


# ---- where there is no Python -------------------------------------------------------------------

def test_a_sandbox_without_python_is_told(client):
    client.tool("create_sandbox", name="bare", env={"PATH": "/nonexistent"})
    error = client.tool_error("execute_python_code", code="1")
    assert error["code"] == "not_found" and "python3" in error["error"]


def test_no_sandbox_is_made_for_nothing_else_than_code(client):
    answer = client.tool("execute_python_code", code="40 + 2")
    assert answer["result"] == "42" and "made" in answer["note"]


def test_the_shape_of_mcp_sandbox(host):
    client = host.server("--toolset", "mcp-sandbox")
    made = client.tool("create_sandbox", name="m")
    answer = client.tool("execute_python_code", sandbox_id=made["sandbox_id"], code="open('plot.txt', 'w').write('x')")
    assert set(answer) >= {"stdout", "stderr", "exit_code", "files", "file_links", "machine_file_links"}
    assert answer["files"] == ["/workspace/plot.txt"] and len(answer["machine_file_links"]) == 1
    with pytest.raises(ToolFailed):
        client.tool("execute_python_code", sandbox_id="nobody", code="1")
