"""`anybox serve` as a test has it: started on a free port, with two keys, and spoken to in
plain HTTP. Boxes belong to keys, so close() deletes them with each key."""
import collections
import http.client
import json
import re
import signal
import subprocess
import threading
import urllib.parse

KEY = "key-of-the-tests-0123456789"
OTHER = "key-of-another-0123456789ab"

Response = collections.namedtuple("Response", "status headers body")


class HttpServer:
    def __init__(self, host, *args, env=None, no_auth=False):
        keys = {} if no_auth else {"ANYBOX_HTTP_KEYS": f"tests:{KEY},other:{OTHER}"}
        self.host, self.no_auth = host, no_auth
        self.log = []
        self.process = host.popen("serve", "--port", "0", *(["--no-auth"] if no_auth else []), *args,
                                  env={**keys, **(env or {})}, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.url = None
        for line in self.process.stderr:
            self.log.append(line.decode("utf-8", "replace"))
            found = re.search(r"http://([^/\s]+):(\d+)/mcp", self.log[-1])
            if found:
                self.address, self.port = found.group(1), int(found.group(2))
                self.url = f"http://{self.address}:{self.port}"
                break
        assert self.url, "".join(self.log)
        self._drain = threading.Thread(target=lambda: self.log.extend(
            line.decode("utf-8", "replace") for line in self.process.stderr), daemon=True)
        self._drain.start()

    @property
    def pid(self):
        return self.process.pid

    def connect(self, timeout=60):
        return http.client.HTTPConnection(self.address, self.port, timeout=timeout)

    def headers(self, key=KEY, **more):
        return {**({} if key is None or self.no_auth else {"Authorization": f"Bearer {key}"}), **more}

    def request(self, method, path, body=None, headers=None, key=KEY, timeout=60):
        """One request on a connection of its own."""
        connection = self.connect(timeout)
        try:
            headers = {**self.headers(key), **(headers or {})}
            connection.request(method, path, body, headers, encode_chunked="Transfer-Encoding" in headers)
            response = connection.getresponse()
            return Response(response.status, response.headers, response.read())
        finally:
            connection.close()

    def get(self, path, **more):
        return self.request("GET", path, **more)

    def call(self, tool, arguments=None, **more):
        """The status and the JSON of a tool's answer."""
        body = None if arguments is None else json.dumps(arguments)
        headers = {"Content-Type": "application/json", **more.pop("headers", {})}
        response = self.request("POST", f"/mcp/tools/{tool}", body, headers, **more)
        assert response.headers["Content-Type"] == "application/json"
        return response.status, json.loads(response.body)

    def tool(self, tool, key=KEY, **arguments):
        status, answer = self.call(tool, arguments, key=key)
        assert status == 200, answer
        return answer

    @staticmethod
    def file_path(path, **more):
        query = urllib.parse.urlencode({**more, "file_path": path}, quote_via=urllib.parse.quote)
        return f"/sandbox/file?{query}"

    def memory(self):
        """The most that the server's memory ever was, in bytes."""
        with open(f"/proc/{self.pid}/status", encoding="ascii") as status:
            return int(re.search(r"VmHWM:\s+(\d+) kB", status.read()).group(1)) * 1024

    def stop(self, timeout=30):
        """SIGTERM; gives the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(timeout)

    def close(self):
        if self.process.poll() is None:
            for key in (KEY, OTHER):
                boxes = self.tool("list_sandboxes", key=key)
                for box in boxes if isinstance(boxes, list) else boxes["sandboxes"]:
                    self.host.ids.add(box["sandbox_id"])
                    self.tool("delete_sandbox", key=key, sandbox_id=box["sandbox_id"])
            assert self.stop() == 0, "".join(self.log)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
