"""The one suite of behaviours: what every kind of sandbox does alike. What only one kind does is
in the tests of that kind."""
import base64
import json
import os
import random
import re
import time

import pytest
from host import wait_until
from mcp_client import ToolFailed

TEXTS = ["it's", "$(touch evil)", "`touch evil`", "a;touch evil", "&& touch evil", "| touch evil", "x\ny",
         "!! !x", "\\ \\\\ \\n", '"q"', "*", "-n", "--help", "%s%n", "\u00e4\u20ac", "~", "#", "\t", "${HOME}"]
NAMES = ["plain", "with blank", "it's", '"q"', "$(touch evil)", "`touch evil`", "a;touch evil", "-rf",
         "--help", "line\nbreak", "back\\slash", "*", "?", "[x]", "gr\u00fc\u00dfe \u4f60\u597d", "%s%n",
         "~", "#x", "n" * 255, "\u4f60" * 85]


def nap():
    """A sleep of no other test's, so that its processes can be told apart."""
    return f"sleep {random.randrange(10**6, 10**8)}"


def processes(place):
    """Command lines. On a host there are other people's processes, which are none of ours."""
    return place.bash("for p in /proc/[0-9]*; do [ -O $p ] && tr '\\0' ' ' < $p/cmdline; echo; done 2>/dev/null",
                      max_output_chars=1_000_000)["stdout"]


def entries(place, **arguments):
    return place.tool("list_remote_files", **arguments).get("entries", [])


# ---- commands ---------------------------------------------------------------------------------

def test_the_answer_has_all_its_fields(place):
    answer = place.bash("echo out; echo err >&2; exit 3")
    assert (answer["exit_code"], answer["stdout"], answer["stderr"]) == (3, "out\n", "err\n")
    assert 0 <= answer["duration"] < 30
    assert not answer.get("timed_out") and not answer.get("connection_error")
    silent = place.bash("true")
    assert (silent["exit_code"], silent["stdout"], silent["stderr"]) == (0, "", "")


def test_exit_codes_are_the_commands_own(place):
    for code in 0, 1, 2, 124, 125, 126, 127, 128, 137, 255:
        answer = place.bash(f"exit {code}")
        assert answer["exit_code"] == code
        assert not answer.get("timed_out") and not answer.get("signal"), code


def test_a_command_that_fails_is_no_error_of_the_tool(place):
    result = place.result("tools/call", {"name": "exec_bash", "arguments": {"command": "false"}})
    assert not result.get("isError")


def test_a_missing_program_is_bashs_business(place):
    answer = place.bash("no-such-program-here")
    assert answer["exit_code"] == 127 and "not found" in answer["stderr"]


def test_a_text_that_bash_cannot_read_is_bashs_business(place):
    answer = place.bash("echo 'not closed")
    assert answer["exit_code"] != 0 and "EOF" in answer["stderr"] and answer["stdout"] == ""


def test_a_signal_is_told_apart_from_an_exit(place):
    for name, number in ("KILL", 9), ("SEGV", 11), ("TERM", 15), ("ABRT", 6):
        answer = place.bash(f"kill -{name} $$")
        assert (answer["signal"], answer["exit_code"]) == (f"SIG{name}", 128 + number)
        assert not answer.get("timed_out") and not answer.get("oom_killed")


def test_it_is_bash_and_not_a_login_shell(place):
    answer = place.bash('[[ -n $BASH_VERSION ]] && echo bash; shopt -q login_shell && echo login; tty')
    assert answer["stdout"] == "bash\nnot a tty\n"


def test_env_and_stdin_reach_the_command(place):
    answer = place.bash('echo "$GREETING"; cat', env={"GREETING": "hé llo", "EMPTY": ""}, stdin="line 1\nline 2")
    assert answer["stdout"] == "hé llo\nline 1\nline 2"


def test_env_holds_for_one_call_only(place):
    place.bash("true", env={"ONLY": "once"})
    assert place.bash('echo "[${ONLY-}]"')["stdout"] == "[]\n"


def test_without_stdin_reading_ends_at_once(place):
    answer = place.bash("cat; read x; echo $?", timeout_s=20)
    assert answer["stdout"] == "1\n" and answer["duration"] < 15


def test_a_megabyte_of_stdin_arrives_whole(place):
    text = "0123456789abcde\n" * 65536
    assert place.bash("wc -c; echo end", stdin=text)["stdout"].split() == [str(len(text)), "end"]


def test_stdin_that_nobody_reads_does_no_harm(place):
    assert place.bash("echo done", stdin="x" * 500000)["stdout"] == "done\n"


def test_the_working_folder(place):
    place.bash("mkdir -p ~/\"sub dir\" ./rel \"./it's \\\"\\$(x)\" ./é ./-dash")
    home, work = place.home, place.work
    for cwd, expected in ((None, work), ("", work), ("/tmp", "/tmp"), ("/", "/"), ("~", home), ("~/", home),
                          ("~/sub dir", f"{home}/sub dir"), ("rel", f"{work}/rel"), (f"{work}/é", f"{work}/é"),
                          ("it's \"$(x)", f"{work}/it's \"$(x)"), ("-dash", f"{work}/-dash")):
        assert place.bash("pwd", cwd=cwd)["stdout"] == expected + "\n", cwd


def test_a_working_folder_that_is_not_there_is_an_error_that_names_it(place):
    error = place.tool_error("exec_bash", command="echo ran", cwd="/no/such/folder")
    assert error["code"] == "not_found" and "/no/such/folder" in error["error"]


def test_texts_reach_no_shell_unquoted(place):
    for text in TEXTS:
        answer = place.bash("printf '[%s]' \"$V\"; cat", env={"V": text}, stdin=text)
        assert answer["stdout"] == f"[{text}]{text}"
        assert place.tool_error("exec_bash", command="true", cwd=f"nowhere/{text}")["code"] == "not_found"
    assert place.bash("ls -d evil */evil")["exit_code"] == 2


@pytest.mark.parametrize("name", ["A B", "1A", "A-B", "A;touch evil", "$(touch evil)", "A=B", "A\nB", "é", ""])
def test_names_of_variables_that_are_none_do_no_harm(place, name):
    try:
        place.bash("true", env={name: "x"})
    except ToolFailed as failed:
        assert failed.answer["code"] == "invalid" and len(failed.answer["error"]) < 400
    assert place.bash("ls")["stdout"] == ""


@pytest.mark.parametrize("name", ["$(touch evil)", "work;touch evil", "wor", "../work", "x" * 5000])
def test_a_name_of_no_sandbox_reaches_nothing(place, name):
    for tool, more in ("exec_bash", {"command": "true"}), ("read_remote_file", {"remote_path": "x"}), \
                      ("select_sandbox", {}):
        assert place.tool_error(tool, sandbox_name=name, **more)["code"] in ("not_found", "invalid")
    assert place.bash("ls")["stdout"] == ""


def test_unicode_goes_through(place):
    answer = place.bash("echo 'grüße 你好 🎉'; echo 'ü' >&2")
    assert (answer["stdout"], answer["stderr"]) == ("grüße 你好 🎉\n", "ü\n")


def test_output_without_a_last_newline_is_kept_as_it_is(place):
    answer = place.bash("printf out; printf err >&2")
    assert (answer["stdout"], answer["stderr"]) == ("out", "err")


def test_binary_output_becomes_valid_text(place):
    answer = place.bash("printf 'a\\377\\000b\\xc3\\n'; head -c 2000 /dev/urandom")
    assert answer["exit_code"] == 0
    assert "\0" not in answer["stdout"] and "�" in answer["stdout"]
    assert answer["stdout"].startswith("a") and "b" in answer["stdout"]


def test_escapes_are_stripped_and_progress_bars_collapse(place):
    answer = place.bash("printf '\\033[31mred\\033[0m \\033]0;title\\007plain\\n'; "
                        "for i in 1 2 3; do printf '\\r%d0%%' $i; done; echo")
    if place.provider == "opensandbox":  # the platform tells lines, and each "\r" ends one
        assert answer["stdout"] == "red plain\n\n10%\n20%\n30%\n"
    else:
        assert answer["stdout"] == "red plain\n30%\n"


def test_windows_line_ends_are_kept_readable(place):
    assert place.bash("printf 'one\\r\\ntwo\\r\\n'")["stdout"].split() == ["one", "two"]


def test_long_output_keeps_head_and_tail_and_the_whole_is_readable(place):
    answer = place.bash("seq 1 100000")
    text = answer["stdout"]
    assert text.startswith("1\n2\n") and text.endswith("99999\n100000\n")
    assert len(text) < 21000
    reference = re.search(r"output:[0-9a-zA-Z-]+", json.dumps(answer))
    assert reference, "the marker says how to get the rest"
    whole = "".join(f"{i}\n" for i in range(1, 100001))
    got = ""
    while True:
        part = place.tool("read_remote_file", remote_path=reference.group(), offset=len(got))
        got += part.get("content", "")
        if not part["truncated"]:
            break
    assert got == whole


def test_each_stream_is_bounded_for_itself(place):
    answer = place.bash("head -c 3000000 /dev/zero | tr '\\0' x >&2; echo end >&2; echo short", max_output_chars=1000)
    assert answer["truncated"] is True and len(answer["stderr"]) < 2000
    assert answer["stdout"] == "short\n" and answer["stderr"].endswith("xend\n")


def test_max_output_chars_counts_characters(place):
    answer = place.bash("for i in $(seq 500); do printf é; done", max_output_chars=100)
    assert answer["stdout"].count("é") in range(90, 101)
    assert place.bash("printf %05000d 7", max_output_chars=6000)["stdout"] == "7".zfill(5000)


def test_endless_output_costs_bounded_memory(place):
    if place.provider == "opensandbox":
        pytest.skip("its execd writes output to files without end; test_opensandbox.py has a flood of events")
    answer = place.bash("timeout 3 yes", timeout_s=30)
    assert answer["stdout"].startswith("y\n") and len(answer["stdout"]) < 21000
    with open(f"/proc/{place.pid}/status", encoding="ascii") as status:
        assert int(status.read().split("VmRSS:")[1].split()[0]) < 150 * 1024


def test_output_written_before_the_end_is_complete(place):
    for _ in range(20):
        answer = place.bash("seq 1 2000; echo last >&2")
        assert answer["stdout"].endswith("\n2000\n") and answer["stderr"] == "last\n"


def test_a_time_out_kills_the_whole_group_and_keeps_what_was_printed(place):
    one, two = nap(), nap()
    began = time.monotonic()
    answer = place.bash(f"echo before; {one} & {two}", timeout_s=3)
    assert 2.9 < time.monotonic() - began < 30
    assert (answer["timed_out"], answer["exit_code"], answer["stdout"]) == (True, 124, "before\n")
    assert "[TIMEOUT]" in answer["stderr"]
    assert wait_until(lambda: not any(n in processes(place) for n in (one, two)), pause=0.2)


def test_a_time_out_kills_what_ignores_term(place):
    one, two = nap(), nap()
    answer = place.bash(f"trap '' TERM; (trap '' TERM; {one}) & {two}; {two}", timeout_s=2)
    assert answer["timed_out"] is True
    assert wait_until(lambda: not any(n in processes(place) for n in (one, two)), pause=0.2)


def test_a_cancelled_call_kills_the_command(place):
    one, two = nap(), nap()
    future = place.start_tool("exec_bash", {"command": f"trap '' TERM; {one} & {two}; wait"})
    assert wait_until(lambda: two in processes(place), pause=0.1)
    place.cancel(future.request_id)
    assert wait_until(lambda: not any(n in processes(place) for n in (one, two)), pause=0.2)
    assert not future.done()
    assert place.bash("echo on")["stdout"] == "on\n"


def test_a_background_process_neither_hangs_the_answer_nor_dies_with_it(place):
    long = nap()
    began = time.monotonic()
    answer = place.bash(f"{long} & echo started")
    assert answer["stdout"] == "started\n" and time.monotonic() - began < 30
    assert wait_until(lambda: long in processes(place), pause=0.2)


def test_a_command_of_one_mebibyte_runs_or_is_refused_with_a_way_out(place):
    try:
        answer = place.bash("true '" + "x" * (1 << 20) + "'; echo ran")
        assert answer["stdout"] == "ran\n"
    except ToolFailed as failed:
        assert failed.answer["code"] in ("limit", "invalid")
        assert len(failed.answer["error"]) < 1000
    assert place.bash("echo on")["stdout"] == "on\n"


def test_a_command_of_100_kib_runs(place):
    assert place.bash("echo " + "y" * 100000 + " | wc -c")["stdout"].strip() == "100001"


def test_calls_run_side_by_side(place):
    place.bash("mkdir side")
    each = "touch side/$$; until set -- side/*; [ $# -eq 10 ]; do sleep 0.1; done; echo $$"  # waits for the others
    calls = [place.start_tool("exec_bash", {"command": each, "timeout_s": 50}) for _ in range(10)]
    assert len({place.finish_tool(c)["stdout"] for c in calls}) == 10


def test_progress_grows_and_ends_with_the_call(place):
    future = place.start_tool("exec_bash", {"command": "for i in 1 2 3 4; do echo step $i; sleep 0.5; done"},
                              progress_token="t")
    assert place.finish_tool(future)["exit_code"] == 0
    heard = place.progress("t")
    assert heard, "two seconds of work and no progress"
    numbers = [p["progress"] for p in heard]
    assert numbers == sorted(set(numbers))
    assert any("step" in p.get("message", "") for p in heard)
    seen = len(place.notifications)
    time.sleep(0.3)
    assert len(place.notifications) == seen, "progress after the answer"


# ---- which one --------------------------------------------------------------------------------

def test_it_is_listed_with_where_it_is_and_that_it_answers(place):
    listed = place.tool("list_sandboxes")
    shown, = (b for b in listed["sandboxes"] if b["sandbox_id"] == place.box_id)
    assert listed["active_sandbox"] == place.name == shown["name"]
    assert (shown["provider"], shown["is_active"], shown["connection_alive"]) == (place.provider, True, True)
    assert {"host", "port", "user"} <= set(shown) and "connection_error" not in shown
    active = place.tool("get_active_sandbox")
    assert (active["active_sandbox"], active["sandbox_id"]) == (place.name, place.box_id)
    assert active["connection_alive"] is True


def test_its_resources_are_told_when_asked(place):
    shown, = place.tool("list_sandboxes", check_resources=True)["sandboxes"]
    seen = shown["resources"]
    assert seen["cpu"]["count"] >= 1 and seen["memory"]["total_mb"] > 0 and isinstance(seen["gpu"], list)
    assert 0 <= seen["idle_score"] <= 1
    assert "resources" not in place.tool("list_sandboxes")["sandboxes"][0]


def test_it_is_meant_by_name_and_id_and_selected_by_both(place):
    for which in {"sandbox_name": place.name}, {"sandbox_id": place.box_id}, {"sandbox_id": place.name}, {}:
        assert place.bash("echo $((6*7))", **which)["stdout"] == "42\n", which
    for which in {"sandbox_name": place.name}, {"sandbox_id": place.box_id}:
        assert place.tool("select_sandbox", **which)["active_sandbox"] == place.name
    error = place.tool_error("select_sandbox", sandbox_name="nobody")
    assert error["code"] == "not_found" and place.name in error["error"]


# ---- files ------------------------------------------------------------------------------------

def test_what_is_written_is_read(place):
    answer = place.tool("write_remote_file", remote_path=f"{place.work}/a.txt", content="grüße\n你好\n")
    assert answer["size"] == len("grüße\n你好\n".encode())
    read = place.tool("read_remote_file", remote_path="a.txt")
    assert read["content"] == "grüße\n你好\n" and read["truncated"] is False
    assert read["size"] == answer["size"]
    assert place.bash("cat a.txt; stat -c %U a.txt; stat -c %a a.txt")["stdout"] == f"grüße\n你好\n{place.user}\n644\n"


def test_paths_are_relative_to_the_work_folder_and_know_the_home(place):
    place.bash("mkdir -p t 'sub dir'")
    for path, real in (("rel.txt", f"{place.work}/rel.txt"), ("~/h.txt", f"{place.home}/h.txt"),
                       (f"{place.work}/./t/../t.txt", f"{place.work}/t.txt"),
                       ("sub dir/é 'q\".txt", f"{place.work}/sub dir/é 'q\".txt")):
        place.tool("write_remote_file", remote_path=path, content=path)
        assert place.tool("read_remote_file", remote_path=real)["content"] == path
        assert place.tool("read_remote_file", remote_path=path)["content"] == path


def test_names_of_files_are_only_names(place):
    for name in NAMES:
        path = f"./names/{name}"
        place.tool("write_remote_file", remote_path=path, content=name)
        assert place.tool("read_remote_file", remote_path=path)["content"] == name
    listed = entries(place, remote_path="names")
    assert len(listed) == len(NAMES)
    assert {os.path.basename(e["path"]) for e in listed} >= {n for n in NAMES if "\n" not in n}
    assert place.bash("ls; ls names | grep -cx evil")["stdout"] == "names\n0\n"
    error = place.tool_error("write_remote_file", remote_path="./" + "n" * 256, content="x")
    assert error["code"] in ("invalid", "system", "not_found", "limit")


def test_names_that_are_no_utf8_are_listed_as_text(place):
    place.bash("mkdir odd; cd odd; touch $'bad\\xffname' $'line\\nbreak' -- -dash")
    assert len(entries(place, remote_path="odd")) == 3


def test_missing_folders_are_made(place):
    place.tool("write_remote_file", remote_path="a/b/c.txt", content="deep")
    assert place.bash("cat a/b/c.txt")["stdout"] == "deep"


def test_missing_folders_are_told_where_they_shall_not_be_made(place):
    error = place.tool_error("write_remote_file", remote_path="a/b", content="x", create_parents=False)
    assert error["code"] == "not_found" and "create_parents" in error["error"]
    assert place.bash("ls")["stdout"] == ""


def test_an_empty_file_is_a_file(place):
    place.tool("write_remote_file", remote_path="empty", content="")
    read = place.tool("read_remote_file", remote_path="empty")
    assert read["size"] == 0 and read["truncated"] is False and read.get("content", "") == ""


def test_binary_goes_both_ways_as_base64(place):
    data = bytes(range(256)) * 40
    text = base64.b64encode(data).decode()
    place.tool("write_remote_file", remote_path="b.bin", content=text, encoding="base64")
    read = place.tool("read_remote_file", remote_path="b.bin")
    assert read["encoding"] == "base64" and base64.b64decode(read["content"]) == data
    part = place.tool("read_remote_file", remote_path="b.bin", offset=250, max_bytes=20)
    assert base64.b64decode(part["content"]) == data[250:270] and part["truncated"] is True
    assert part["file_size"] == len(data)
    assert place.bash("wc -c < b.bin")["stdout"].strip() == str(len(data))


def test_bad_base64_is_refused_and_nothing_is_written(place):
    error = place.tool_error("write_remote_file", remote_path="b.bin", content="not base64!", encoding="base64")
    assert error["code"] == "invalid"
    assert place.bash("ls")["stdout"] == ""


def test_a_large_file_is_read_in_pieces(place):
    data = "".join(random.Random(3).choices("abcdefgh\n", k=700000))
    place.tool("write_remote_file", remote_path="large", content=data)
    assert place.bash("wc -c < large")["stdout"].strip() == "700000"
    first = place.tool("read_remote_file", remote_path="large")
    assert first["truncated"] is True and len(first["content"]) == 200000
    got, offset = "", 0
    while offset < 700000:
        part = place.tool("read_remote_file", remote_path="large", offset=offset, max_bytes=300000)
        got += part["content"]
        offset += len(part["content"])
        assert part["truncated"] is (offset < 700000)
    assert got == data


def test_reading_past_the_end_gives_nothing(place):
    place.tool("write_remote_file", remote_path="s", content="short")
    read = place.tool("read_remote_file", remote_path="s", offset=100)
    assert read.get("content", "") == "" and read["truncated"] is False


def test_a_part_of_a_file_is_downloaded(place):
    place.bash("printf 0123456789 > part")
    got, = place.tool("download_files", paths=["part"], offset=2, length=3)["files"]
    assert got["content"] == "MjM0" and got["truncated"] is True and got["next_offset"] == 5


def test_a_cut_inside_a_character_is_no_garbage(place):
    place.tool("write_remote_file", remote_path="u", content="é" * 1000)
    read = place.tool("read_remote_file", remote_path="u", max_bytes=101)
    assert set(read["content"]) == {"é"} or read.get("encoding") == "base64"


def test_a_missing_path_is_named(place):
    for tool in "read_remote_file", "list_remote_files":
        error = place.tool_error(tool, remote_path="/no/such")
        assert error["code"] == "not_found" and "/no/such" in error["error"]


def test_what_may_not_be_read_or_written_is_said(place):
    place.bash("echo secret > closed; chmod 0 closed; mkdir shut; chmod 0 shut; mkdir fixed; chmod 500 fixed")
    for tool, more in (("read_remote_file", {"remote_path": "closed"}),
                       ("list_remote_files", {"remote_path": "shut"}),
                       ("write_remote_file", {"remote_path": "fixed/x", "content": "x"}),
                       ("write_remote_file", {"remote_path": "/usr/bin/anybox-evil", "content": "x"})):
        error = place.tool_error(tool, **more)
        assert error["code"] in ("denied", "system") and more["remote_path"].split("/")[-1] in error["error"], error
    assert not os.path.exists("/usr/bin/anybox-evil")
    place.bash("chmod 700 shut fixed")


def test_a_folder_is_not_a_file_and_a_file_no_folder(place):
    place.bash("mkdir d; echo x > f")
    assert place.tool_error("read_remote_file", remote_path="d")["error"]
    assert place.tool_error("write_remote_file", remote_path="d", content="x")["error"]
    assert place.tool_error("list_remote_files", remote_path="f")["error"]
    assert place.tool_error("write_remote_file", remote_path="f/x", content="x")["error"]
    assert place.bash("cat f; ls d")["stdout"] == "x\n"


def test_the_list_is_sorted_and_tells_what_things_are(place):
    place.bash("mkdir -p top/d/e; cd top; printf 12345 > d/e/f; ln -s /etc link; touch -d @1000000000 b")
    flat = entries(place, remote_path=f"{place.work}/top")
    assert [os.path.basename(e["path"]) for e in flat] == ["b", "d", "link"]
    by_name = {os.path.basename(e["path"]): e for e in flat}
    assert by_name["d"]["is_dir"] is True and by_name["link"]["is_dir"] is False
    assert by_name["b"]["size"] == 0 and int(by_name["b"]["mtime"]) == 1000000000
    deep = entries(place, remote_path="top", recursive=True)
    assert [e["path"].rpartition("top/")[2] for e in deep] == ["b", "d", "d/e", "d/e/f", "link"]
    assert deep[3]["size"] == 5


def test_the_list_ends_at_max_entries_and_says_so(place):
    place.bash("mkdir many; cd many; touch $(seq -f f%03.0f 1 30)")
    cut = place.tool("list_remote_files", remote_path="many", max_entries=10)
    assert len(cut["entries"]) == 10 and cut["truncated"] is True
    whole = place.tool("list_remote_files", remote_path="many", max_entries=30)
    assert len(whole["entries"]) == 30 and whole["truncated"] is False


def test_an_empty_folder_is_an_empty_list(place):
    place.bash("mkdir none")
    answer = place.tool("list_remote_files", remote_path="none")
    assert answer.get("entries", []) == [] and answer["truncated"] is False


def test_writing_is_atomic(place):
    """A reader never sees half a file while it is replaced again and again."""
    size = 300000
    place.tool("write_remote_file", remote_path="d/f", content="0" * size)
    check = place.start_tool("exec_bash", {"timeout_s": 60, "command":
                             "while [ ! -e stop ]; do s=$(tr -s 0-9 < d/f | wc -c); n=$(wc -c < d/f); "
                             f"[ $n = {size} ] || echo size $n; [ $s = 1 ] || echo mixed $s; done; echo checked"})
    for i in range(40):
        place.tool("write_remote_file", remote_path="d/f", content=str(i % 10) * size)
    place.bash("touch stop")
    assert place.finish_tool(check)["stdout"] == "checked\n"
    assert place.bash("ls -A d")["stdout"] == "f\n", "no temporary file is left"


def test_replacing_keeps_the_mode_and_the_link(place):
    place.bash("echo old > run.sh; chmod 750 run.sh; ln -s run.sh link")
    place.tool("write_remote_file", remote_path="link", content="#!/bin/sh\necho new\n")
    assert place.bash("stat -c %a run.sh; ./run.sh; readlink link")["stdout"] == "750\nnew\nrun.sh\n"


def test_a_fifo_and_a_device_do_not_hang_the_reader(place):
    place.bash("mkfifo pipe")
    place.tool_error("read_remote_file", remote_path="pipe")
    try:
        assert place.tool("read_remote_file", remote_path="/dev/zero", max_bytes=1000)["size"] == 1000
    except ToolFailed as failed:
        assert failed.answer["error"]
    assert place.bash("echo on")["stdout"] == "on\n"


def test_files_and_commands_go_side_by_side(place):
    place.bash("true")
    calls = []
    for i in range(8):
        calls.append(place.start_tool("write_remote_file", {"remote_path": f"p/{i}", "content": str(i) * 200000}))
        calls.append(place.start_tool("exec_bash", {"command": f"sleep 0.3; echo {i}"}))
    answers = [place.finish_tool(c) for c in calls]
    assert [a["stdout"] for a in answers[1::2]] == [f"{i}\n" for i in range(8)]
    reads = [place.start_tool("read_remote_file", {"remote_path": f"p/{i}"}) for i in range(8)]
    assert [place.finish_tool(c)["content"] for c in reads] == [str(i) * 200000 for i in range(8)]
