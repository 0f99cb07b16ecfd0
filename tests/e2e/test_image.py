"""Boxes of images: a whole system from a folder, shared, below an overlay of each box's own.

Most images here are made of the host's own programs (rootfs.py); one is made by debootstrap."""
import contextlib
import os
import pathlib
import pwd
import re
import shutil
import signal
import stat
import subprocess
import time

import pytest
import rootfs
from agent_client import Box, Failed
from host import FIRST_SUBUID, IS_ROOT, is_running, wait_until
from mcp_client import ToolFailed

pytestmark = [pytest.mark.every_tier, pytest.mark.only_tiers("root", "subuid", "self")]
# Before, a tmpfs could not hold what marks a folder of an overlay as new.
REMAKES = tuple(int(n) for n in os.uname().release.split(".")[:2]) >= (6, 6)
REMAKE = "rm -rf /usr/sbin; mkdir /usr/sbin;" if REMAKES else ""


@pytest.fixture(autouse=True)
def a_range_of_ids(tier):
    if tier.name == "self":
        name = pwd.getpwuid(os.getuid()).pw_name
        ranges = pathlib.Path("/etc/subuid").read_text() if pathlib.Path("/etc/subuid").exists() else ""
        if not re.search(rf"^({re.escape(name)}|{os.getuid()}):\d+:(6553[6-9]|\d{{6,}})$", ranges, re.M):
            pytest.skip("this user has no subuids")


@pytest.fixture(scope="module")
def images(session_folder):
    """One image for each kind of user, made when first asked for. Nobody may change it."""
    made = {}

    def get(tier):
        if tier.name not in made:
            made[tier.name] = rootfs.make(session_folder / f"image-{tier.name}", tier.uid)
        return made[tier.name]
    yield get
    for path in made.values():
        shutil.rmtree(path)


@pytest.fixture
def image(images, tier):
    return images(tier)


@pytest.fixture
def own_image(image, host):
    """A copy that the test may change."""
    copy = host.folder / "own-image"
    subprocess.run(["cp", "-a", image, copy], check=True)
    return copy


def own(path, tier):
    if IS_ROOT:
        os.chown(path, tier.uid, tier.uid)


def images_folder(host):
    folder = host.home / "images"
    folder.mkdir(parents=True)
    for path in host.home, folder:
        own(path, host.tier)
        path.chmod(0o700)
    return folder


@contextlib.contextmanager
def mounted(folder, kind="tmpfs"):
    folder.mkdir(exist_ok=True)
    subprocess.run(["mount", "-t", kind, "-o", "mode=755", kind, folder], check=True)
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", folder], check=True)


@pytest.fixture
def box(client, image):
    made = client.tool("create_sandbox", name="work", image=str(image))
    client.box_id = made["sandbox_id"]
    return client


def test_a_box_has_the_images_system_and_nothing_of_the_host(box):
    assert box.bash("cat /etc/os-release")["stdout"].startswith("ID=tiny\n")
    listing = box.bash("ls -A / /home /home/user /workspace /tmp /var/tmp /run /root")["stdout"]
    assert set(listing.split("\n/home:")[0].split()[1:]) == {
        "app", "bin", "dev", "etc", "home", "lib", "lib64", "proc", "root", "run", "sbin", "tmp", "usr", "var", "workspace"}
    assert box.bash("ls /usr/bin/gcc /usr/bin/python3 /etc/shadow /etc/debian_version /.apart; true")["stdout"] == ""
    assert set(box.bash("ls /dev")["stdout"].split()) == {
        "fd", "full", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin", "stdout", "tty", "urandom", "zero"}


def test_commands_are_root_without_its_rights(client, image):
    made = client.tool("create_sandbox", name="work", image=str(image))
    assert made["home"] == "/root" and made["work_dir"] == "/workspace" and made["image"] == str(image)
    told = client.bash("id -u; id -g; echo $HOME $USER $LOGNAME; pwd; grep Cap /proc/self/status")["stdout"].split("\n")
    assert told[:4] == ["0", "0", "/root root root", "/workspace"]
    assert {line.split()[1] for line in told[4:] if line} == {"0" * 16}
    refused = client.bash("chown 1 /etc/passwd; mknod /tmp/null c 1 3; chmod 4755 /usr/bin/id; /usr/bin/id; "
                          "echo x > /proc/sys/kernel/hostname; echo x > /dev/new; cat /proc/1/environ")
    for said in "chown: ", "mknod: ", "hostname: ", "/dev/new: Read-only", "environ: Permission denied":
        assert said in refused["stderr"]
    listed = client.tool("list_sandboxes")["sandboxes"][0]
    assert listed["image"] == str(image)


def test_everything_can_be_written_but_the_image(box, image):
    before = rootfs.manifest(image)
    done = box.bash("""
        set -e
        echo new > /usr/bin/new; echo more >> /etc/passwd; rm /usr/bin/tail; mv /usr/bin/head /usr/bin/front
        chmod 700 /usr/bin/wc; ln -s bash /usr/bin/bash2; mkdir /opt /srv; echo a > /root/.a
        """ + REMAKE + """ echo b > /usr/sbin/b; rm -rf /etc/os-release; echo c > /etc/os-release
        echo w > /workspace/w; echo h > /home/user/h; echo t > /tmp/t; echo v > /var/tmp/v; echo r > /run/r
        ls /usr/sbin /usr/bin/new /usr/bin/front; cat /etc/os-release; front -1 /etc/passwd
    """)
    assert done["exit_code"] == 0, done
    assert done["stdout"].split("\n") == ["/usr/bin/front", "/usr/bin/new", "", "/usr/sbin:", "b", "c",
                                          "root:x:0:0:root:/root:/bin/bash", ""]
    assert rootfs.manifest(image) == before


def test_boxes_of_one_image_do_not_see_each_others_writes(client, image):
    before = rootfs.manifest(image)
    ids = [client.tool("create_sandbox", name=name, image=str(image))["sandbox_id"] for name in ("a", "b")]
    client.bash("echo a > /usr/only-a; rm /usr/bin/cat; echo a >> /etc/group", sandbox_id=ids[0])
    seen = client.bash("ls /usr/only-a; cat /etc/group", sandbox_id=ids[1])
    assert "No such file" in seen["stderr"] and seen["stdout"] == "root:x:0:\ndaemon:x:1:\nuser:x:1000:\n"
    client.tool("delete_sandbox", sandbox_id=ids[0])
    assert client.bash("ls /usr/bin/cat", sandbox_id=ids[1])["exit_code"] == 0
    client.tool("delete_sandbox", sandbox_id=ids[1])
    assert rootfs.manifest(image) == before


def test_what_is_made_for_the_box_replaces_the_images(client, own_image):
    for name in "hosts", "hostname", "mtab":
        (own_image / "etc" / name).write_text("of another machine\n")
    (own_image / "etc/resolv.conf").symlink_to("../run/systemd/resolve/stub-resolv.conf")
    (own_image / "etc/nsswitch.conf").write_text("hosts: files\n")
    rootfs.give(own_image, own_image.stat().st_uid)
    client.tool("create_sandbox", name="named", image=str(own_image))
    told = client.bash("cat /etc/hostname /etc/hosts; readlink /etc/mtab; cat /etc/resolv.conf /etc/nsswitch.conf "
                       "/etc/passwd; uname -n")["stdout"]
    assert told.split("\n") == [
        "named", "127.0.0.1 localhost named", "::1 localhost ip6-localhost", "/proc/self/mounts",
        "# This sandbox has no network.", "hosts: files", "root:x:0:0:root:/root:/bin/bash",
        "daemon:x:1:1::/:/usr/sbin/nologin", "user:x:1000:1000:sandbox user:/home/user:/bin/bash", "named", ""]


@pytest.mark.parametrize("has, told", [("nothing", "link"), ("app", "link"), ("results", "its own"), ("link", "its own")])
def test_the_work_folders_other_name_replaces_nothing_of_the_image(client, own_image, has, told):
    if has != "nothing":
        folder = own_image / ("srv" if has == "link" else "app")
        folder.mkdir(exist_ok=True)
        if has in ("results", "link"):
            (folder / "results").mkdir()
            (folder / "results/of-the-image").write_text("")
        if has == "link":
            (own_image / "app").symlink_to("/srv")
    rootfs.give(own_image, own_image.stat().st_uid)
    before = rootfs.manifest(own_image)
    client.tool("create_sandbox", name="named", image=str(own_image))
    client.bash("touch /workspace/of-the-box")
    expected = "of-the-box\n" if told == "link" else "of-the-image\n"
    assert client.bash("ls /app/results")["stdout"] == expected
    assert rootfs.manifest(own_image) == before


def test_an_image_by_its_name_and_on_the_command_line(host, image):
    folder = images_folder(host)
    subprocess.run(["cp", "-a", image, folder / "tiny"], check=True)
    done = host.run("run", "--image", "tiny", "--", "sh", "-c", "cat; cat /etc/os-release", input="in\n")
    assert done.returncode == 0 and done.stdout.startswith("in\nID=tiny\n"), done.stderr
    listed = host.run("image", "list").stdout
    assert re.fullmatch(r"NAME +SIZE +SYSTEM +MADE\ntiny +[\d.]+ MiB +tiny +\d{4}-\d\d-\d\d\n", listed)
    client = host.server()
    client.tool("create_sandbox", name="user", image="tiny")
    assert client.tool("list_sandboxes")["sandboxes"][0]["image"] == "tiny"
    refused = host.run("image", "rm", "tiny")
    assert refused.returncode == 1 and "is used by the sandbox user" in refused.stderr
    client.tool("delete_sandbox", sandbox_name="user")
    assert host.run("image", "rm", "tiny").returncode == 0
    assert list(folder.iterdir()) == []
    assert host.run("image", "list").stdout.startswith("no images")


def test_the_disk_limit_holds_for_the_system_and_the_folders_together(client, image):
    client.tool("create_sandbox", name="small", image=str(image), disk="16m")
    filled = client.bash("head -c 10M /dev/zero > /usr/a && echo one; head -c 10M /dev/zero > /workspace/b; "
                         "rm /usr/a; head -c 10M /dev/zero > /opt-c && echo two")
    assert filled["stdout"] == "one\ntwo\n" and "No space left" in filled["stderr"]
    # To change a large file of the image is to have it all.
    assert "No space left" in client.bash("head -c 16M /dev/zero > /tmp/full; echo >> /usr/bin/bash")["stderr"]
    assert client.bash("rm /tmp/full; echo alive")["stdout"] == "alive\n"


@pytest.mark.skipif(not IS_ROOT, reason="only root gives files away")
def test_set_uid_files_of_an_image_give_nothing(client, own_image, tier):
    other = 1 if tier.name == "root" else FIRST_SUBUID
    path = own_image / "usr/bin/suid-id"
    shutil.copy(own_image / "usr/bin/id", path)
    os.chown(path, other, other)
    path.chmod(0o6755)
    client.tool("create_sandbox", name="s", image=str(own_image))
    told = client.bash("stat -c '%u %g %a' /usr/bin/suid-id; suid-id -u; suid-id -g")["stdout"]
    assert told == "1 1 6755\n0\n0\n"


@pytest.mark.skipif(not IS_ROOT, reason="only root makes device files")
def test_device_files_of_an_image_are_dead(client, own_image):
    for name, kind, major, minor in (("mem", stat.S_IFCHR, 1, 1), ("zero", stat.S_IFCHR, 1, 5),
                                     ("disk", stat.S_IFBLK, 254, 0)):
        os.mknod(own_image / "usr" / name, kind | 0o666, os.makedev(major, minor))
        os.chmod(own_image / "usr" / name, 0o666)
    os.mknod(own_image / "dev/null", stat.S_IFCHR | 0o666, os.makedev(1, 1))
    rootfs.give(own_image, own_image.stat().st_uid)
    client.tool("create_sandbox", name="d", image=str(own_image))
    told = client.bash("for f in mem zero disk; do head -c 1 /usr/$f; echo x > /usr/$f; done; "
                       "echo x > /dev/null; head -c 3 /dev/zero | wc -c")
    assert told["stderr"].count("Permission denied") == 6, told
    assert told["stdout"] == "3\n"


def test_links_of_an_image_lead_nowhere_but_into_it(host, own_image):
    """Absolute ones, some in the place of what a box has of its own, some to the host."""
    secret = host.folder / "secret"
    secret.write_text("the host's\n")
    own(secret, host.tier)
    for name, to in (("tmp", "/"), ("dev", "/proc/1/root/dev"), ("proc", "/etc"), ("home", "/.apart/host/etc"),
                     ("workspace", f"/.apart/host{host.folder}"), ("run", f"/.apart/host{host.folder}"),
                     ("etc/passwd", f"/.apart/host{secret}"), ("etc/group", f"{secret}"),
                     ("etc/hosts", f"/.apart/host{secret}"), ("etc/hostname", f"/.apart/host{host.folder}/made"),
                     ("etc/nsswitch.conf", f"/.apart/host{host.folder}/made"), ("etc/mtab", f"/.apart/host{secret}"),
                     ("usr/in", "/usr/bin/cat"), ("usr/out", str(secret))):
        path = own_image / name
        if path.is_dir():
            shutil.rmtree(path)
        path.unlink(missing_ok=True)
        path.symlink_to(to)
    shutil.rmtree(own_image / "root")
    (own_image / "root").write_text("a file")
    rootfs.give(own_image, own_image.stat().st_uid)
    before, names = rootfs.manifest(own_image), sorted(p.name for p in host.folder.iterdir())
    client = host.server()
    if not REMAKES:
        with pytest.raises(ToolFailed, match="is no folder, and only Linux 6.6"):
            client.tool("create_sandbox", name="links", image=str(own_image))
        return
    client.tool("create_sandbox", name="links", image=str(own_image))
    told = client.bash("cat /etc/passwd /etc/group /usr/out; /usr/in /etc/hostname; echo t > /tmp/t; echo w > w; "
                       "echo h > /home/user/h; echo r > ~/r; ls -A / /workspace /tmp /home /root /run")
    assert "the host's" not in told["stdout"] + told["stderr"]
    assert told["stdout"].startswith("links\n") and "/workspace:\nw\n" in told["stdout"]
    assert secret.read_text() == "the host's\n" and rootfs.manifest(own_image) == before
    assert sorted(p.name for p in host.folder.iterdir() if p.name not in ("s", "stderr")) == \
        [n for n in names if n not in ("s", "stderr")]


def test_an_image_with_a_name_of_ours_is_refused(client, own_image):
    (own_image / ".apart").mkdir()
    rootfs.give(own_image, own_image.stat().st_uid)
    with pytest.raises(ToolFailed, match="/.apart"):
        client.tool("create_sandbox", image=str(own_image))


def test_the_file_tools_work_in_an_image(box):
    box.tool("write_remote_file", remote_path="~/.config/x", content="home\n")
    box.tool("write_remote_file", remote_path="/usr/share/new/x", content="usr\n")
    assert box.bash("cat /root/.config/x /usr/share/new/x")["stdout"] == "home\nusr\n"
    assert box.tool("read_remote_file", remote_path="/etc/os-release")["content"].startswith("ID=tiny")
    assert box.bash("id -u", cwd="~")["stdout"] == "0\n"


def test_commands_end_when_they_must(box):
    late = box.bash("trap '' TERM; (trap '' TERM; sleep 60)& sleep 60", timeout=1)
    assert late["timed_out"]
    box.bash("sleep 77 & disown")
    assert box.bash("echo alive")["stdout"] == "alive\n"


def test_a_prepared_box_is_never_one_of_an_image(client, image):
    client.tool("create_sandbox", name="first")
    time.sleep(0.5)  # the pool fills
    client.tool("create_sandbox", name="second", image=str(image))
    assert client.bash("cat /etc/os-release", sandbox_name="second")["stdout"].startswith("ID=tiny")
    assert not client.bash("cat /etc/os-release", sandbox_name="first")["stdout"].startswith("ID=tiny")


def test_what_is_no_image_is_told_with_what_there_is(host, image, tier):
    client = host.server()
    client.tool("list_sandboxes")  # the state folder is there now
    folder = host.home / "images/tiny/bin"
    folder.mkdir(parents=True)
    shutil.copy(image / "usr/bin/bash", folder / "bash")
    for path in host.home / "images", host.home / "images/tiny", folder:
        own(path, tier)
    (host.folder / "file").write_text("x")
    (host.folder / "empty").mkdir()
    (host.folder / "no-shell/usr/bin").mkdir(parents=True)
    subprocess.run(["cp", "-a", image, host.folder / "foreign"], check=True)
    if IS_ROOT:
        rootfs.give(host.folder / "foreign", 58899)
        for name in "empty", "no-shell":
            rootfs.give(host.folder / name, tier.uid)
    for wanted, words in (
            ("nope", "there is no such folder"), ("Tiny", "a name is"), ("./tiny", "relative path"),
            ("../images/tiny", "relative path"), ("~/tiny", "relative path"), ("/no/such/folder", "no such folder"),
            (str(host.folder / "file"), "not a folder"), (str(host.folder / "empty"), "no root file system"),
            (str(host.folder / "no-shell"), "neither /bin/bash nor /bin/sh"), ("/", "own root"),
            ("/proc/self/root", "own root"), ("/proc", "nothing below /proc"), ("/sys/kernel", "nothing below /proc"),
            ("/usr", "/usr, /etc and /boot"), ("/usr/local", "/usr, /etc and /boot"), ("debian:12", "provider=docker"),
            (str(host.home), "state"), (str(host.user_home), "home is below it"), (str(host.home / "images"), "images/"),
            (str(host.folder / "foreign"), "belong" if IS_ROOT else "")):
        if not words:
            continue
        with pytest.raises(ToolFailed) as failed:
            client.tool("create_sandbox", image=wanted)
        assert words in failed.value.text and "anybox image make" in failed.value.text, (wanted, failed.value.text)
        assert "there is tiny" in failed.value.text
    assert client.tool("list_sandboxes")["sandboxes"] == []


def test_a_broken_image_fails_at_once_and_leaves_nothing(client, own_image):
    (own_image / "usr/bin/bash").unlink()
    (own_image / "usr/bin/bash").write_text("#!/no/such/program\n")
    (own_image / "usr/bin/bash").chmod(0o755)
    rootfs.give(own_image, own_image.stat().st_uid)
    client.tool("create_sandbox", name="b", image=str(own_image))
    with pytest.raises(ToolFailed):
        client.bash("true")


@pytest.mark.skipif(not IS_ROOT, reason="only root mounts")
def test_what_is_mounted_in_an_image_is_not_shown(host, own_image, tier):
    """As root it is left out; a user namespace must not uncover what it hides."""
    (own_image / "mnt").mkdir()
    (own_image / "mnt/below").touch()
    rootfs.give(own_image, tier.uid)
    with mounted(own_image / "mnt") as top:
        (top / "above").touch()
        client = host.server()
        if tier.name == "subuid":
            with pytest.raises(ToolFailed, match="something is mounted below it"):
                client.tool("create_sandbox", image=str(own_image))
            return
        client.tool("create_sandbox", name="m", image=str(own_image))
        assert client.bash("ls /mnt")["stdout"] == "below\n"


@pytest.mark.only_tiers("root")
def test_a_file_system_that_cannot_show_other_owners_is_told(client, image, host):
    with mounted(host.folder / "ram", "ramfs") as top:
        subprocess.run(["cp", "-a", image, top / "image"], check=True)
        with pytest.raises(ToolFailed, match="ext4, xfs or btrfs"):
            client.tool("create_sandbox", image=str(top / "image"))
    assert client.tool("list_sandboxes")["sandboxes"] == []


@pytest.mark.only_tiers("root")
@pytest.mark.parametrize("missing", [428, 442])  # open_tree, mount_setattr
def test_a_kernel_that_is_too_old_is_told(image, missing):
    with pytest.raises(Failed, match="images need Linux 5.19"):
        Box(image=str(image), without=[missing])


@pytest.mark.only_tiers("root")
def test_root_that_may_not_mount_is_told(host, image):
    few = "-all,+setuid,+setgid"
    done = subprocess.run(["setpriv", "--bounding-set=" + few, "--inh-caps=" + few, host.install.anybox, "run",
                           "--image", image, "true"], env=host.env(), cwd=host.project, stdin=subprocess.DEVNULL,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 125 and "CAP_SYS_ADMIN" in done.stderr


@pytest.mark.skipif(not IS_ROOT, reason="only root makes device files")
def test_what_an_image_calls_its_system_is_only_read_and_harmless(host, own_image, tier):
    """To open a device does something: a watchdog begins to count, a tape to move."""
    if not shutil.which("strace"):
        pytest.skip("strace is not installed")
    folder = images_folder(host)
    own_image.rename(folder / "odd")
    file = folder / "odd/etc/os-release"
    file.unlink()
    file.write_text("VERSION_CODENAME=\x1b[2Jclear\u202e\n")
    own(file, tier)
    assert " clear " in host.run("image", "list").stdout
    file.unlink()
    (folder / "odd/usr/lib/os-release").unlink()
    os.mknod(file, stat.S_IFCHR | 0o666, os.makedev(5, 2))
    file.chmod(0o666)
    own(file, tier)
    traced = subprocess.run(["strace", "-f", "-qq", "-e", "trace=openat2,openat,open", "-e", "signal=none",
                             *host.tier.wrap([host.install.anybox, "image", "list"])], env=host.env(), cwd=host.project,
                            stdin=subprocess.DEVNULL, capture_output=True, text=True, check=True)
    assert re.search(r"^odd +[\d.]+ MiB +- ", traced.stdout, re.M), traced.stdout
    opened = [line for line in traced.stderr.splitlines() if "os-release" in line]
    assert opened and all("O_PATH" in line for line in opened), opened


@pytest.mark.skipif(not IS_ROOT, reason="only root mounts")
def test_removing_an_image_spares_what_is_mounted_in_it(host, own_image, tier):
    """Also a folder of the same file system, which its number does not tell."""
    folder, precious = images_folder(host), host.folder / "precious"
    own_image.rename(folder / "used")
    for path in folder / "used/mnt", precious, precious / "file":
        path.mkdir()
        own(path, tier)
    subprocess.run(["mount", "--bind", precious, folder / "used/mnt"], check=True)
    try:
        refused = host.run("image", "rm", "used")
        assert refused.returncode == 1 and f"mounted at {folder}/used/mnt: unmount it" in refused.stderr
    finally:
        subprocess.run(["umount", folder / "used/mnt"], check=True)
    assert (precious / "file").exists() and (folder / "used/etc/passwd").exists()
    assert host.run("image", "rm", "used").returncode == 0
    assert list(folder.iterdir()) == []


def test_removing_an_image_removes_no_more_than_a_link_to_it(host, image):
    folder = images_folder(host)
    (folder / "linked").symlink_to(image)
    assert host.run("run", "--image", "linked", "--", "sh", "-c", "echo here").stdout == "here\n"
    assert host.run("image", "rm", "linked").returncode == 0
    assert list(folder.iterdir()) == [] and (image / "etc/passwd").exists()


@pytest.mark.only_tiers("root")
def test_a_link_that_came_into_the_path_since_it_was_looked_at_is_not_followed(image, host):
    (host.folder / "parent").symlink_to(image.parent)
    with pytest.raises(Failed, match="symbolic links"):
        Box(image=str(host.folder / "parent" / image.name))


@pytest.mark.only_tiers("plain")
def test_a_user_without_subuids_is_told_what_to_do(host):
    client = host.server()
    with pytest.raises(ToolFailed) as failed:
        client.tool("create_sandbox", image="debian")
    for said in (failed.value.text, host.run("image", "make").stderr):
        for words in "range of user ids", "usermod --add-subuids", "--add-subgids", "uidmap":
            assert words in said
    assert client.tool("list_sandboxes")["sandboxes"] == []


# ---- making one -----------------------------------------------------------------------


@pytest.mark.parametrize("words, mentions", [
    (["make", "Big"], "no name for an image"), (["make", "../x"], "no name for an image"),
    (["make", "--suite", "no suite"], "suite"), (["make", "--mirror", "ftp://x"], "mirror"),
    (["make", "--include", "a b"], "packages"), (["rm", "nope"], "there is no image"),
    (["make", "--mirror", "http://127.0.0.1:9/debian"], "by debootstrap failed")])
def test_an_image_that_cannot_be_made_is_told_and_leaves_nothing(host, words, mentions):
    if not shutil.which("debootstrap", path="/usr/sbin:/sbin:/usr/bin"):
        pytest.skip("debootstrap is not installed")
    done = host.run("image", *words)
    assert done.returncode == 1 and mentions in done.stderr
    assert not list((host.home / "images").glob("*")) and not list((host.home / "images").glob(".*"))


@pytest.fixture
def slow_archive(host):
    """An archive whose index never comes, so that a make waits for it."""
    script = ("import socket, time\ns = socket.create_server(('127.0.0.1', 0))\n"
              "print(s.getsockname()[1], flush=True)\nkeep = []\nwhile True: keep.append(s.accept())\n")
    with subprocess.Popen(["/usr/bin/python3", "-c", script], stdout=subprocess.PIPE, text=True) as server:
        yield f"http://127.0.0.1:{server.stdout.readline().strip()}/debian"
        server.kill()


def debootstraps(host):
    return [pid for pid in os.listdir("/proc") if pid.isdigit() and
            str(host.home).encode() in read(f"/proc/{pid}/cmdline")]


def read(path):
    try:
        return pathlib.Path(path).read_bytes()
    except OSError:
        return b""


def test_a_make_that_is_interrupted_ends_and_the_name_can_be_used_again(host, slow_archive):
    if not shutil.which("debootstrap", path="/usr/sbin:/sbin:/usr/bin"):
        pytest.skip("debootstrap is not installed")
    partial = host.home / "images/.slow.partial"
    with host.popen("image", "make", "slow", "--mirror", slow_archive, stderr=subprocess.PIPE) as making:
        assert wait_until(lambda: (partial / "debootstrap").exists())
        environments = [read(f"/proc/{pid}/environ").split(b"\0") for pid in debootstraps(host)]
        assert any(b"DEBIAN_FRONTEND=noninteractive" in env for env in environments)
        assert all(any(v.startswith(b"PATH=/usr/local/sbin:") for v in env) for env in environments
                   if b"DEBIAN_FRONTEND=noninteractive" in env)
        second = host.run("image", "make", "slow", "--mirror", slow_archive)
        assert second.returncode == 1 and "right now" in second.stderr
        assert "right now" in host.run("image", "rm", "slow").stderr
        assert host.run("image", "list").stdout.startswith("no images")
        making.send_signal(signal.SIGINT)
        assert making.wait(30) == 130
    assert not partial.exists() and not debootstraps(host)
    with host.popen("image", "make", "slow", "--mirror", slow_archive, stderr=subprocess.PIPE) as making:
        assert wait_until(lambda: (partial / "debootstrap").exists())
        making.kill()
    assert partial.exists()
    # What debootstrap waits for ends by and by; here it is ended at once.
    for pid in debootstraps(host):
        with contextlib.suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)
    assert wait_until(lambda: not any(is_running(int(p)) for p in debootstraps(host)))
    assert wait_until(lambda: host.run("image", "rm", "slow").returncode == 0)
    assert list((host.home / "images").iterdir()) == []


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_debian_by_debootstrap(host):
    if not shutil.which("debootstrap", path="/usr/sbin:/sbin:/usr/bin"):
        pytest.skip("debootstrap is not installed")
    made = host.run("image", "make", timeout=580)
    if made.returncode != 0 and "Failed getting release file" in made.stderr:
        pytest.skip("the archive of this machine cannot be reached")
    assert made.returncode == 0 and "debian is made" in made.stdout, made.stderr
    phases = made.stderr.splitlines()
    assert phases[-1] == "anybox: tidying up" and len(phases) == len(set(phases))
    image = host.home / "images/debian"
    assert not list((image / "dev").iterdir()) and not list((image / "var/lib/apt/lists").iterdir())
    client = host.server()
    client.tool("create_sandbox", name="d", image="debian")
    told = client.bash("python3 -c 'import ssl, sys; print(sys.version_info[0])'; dpkg -l python3 | tail -1; id -un; "
                       "apt-config dump APT::Sandbox::User; python3 -m venv /workspace/v && echo venv; "
                       "ls /etc/ssl/certs | wc -l; find / -xdev -nouser | head")
    assert told["exit_code"] == 0, told
    lines = told["stdout"].split("\n")
    assert lines[0] == "3" and lines[1].startswith("ii  python3") and lines[2] == "root"
    assert lines[3:5] == ['APT::Sandbox::User "root";', "venv"] and int(lines[5]) > 100 and lines[6:] == [""]
    client.tool("delete_sandbox", sandbox_name="d")
    assert host.run("image", "rm", "debian", timeout=120).returncode == 0
    assert list((host.home / "images").iterdir()) == []
