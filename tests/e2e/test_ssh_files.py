"""Files on SSH hosts, by SFTP: what is not alike everywhere (test_behaviours.py)."""
import base64
import os
import subprocess

import pytest

from mcp_client import ToolFailed

pytestmark = pytest.mark.only_tiers("root")


def test_large_files_and_offsets(ssh, world):
    data = os.urandom(3_000_000)
    (world.user.home / "large").write_bytes(data)
    got = ssh.tool("read_remote_file", remote_path="large", offset=1_234_567, max_bytes=50_000)
    assert base64.b64decode(got["content"]) == data[1_234_567:1_284_567]
    assert got["file_size"] == len(data)


def test_deep_folders_are_listed_and_made(ssh, world):
    deep = "/".join(["d"] * 150)
    ssh.tool("write_remote_file", remote_path=f"{deep}/f", content="x")
    assert ssh.tool("read_remote_file", remote_path=f"{deep}/f")["content"] == "x"
    listed = ssh.tool("list_remote_files", remote_path="d", recursive=True, max_entries=1000)
    assert len(listed["entries"]) >= 128, "deeper ones may be left out"
    paths = [e["path"] for e in listed["entries"]]
    assert paths == sorted(paths)


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
