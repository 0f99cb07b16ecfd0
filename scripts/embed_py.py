#!/usr/bin/env python3
"""embed_py.py [--compiled] NAME.h PROGRAM.py PART.py... - a Python program as one C string, NAME.

PROGRAM is what runs; the others are constants in front of it, each named like its file in capitals,
so that they are compiled only where they are needed. Lines that are only a comment are left out.
With --compiled there are two constants more: MADE, what this Python makes of the parts, and MADE_FOR,
which Python that is.
"""
import ast
import base64
import importlib.util
import marshal
import pathlib
import sys
import zlib

ARGUMENT_MAX = 128 << 10  # Linux takes no longer ones; shells write a quote as four characters


def short(path):
    lines = path.read_text().splitlines()
    return "".join(line + "\n" for line in lines if line.strip() and not line.strip().startswith("#"))


def c_bytes(name, data):
    """Numbers: a C compiler need not take long strings."""
    rows = [data[i:i + 24] for i in range(0, len(data), 24)]
    lines = ("    " + " ".join(f"{b if b < 128 else b - 256}," for b in row) for row in rows)
    return f"static const char {name}[] = {{\n" + "\n".join(lines) + "\n    0};\n"


def small(path):
    """Its code, all of which is in line 1: the tables of lines would be half of it, and nobody is shown them."""
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if hasattr(node, "lineno"):
            node.lineno = node.end_lineno = 1
            node.col_offset = node.end_col_offset = 0
    return compile(tree, "<anybox>", "exec", optimize=2)


def made(parts):
    code = {p.stem: small(p) for p in parts}
    which = f"{sys.implementation.cache_tag} {importlib.util.MAGIC_NUMBER.hex()}"
    text = base64.b64encode(zlib.compress(marshal.dumps(code), 9)).decode()
    return f"MADE_FOR = {which!r}\nMADE = {text!r}\n"


def main():
    is_compiled = sys.argv[1] == "--compiled"
    out, program, *parts = (pathlib.Path(a) for a in sys.argv[1 + is_compiled:])
    source = "".join(f"{p.stem.upper()} = {short(p)!r}\n" for p in parts)
    source += (made(parts) if is_compiled else "") + short(program)
    if len(source.encode()) + 3 * source.count("'") >= ARGUMENT_MAX:
        sys.exit(f"{out.name} would be too long for an argument")
    compile(source, str(program), "exec")
    for part in parts:
        compile(part.read_text(), str(part), "exec")
    out.write_text("/* Made by embed_py.py. */\n" + c_bytes(out.stem, source.encode()))


main()
