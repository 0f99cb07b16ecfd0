"""File tools in local boxes, and outputs that were kept. What every kind of sandbox does alike
is in test_behaviours.py."""
import os

import pytest
from host import wait_until

pytestmark = pytest.mark.every_tier


def test_a_link_out_of_the_work_folder_stays_in_the_box(box, host):
    outside = host.folder / "outside"
    outside.write_text("host")
    box.bash(f"ln -s {outside} link; ln -s / root")
    assert box.tool_error("read_remote_file", remote_path="link")["code"] == "not_found"
    box.tool("write_remote_file", remote_path="root/tmp/inside", content="x")
    assert outside.read_text() == "host" and not os.path.exists("/tmp/inside")


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
    assert wait_until(lambda: client.bash("ls -A")["stdout"] == "f\n")
