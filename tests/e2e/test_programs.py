"""Programs that people run all day, in a box: the filter and the small file system must not
be in their way. Each does its real work; that it prints a version proves little."""
import os
import shutil

import pytest

pytestmark = pytest.mark.every_tier

MUST_RUN = os.environ.get("ANYBOX_MUST_RUN", "").split(",")
MUST_HAVE = ("bash", "gcc", "gdb", "git", "python3")  # scripts/setup.sh test
PATH = "/usr/local/bin:/usr/bin:/bin"  # what a box has

ADD_C = """
#include <stdio.h>
#include <stdlib.h>
static int add(int a, int b)
{
    return a + b;
}
int main(int argc, char **argv)
{
    printf("%d\\n", add(argc, atoi(argv[1])));
    return 0;
}
"""

ADD_CPP = """
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <thread>
int main()
{
    std::map<std::string, int> seen;
    std::thread other([&] { seen["thread"]++; });
    other.join();
    try {
        throw std::runtime_error("thrown");
    } catch (const std::exception &e) {
        std::cout << e.what() << " " << seen["thread"] << std::endl;
    }
}
"""

WHEEL = """
import zipfile
info = "greet-1.0.dist-info"
with zipfile.ZipFile("greet-1.0-py3-none-any.whl", "w") as z:
    z.writestr("greet.py", "def main():\\n    print('greetings')\\n")
    z.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\\nName: greet\\nVersion: 1.0\\n")
    z.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n")
    z.writestr(f"{info}/entry_points.txt", "[console_scripts]\\ngreet = greet:main\\n")
    z.writestr(f"{info}/RECORD", "")
"""

TEST_PY = """
import multiprocessing, subprocess, sys, tempfile, threading
def test_tmp(tmp_path):
    (tmp_path / "a").write_text("a")
def test_process():
    assert subprocess.check_output([sys.executable, "-c", "print(1)"]) == b"1\\n"
def test_pool():
    with multiprocessing.Pool(2) as pool:
        assert pool.map(abs, [-1, 2]) == [1, 2]
def test_thread():
    t = threading.Thread(target=tempfile.gettempdir)
    t.start()
    t.join()
def test_wrong():
    assert 1 == 2
"""

NODE_JS = """
const fs = require('fs'), http = require('http'), { Worker } = require('worker_threads');
const { execFileSync } = require('child_process');
fs.writeFileSync('f', 'file');
const said = execFileSync('cat', ['f']).toString();
new Worker('require("worker_threads").parentPort.postMessage("worker")', { eval: true }).on('message', (m) => {
    const server = http.createServer((q, r) => r.end('http')).listen(0, '127.0.0.1', () => {
        http.get(server.address(), (r) => r.on('data', (d) => { console.log(said, m, d.toString()); server.close(); }));
    });
});
"""


def need(*programs):
    missing = [p for p in programs if not shutil.which(p, path=PATH)]
    if missing:
        hard = "local" in MUST_RUN and set(missing) & set(MUST_HAVE)
        (pytest.fail if hard else pytest.skip)(f"not on this machine: {', '.join(missing)}")


def bash(box, command, **more):
    answer = box.bash(command, timeout_s=100, **more)
    assert answer["exit_code"] == 0, answer
    return answer["stdout"]


def put(box, path, text):
    bash(box, f"mkdir -p \"$(dirname '{path}')\" && cat > '{path}'", stdin=text)


def test_a_c_program_is_compiled_and_run(box):
    need("gcc")
    put(box, "add.c", ADD_C)
    assert bash(box, "gcc -Wall -O2 -pipe -o add add.c && ./add 40") == "42\n"


def test_a_program_with_a_sanitizer(box):
    need("gcc")
    isolation = box.tool("list_sandboxes")["sandboxes"][0]["isolation"]
    if "rlimits" in isolation:
        pytest.skip("it reserves terabytes of addresses, and without cgroups it is those that are limited")
    put(box, "add.c", ADD_C)
    assert bash(box, "gcc -g -fsanitize=address,undefined -o checked add.c && ./checked 1") == "3\n"


def test_a_cpp_program_with_threads_and_exceptions(box):
    need("g++")
    put(box, "add.cpp", ADD_CPP)
    assert bash(box, "g++ -std=c++17 -pthread -o add add.cpp && ./add") == "thrown 1\n"


def test_make_builds_in_parallel_and_knows_what_is_done(box):
    need("gcc", "make")
    put(box, "add.c", ADD_C)
    put(box, "Makefile", ".PHONY: all\nall: a b c\n%: add.c\n\tgcc -o $@ add.c\n")
    bash(box, "make -j4 && ./a 1 && ./b 1 && ./c 1")
    assert "Nothing to be done" in bash(box, "make")


def test_gdb_breaks_and_shows_where_it_is(box):
    need("gcc", "gdb")
    put(box, "add.c", ADD_C)
    said = bash(box, "gcc -g -O0 -o add add.c && gdb -q -nx -batch -ex 'break add' -ex run -ex bt -ex 'print b' "
                     "-ex finish -ex continue --args ./add 41")
    assert "Breakpoint 1, add (a=2, b=41)" in said and "in main (argc=2," in said, said
    assert "$1 = 41" in said and "Value returned" in said, said
    assert "exited normally" in said, said


def test_gdb_attaches_to_what_runs(box):
    need("gdb")
    said = bash(box, "sleep 60 & gdb -q -nx -batch -p $! -ex 'info inferiors' -ex detach; kill $!")
    assert "process" in said and "detached" in said.lower(), said


def test_strace_shows_system_calls(box):
    need("strace")
    bash(box, "strace -f -o trace sh -c 'cat /etc/hostname; true'")
    assert "execve(" in bash(box, "cat trace") and "hostname" in bash(box, "cat trace")


def test_git_keeps_a_history(box):
    need("git")
    said = bash(box, """
        git init -q -b main here && cd here && git config user.email a@example.org && git config user.name A
        echo one > f && git add f && git commit -q -m first && echo two >> f && git commit -q -a -m second
        git branch side HEAD~1 && git checkout -q side && echo other > g && git add g && git commit -q -m third
        git merge -q -m merged main && git log --format=%s && git gc -q && git fsck --strict
        cd .. && git clone -q here there && git -C there log --oneline | wc -l
    """)
    # Two of them in the same second may be told in either order.
    assert sorted(said.split()) == ["4", "first", "merged", "second", "third"], said


def test_git_serves_over_loopback(box):
    need("git")
    said = bash(box, """
        git init -q --bare d/r.git
        git daemon --reuseaddr --listen=127.0.0.1 --port=9418 --base-path=$PWD/d --export-all --detach
        for i in $(seq 50); do git ls-remote git://127.0.0.1/r.git && echo reached && break; sleep 0.1; done
    """)
    assert said == "reached\n"


def test_pytest_runs_and_fails_as_it_should(box):
    need("python3")
    put(box, "test_it.py", TEST_PY)
    answer = box.bash("python3 -m pytest -q -p no:cacheprovider test_it.py", timeout_s=100)
    if "No module named pytest" in answer["stderr"]:
        (pytest.fail if "local" in MUST_RUN else pytest.skip)("not on this machine: python3-pytest")
    assert answer["exit_code"] == 1 and "1 failed, 4 passed" in answer["stdout"], answer


def test_pip_installs_a_wheel_into_a_venv(box):
    need("python3")
    if box.bash("python3 -c 'import venv, ensurepip'")["exit_code"] != 0:
        pytest.skip("not on this machine: python3-venv")
    bash(box, "python3 -", stdin=WHEEL)
    bash(box, "python3 -m venv env && env/bin/pip install -q --no-index ./greet-1.0-py3-none-any.whl")
    assert bash(box, "env/bin/greet && env/bin/pip list --format=freeze | grep greet") == "greetings\ngreet==1.0\n"


def test_node_reads_forks_threads_and_listens(box):
    need("node")
    put(box, "it.js", NODE_JS)
    assert bash(box, "node it.js") == "file worker http\n"


def test_npm_runs_a_script_of_a_package(box):
    need("npm")
    put(box, "package.json", '{"name": "it", "version": "1.0.0", "scripts": {"hello": "echo from npm"}}')
    assert "from npm" in bash(box, "npm run --silent --offline hello")


def test_perl_forks_and_talks_through_pipes(box):
    need("perl")
    assert bash(box, """perl -MPOSIX -e 'open(F, "-|", "echo piped"); print <F>; waitpid(fork || exit(3), 0); print $? >> 8'""") \
        == "piped\n3"


def test_tar_brings_back_what_it_took(box):
    need("tar")
    bash(box, "mkdir -p t/sub && echo x > t/sub/f && ln -s sub/f t/link && ln t/sub/f t/hard && chmod 640 t/sub/f")
    bash(box, "tar -czf t.tar.gz t && mkdir out && tar -xzf t.tar.gz -C out && diff -r t out/t")
    assert bash(box, "stat -c %a out/t/sub/f && readlink out/t/link && stat -c %h out/t/hard") == "640\nsub/f\n2\n"


def test_sqlite_locks_and_syncs(box):
    if not shutil.which("sqlite3", path=PATH):
        need("python3")
        said = bash(box, "python3 -", stdin="import sqlite3\nd = sqlite3.connect('d')\nprint(d.execute('pragma "
                                            "journal_mode=wal').fetchone()[0])\nd.execute('create table t(a)')\n"
                                            "d.execute('insert into t values(7)')\nd.commit()\n"
                                            "print(d.execute('select a from t').fetchone()[0])")
    else:
        said = bash(box, "sqlite3 d 'pragma journal_mode=wal; create table t(a); insert into t values(7);' && "
                         "sqlite3 d 'select a from t'")
    assert said.split() == ["wal", "7"]


def test_links_and_renames_across_folders(box):
    """Landlock could forbid both."""
    assert bash(box, "mkdir a b && echo x > a/f && ln a/f b/l && mv a/f b/f && mkdir a/d && mv a/d b/d && ls b") == \
        "d\nf\nl\n"


def test_a_shell_has_jobs_fifos_and_a_terminal(box):
    need("script")
    assert bash(box, "mkfifo p; echo through > p & cat p; wait") == "through\n"
    assert "/dev/pts/" in bash(box, "script -qec tty /dev/null < /dev/null")
