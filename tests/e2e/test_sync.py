"""sync_local_to_remote, sync_remote_to_local and their relatives, in each kind of sandbox: what arrives
is what was there, nothing else is touched, and what cannot be is told in a sentence."""
import base64
import contextlib
import hashlib
import json
import os
import pathlib
import pty
import re
import shutil
import subprocess

import pytest
from host import IS_ROOT
from http_server import HttpServer
from mcp_client import MODERN, ToolFailed

ERAS = ["2025-06-18", "2025-11-25", MODERN]
ODD = [b"new\nline", b"quote\"'`$(id)", b"-rf", b"x" * 255, b"\xff\xfe not utf-8", b" space ", b"*", b"back\\slash",
       "ünï 汉".encode(), b"semi;colon", b"#hash", b"!bang", b"~"]


def put(host, path, text="x", mode=None, when=None):
    """A file of the project, owned by who runs the server."""
    path = host.project / path if not isinstance(path, bytes) else os.path.join(os.fsencode(host.project), path)
    folder = os.path.dirname(os.fsencode(path))
    os.makedirs(folder, exist_ok=True)
    with open(path, "wb") as f:
        f.write(text if isinstance(text, bytes) else text.encode())
    if mode is not None:
        os.chmod(path, mode)
    if when is not None:
        os.utime(path, (when, when))
    own(host, host.project)
    return path


def own(host, folder):
    if host.tier.switches:
        subprocess.run(["chown", "-hR", str(host.tier.uid), str(folder)], check=True)


def look(folder):
    """Everything below a folder: type, permissions, seconds, contents."""
    found = {}
    folder = os.fsencode(folder)
    for top, dirs, files in os.walk(folder):
        for name in dirs + files:
            path = os.path.join(top, name)
            st = os.lstat(path)
            rel = os.path.relpath(path, folder)
            if os.path.islink(path):
                found[rel] = ("link", os.readlink(path))
            elif os.path.isdir(path):
                found[rel] = ("dir", oct(st.st_mode & 0o777), int(st.st_mtime))
            else:
                with open(path, "rb") as f:
                    found[rel] = ("file", oct(st.st_mode & 0o777), int(st.st_mtime), f.read())
    return found


def up(client, **arguments):
    return client.tool("sync_local_to_remote", **arguments)


def down(client, **arguments):
    return client.tool("sync_remote_to_local", **arguments)


def refused(call, client, **arguments):
    with pytest.raises(ToolFailed) as failed:
        call(client, **arguments)
    return failed.value.answer


def inside(client, command):
    return client.tool("exec_bash", command=command)["stdout"]


# ---- the same on both sides ---------------------------------------------------------------------


def grow(host):
    put(host, "src/a.txt", "hello", 0o755, 1_000_000_000)
    put(host, "src/sub/deep/er/b.bin", os.urandom(200_000), 0o600, 1_100_000_000)
    put(host, "src/empty", b"", 0o444)
    (host.project / "src/void").mkdir(mode=0o700)
    os.symlink("../a.txt", host.project / "src/sub/link")
    os.symlink("/nowhere", host.project / "src/dangling")
    os.symlink("sub", host.project / "src/folder-link")
    os.utime(host.project / "src/sub", (1_200_000_000, 1_200_000_000))
    own(host, host.project)


def test_up_edit_down(place, host):
    grow(host)
    first = up(place, local_path="src", remote_path="copy")
    assert first["mode"] == "inline" and first["synced_type"] == "directory", first
    assert first["local_path"] == str(host.project / "src") and first["remote_path"] == "copy"
    assert first["uploaded_files"] == 6 and first["uploaded_dirs"] == 5 and first["skipped_files"] == 0
    assert first["deleted_files"] == first["deleted_dirs"] == 0 and first["delete_extras"] is False
    assert first["duration_s"] >= 0
    seen = inside(place, "cd copy && cat a.txt && stat -c '%a %Y' a.txt sub sub/deep/er/b.bin && readlink sub/link dangling")
    assert seen == "hello755 1000000000\n755 1200000000\n600 1100000000\n../a.txt\n/nowhere\n", seen

    again = up(place, local_path="src", remote_path="copy")
    assert again["uploaded_files"] == again["uploaded_dirs"] == again["bytes"] == 0 and again["skipped_files"] == 6

    inside(place, "cd copy && echo more >> a.txt && rm empty && mkdir new && echo n > new/n && ln -sfn void folder-link")
    back = down(place, remote_path="copy", local_path="back")
    assert back["downloaded_files"] == 6 and back["skipped_files"] == 0 and back["synced_type"] == "directory", back
    third = down(place, remote_path="copy", local_path="back", checksum=True)
    assert third["downloaded_files"] == 0 and third["skipped_files"] == 6
    here = look(host.project / "back")
    assert here[b"a.txt"][3] == b"hellomore\n" and here[b"a.txt"][1] == "0o755"
    assert here[b"new/n"][3] == b"n\n" and here[b"folder-link"] == ("link", b"void") and b"empty" not in here
    before = look(host.project / "src")
    for same in (b"sub/deep/er/b.bin", b"sub/deep/er", b"void", b"sub/link", b"dangling", b"sub"):
        assert here[same] == before[same], same


def test_odd_names_arrive_as_they_are(place, host):
    for name in ODD:
        put(host, b"src/" + name + b"/" + name, name, 0o640, 1_300_000_000)
    assert up(place, local_path="src", remote_path="odd")["uploaded_files"] == len(ODD)
    assert down(place, remote_path="odd", local_path="back")["downloaded_files"] == len(ODD)
    assert look(host.project / "back") == look(host.project / "src")
    assert inside(place, "ls -A odd | wc -l").strip() == str(len(ODD) + 1)  # one of them is two lines


def test_checksum_sees_what_times_hide(place, host):
    put(host, "src/x", "one", when=1_000_000_000)
    up(place, local_path="src", remote_path="c")
    put(host, "src/x", "two", when=1_000_000_000)
    assert up(place, local_path="src", remote_path="c")["uploaded_files"] == 0
    assert inside(place, "cat c/x") == "one"
    assert up(place, local_path="src", remote_path="c", checksum=True)["uploaded_files"] == 1
    assert inside(place, "cat c/x") == "two"
    os.utime(host.project / "src/x", (1_500_000_000, 1_500_000_000))
    moved = up(place, local_path="src", remote_path="c", checksum=True)
    assert moved["uploaded_files"] == 0 and moved["metadata_changes"] == 1
    assert inside(place, "stat -c %Y c/x") == "1500000000\n"


def test_a_mode_alone_moves_no_bytes(place, host):
    put(host, "src/x", b"z" * 100_000, 0o644)
    up(place, local_path="src", remote_path="m")
    os.chmod(host.project / "src/x", 0o755)
    done = up(place, local_path="src", remote_path="m")
    assert done["bytes"] == done["uploaded_files"] == 0 and done["metadata_changes"] == 1
    assert inside(place, "stat -c %a m/x") == "755\n"


def test_kinds_change_places(place, host):
    put(host, "src/file", "f")
    put(host, "src/folder/in", "i")
    up(place, local_path="src", remote_path="k")
    os.unlink(host.project / "src/file")
    put(host, "src/file/deep/x", "d")
    os.unlink(host.project / "src/folder/in")
    os.rmdir(host.project / "src/folder")
    put(host, "src/folder", "a file now")
    kept = up(place, local_path="src", remote_path="k")
    assert kept["failed_files"] == 1 and "folder" in kept["first_failure"], kept
    done = up(place, local_path="src", remote_path="k", delete_extras=True)
    assert "failed_files" not in done and done["deleted_files"] == 1, done
    down(place, remote_path="k", local_path="back")
    assert look(host.project / "back") == look(host.project / "src")


# ---- one file -------------------------------------------------------------------------------------


@pytest.mark.parametrize("target, arrives", [
    ("plain.txt", "plain.txt"), ("there", "there/a.txt"), ("there/", "there/a.txt"), ("new/", "new/a.txt"),
    ("deep/new/b", "deep/new/b"), (".", "a.txt"), ("link", "there/a.txt")])
def test_a_file_goes_where_it_is_meant(place, host, target, arrives):
    put(host, "a.txt", "hello", 0o751, 1_000_000_000)
    inside(place, "mkdir there && ln -s there link")
    done = up(place, local_path="a.txt", remote_path=target)
    assert done["synced_type"] == "file" and done["uploaded_files"] == 1 and done["remote_path"] == arrives.replace(
        "there/a.txt", "link/a.txt" if target == "link" else "there/a.txt"), done
    assert inside(place, f"cat {arrives}; stat -c '%a %Y' {arrives}") == "hello751 1000000000\n"
    assert up(place, local_path="a.txt", remote_path=target)["skipped_files"] == 1
    back = down(place, remote_path=arrives, local_path="got/")
    assert back["downloaded_files"] == 1 and back["local_path"] == str(host.project / "got" / os.path.basename(arrives))
    assert pathlib.Path(back["local_path"]).read_text() == "hello"
    assert down(place, remote_path=arrives, local_path="got")["skipped_files"] == 1
    down(place, remote_path=arrives, local_path="named")
    assert (host.project / "named").read_text() == "hello"


# ---- what is left out --------------------------------------------------------------------------------


TREE = ["a.py", "a.pyc", "pkg/b.pyc", ".git/config", "sub/.git/x", "node_modules/m/i.js", "pkg/node_modules/n", "build/o",
        "pkg/build/o", "keep/me.log", "x.log", "__pycache__/c", "pkg/__pycache__/c"]


def arrived(place, folder):
    return set(inside(place, f"cd {folder} && find . -type f | cut -c3- | sort").split())


@pytest.mark.parametrize("arguments, there", [
    ({}, {"a.py", "build/o", "pkg/build/o", "keep/me.log", "x.log"}),
    ({"excludes": ["/build/", "*.log", "!keep/*.log"]}, {"a.py", "pkg/build/o", "keep/me.log"}),
    ({"excludes": '["build/"]'}, {"a.py", "keep/me.log", "x.log"}),
    ({"excludes": ["!.git/", "!*.pyc"]}, {"a.py", "a.pyc", "pkg/b.pyc", ".git/config", "sub/.git/x", "build/o",
                                          "pkg/build/o", "keep/me.log", "x.log"}),
    ({"exclude_style": "legacy"}, {"a.py", "build/o", "pkg/build/o", "keep/me.log", "x.log", "sub/.git/x",
                                   "pkg/node_modules/n", "pkg/__pycache__/c"}),
    ({"exclude_style": "legacy", "excludes": ["build/"]}, {
        "a.py", "pkg/build/o", "keep/me.log", "x.log", "sub/.git/x", "pkg/node_modules/n", "pkg/__pycache__/c"}),
    ({"exclude_file": "skip.txt"}, {"a.py", "pkg/build/o", "keep/me.log"}),
    ({"exclude_file": "skip.txt", "excludes": ["!/build/"]}, {"a.py", "build/o", "pkg/build/o", "keep/me.log"}),
])
def test_excludes(box, host, arguments, there):
    for name in TREE:
        put(host, "src/" + name)
    put(host, "skip.txt", "# a comment\r\n\n/build/\r\nx.log\n")
    up(box, local_path="src", remote_path="e", **arguments)
    assert arrived(box, "e") == there
    down(box, remote_path="e", local_path="back", **arguments)
    assert {str(p.relative_to(host.project / "back")) for p in (host.project / "back").rglob("*") if p.is_file()} == there


def test_gitignore(place, host):
    put(host, "src/.gitignore", "*.o\n/out/\n!keep.o\n")
    put(host, "src/sub/.gitignore", "data\n")
    for name in ("m.o", "keep.o", "out/x", "sub/out/y", "sub/data", "data"):
        put(host, "src/" + name)
    want = {".gitignore", "sub/.gitignore", "keep.o", "sub/out/y", "data"}
    up(place, local_path="src", remote_path="g", respect_gitignore=True)
    assert arrived(place, "g") == want
    inside(place, "cd g && mkdir out && touch n.o out/z sub/data extra")
    done = up(place, local_path="src", remote_path="g", respect_gitignore=True, delete_extras=True)
    assert done["deleted_files"] == 1 and done["deleted"] == ["extra"], done
    assert arrived(place, "g") == want | {"n.o", "out/z", "sub/data"}
    down(place, remote_path="g", local_path="back", respect_gitignore=True)
    assert {str(p.relative_to(host.project / "back")) for p in (host.project / "back").rglob("*") if p.is_file()} == want


# ---- before anything is done ----------------------------------------------------------------------------


def test_a_dry_run_changes_nothing(place, host):
    put(host, "src/new", "12345")
    put(host, "src/changed", "longer than before")
    inside(place, "mkdir -p d/x && echo old > d/changed && echo extra > d/x/y")
    before = inside(place, "find d -printf '%p %T@ %s\\n' | sort")
    plan = up(place, local_path="src", remote_path="d", delete_extras=True, dry_run=True)
    assert plan["mode"] == "dry_run" and plan["new_files"] == 1 and plan["changed_files"] == 1
    assert plan["bytes"] == 23 and plan["delete_files"] == 1 and plan["delete_dirs"] == 1 and plan["would_run"] == "inline"
    assert {(e["action"], e["path"]) for e in plan["entries"]} == {
        ("new", "new"), ("changed", "changed"), ("delete", "x"), ("delete", "x/y")}
    assert inside(place, "find d -printf '%p %T@ %s\\n' | sort") == before
    plan = down(place, remote_path="d", local_path="back", dry_run=True)
    assert plan["new_files"] == 2 and not (host.project / "back").exists()


@pytest.mark.parametrize("path", ["/", "~", "/etc", "/tmp", "/usr/local", "~/.ssh"])
def test_nothing_is_deleted_where_people_and_systems_live(place, host, path):
    put(host, "src/a")
    answer = refused(up, place, local_path="src", remote_path=path, delete_extras=True)
    assert answer["code"] == "invalid" and "delete_extras" in answer["error"], answer


def test_nothing_is_deleted_in_the_users_home(box, host):
    client = host.server(env={"ANYBOX_SYNC_ALLOWED_ROOTS": str(host.user_home.parent)})
    inside(client, "mkdir from && touch from/x")
    for folder in (host.user_home, host.user_home / ".ssh"):
        folder.mkdir(exist_ok=True)
        own(host, folder)
        (folder / "mine").write_text("mine")
        answer = refused(down, client, remote_path="from", local_path=str(folder), delete_extras=True)
        assert answer["code"] == "invalid" and (folder / "mine").exists(), answer


def test_bad_input_is_a_sentence(place, host):
    put(host, "file")
    put(host, "src/a")
    inside(place, "touch f; mkdir d; mkfifo p")
    for call, arguments, code, says in (
            (up, {"local_path": "missing"}, "not_found", "missing"),
            (up, {"local_path": "src", "remote_path": "f"}, "invalid", "is a file"),
            (up, {"local_path": "file", "remote_path": "f/"}, "invalid", "not a folder"),
            (up, {"local_path": "file/x"}, "invalid", "not a folder"),
            (up, {"local_path": "file", "remote_path": "x", "delete_extras": True}, "invalid", "one file"),
            (down, {"remote_path": "missing"}, "not_found", "missing"),
            (down, {"remote_path": "d", "local_path": "file"}, "invalid", "is a file"),
            (down, {"remote_path": "p"}, "invalid", "neither"),
            (up, {"local_path": "src", "exclude_file": "missing"}, "not_found", "exclude_file"),
            (up, {"local_path": "src", "exclude_file": "src"}, "invalid", "exclude_file"),
            (up, {"local_path": "src", "exclude_style": "other"}, "invalid", "exclude_style")):
        answer = refused(call, place, **arguments)
        assert answer["code"] == code and says in answer["error"], (arguments, answer)
    assert inside(place, "ls -A -I .anybox; cat f") == "d\nf\np\n"


def test_no_permission_is_told(place, host):
    put(host, "src/a", "a")
    inside(place, "mkdir locked && chmod 500 locked")
    if inside(place, "touch locked/x 2>/dev/null && echo root; rm -f locked/x"):
        pytest.skip("permissions mean nothing here")
    answer = refused(up, place, local_path="src", remote_path="/proc/self/x")
    assert answer["code"] in ("denied", "not_found", "system", "invalid"), answer
    inside(place, "mkdir from && echo s > from/secret && echo o > from/open && chmod 0 from/secret")
    done = down(place, remote_path="from", local_path="back", delete_extras=True, checksum=True)
    assert done["downloaded_files"] == 1 and (host.project / "back/open").read_text() == "o\n", done
    assert done.get("unreadable", 0) + done.get("failed_files", 0) == 1, done


# ---- full disks --------------------------------------------------------------------------------------------


def test_a_full_box_leaves_whole_files(host):
    client = host.server(env={"ANYBOX_LOCAL_DISK": "4m"})
    client.tool("create_sandbox", name="small")
    for i in range(8):
        put(host, f"src/{i}", os.urandom(1 << 20))
    answer = refused(up, client, local_path="src", remote_path="f")
    assert answer["code"] in ("limit", "system") and "space" in answer["error"].lower(), answer
    for name in inside(client, "ls -A f").split():
        assert name.isdigit(), name
        sum_there = inside(client, f"sha256sum < f/{name}").split()[0]
        assert sum_there == hashlib.sha256((host.project / "src" / name).read_bytes()).hexdigest()


@pytest.mark.skipif(not IS_ROOT, reason="mounts a small file system")
def test_a_full_disk_here_leaves_whole_files(box, host):
    small = host.project / "small"
    small.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", small], check=True)
    try:
        box.tool("exec_bash", command="mkdir f; for i in 1 2 3 4 5 6 7 8; do head -c 1048576 /dev/urandom > f/$i; done")
        answer = refused(down, box, remote_path="f", local_path="small/f")
        assert "space" in answer["error"].lower(), answer
        for file in (small / "f").iterdir():
            assert file.name.isdigit() and inside(box, f"sha256sum < f/{file.name}").split()[0] == hashlib.sha256(
                file.read_bytes()).hexdigest()
        inside(box, "rm f/[4-8]")
        assert down(box, remote_path="f", local_path="small/f", delete_extras=True)["skipped_files"] >= 1
    finally:
        subprocess.run(["umount", small], check=True)


# ---- which folders may be used -------------------------------------------------------------------------------


def test_paths_stay_below_the_folder_we_were_started_in(box, host):
    outside = host.folder / "proj-evil"
    outside.mkdir()
    (outside / "secret").write_text("secret")
    os.symlink("..", host.project / "up")
    os.symlink(outside, host.project / "evil")
    os.symlink("/nowhere/at/all", host.project / "dangling")
    put(host, "inside/a")
    for path in ("/etc", "..", "up", "evil", "evil/secret", str(outside), "up/proj-evil", "~", "inside/../.."):
        for call in (up, down):
            answer = refused(call, box, local_path=path, remote_path="." if call is up else "/etc/hostname")
            assert answer["code"] == "denied", (path, answer)
            assert "sync.allowed_roots" in answer["error"] and "allowed_roots = [" in answer["error"], answer
    answer = refused(down, box, remote_path="/etc/hostname", local_path="dangling")
    assert "leads nowhere" in answer["error"], answer
    assert up(box, local_path="up/proj/inside")["uploaded_files"] == 1
    answer = refused(up, box, local_path="inside", exclude_file=str(outside / "secret"))
    assert answer["code"] == "denied" and "exclude_file" in answer["error"]
    with pytest.raises(ToolFailed):
        box.tool("upload_file_to_sandbox", local_file_path=str(outside / "secret"))


def test_roots_of_the_configuration(host):
    other = host.folder / "other"
    other.mkdir()
    (other / "a").write_text("a")
    client = host.server(env={"ANYBOX_SYNC_ALLOWED_ROOTS": f"/nonexistent,{other}"})
    assert up(client, local_path=str(other))["uploaded_files"] == 1
    assert refused(up, host.server(), local_path=str(other))["code"] == "denied"


def test_started_in_a_home_or_at_the_top_there_is_no_folder(host):
    (host.user_home / "a").write_text("a")
    for cwd in (host.user_home, "/"):
        answer = refused(up, host.server(cwd=cwd), local_path="a")
        assert answer["code"] == "denied" and "there are none" in answer["error"], answer


@pytest.mark.parametrize("version", ERAS)
def test_roots_of_the_client(host, version):
    other = host.folder / "other roots"
    other.mkdir()
    (other / "a").write_text("a")
    roots = {"roots": [{"uri": "https://example.com/x"}, {"uri": "file://" + str(other).replace(" ", "%20"), "name": "r"}]}
    client = host.server(version=version, capabilities={"roots": {"listChanged": True}}, reply=lambda *_: roots)
    put(host, "inside/a")
    assert up(client, local_path="inside")["uploaded_files"] == 1
    assert client.questions == [], "what is allowed anyway needs no question"
    assert up(client, local_path=str(other), remote_path="o")["uploaded_files"] == 1
    assert [q["method"] for q in client.questions] == ["roots/list"]
    assert up(client, local_path=str(other), remote_path="o")["skipped_files"] == 1
    if version != MODERN:
        assert len(client.questions) == 1, "they are asked for once"
        client.reply = lambda *_: {"roots": []}
        client.notify("notifications/roots/list_changed")
        assert refused(up, client, local_path=str(other))["code"] == "denied"
        assert len(client.questions) == 2
    assert refused(up, client, local_path="/etc")["code"] == "denied"


def test_our_state_is_never_synced(host):
    client = host.server(env={"ANYBOX_SYNC_ALLOWED_ROOTS": str(host.folder)})
    for path in (host.home, host.home / "boxes", host.folder):
        client.tool("exec_bash", command="true")
        answer = refused(up, client, local_path=str(path))
        assert answer["code"] == "denied" and "state folder" in answer["error"], answer


def test_over_http_only_configured_roots_count(host):
    put(host, "inside/a")
    shared = host.folder / "shared"
    shared.mkdir()
    (shared / "a").write_text("a")
    own(host, shared)
    web = HttpServer(host, env={"ANYBOX_SYNC_ALLOWED_ROOTS": str(shared)})
    try:
        assert web.tool("sync_local_to_remote", local_path=str(shared))["uploaded_files"] == 1
        for path in ("inside", str(host.project), "/etc", str(shared / "..")):
            _, answer = web.call("sync_local_to_remote", {"local_path": path})
            assert answer["code"] == "denied" and "over HTTP" in answer["error"], answer
        web.close()
    finally:
        web.kill()


# ---- people are asked ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ERAS)
def test_deletions_need_a_yes_where_there_is_somebody(host, version):
    client = host.server(version=version, capabilities={"elicitation": {"form": {}}}, reply=lambda *_: {"action": "decline"})
    put(host, "src/a")
    inside(client, "mkdir -p d && touch d/mine")
    kept = up(client, local_path="src", remote_path="d", delete_extras=True)
    assert kept["status"] == "not_synced" and "declined" in kept["reason"], kept
    assert inside(client, "ls d") == "mine\n"
    assert "1 file and 0 folders in d" in client.questions[0]["params"]["message"]
    client.reply = lambda *_: {"action": "cancel"}
    assert "force" in up(client, local_path="src", remote_path="d", delete_extras=True)["reason"]
    assert up(client, local_path="src", remote_path="d", delete_extras=True, dry_run=True)["delete_files"] == 1
    assert len(client.questions) == 2
    client.reply = lambda *_: {"action": "accept", "content": {"ok": True}}
    done = up(client, local_path="src", remote_path="d", delete_extras=True)
    assert done["deleted_files"] == 1 and done["deleted"] == ["mine"] and len(client.questions) == 3
    inside(client, "touch d/again")
    assert up(client, local_path="src", remote_path="d", delete_extras=True, force=True)["deleted_files"] == 1
    assert len(client.questions) == 3


@pytest.mark.parametrize("version", ERAS)
def test_one_question_after_the_other(host, version):
    other = host.folder / "other"
    other.mkdir()
    (other / "a").write_text("a")
    own(host, other)
    answers = {"roots/list": {"roots": [{"uri": f"file://{other}"}]},
               "elicitation/create": {"action": "accept", "content": {"ok": True}}}
    client = host.server(version=version, capabilities={"roots": {}, "elicitation": {"form": {}}},
                         reply=lambda method, _: answers[method])
    inside(client, "mkdir d && touch d/extra")
    done = up(client, local_path=str(other), remote_path="d", delete_extras=True)
    assert done["uploaded_files"] == 1 and done["deleted"] == ["extra"], done
    assert [q["method"] for q in client.questions] == ["roots/list", "elicitation/create"]


# ---- what comes back may be hostile --------------------------------------------------------------------------


def test_what_this_machine_would_run_is_told(box, host):
    inside(box, "mkdir -p h/.git/hooks h/sub/.ssh h/.vscode && cd h && touch .git/hooks/pre-commit .git/config .git/HEAD "
                ".bashrc .envrc Makefile sub/.ssh/config .vscode/tasks.json && ln -s /etc/passwd out && ln -s sub in")
    done = down(box, remote_path="h", local_path="back", excludes=["!.git/", "!.vscode/"])
    assert {w["path"] for w in done["warnings"]} == {
        ".git/hooks/pre-commit", ".git/config", ".bashrc", ".envrc", "sub/.ssh/config", ".vscode/tasks.json", "out"}, done
    assert all(w["why"] for w in done["warnings"])
    assert "warnings" not in down(box, remote_path="h", local_path="back", excludes=["!.git/", "!.vscode/"])
    assert "warnings" not in up(box, local_path="back", remote_path="again")


def test_special_bits_and_devices_do_not_come(box, host):
    inside(box, "mkdir s && cd s && touch setuid && chmod 6755 setuid && mkfifo pipe && mkdir -m 1777 sticky")
    done = down(box, remote_path="s", local_path="back")
    assert done["special_files"] == 1 and done["downloaded_files"] == 1
    assert oct((host.project / "back/setuid").stat().st_mode) == "0o100755"
    assert oct((host.project / "back/sticky").stat().st_mode) == "0o40777"


def test_a_link_in_the_way_is_not_followed(place, host):
    target = host.folder / "target"
    target.mkdir()
    own(host, target)
    put(host, "back/keep")
    os.symlink(target, host.project / "back/sub")
    os.symlink(target / "file", host.project / "back/f")
    own(host, host.project)
    inside(place, "mkdir -p l/sub && echo evil > l/sub/x && echo evil > l/f")
    down(place, remote_path="l", local_path="back")
    assert list(target.iterdir()) == []
    assert (host.project / "back/sub/x").read_text() == "evil\n" and not (host.project / "back/f").is_symlink()


# Programs of a host that belong to somebody else: this find lists, and this tar sends, what {lie} says.
LIAR = """#!/usr/bin/python3
import io, os, sys, tarfile
real = os.path.join("/usr/bin", os.path.basename(sys.argv[0]))
lie = {lie!r}
if os.path.basename(real) == "find" and "-prune" in sys.argv and lie["list"] is not None:
    sys.stdout.buffer.write(lie["list"])
    sys.exit(0)
if os.path.basename(real) == "tar" and "-c" in sys.argv and lie["tar"] is not None:
    archive = tarfile.open(fileobj=sys.stdout.buffer, mode="w|", format=tarfile.GNU_FORMAT)
    for name, kind, what in lie["tar"]:
        info = tarfile.TarInfo(name)
        info.type = kind
        if kind == tarfile.REGTYPE:
            info.size = len(what)
        else:
            info.linkname = what.decode()
        archive.addfile(info, io.BytesIO(what) if kind == tarfile.REGTYPE else None)
    archive.close()
    sys.exit(0)
os.execv(real, [real] + sys.argv[1:])
"""
F, L, D = b"0", b"2", b"5"


def listed(*entries):
    """What find prints for files of one byte (see provider/ssh/trees_list.c)."""
    return b"".join(b"%s 644 1 1000000000.0 %s\0\0" % (kind, path) for kind, path in ((b"d", b""), *entries))


@pytest.mark.only_tiers("root")
@pytest.mark.parametrize("listing, archive, works", [
    (listed((b"f", b"a")), [("a", F, b"x")], True),
    (listed((b"f", b"../evil")), None, False),
    (listed((b"f", b"/etc/evil")), None, False),
    (listed((b"f", b"a/../../evil")), None, False),
    (listed((b"f", b"a"), (b"f", b"a")), None, True),
    (b"garbage\0\0", None, False),
    (listed((b"f", b"a")), [("../evil", F, b"x")], False),
    (listed((b"f", b"a")), [("/tmp/evil", F, b"x")], False),
    (listed((b"f", b"a")), [("other", F, b"x")], False),
    (listed((b"f", b"a")), [("a", L, b"/etc"), ("a/evil", F, b"x")], False),
    (listed((b"d", b"a"), (b"f", b"a/b")), [("a", L, b"/tmp"), ("a/b", F, b"x")], False),
    (listed((b"f", b"a")), [("a", F, b"x"), ("b", F, b"x")], False),
], ids=["truth", "up", "absolute", "through", "twice", "garbage", "tar-up", "tar-absolute", "tar-other", "tar-link",
        "tar-folder-link", "tar-more"])
def test_a_host_that_lies_writes_nothing_else(host, world, listing, archive, works):
    config = host.folder / "ssh.toml"
    config.write_text(f'[[ssh]]\nname = "liar"\nhost = "{world.server.address}"\nport = {world.server.port}\n'
                      f'user = "{world.user.name}"\nkey_file = "{world.key}"\nagent = "never"\n')
    client = host.server("--config", str(config))
    programs = world.user.mkdir("liars")
    try:
        for name in ("find", "tar"):
            path = pathlib.Path(programs) / name
            path.write_text(LIAR.format(lie={"list": listing, "tar": archive}))
            path.chmod(0o755)
        (world.user.home / ".bashrc").write_text(f"PATH={programs}:$PATH\n")
        inside(client, "mkdir -p from && printf x > from/a")
        before = {p for p in host.folder.rglob("*") if host.home not in p.parents and p != host.home}
        if works:
            assert down(client, remote_path="from", local_path="back")["downloaded_files"] == 1
        else:
            assert refused(down, client, remote_path="from", local_path="back")["code"] == "protocol"
        after = {p for p in host.folder.rglob("*") if host.home not in p.parents and p != host.home}
        assert after - before <= {host.project / p for p in ("back", "back/a", "back/a/b")}, after - before
        assert not os.path.lexists("/etc/evil") and not os.path.lexists("/tmp/evil") and not os.path.lexists("/tmp/b")
        if (host.project / "back/a").is_symlink():
            pytest.fail("a link was written that was not listed")
    finally:
        (world.user.home / ".bashrc").unlink()
        shutil.rmtree(programs)
        shutil.rmtree(world.user.home / "from", ignore_errors=True)


# ---- contents in the call ---------------------------------------------------------------------------------------


def test_upload_and_download_files(place):
    data = bytes(range(256)) * 10
    done = place.tool("upload_files", files=[
        {"path": "up/a.bin", "content": base64.b64encode(data).decode()},
        {"path": "b.txt", "content": "plain text", "encoding": "utf-8", "mode": "755"},
        {"path": "bad", "content": "not base64!"},
        {"path": "folder/", "content": ""}])
    assert [(f["path"], f["size"]) for f in done["uploaded"]] == [("up/a.bin", len(data)), ("b.txt", 10)]
    assert done["uploaded"][0]["sha256"] == hashlib.sha256(data).hexdigest()
    assert [f["path"] for f in done["failed"]] == ["bad", "folder/"] and all(f["error"] for f in done["failed"])
    assert inside(place, "stat -c %a b.txt; ls -A -I .anybox") == "755\nb.txt\nup\n"
    got = place.tool("download_files", paths=["up/a.bin", "missing", "b.txt", "up"])["files"]
    assert base64.b64decode(got[0]["content"]) == data and got[0]["size"] == len(data) and not got[0]["truncated"]
    assert got[1]["code"] == "not_found" and got[3]["code"] == "invalid" and "content" not in got[1]
    assert base64.b64decode(got[2]["content"]) == b"plain text"
    got = place.tool("download_files", paths='["up/a.bin"]', max_bytes=1000, offset=2000)["files"][0]
    assert base64.b64decode(got["content"]) == data[2000:] and not got["truncated"]
    got = place.tool("download_files", paths=["up/a.bin", "b.txt"], max_bytes=1000)["files"]
    assert got[0]["truncated"] and got[0]["next_offset"] == 1000 and got[1]["code"] == "limit"
    for tool, arguments in (("upload_files", {"files": [{"path": "x/", "content": ""}]}), ("upload_files", {"files": []}),
                            ("upload_files", {}), ("download_files", {"paths": ["missing"]}), ("download_files", {})):
        with pytest.raises(ToolFailed):
            place.tool(tool, **arguments)


def test_upload_file_to_sandbox(place, host):
    put(host, "local/x.pyc", "bytes")
    done = place.tool("upload_file_to_sandbox", local_file_path="local/x.pyc", dest_path="into/here")
    assert done["success"] is True and done["path"] == "into/here/x.pyc" and "x.pyc" in done["message"]
    assert inside(place, "cat into/here/x.pyc") == "bytes"
    place.tool("upload_file_to_sandbox", local_file_path="local/x.pyc")
    assert inside(place, "cat x.pyc") == "bytes"
    with pytest.raises(ToolFailed) as failed:
        place.tool("upload_file_to_sandbox", local_file_path="local")
    assert "sync_local_to_remote" in failed.value.answer["error"]


# ---- while it runs, and when it is much ----------------------------------------------------------------------------


def test_progress_is_told(box, host):
    for i in range(20):
        put(host, f"src/{i}", b"x" * 1000)
    future = box.start_tool("sync_local_to_remote", {"local_path": "src", "remote_path": "p"}, progress_token="p")
    box.finish_tool(future)
    told = [n["params"] for n in box.notifications if n["method"] == "notifications/progress"]
    assert told and told[0]["progressToken"] == "p" and told[0]["message"] == "comparing both sides"


def test_much_goes_to_the_background(box, host):
    client = host.server(env={"REMOTE_SANDBOX_INLINE_SYNC_MAX_FILES": "3"})
    client.tool("select_sandbox", sandbox_name="work")
    for i in range(4):
        put(host, f"src/{i}", b"x")
    assert up(client, local_path="src", remote_path="t", dry_run=True)["would_run"] == "in the background"
    started = up(client, local_path="src", remote_path="t")
    assert started["mode"] == "background" and started["auto_switched"] is True and started["files"] == 4, started


# ---- the command line -------------------------------------------------------------------------------------------------


def test_sync_of_the_command_line(place, host):
    grow(host)
    more = ("--config", str(host.folder / "ssh.toml")) if place.provider == "ssh" else ()
    plan = host.run(*more, "sync", "--dry-run", "src", "work:cli")
    assert plan.returncode == 0 and "new      a.txt" in plan.stdout and "nothing was changed" in plan.stdout, plan
    done = host.run(*more, "sync", "src", "work:cli")
    assert done.returncode == 0 and done.stdout.startswith("6 files sent (195.3 KiB), 0 unchanged in "), done
    assert done.stderr == ""
    inside(place, "touch cli/extra cli/.envrc")
    back = host.run(*more, "sync", "--delete", "--exclude", "*.bin", "work:cli/", "back")
    assert back.returncode == 0 and "fetched" in back.stdout and ".envrc" in back.stderr, back
    assert not (host.project / "back/sub/deep/er/b.bin").exists() and (host.project / "back/extra").exists()
    gone = host.run(*more, "sync", "--delete", "src", "work:cli")
    assert "2 files and 0 folders deleted" in gone.stdout, gone
    for wrong in (["src", "back"], ["work:a", "work:b"], ["src"]):
        assert host.run(*more, "sync", *wrong).returncode == 2
    missing = host.run(*more, "sync", "missing", "work:x")
    assert missing.returncode == 1 and "missing" in missing.stderr
    home = host.run(*more, "sync", "--delete", "src", "work:~")
    assert home.returncode == 1 and "home" in home.stderr


def on_a_terminal(host, *args):
    """Exit status, standard output, and what a terminal shows of the other."""
    terminal, end = pty.openpty()
    process = host.popen(*args, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=end, text=True)
    os.close(end)
    shown = b""
    with open(terminal, "rb", buffering=0) as seen, contextlib.suppress(OSError):  # EIO: nobody writes any more
        while piece := seen.read(65536):
            shown += piece
    return process.wait(60), process.communicate()[0], shown.decode()


@pytest.mark.parametrize("command", ["sync", "cp"])
def test_a_terminal_shows_a_bar(box, host, command):
    for i in range(30):
        put(host, f"src/{i}", os.urandom(100_000))
    status, said, shown = on_a_terminal(host, command, "src", "work:bar")
    assert status == 0 and said.startswith("30 files sent (2.9 MiB)"), (said, shown)
    bars = [line for line in shown.split("\r") if line.startswith("[")]
    assert bars and all(re.fullmatch(r"\[#*\.*\] +\d+ %  .* of 2\.9 MiB  \d+ of 30 files.*\x1b\[K", b) for b in bars), shown
    assert shown.endswith("\r\x1b[K"), "the bar stays on the screen"
    status, said, shown = on_a_terminal(host, command, "work:missing", "back")
    assert status == 1 and "missing" in shown and "[#" not in shown and "[." not in shown, shown


def test_cp_of_a_folder(place, host):
    grow(host)
    put(host, "src/.git/config", "[core]")
    more = ("--config", str(host.folder / "ssh.toml")) if place.provider == "ssh" else ()
    inside(place, "mkdir there")
    assert host.run(*more, "cp", "src", "work:there").returncode == 0
    assert host.run(*more, "cp", "src", "work:named").returncode == 0
    assert inside(place, "cat there/src/.git/config; diff -r --no-dereference there/src named && echo same") == "[core]same\n"
    assert host.run(*more, "cp", "work:named", ".").returncode == 0
    assert look(host.project / "named") == look(host.project / "src")


# ---- large ---------------------------------------------------------------------------------------------------------------


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_hundred_thousand_files(box, host):
    client = host.server(env={"REMOTE_SANDBOX_INLINE_SYNC_MAX_FILES": "1000000", "ANYBOX_LOCAL_DISK": "1g",
                              "ANYBOX_LOCAL_MEMORY": "3g"})
    client.tool("create_sandbox", name="large")
    client.tool("select_sandbox", sandbox_name="large")
    for i in range(1000):
        folder = host.project / f"src/{i:03}"
        folder.mkdir(parents=True)
        for j in range(100):
            (folder / f"file-{j:03}.txt").write_text(f"{i} {j}")
    own(host, host.project)
    done = client.finish_tool(client.start_tool("sync_local_to_remote", {"local_path": "src", "remote_path": "m"}), 600)
    assert done["uploaded_files"] == 100_000 and done["uploaded_dirs"] == 1001
    done = client.finish_tool(client.start_tool("sync_local_to_remote", {"local_path": "src", "remote_path": "m"}), 600)
    assert done["skipped_files"] == 100_000 and done["uploaded_files"] == 0
    status = pathlib.Path(f"/proc/{client.process.pid}/status").read_text()
    peak = int(status.split("VmHWM:")[1].split()[0])
    assert peak < 60_000, f"{peak} KiB: at most about 200 bytes for a file"


@pytest.mark.long
@pytest.mark.timeout(900)
def test_a_sparse_file_stays_sparse(box, host):
    client = host.server(env={"REMOTE_SANDBOX_INLINE_SYNC_MAX_BYTES": "1t"})
    client.tool("select_sandbox", sandbox_name="work")
    path = host.project / "src/sparse"
    path.parent.mkdir()
    with open(path, "wb") as f:
        f.write(b"begin")
        f.seek(5 << 30)
        f.write(b"end")
    own(host, host.project)
    done = client.finish_tool(client.start_tool("sync_local_to_remote", {"local_path": "src", "remote_path": "s"}), 600)
    assert done["uploaded_files"] == 1, done
    assert inside(client, "stat -c %s s/sparse; head -c 5 s/sparse; tail -c 3 s/sparse") == f"{(5 << 30) + 3}\nbeginend"
    assert int(inside(client, "du -k s/sparse").split()[0]) < 1024
    client.finish_tool(client.start_tool("sync_remote_to_local", {"remote_path": "s", "local_path": "back"}), 600)
    back = (host.project / "back/sparse").stat()
    assert back.st_size == (5 << 30) + 3 and back.st_blocks * 512 < 1 << 20


def test_the_schema_of_files_is_plain(client):
    listed = {t["name"]: t for t in client.result("tools/list")["tools"]}
    shown = listed["sync_local_to_remote"]["inputSchema"]["properties"]
    assert {"local_path", "remote_path", "delete_extras", "excludes", "dry_run", "sandbox_name"} == set(shown)
    assert len(json.dumps(listed["sync_local_to_remote"])) < 1000
