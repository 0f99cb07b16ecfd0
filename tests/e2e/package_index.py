"""A package index of the tests' own on loopback, the wheels in it, and a proxy in front of it."""
import contextlib
import hashlib
import http.client
import http.server
import io
import select
import socket
import ssl
import subprocess
import tarfile
import threading
import urllib.parse
import zipfile


def wheel(name, version, text=None, requires=(), members=(), tag="py3-none-any"):
    """(file name, bytes) of a package whose module has its name and tells its version."""
    stem = f"{name.replace('-', '_')}-{version}"
    info = f"{stem}.dist-info"
    text = text if text is not None else f"version = {version!r}\n"
    files = [(f"{name.replace('-', '_')}/__init__.py", text),
             (f"{info}/METADATA", "\n".join(["Metadata-Version: 2.1", f"Name: {name}", f"Version: {version}",
                                             *(f"Requires-Dist: {r}" for r in requires), "", ""])),
             (f"{info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: {tag}\n"), *members]
    files.append((f"{info}/RECORD", "".join(f"{path},,\n" for path, _ in files) + f"{info}/RECORD,,\n"))
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w") as z:
        for path, content in files:
            z.writestr(path, content)
    return f"{stem}-{tag}.whl", data.getvalue()


def sdist(name, version):
    """A source package that builds itself without anything from an index: its backend is its own."""
    backend = f"""
import base64, os
WHEEL = {wheel(name, version)!r}
def get_requires_for_build_wheel(settings=None):
    return []
def build_wheel(folder, settings=None, metadata=None):
    with open(os.path.join(folder, WHEEL[0]), "wb") as f:
        f.write(WHEEL[1])
    return WHEEL[0]
"""
    files = {"pyproject.toml": '[build-system]\nrequires = []\nbuild-backend = "own"\nbackend-path = ["."]\n',
             "own.py": backend, "PKG-INFO": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n"}
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as tar:
        for path, content in files.items():
            entry = tarfile.TarInfo(f"{name}-{version}/{path}")
            entry.size = len(content.encode())
            tar.addfile(entry, io.BytesIO(content.encode()))
    return f"{name}-{version}.tar.gz", data.getvalue()


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        index = self.server.index
        agent = self.headers.get("User-Agent", "").split("/")[0]
        index.asked.append(self.path)
        index.agents.add(agent)
        index.logins.append(self.headers.get("Authorization"))
        if index.only and agent != index.only:
            self.give(b"not for you", "text/plain", 503)
            return
        answer = index.special.get(self.path)
        if answer:
            answer(self)
            return
        parts = self.path.strip("/").split("/")
        if len(parts) == 2 and parts[0] == "simple" and parts[1] in index.projects:
            self.give(index.page(parts[1]), "text/html")
        elif len(parts) == 2 and parts[0] == "files" and parts[1] in index.files:
            self.give(index.files[parts[1]], "application/octet-stream")
        else:
            self.give(b"nothing here", "text/plain", 404)

    def give(self, data, kind, status=200):
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def lead(self, to):
        self.send_response(302)
        self.send_header("Location", to)
        self.send_header("Content-Length", "0")
        self.end_headers()


class Authority:
    """One that nobody knows, and what it says about 127.0.0.1."""

    def __init__(self, folder):
        self.file, self.certificate, self.key = folder / "ca.pem", folder / "cert.pem", folder / "key.pem"
        new = ["openssl", "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
        for command in (
                [*new, "-x509", "-days", "2", "-subj", "/CN=ca", "-keyout", "ca-key.pem", "-out", "ca.pem"],
                [*new, "-subj", "/CN=index", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem",
                 "-out", "index.csr"],
                ["openssl", "x509", "-req", "-in", "index.csr", "-CA", "ca.pem", "-CAkey", "ca-key.pem",
                 "-CAcreateserial", "-days", "2", "-copy_extensions", "copy", "-out", "cert.pem"]):
            subprocess.run(command, cwd=folder, check=True, capture_output=True)


class QuietServer(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        """A client that does not trust us, or has gone: the test sees it there."""


class Index:
    """With an authority it speaks TLS."""

    def __init__(self, address="127.0.0.1", authority=None):
        self.projects, self.files, self.hashes = {}, {}, {}
        self.special = {}  # path: what answers it
        self.asked, self.logins, self.agents = [], [], set()
        self.only = None  # who is answered
        self.file_base = "../../files/"
        self.http = QuietServer((address, 0), Handler)
        self.http.index = self
        self.host = f"{address}:{self.http.server_address[1]}"
        self.base = f"{'https' if authority else 'http'}://{self.host}"
        self.url = f"{self.base}/simple/"
        if authority:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(authority.certificate, authority.key)
            self.http.socket = context.wrap_socket(self.http.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self.http.serve_forever, daemon=True).start()

    def add(self, made, project=None, attributes="", link=None):
        file, data = made
        name = project or file.split("-")[0].replace("_", "-").lower()
        self.files[file] = data
        self.hashes[file] = hashlib.sha256(data).hexdigest()
        self.projects.setdefault(name, []).append((file, attributes, link))

    def page(self, name):
        rows = [f'<a href="{link or self.file_base + file + "#sha256=" + self.hashes[file]}" {attributes}>{file}</a><br>'
                for file, attributes, link in self.projects[name]]
        return ("<!DOCTYPE html><html><body>" + "\n".join(rows) + "</body></html>").encode()

    def close(self):
        self.http.shutdown()
        self.http.server_close()


@contextlib.contextmanager
def serving(**more):
    index = Index(**more)
    try:
        yield index
    finally:
        index.close()


class ProxyHandler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_GET(self):
        self.server.asked.append(self.path)
        url = urllib.parse.urlsplit(self.path)
        there = http.client.HTTPConnection(url.netloc, timeout=60)
        try:
            there.request("GET", url.path, headers={"User-Agent": self.headers["User-Agent"]})
            answer = there.getresponse()
            data = answer.read()
        finally:
            there.close()
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.headers["Content-Type"])
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def do_CONNECT(self):
        self.server.asked.append(self.path)
        host, port = self.path.split(":")
        with socket.create_connection((host, int(port)), timeout=60) as there:
            self.send_response(200)
            self.end_headers()
            ends = {self.connection: there, there: self.connection}
            while True:
                for end in select.select(list(ends), [], [])[0]:
                    data = end.recv(1 << 16)
                    if not data:
                        self.close_connection = True
                        return
                    ends[end].sendall(data)


@contextlib.contextmanager
def proxy():
    """.url, and .asked: what it was asked for."""
    made = QuietServer(("127.0.0.1", 0), ProxyHandler)
    made.asked, made.url = [], f"http://127.0.0.1:{made.server_address[1]}"
    threading.Thread(target=made.serve_forever, daemon=True).start()
    try:
        yield made
    finally:
        made.shutdown()
        made.server_close()
