"""Small root file systems of the host's own programs, for images without a download."""
import os
import pathlib
import re
import shutil
import subprocess

PROGRAMS = ("bash", "sh", "cat", "chmod", "chown", "cp", "cut", "dd", "df", "echo", "env", "false", "find",
            "grep", "head", "id", "ln", "ls", "mkdir", "mkfifo", "mknod", "mv", "readlink", "rm", "sed",
            "sleep", "stat", "tail", "touch", "tr", "true", "truncate", "uname", "wc")
PYTHON_LEFT_OUT = shutil.ignore_patterns("test", "tests", "idlelib", "lib2to3", "ensurepip", "tkinter",
                                         "config-*", "dist-packages", "__pycache__", "pydoc_data")


def libraries(program):
    """The files that a program is linked to, its loader too."""
    said = subprocess.run(["ldd", program], capture_output=True, text=True, check=False).stdout
    return re.findall(r"(/\S+) \(0x", said)


def copy(root, path):
    """A file of the host at the same place in the image, whatever links lead to it."""
    to = root / str(path).lstrip("/")
    if not to.exists():
        to.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(path, to)
    return to


def add_program(root, name):
    path = shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/sbin")
    shutil.copy(path, root / "usr/bin" / name)
    for library in libraries(path):
        copy(root, library)


def add_python(root):
    add_program(root, "python3")
    library = next(pathlib.Path("/usr/lib").glob("python3.[0-9]*"))
    shutil.copytree(library, root / str(library).lstrip("/"), ignore=PYTHON_LEFT_OUT, dirs_exist_ok=True)
    for module in library.glob("lib-dynload/*.so"):
        for needed in libraries(module):
            copy(root, needed)
    for needed in pathlib.Path("/lib").glob("*-linux-gnu/librt.so.1"):  # by name, with ctypes
        copy(root, needed)


def make(root, owner=None, python=False):
    """Returns the folder, which is made, filled, and given to `owner`."""
    root = pathlib.Path(root)
    for name in "usr/bin", "usr/lib", "usr/lib64", "usr/sbin", "etc", "tmp", "proc", "dev", "var/tmp", "root":
        (root / name).mkdir(parents=True)
    for name in "bin", "lib", "lib64", "sbin":
        (root / name).symlink_to(f"usr/{name}")
    for name in PROGRAMS:
        add_program(root, name)
    if python:
        add_python(root)
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1::/:/usr/sbin/nologin\n")
    (root / "etc/group").write_text("root:x:0:\ndaemon:x:1:")  # without its last newline
    (root / "usr/lib/os-release").write_text('ID=tiny\nPRETTY_NAME="Tiny 1"\nVERSION_CODENAME=tiny\n')
    (root / "etc/os-release").symlink_to("../usr/lib/os-release")
    root.chmod(0o755)
    if owner is not None:
        give(root, owner)
    return root


def give(root, owner):
    """Only root can, and only root needs to: else all that was made is ours."""
    if os.geteuid() != 0:
        return
    for path in [root, *root.rglob("*")]:
        mode = path.lstat().st_mode
        os.chown(path, owner, owner, follow_symlinks=False)
        if not path.is_symlink():
            path.chmod(mode & 0o7777)  # chown takes set-uid bits away


def manifest(root):
    """Everything that can be seen of a tree from outside, times of reading left out."""
    found = {}
    for path in [root, *sorted(root.rglob("*"))]:
        is_ = path.lstat()
        content = os.readlink(path) if path.is_symlink() else path.read_bytes() if path.is_file() else None
        found[str(path)] = (is_.st_mode, is_.st_uid, is_.st_gid, is_.st_size, is_.st_mtime_ns, is_.st_ctime_ns,
                            is_.st_nlink, is_.st_rdev, content)
    return found
