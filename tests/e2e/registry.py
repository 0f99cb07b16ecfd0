"""A registry of the tests' own on loopback, which engines speak to without TLS: one image, for everybody
or for who has a name and a password."""
import base64
import hashlib
import http.server
import io
import json
import tarfile
import threading


def small_archive():
    """A root that nothing can run in."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        text = b"root:x:0:0:root:/root:/bin/sh\n"
        entry = tarfile.TarInfo("etc/passwd")
        entry.size = len(text)
        tar.addfile(entry, io.BytesIO(text))
    return out.getvalue()


def digest(data):
    return "sha256:" + hashlib.sha256(data).hexdigest()


class Registry:
    """`asked` are the paths of requests that were answered."""

    def __init__(self, archive=None, person=""):
        layer = archive or small_archive()
        config = json.dumps({"architecture": "amd64", "os": "linux", "config": {},
                             "rootfs": {"type": "layers", "diff_ids": [digest(layer)]}}).encode()
        kind = "application/vnd.docker."
        manifest = json.dumps({
            "schemaVersion": 2, "mediaType": kind + "distribution.manifest.v2+json",
            "config": {"mediaType": kind + "container.image.v1+json", "size": len(config), "digest": digest(config)},
            "layers": [{"mediaType": kind + "image.rootfs.diff.tar", "size": len(layer), "digest": digest(layer)}]}).encode()
        self.blobs = {digest(d): d for d in (layer, config, manifest)}
        self.manifest, self.asked = manifest, []
        self.wanted = "Basic " + base64.b64encode(person.encode()).decode() if person else None
        registry = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                registry.answer(self)

            do_HEAD = do_GET

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.address = f"127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def answer(self, request):
        status, kind, body = 404, "application/json", b'{"errors":[{"code":"NAME_UNKNOWN","message":"no such image"}]}'
        parts = request.path.split("/")
        if self.wanted and request.headers.get("Authorization") != self.wanted:
            status, body = 401, b'{"errors":[{"code":"UNAUTHORIZED","message":"who are you?"}]}'
        elif request.path == "/v2/":
            status, body = 200, b"{}"
        elif "manifests" in parts and parts[2] == "image":
            status, kind, body = 200, "application/vnd.docker.distribution.manifest.v2+json", self.manifest
        elif "blobs" in parts and parts[-1] in self.blobs:
            status, kind, body = 200, "application/octet-stream", self.blobs[parts[-1]]
        if status == 200:
            self.asked.append(request.path)
        request.send_response(status)
        if status == 401:
            request.send_header("WWW-Authenticate", 'Basic realm="tests"')
        request.send_header("Content-Type", kind)
        request.send_header("Content-Length", str(len(body)))
        request.send_header("Docker-Content-Digest", digest(body))
        request.end_headers()
        if request.command != "HEAD":
            request.wfile.write(body)

    def close(self):
        self.server.shutdown()
        self.server.server_close()
