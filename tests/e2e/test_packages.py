"""install_packages_in_sandbox and check_packages_installation_status, from an index of the test's own that
only the server reaches: sandboxes have no network."""
import contextlib
import json
import socket
import threading

import pytest
import ssh_servers
from host import wait_until
from package_index import Authority, Index, proxy, sdist, serving, wheel


@pytest.fixture
def index():
    with serving() as made:
        made.add(wheel("abx-one", "1.0"))
        made.add(wheel("abx-one", "1.5"))
        made.add(wheel("abx-one", "2.0rc1"))
        made.add(wheel("abx-two", "3.1", requires=["abx-one>=1.2", "abx-nowhere; extra == 'more'",
                                                   "abx-nowhere; python_version < '3'"]))
        yield made


def server(host, place, index, **env):
    """A server of the same sandbox that knows the index."""
    config = host.folder / "ssh.toml"
    args = ["--config", str(config)] if config.exists() else []
    url = index if isinstance(index, str) else index.url
    other = host.server(*args, env={"ANYBOX_MIRROR_PYPI_INDEX_URL": url, **env})
    other.tool("select_sandbox", sandbox_name="work")
    return other


def install(client, *names, **more):
    return client.tool("install_packages_in_sandbox", 180, package_names=list(names), **more)


def check(client, *names):
    return client.tool("check_packages_installation_status", package_names=list(names))


def value(client, code):
    answer = client.tool("execute_python_code", code=code)
    assert answer["exit_code"] == 0, answer
    return answer.get("result")


def hide_pip(client):
    """As in a box whose python3 came without: what is there does not start."""
    client.bash("d=$(python3 -c 'import site; print(site.getusersitepackages())'); mkdir -p $d; "
                "echo 'import sys; sys.modules[\"pip\"] = sys.modules[\"ensurepip\"] = None' > $d/usercustomize.py")


# ---- what works everywhere --------------------------------------------------------------------------------

def test_what_is_installed_is_imported_by_the_interpreter(place, host, index):
    client = server(host, place, index)
    assert value(client, "'alive'") == "'alive'"  # it runs before anything is installed
    before = check(client, "abx-two", "Abx_One")
    assert (before["status"], before["success"]) == ("not_found", False)
    assert before["packages"] == {"abx-two": {"installed": False}, "Abx_One": {"installed": False}}
    answer = install(client, "abx-two")
    assert (answer["status"], answer["success"], answer["complete"]) == ("success", True, True), answer
    assert answer["packages"] == {"abx-two": {"installed": True, "version": "3.1"}}
    assert "3.1" in answer["message"] and "end_time" in answer
    assert value(client, "import abx_one, abx_two; abx_one.version, abx_two.version") == "('1.5', '3.1')"
    # From a sandbox without network nothing reaches the index but the server; a host does by itself.
    assert ("anybox" in index.agents) == (index.agents == {"anybox"}) == (place.provider in ("local", "docker"))
    assert client.bash("python3 -c 'import abx_two; print(abx_two.version)'")["stdout"] == "3.1\n"
    assert check(client, "abx-two", "Abx_One")["packages"] == {
        "abx-two": {"installed": True, "version": "3.1"}, "Abx_One": {"installed": True, "version": "1.5"}}


def test_without_pip_wheels_are_installed_all_the_same(place, host, index):
    if place.provider != "opensandbox":
        index.only = "anybox"  # a host that does not reach the index has it by the relay, too
    client = server(host, place, index)
    hide_pip(client)
    answer = install(client, "abx-two", "abx-one<1.5")
    assert answer["status"] == "failed" and "abx-one" in answer["message"], answer
    answer = install(client, "abx-two")
    assert answer["packages"]["abx-two"] == {"installed": True, "version": "3.1"}, answer
    assert value(client, "import abx_one; abx_one.version") == "'1.5'"
    assert install(client, "abx-one==1.0")["packages"]["abx-one==1.0"]["version"] == "1.0"
    assert value(client, "import importlib; importlib.reload(abx_one).version") == "'1.0'"
    missing = install(client, "abx-three")
    assert missing["status"] == "failed" and "no package \"abx-three\"" in missing["message"]
    assert check(client, "abx-three")["packages"]["abx-three"]["installed"] is False


def test_an_install_that_takes_long_becomes_a_task(place, host, index):
    free = threading.Event()
    file, data = wheel("abx-slow", "1.0")
    index.add((file, data))

    def slowly(request):
        free.wait(300)
        request.give(data, "application/octet-stream")

    index.special["/files/" + file] = slowly
    client = server(host, place, index, ANYBOX_DEFAULTS_EXEC_WINDOW="1")
    try:
        answer = install(client, "abx-slow")
        assert (answer["status"], answer["success"], answer["complete"]) == ("installing", None, False), answer
        wait_until(lambda: "/files/" + file in index.asked, timeout=120)
        seen = check(client, "abx-slow", "abx-one")
        assert seen["status"] == "installing"
        assert seen["packages"]["abx-slow"]["task_id"] == answer["task_id"]
        assert seen["packages"]["abx-slow"]["installing"] is True and not seen["packages"]["abx-slow"]["installed"]
        assert seen["packages"]["abx-one"] == {"installed": False}
        assert client.tool("check_background_task", task_id=answer["task_id"])["running"] is True
    finally:
        free.set()
    wait_until(lambda: check(client, "abx-slow")["status"] == "success", timeout=120)
    assert check(client, "abx-slow")["packages"]["abx-slow"] == {"installed": True, "version": "1.0"}
    end = client.tool("check_background_task", task_id=answer["task_id"], wait_s=60)
    assert (end["running"], end["exit_code"]) == (False, 0)
    assert value(client, "import abx_slow; abx_slow.version") == "'1.0'"


# ---- what is asked for ------------------------------------------------------------------------------------

@pytest.fixture
def pip(box, host, index):
    """A local sandbox with the index and its own pip."""
    client = server(host, box, index)
    if client.bash("python3 -m pip --version")["exit_code"] != 0:
        pytest.skip("this machine's python3 has no pip")
    return client


@pytest.fixture
def bare(box, host, index):
    """The same without any pip."""
    client = server(host, box, index)
    hide_pip(client)
    return client


MISTAKES = {
    "option": ["--extra-index-url=http://127.0.0.1/", "-r requirements.txt", "-e .", "-"],
    "address": ["https://127.0.0.1/x.whl", "abx-one @ file:///x", "git+ssh://h/x"],
    "path": ["./abx", "../x", "/etc", "x-1-py3-none-any.whl", "a\\b"],
    "marker": ["abx-one; python_version > '3'"], "empty": [""], "long": ["x" * 400], "extras": ["abx["],
    "no version": ["abx one", "abx-one==", "abx\none", "abx-one==$(id)"], "name": ["$(id)", "é"]}


def test_names_that_are_none_are_refused(client):
    for word, names in MISTAKES.items():
        for given in names:
            for tool in "install_packages_in_sandbox", "check_packages_installation_status":
                error = client.tool_error(tool, package_names=["abx-one", given])
                assert error["code"] == "invalid" and word in error["error"] and "numpy==1.26.4" in error["error"], error
    assert client.tool("list_sandboxes")["sandboxes"] == [], "nothing was made for any of them"


def test_a_sandbox_without_python_is_told(host, index):
    client = own_box(host, index, PATH="/home/user/bin")
    for tool in "install_packages_in_sandbox", "check_packages_installation_status":
        error = client.tool_error(tool, package_names=["abx-one"])
        assert error["code"] == "not_found" and "no python3" in error["error"], error


def test_names_may_have_versions_and_extras(bare):
    names = ["abx_one >= 1.0, < 1.5", "ABX.two[some]"]
    answer = install(bare, names[0])
    assert answer["packages"] == {"abx_one>=1.0,<1.5": {"installed": True, "version": "1.0"}}, answer
    assert install(bare, names[1])["packages"] == {"ABX.two[some]": {"installed": True, "version": "3.1"}}
    assert check(bare, "abx-one")["packages"]["abx-one"]["version"] == "1.5", "what the other needs"
    answer = install(bare, "abx-one==2.0rc1")
    assert answer["packages"] == {"abx-one==2.0rc1": {"installed": True, "version": "2.0rc1", "replaced": "1.5"}}
    assert "reset" in answer["note"]


def test_the_aliases_take_one_name(bare):
    answer = bare.tool("install_package_in_sandbox", 180, package_name="abx-one")
    assert answer["status"] == "success" and answer["packages"]["abx-one"]["version"] == "1.5"
    seen = bare.tool("check_package_installation_status", package_name="abx-one")
    assert (seen["status"], seen["success"]) == ("success", True)
    assert "package_name" in bare.tool_error("install_package_in_sandbox")["error"]


def test_a_wrong_version_and_a_missing_package_are_told(pip):
    answer = install(pip, "abx-one==7")
    assert (answer["status"], answer["success"], answer["complete"]) == ("failed", False, True)
    assert "abx-one==7" in answer["message"] and "1.5" in answer["stderr"], answer
    assert "last_error" in check(pip, "abx-one")["packages"]["abx-one"]
    missing = install(pip, "abx-missing")
    assert missing["status"] == "failed" and "abx-missing" in missing["message"], missing
    assert install(pip, "abx-one")["status"] == "success"
    assert check(pip, "abx-one")["packages"]["abx-one"] == {"installed": True, "version": "1.5"}


def test_source_packages_are_built(pip, index):
    index.add(sdist("abxsrc", "0.3"))
    assert install(pip, "abxsrc")["packages"]["abxsrc"] == {"installed": True, "version": "0.3"}
    assert value(pip, "import abxsrc; abxsrc.version") == "'0.3'"


def test_pip_comes_from_the_index_where_there_is_none(bare, index):
    index.add(wheel("pip", "99.0", "", members=[("pip/__main__.py", "import sys; print('this is', sys.argv[1:])\n")]))
    answer = install(bare, "abx-one")
    assert "/files/pip-99.0-py3-none-any.whl" in index.asked
    assert answer["status"] == "failed" and "not installed: abx-one" in answer["message"], answer


def own_box(host, index, **env):
    client = host.server(env={"ANYBOX_MIRROR_PYPI_INDEX_URL": index.url})
    client.tool("create_sandbox", name="other", env=env)
    client.tool("select_sandbox", sandbox_name="other")
    return client


def test_where_nothing_else_can_be_written_a_folder_of_ours_is_used(host, index):
    client = own_box(host, index, PYTHONNOUSERSITE="1")
    assert value(client, "1") == "1"
    answer = install(client, "abx-two")
    assert answer["packages"] == {"abx-two": {"installed": True, "version": "3.1"}}, answer
    assert "PYTHONPATH" in answer["note"]
    assert value(client, "import abx_two; abx_two.__file__.startswith('/home/user/.anybox/packages/')") == "True"
    assert install(client, "abx-one==1.0")["packages"]["abx-one==1.0"]["version"] == "1.0"
    assert value(client, "import abx_one; abx_one.version") == "'1.0'"


def test_an_environment_of_its_own_gets_the_packages(host, index):
    client = own_box(host, index, PATH="/home/user/v/bin:/usr/local/bin:/usr/bin:/bin")
    assert client.bash("/usr/bin/python3 -m venv --without-pip ~/v")["exit_code"] == 0
    answer = install(client, "abx-one")
    assert answer["status"] == "success" and "note" not in answer, answer
    assert value(client, "import abx_one; abx_one.__file__.startswith('/home/user/v/lib/')") == "True"
    assert client.bash("/usr/bin/python3 -c 'import abx_one'")["exit_code"] == 1


def test_a_full_disk_is_a_sentence_and_the_next_try_works(pip):
    pip.bash("cat /dev/zero > ~/full 2>/dev/null")
    answer = install(pip, "abx-one")
    assert answer["status"] == "failed" and "No space left" in answer["message"], answer
    assert "Traceback" not in answer["stderr"], answer
    pip.bash("rm ~/full")
    assert install(pip, "abx-one")["status"] == "success"


def test_uv_is_used_where_there_is_one(box, host, index):
    client = server(host, box, index)
    client.bash("mkdir -p ~/.local/bin; printf '#!/bin/sh\\necho \"$@\" >> ~/uv.said; env | grep -c ^UV_INDEX_URL=http://127 "
                ">> ~/uv.said; true\\n' > ~/.local/bin/uv; chmod +x ~/.local/bin/uv")
    install(client, "abx-one")
    said = client.bash("cat ~/uv.said")["stdout"].splitlines()
    assert said[0] == "--version" and said[2].startswith("pip install --python ") and said[2].endswith("-- abx-one")
    assert said[3] == "1"


# ---- an index that is not there, or is hostile ------------------------------------------------------------

def test_an_index_that_is_down_is_told(box, host):
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        client = server(host, box, f"http://127.0.0.1:{s.getsockname()[1]}/simple/")
        answer = install(client, "abx-one")
    assert answer["status"] == "failed" and "was not reached" in answer["message"], answer
    assert "was not reached" in check(client, "abx-one")["packages"]["abx-one"]["last_error"]


@pytest.fixture(scope="module")
def authority(tmp_path_factory):
    return Authority(tmp_path_factory.mktemp("authority"))


def test_an_index_with_an_authority_of_its_own_needs_its_name(box, host, authority):
    with serving(authority=authority) as index:
        index.add(wheel("abx-one", "1.5"))
        for more in {}, {"SSL_CERT_FILE": "/nonexistent.pem"}:
            client = server(host, box, index, **more)
            hide_pip(client)
            answer = install(client, "abx-one")
            assert answer["status"] == "failed" and "set SSL_CERT_FILE" in answer["message"], answer
        assert index.asked == []
        client = server(host, box, index, SSL_CERT_FILE=str(authority.file))
        assert install(client, "abx-one")["packages"]["abx-one"] == {"installed": True, "version": "1.5"}
        assert index.agents == {"anybox"}


def test_an_index_is_reached_by_the_proxy(box, host, index, authority):
    with proxy() as way, serving(authority=authority) as secure:
        secure.add(wheel("abx-far", "1"))
        client = server(host, box, index, http_proxy=way.url, no_proxy="", NO_PROXY="")
        hide_pip(client)
        assert install(client, "abx-one==1.0")["status"] == "success"
        assert way.asked == [index.base + path for path in index.asked] and way.asked[-1].endswith(".whl")
        way.asked.clear()
        client = server(host, box, secure, HTTPS_PROXY=way.url, no_proxy="", NO_PROXY="",
                        SSL_CERT_FILE=str(authority.file))
        assert install(client, "abx-far")["status"] == "success"
        assert set(way.asked) == {secure.host} and secure.asked[-1].endswith(".whl")


def test_past_the_proxy_nobody_is_reached_who_was_not_named(box, host, index, authority):
    """What an index links to is for the proxy to allow, unless there is none for it."""
    with proxy() as way, serving() as other, serving(authority=authority) as secure:
        for there, name in (other, "abx-near"), (secure, "abx-far"):
            there.add(wheel(name, "1"))
            file = next(iter(there.files))
            index.add(wheel(name, "1"), link=f"{there.base}/files/{file}")
        client = server(host, box, index, http_proxy=way.url, no_proxy="127.0.0.1", SSL_CERT_FILE=str(authority.file))
        hide_pip(client)
        assert install(client, "abx-near")["status"] == "success"
        assert way.asked == [other.base + path for path in other.asked] and len(way.asked) == 1
        answer = install(client, "abx-far")
        assert answer["status"] == "failed" and "mirror.file_hosts" in answer["message"], answer
        assert secure.asked == [] and len(way.asked) == 1


def test_without_an_index_and_a_network_it_says_what_to_set(box):
    error = box.tool_error("install_packages_in_sandbox", package_names=["abx-one"])
    assert error["code"] == "unsupported" and "pypi_index_url" in error["error"] and "[mirror]" in error["error"]


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/simple", "nonsense", "http://", "http://a b/", "http://h/?x"])
def test_an_index_whose_address_is_wrong_is_told(box, host, url):
    error = server(host, box, url).tool_error("install_packages_in_sandbox", package_names=["abx-one"])
    assert error["code"] == "invalid" and "mirror.pypi_index_url" in error["error"]


def test_secrets_of_the_index_go_to_it_and_nowhere_else(bare, box, host, index):
    client = server(host, box, index.url.replace("http://", "http://user:s3cr%2Ft@"))
    assert install(client, "abx-one")["status"] == "success"
    assert set(index.logins) == {"Basic dXNlcjpzM2NyL3Q="}
    other = Index()
    try:
        index.add(wheel("abx-far", "1"), link=f"http://{other.host}/files/abx_far-1-py3-none-any.whl")
        other.add(wheel("abx-far", "1"))
        client = server(host, box, index.url.replace("http://", "http://user:s3cr%2Ft@"),
                        ANYBOX_MIRROR_FILE_HOSTS=other.host)
        assert install(client, "abx-far")["status"] == "success"
        assert other.logins == [None]
    finally:
        other.close()
    assert "s3cr" not in client.bash("grep -rs s3cr ~ /proc/self/environ /tmp; env")["stdout"]


def test_files_of_another_host_need_a_public_address_or_a_name(bare, box, host, index):
    other = Index()
    try:
        other.add(wheel("abx-far", "1"))
        index.add(wheel("abx-far", "1"), link=f"http://{other.host}/files/abx_far-1-py3-none-any.whl")
        answer = install(bare, "abx-far")
        assert answer["status"] == "failed" and "mirror.file_hosts" in answer["message"], answer
        assert other.asked == []
        client = server(host, box, index, ANYBOX_MIRROR_FILE_HOSTS=f"files.example, {other.host}")
        assert install(client, "abx-far")["status"] == "success"
        assert other.asked == ["/files/abx_far-1-py3-none-any.whl"]
    finally:
        other.close()


def test_redirects_lead_nowhere_else(bare, index):
    other = Index()
    try:
        other.add(wheel("abx-far", "1"))
        index.special["/simple/abx-far/"] = lambda r: r.lead(f"http://localhost:{other.host.split(':')[1]}/simple/abx-far/")
        answer = install(bare, "abx-far")
        assert answer["status"] == "failed" and "not followed" in answer["message"], answer
        index.special["/simple/abx-far/"] = lambda r: r.lead(f"http://{other.host}/simple/abx-far/")
        assert install(bare, "abx-far")["status"] == "failed"
        index.special["/simple/abx-far/"] = lambda r: r.lead("file:///etc/passwd")
        assert install(bare, "abx-far")["status"] == "failed"
        index.special["/simple/abx-far/"] = lambda r: r.lead("/simple/abx-far/")
        assert "on and on" in install(bare, "abx-far")["message"]
        assert other.asked == []
        index.special["/simple/abx-far/"] = lambda r: r.lead("/simple/abx-one/")
        assert "no version" in install(bare, "abx-far")["message"], "the page of another project has none of its files"
    finally:
        other.close()


def test_a_file_that_is_too_large_is_cut_off(bare, box, host, index):
    def endless(request):
        request.send_response(200)
        request.end_headers()
        with contextlib.suppress(OSError):
            while True:
                request.wfile.write(b"x" * 65536)

    file, data = wheel("abx-huge", "1")
    index.add((file, data))
    index.special["/files/" + file] = endless
    client = server(host, box, index, ANYBOX_MIRROR_MAX_FILE_SIZE="1m")
    answer = install(client, "abx-huge")
    assert answer["status"] == "failed" and "more than 1048576 bytes" in answer["message"], answer
    assert not check(client, "abx-huge")["packages"]["abx-huge"]["installed"]


def test_a_wheel_that_reaches_out_is_refused(bare, index):
    for number, path in enumerate(["../../abx-out", "/tmp/abx-out", "abx_bad/../../abx-out", "a\\..\\abx-out"]):
        name = f"abx-bad{number}"
        index.add(wheel(name, "1", members=[(path, "out")]))
        answer = install(bare, name)
        assert answer["status"] == "failed" and "refused" in answer["message"], answer
    assert bare.bash("find / -xdev -name '*abx-out*' 2>/dev/null; find ~ -name '.anybox-*'")["stdout"] == ""


def test_a_file_that_is_not_what_the_index_says_is_refused(bare, index):
    file, data = wheel("abx-other", "1")
    index.add((file, data))
    index.files[file] = data + b" "
    answer = install(bare, "abx-other")
    assert answer["status"] == "failed" and "hash" in answer["message"], answer


# ---- the relay --------------------------------------------------------------------------------------------

LOOK = """
import json, urllib.request, urllib.error
ports = [int(l.split()[1].split(':')[1], 16) for l in open('/proc/net/tcp').read().splitlines()[1:]
         if l.split()[1].startswith('0100007F') and l.split()[3] == '0A']
said = []
for port in ports:
    for path in '/', '/simple/abx-one/', '/x/simple/abx-one/', '//simple/abx-one/', '/hold', '/%s/simple/abx-one/' % ('0' * 48):
        try:
            said.append(urllib.request.urlopen('http://127.0.0.1:%d%s' % (port, path), timeout=20).status)
        except urllib.error.HTTPError as e:
            said.append(e.code)
print(json.dumps([len(ports), said]))
"""


def test_nobody_uses_the_relay_without_its_secret_and_it_ends_with_its_installer(bare, box, host, index):
    free = threading.Event()
    file, data = wheel("abx-slow", "1.0")
    index.add((file, data))
    index.special["/files/" + file] = lambda r: (free.wait(300), r.give(data, "application/octet-stream"))
    client = server(host, box, index, ANYBOX_DEFAULTS_EXEC_WINDOW="1")
    try:
        assert install(client, "abx-slow")["status"] == "installing"
        wait_until(lambda: "/files/" + file in index.asked, timeout=120)
        asked = len(index.asked)
        ports, said = json.loads(client.tool("execute_python_code", code=LOOK, timeout_s=120)["stdout"])
        assert (ports, said) == (1, [404] * 6)
        assert len(index.asked) == asked
        seen = client.bash("cat /proc/[0-9]*/cmdline | tr '\\0' '\\n' | grep -c 'http://127.0.0.1:[0-9]'", timeout_s=60)["stdout"]
        assert seen == "0\n", "no argument list has the secret"
    finally:
        free.set()
    wait_until(lambda: check(client, "abx-slow")["status"] == "success", timeout=120)
    wait_until(lambda: json.loads(client.tool("execute_python_code", code=LOOK, timeout_s=60)["stdout"])[0] == 0, timeout=60)


def test_the_box_cannot_name_what_is_fetched(box, host, index):
    """What the relay is asked for is a project of the index or a file that a page has, never an address."""
    client = server(host, box, index)
    client.bash("""d=$(python3 -c 'import site; print(site.getusersitepackages())'); mkdir -p $d/pip; cat > $d/pip/__init__.py <<'END'
END
cat > $d/pip/__main__.py <<'END'
import base64, os, re, sys, urllib.error, urllib.parse, urllib.request
if "--version" in sys.argv: sys.exit(0)
url = os.environ["PIP_INDEX_URL"]
def ask(path):
    try:
        return urllib.request.urlopen(urllib.parse.urljoin(url, path), timeout=60).read()
    except urllib.error.HTTPError as e:
        return e.code
page = ask("abx-one/").decode()
link = re.search(r'href="(../../file/[^"#]*)', page).group(1)
other = base64.urlsafe_b64encode(b"-http://127.0.0.1:1/files/x.whl").decode().rstrip("=")
parts = link.split("/")
print("good", len(ask("abx-one/" + link)))
for path in (["../" + "/".join(["file", parts[3], other, parts[5]]), "abx-one/" + link + ".metadata", "../../x", "..%2f..%2fx/",
              "abx-one/" + link.replace(parts[3], "0" * 64), "a%20b/", "%0apage%20abx-two/"]):
    print("bad", ask(path))
sys.exit(3)
END
""")
    answer = install(client, "abx-one")
    assert (answer["status"], answer["exit_code"]) == ("failed", 3), answer
    good, *bad = answer["stdout"].splitlines()
    assert good == f"good {len(index.files['abx_one-1.0-py3-none-any.whl'])}"
    assert bad == ["bad 502", "bad 502", "bad 404", "bad 404", "bad 502", "bad 404", "bad 404"]
    assert set(index.asked) == {"/simple/abx-one/", "/files/abx_one-1.0-py3-none-any.whl"}


def test_an_install_ends_with_the_server_that_fetches_for_it(bare, box, host, index):
    file, data = wheel("abx-slow", "1.0")
    free = threading.Event()
    index.add((file, data))
    index.special["/files/" + file] = lambda r: free.wait(300)
    client = server(host, box, index, ANYBOX_DEFAULTS_EXEC_WINDOW="1")
    try:
        assert install(client, "abx-slow")["status"] == "installing"
        wait_until(lambda: "/files/" + file in index.asked, timeout=120)
        client.close()
        wait_until(lambda: check(bare, "abx-slow")["status"] == "failed", timeout=120)
        assert "anybox" in check(bare, "abx-slow")["packages"]["abx-slow"]["last_error"]
    finally:
        free.set()


def test_an_address_with_a_secret_stays_with_the_server(host, world, index):
    """A host that could reach the index by itself is not told how."""
    url = index.url.replace("http://", "http://user:s3cret@")
    client = host.server(env={"ANYBOX_MIRROR_PYPI_INDEX_URL": url, **ssh_servers.hosts(world.entry(world.server))})
    try:
        assert install(client, "abx-one")["status"] == "success"
        assert index.agents == {"anybox"} and None not in index.logins
    finally:
        client.bash("rm -rf ~/.local ~/.anybox/packages")
