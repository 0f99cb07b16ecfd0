"""Files on SSH hosts, by SFTP."""
import base64
import os
import stat
import subprocess

import pytest

from mcp_client import ToolFailed

pytestmark = pytest.mark.only_tiers("root")


def test_write_read_list(ssh, world):
    ssh.tool("write_remote_file", remote_path="~/d/e/a b.txt", content="h\u00e4llo\n")
    path = world.user.home / "d/e/a b.txt"
    assert path.read_text() == "h\u00e4llo\n" and stat.S_IMODE(path.stat().st_mode) == 0o644
    assert ssh.tool("read_remote_file", remote_path="d/e/a b.txt")["content"] == "h\u00e4llo\n"
    assert ssh.tool("read_remote_file", remote_path=str(path))["size"] == 7
    listed = ssh.tool("list_remote_files", remote_path="d", recursive=True)
    assert [e["path"] for e in listed["entries"]] == ["d/e", "d/e/a b.txt"]
    assert [e["is_dir"] for e in listed["entries"]] == [True, False]
    assert os.listdir(path.parent) == ["a b.txt"]  # nothing temporary


def test_replacing_keeps_the_mode_and_the_link(ssh, world):
    target = world.user.home / "prog"
    world.user.write("prog", "old")
    target.chmod(0o750)
    (world.user.home / "ln").symlink_to("prog")
    ssh.tool("write_remote_file", remote_path="ln", content="new")
    assert target.read_text() == "new" and stat.S_IMODE(target.stat().st_mode) == 0o750
    assert (world.user.home / "ln").is_symlink()


def test_refusals_are_sentences(ssh, world):
    for path, words in (("nope", "no such file"), ("/proc/1/environ", "denied"), (".", "folder")):
        with pytest.raises(ToolFailed, match=words):
            ssh.tool("read_remote_file", remote_path=path)
    with pytest.raises(ToolFailed, match="denied"):
        ssh.tool("write_remote_file", remote_path="/etc/anybox-test", content="x")
    with pytest.raises(ToolFailed, match="not a folder|no such"):
        ssh.tool("list_remote_files", remote_path="~/.bashrc-none")


def test_large_files_and_offsets(ssh, world):
    data = os.urandom(3_000_000)
    (world.user.home / "large").write_bytes(data)
    got = ssh.tool("read_remote_file", remote_path="large", offset=1_234_567, max_bytes=50_000)
    assert base64.b64decode(got["content"]) == data[1_234_567:1_284_567]
    assert got["file_size"] == len(data)


def test_a_full_disk_is_told_and_leaves_nothing(ssh, world):
    folder = world.user.home / "small"
    folder.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k,mode=777", "none", str(folder)], check=True)
    try:
        with pytest.raises(ToolFailed, match="full"):
            ssh.tool("write_remote_file", remote_path="small/f", content="x" * 200_000)
        assert os.listdir(folder) == []
        ssh.tool("write_remote_file", remote_path="small/f", content="fits")
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)
