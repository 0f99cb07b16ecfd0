"""Chromium without a window, driven through its debugging pipe: messages on descriptors 3 and
4, each ended by a NUL. Only what the tests need."""
import base64
import itertools
import json
import os
import pathlib
import subprocess
import threading
import time

OPTIONS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run",
           "--disable-background-networking", "--disable-extensions", "--hide-scrollbars",
           "--force-color-profile=srgb", "--remote-debugging-pipe")


class Chromium:
    def __init__(self, profile):
        to_read, self._to = os.pipe()
        self._from, to_write = os.pipe()

        def descriptors():  # 3 and 4 may be among them
            spare = [os.dup(to_read), os.dup(to_write)]
            while min(spare) <= 4:
                spare = [os.dup(fd) for fd in spare]
            os.dup2(spare[0], 3)
            os.dup2(spare[1], 4)
        self.process = subprocess.Popen(["chromium", *OPTIONS, f"--user-data-dir={profile}", "about:blank"],
                                        preexec_fn=descriptors, close_fds=False, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(to_read)
        os.close(to_write)
        self._ids, self._answers, self.events = itertools.count(1), {}, []
        self._changed = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self):
        rest = b""
        while True:
            piece = os.read(self._from, 1 << 20)
            if not piece:
                break
            *messages, rest = (rest + piece).split(b"\0")
            with self._changed:
                for message in map(json.loads, messages):
                    if "id" in message:
                        self._answers[message["id"]] = message
                    else:
                        self.events.append(message)
                self._changed.notify_all()

    def send(self, method, session=None, timeout=30, **params):
        number = next(self._ids)
        message = {"id": number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        with self._changed:
            assert self._changed.wait_for(lambda: number in self._answers, timeout), f"{method}: no answer"
            answer = self._answers.pop(number)
        assert "error" not in answer, (method, answer)
        return answer["result"]

    def tab(self):
        return Tab(self)

    def close(self):
        os.close(self._to)  # it ends with its pipe
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Tab:
    def __init__(self, browser):
        self.browser = browser
        self.context = browser.send("Target.createBrowserContext")["browserContextId"]
        target = browser.send("Target.createTarget", url="about:blank", browserContextId=self.context)["targetId"]
        self.session = browser.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(domain + ".enable")
        self.size(1280, 900)

    def send(self, method, **params):
        return self.browser.send(method, self.session, **params)

    def close(self):
        self.browser.send("Target.disposeBrowserContext", browserContextId=self.context)

    def size(self, width, height):
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def dark(self, on=True):
        self.send("Emulation.setEmulatedMedia",
                  features=[{"name": "prefers-color-scheme", "value": "dark" if on else "light"}])

    def open(self, url):
        self.send("Page.navigate", url=url)

    def js(self, expression):
        result = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    def wait(self, expression, timeout=15):
        """Until it is true, also while the page is only coming; gives its value."""
        end = time.monotonic() + timeout
        while True:
            value = self.js("(() => { try { const v = (" + expression + "); return v instanceof Node ? true : v; }"
                            " catch { return false; } })()")
            if value:
                return value
            assert time.monotonic() < end, f"never true: {expression}\n{self.js('document.body.innerText')}"
            time.sleep(0.05)

    def type(self, selector, text):
        self.js(f"document.querySelector({json.dumps(selector)}).focus()")
        self.send("Input.insertText", text=text)

    def key(self, name, code=0, modifiers=0, text=""):
        for kind in ("keyDown", "keyUp"):
            self.send("Input.dispatchKeyEvent", type=kind, key=name, windowsVirtualKeyCode=code,
                      modifiers=modifiers, **({"text": text} if text and kind == "keyDown" else {}))

    def click(self, selector):
        x, y = self.js(f"(() => {{ const e = document.querySelector({json.dumps(selector)}); e.scrollIntoView({{block: 'center'}});"
                       "const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()")
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def problems(self):
        """What the page logged as errors, beside answers that are errors; all requests it made."""
        mine = [e for e in self.browser.events if e.get("sessionId") == self.session]
        texts = [e["params"]["entry"]["text"] for e in mine if e["method"] == "Log.entryAdded"
                 and e["params"]["entry"]["level"] == "error" and e["params"]["entry"]["source"] != "network"]
        texts += [str(e["params"]["exceptionDetails"]) for e in mine if e["method"] == "Runtime.exceptionThrown"]
        return texts

    def requested(self):
        return [e["params"]["request"]["url"] for e in self.browser.events
                if e.get("sessionId") == self.session and e["method"] == "Network.requestWillBeSent"]

    def shot(self, name):
        """A picture, when somebody wants to look."""
        folder = os.environ.get("SHOTS")
        if folder:
            data = self.send("Page.captureScreenshot", format="png")["data"]
            pathlib.Path(folder, name + ".png").write_bytes(base64.b64decode(data))
