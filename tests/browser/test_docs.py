"""The page at /docs, used as a person uses it."""
import json

from http_server import KEY

ENTER, CTRL = ("Enter", 13), 2


def enter_key(page, key=KEY):
    page.type("#key", key)
    page.key(*ENTER, text="\r")


def open_call(page, web, name):
    page.open(f"{web.url}/docs#{name}")
    page.wait("document.querySelector('#form') !== null")


def answer(page):
    page.wait("document.querySelector('#answer .status') && !document.querySelector('#run').disabled")
    return page.js("document.querySelector('#answer').innerText")


def test_a_person_runs_calls(page, web):
    page.open(web.url + "/docs")
    page.wait("document.querySelectorAll('.card').length > 10")
    assert page.wait("document.querySelector('#key-state').innerText") == "needed"
    page.shot("overview")
    enter_key(page)
    page.wait("document.querySelector('#key-state').innerText === 'accepted'")
    page.click(".side a[href='#list_sandboxes']")
    page.wait("document.querySelector('h1').innerText.length && document.querySelector('#form')")
    page.click("#run")
    text = answer(page)
    assert "200" in text and '"sandboxes": []' in text
    page.shot("list_sandboxes")
    page.click(".side a[href='#exec_bash']")
    page.wait("document.querySelector('#in-command')")
    page.type("#in-command", "echo '<b>out</b>'; echo err >&2; exit 3")
    page.type("#in-timeout_s", "20")
    page.key(*ENTER, modifiers=CTRL)
    text = answer(page)
    assert page.js("document.querySelector('[data-part=stdout]').textContent") == "<b>out</b>\n"
    assert page.js("document.querySelector('[data-part=stderr]').textContent") == "err\n"
    assert '"exit_code": 3' in text
    assert "'\\''<b>out</b>'\\''" in page.js("document.querySelector('#curl').textContent")
    page.shot("exec_bash")
    page.size(1280, 1500)
    page.dark()
    page.shot("exec_bash-dark")
    page.size(420, 1200)
    page.shot("exec_bash-narrow")
    assert page.js("document.documentElement.scrollWidth <= innerWidth")
    assert page.problems() == []
    assert all(url.startswith(web.url) or url.startswith("data:") for url in page.requested())
    assert KEY not in "".join(page.requested())


def test_errors_are_shown(page, web):
    open_call(page, web, "exec_bash")
    page.click("#run")  # the command is missing: the browser says so, nothing is sent
    assert not any("/mcp/tools/" in url for url in page.requested())
    page.type("#in-command", "true")
    page.click("#run")
    assert "401" in answer(page)
    enter_key(page, "wrong-key-0123456789")
    page.wait("document.querySelector('#key-state').innerText === 'refused'")
    page.js("document.querySelector('#key').value = ''")
    enter_key(page)
    page.wait("document.querySelector('#key-state').innerText === 'accepted'")
    page.type("#in-sandbox_name", "none")
    page.click("#run")
    assert "404" in answer(page) and page.js("document.querySelector('[data-part=error]').textContent")
    page.shot("error")
    assert page.problems() == []


def test_the_key_ends_with_the_tab(browser, page, web):
    open_call(page, web, "list_sandboxes")
    enter_key(page)
    page.wait("document.querySelector('#key-state').innerText === 'accepted'")
    assert page.js("localStorage.length + document.cookie.length") == 0
    page.send("Page.reload")
    page.wait("document.querySelector('#key-state').innerText === 'accepted'")
    other = browser.tab()
    other.open(web.url + "/docs")
    other.wait("document.querySelector('#key-state').innerText === 'needed'")
    other.close()


def test_a_call_can_be_stopped(page, web):
    web.tool("create_sandbox", name="a")
    open_call(page, web, "exec_bash")
    enter_key(page)
    page.type("#in-command", "echo $$ > pid; exec sleep 300")
    page.click("#run")
    page.wait("!document.querySelector('#stop').disabled")
    page.js("new Promise((done) => setTimeout(done, 500))")
    page.click("#stop")
    assert "taken back" in answer(page)
    assert web.tool("exec_bash", command="sleep 1; kill -0 $(cat pid)")["exit_code"] != 0


def test_keys_alone_are_enough(page, web):
    page.open(web.url + "/docs")
    page.wait("document.querySelectorAll('.card').length > 10")
    page.key("/", 191, text="/")
    assert page.js("document.activeElement.id") == "filter"
    page.send("Input.insertText", text="sandbox/file")
    assert page.wait("[...document.querySelectorAll('.side a')].map((a) => a.innerText)") == ["get_file", "put_file"]
    page.key("Tab", 9)
    assert page.js("document.activeElement.innerText") == "get_file"
    page.key(*ENTER, text="\r")
    page.wait("location.hash === '#get_file' && document.querySelector('#in-file_path')")
    page.js("document.querySelector('#filter').value = 'nothing of that'; document.querySelector('#filter').dispatchEvent(new Event('input'))")
    assert "No call" in page.js("document.querySelector('#list').innerText")


def test_files_come_and_go(page, web):
    web.tool("create_sandbox", name="a")
    web.tool("exec_bash", command="printf 'one\\ntwo' > note.txt")
    open_call(page, web, "get_file")
    enter_key(page)
    page.wait("document.querySelector('#key-state').innerText === 'accepted'")
    page.type("#in-file_path", "note.txt")
    page.click("#run")
    assert "one\ntwo" in answer(page)
    assert page.js("document.querySelector('#answer a[download]').download") == "note.txt"
    page.shot("get_file")
    open_call(page, web, "put_file")
    page.wait("document.querySelector('#in-file')")
    page.type("#in-file_path", "deep/up.txt")
    page.js("(() => { const t = new DataTransfer(); t.items.add(new File(['from a page'], 'up.txt'));"
            "document.querySelector('#in-file').files = t.files; })()")
    page.click("#run")
    assert "201" in answer(page)
    assert web.tool("exec_bash", command="cat deep/up.txt")["stdout"] == "from a page"
    assert page.problems() == []


def test_every_call_has_a_form(page, web):
    page.open(web.url + "/docs")
    page.wait("document.querySelectorAll('.card').length > 10")
    names = page.js("[...document.querySelectorAll('.side a')].map((a) => a.hash.slice(1))")
    described = [op["operationId"] for item in json.loads(web.get("/openapi.json").body)["paths"].values()
                 for method, op in item.items() if method != "parameters"]
    assert sorted(names) == sorted(described)
    for name in names:
        page.js(f"location.hash = {json.dumps(name)}")
        page.wait(f"document.title === {json.dumps(name + ' · anybox')} && document.querySelector('#run')")
        unlabelled = page.js("[...document.querySelectorAll('main input, main select, main textarea')]"
                             ".filter((e) => !document.querySelector(`label[for='${e.id}']`)).length")
        assert unlabelled == 0, name
    assert page.problems() == []
