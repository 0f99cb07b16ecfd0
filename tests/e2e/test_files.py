"""list_remote_files, read_remote_file, write_remote_file."""
import base64
import os
import random

import pytest
from host import wait_until

pytestmark = pytest.mark.every_tier


def entries(client, **arguments):
    return client.tool("list_remote_files", **arguments).get("entries", [])


def test_what_is_written_is_read(box):
    answer = box.tool("write_remote_file", remote_path="/workspace/a.txt", content="grüße\n你好\n")
    assert answer["size"] == len("grüße\n你好\n".encode())
    read = box.tool("read_remote_file", remote_path="/workspace/a.txt")
    assert read["content"] == "grüße\n你好\n" and read["truncated"] is False
    assert read["size"] == answer["size"]
    assert box.bash("cat /workspace/a.txt")["stdout"] == "grüße\n你好\n"


@pytest.mark.parametrize("path,real", [("rel.txt", "/workspace/rel.txt"), ("~/h.txt", "/home/user/h.txt"),
                                       ("/tmp/./t/../t.txt", "/tmp/t.txt"), ("sub dir/é 'q\".txt", "/workspace/sub dir/é 'q\".txt")])
def test_paths_are_relative_to_the_work_folder_and_know_the_home(box, path, real):
    box.bash("mkdir -p /tmp/t '/workspace/sub dir'")
    box.tool("write_remote_file", remote_path=path, content="x")
    assert box.tool("read_remote_file", remote_path=real)["content"] == "x"
    assert box.tool("read_remote_file", remote_path=path)["content"] == "x"


def test_missing_folders_are_made(box):
    box.tool("write_remote_file", remote_path="/workspace/a/b/c.txt", content="deep")
    assert box.bash("cat a/b/c.txt")["stdout"] == "deep"


def test_missing_folders_are_told_where_they_shall_not_be_made(box):
    error = box.tool_error("write_remote_file", remote_path="a/b", content="x", create_parents=False)
    assert error["code"] == "not_found" and "create_parents" in error["error"]
    assert box.bash("ls")["stdout"] == ""


def test_an_empty_file_is_a_file(box):
    box.tool("write_remote_file", remote_path="empty", content="")
    read = box.tool("read_remote_file", remote_path="empty")
    assert read["size"] == 0 and read["truncated"] is False and read.get("content", "") == ""


def test_binary_goes_both_ways_as_base64(box):
    data = bytes(range(256)) * 40
    text = base64.b64encode(data).decode()
    box.tool("write_remote_file", remote_path="b.bin", content=text, encoding="base64")
    read = box.tool("read_remote_file", remote_path="b.bin")
    assert read["encoding"] == "base64" and base64.b64decode(read["content"]) == data
    assert box.bash("wc -c < b.bin")["stdout"].strip() == str(len(data))


def test_bad_base64_is_refused_and_nothing_is_written(box):
    error = box.tool_error("write_remote_file", remote_path="b.bin", content="not base64!", encoding="base64")
    assert error["code"] == "invalid"
    assert box.bash("ls")["stdout"] == ""


def test_a_large_file_is_read_in_pieces(box):
    data = "".join(random.Random(3).choices("abcdefgh\n", k=700000))
    box.tool("write_remote_file", remote_path="large", content=data)
    assert box.bash("wc -c < large")["stdout"].strip() == "700000"
    first = box.tool("read_remote_file", remote_path="large")
    assert first["truncated"] is True and len(first["content"]) == 200000
    got, offset = "", 0
    while offset < 700000:
        part = box.tool("read_remote_file", remote_path="large", offset=offset, max_bytes=300000)
        got += part["content"]
        offset += len(part["content"])
        assert part["truncated"] is (offset < 700000)
    assert got == data


def test_reading_past_the_end_gives_nothing(box):
    box.tool("write_remote_file", remote_path="s", content="short")
    read = box.tool("read_remote_file", remote_path="s", offset=100)
    assert read.get("content", "") == "" and read["truncated"] is False


def test_a_cut_inside_a_character_is_no_garbage(box):
    box.tool("write_remote_file", remote_path="u", content="é" * 1000)
    read = box.tool("read_remote_file", remote_path="u", max_bytes=101)
    assert set(read["content"]) == {"é"} or read.get("encoding") == "base64"


@pytest.mark.parametrize("tool,arguments", [
    ("read_remote_file", {"remote_path": "/no/such"}), ("list_remote_files", {"remote_path": "/no/such"})])
def test_a_missing_path_is_named(box, tool, arguments):
    error = box.tool_error(tool, **arguments)
    assert error["code"] == "not_found" and "/no/such" in error["error"]


def test_a_folder_is_not_read_and_a_system_file_not_written(box):
    assert box.tool_error("read_remote_file", remote_path="/workspace")["error"]
    error = box.tool_error("write_remote_file", remote_path="/usr/bin/evil", content="x")
    assert "/usr/bin" in error["error"]
    assert not os.path.exists("/usr/bin/evil")


def test_the_list_is_sorted_and_tells_what_things_are(box):
    box.bash("mkdir -p d/e; printf 12345 > d/e/f; ln -s /etc link; touch -d @1000000000 b")
    flat = entries(box, remote_path="/workspace")
    assert [os.path.basename(e["path"]) for e in flat] == ["b", "d", "link"]
    by_name = {os.path.basename(e["path"]): e for e in flat}
    assert by_name["d"]["is_dir"] is True and by_name["link"]["is_dir"] is False
    assert by_name["b"]["size"] == 0 and int(by_name["b"]["mtime"]) == 1000000000
    deep = entries(box, remote_path="/workspace", recursive=True)
    assert [e["path"].replace("/workspace/", "") for e in deep] == ["b", "d", "d/e", "d/e/f", "link"]
    assert deep[3]["size"] == 5


def test_the_list_ends_at_max_entries_and_says_so(box):
    box.bash("touch $(seq -f f%03.0f 1 30)")
    cut = box.tool("list_remote_files", max_entries=10)
    assert len(cut["entries"]) == 10 and cut["truncated"] is True
    whole = box.tool("list_remote_files", max_entries=30)
    assert len(whole["entries"]) == 30 and whole["truncated"] is False


def test_an_empty_folder_is_an_empty_list(box):
    answer = box.tool("list_remote_files")
    assert answer.get("entries", []) == [] and answer["truncated"] is False


def test_names_that_are_no_utf8_are_listed_as_text(box):
    box.bash("touch $'bad\\xffname' $'line\\nbreak' -- -dash")
    names = [os.path.basename(e["path"]) for e in entries(box, remote_path="/workspace")]
    assert len(names) == 3


def test_writing_is_atomic(box):
    """A reader never sees half a file while it is replaced again and again."""
    size = 300000
    box.tool("write_remote_file", remote_path="f", content="0" * size)
    check = box.start_tool("exec_bash", {"timeout_s": 40, "command":
                           "end=$((SECONDS+4)); while [ $SECONDS -lt $end ]; do "
                           "s=$(tr -s 0-9 < f | wc -c); n=$(wc -c < f); "
                           f"[ $n = {size} ] || echo size $n; [ $s = 1 ] || echo mixed $s; done; echo checked"})
    for i in range(40):
        box.tool("write_remote_file", remote_path="f", content=str(i % 10) * size)
    assert box.finish_tool(check)["stdout"] == "checked\n"
    assert box.bash("ls -A")["stdout"] == "f\n", "no temporary file is left"


def test_the_mode_of_a_replaced_file_stays(box):
    box.bash("echo old > run.sh; chmod 750 run.sh")
    box.tool("write_remote_file", remote_path="run.sh", content="#!/bin/sh\necho new\n")
    assert box.bash("stat -c %a run.sh; ./run.sh")["stdout"] == "750\nnew\n"


def test_files_of_the_tools_belong_to_the_user_of_the_box(box):
    box.tool("write_remote_file", remote_path="mine", content="x")
    assert box.bash("stat -c %U mine; rm mine && echo gone")["stdout"] == "user\ngone\n"


def test_a_link_out_of_the_work_folder_stays_in_the_box(box, host):
    outside = host.folder / "outside"
    outside.write_text("host")
    box.bash(f"ln -s {outside} link; ln -s / root")
    assert box.tool_error("read_remote_file", remote_path="link")["code"] == "not_found"
    box.tool("write_remote_file", remote_path="root/tmp/inside", content="x")
    assert outside.read_text() == "host" and not os.path.exists("/tmp/inside")


def test_a_fifo_and_a_device_do_not_hang_the_reader(box):
    box.bash("mkfifo pipe")
    box.tool_error("read_remote_file", 15, remote_path="pipe")
    answer = None
    try:
        answer = box.tool("read_remote_file", 15, remote_path="/dev/zero", max_bytes=1000)
    except Exception as failed:
        answer = failed.answer
    assert answer
    assert box.bash("echo on")["stdout"] == "on\n"


def test_an_output_that_is_not_kept_any_more_says_so(box):
    error = box.tool_error("read_remote_file", remote_path="output:nothing")
    assert error["code"] in ("not_found", "invalid")


def test_the_outputs_of_other_state_are_not_reachable_by_tricks(box):
    for path in ("output:../../etc/passwd", "output:/etc/passwd", "output:.."):
        assert box.tool_error("read_remote_file", remote_path=path)["code"] in ("not_found", "invalid")


def test_a_full_disk_leaves_the_old_file(client):
    client.tool("create_sandbox", name="small", memory="64m")
    client.tool("write_remote_file", remote_path="f", content="old")
    client.bash("head -c 1000000000 /dev/zero > fill; true", timeout_s=60)
    try:
        client.tool("write_remote_file", remote_path="f", content="n" * 800000)
        fits = True
    except Exception as failed:
        fits = False
        assert failed.answer["code"] in ("limit", "system")
    client.bash("rm fill")
    content = client.tool("read_remote_file", remote_path="f")["content"]
    assert content[:3] == ("nnn" if fits else "old")
    assert wait_until(lambda: client.bash("ls -A")["stdout"] == "f\n", 2)
