#!/usr/bin/env python3
"""embed.py HTML CSS JS JSON OUT.h - what the HTTP server shows, as C.

The style and the script go into the page, and the page's Content-Security-Policy allows
exactly these two by their hashes. The JSON is made compact.
"""
import base64
import hashlib
import json
import pathlib
import sys


def c_bytes(name, data):
    """A char array with a terminator, twelve numbers a line."""
    rows = [data[i:i + 24] for i in range(0, len(data), 24)]
    lines = ["    " + "".join(f"{b if b < 128 else b - 256}, " for b in row).rstrip() for row in rows]
    return f"static const char {name}[] = {{\n" + "\n".join(lines) + "\n    0};\n"


def source(text):
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"


def main():
    html, css, js, base, out = (pathlib.Path(a) for a in sys.argv[1:])
    style, script = css.read_text(), js.read_text()
    if "</style" in style or "</script" in script:
        sys.exit("embed.py: the style or the script would end its own element")
    page = html.read_text().replace("{{style}}", style).replace("{{script}}", script)
    policy = (f"default-src 'none'; script-src {source(script)}; style-src {source(style)}; "
              "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
              "frame-ancestors 'none'")
    compact = json.dumps(json.loads(base.read_text()), ensure_ascii=False, separators=(",", ":"))
    out.write_text("/* Made by embed.py. */\n"
                   f'#define ASSETS_DOCS_CSP "{policy}"\n'
                   + c_bytes("assets_docs", page.encode())
                   + c_bytes("assets_openapi", compact.encode()))


main()
