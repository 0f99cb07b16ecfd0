#!/usr/bin/env python3
"""embed_py.py NAME.h PROGRAM.py PART.py... - a Python program as one C string, NAME.

PROGRAM is what runs; the others are constants in front of it, each named like its file in capitals,
so that they are compiled only where they are needed. Lines that are only a comment are left out.
"""
import pathlib
import sys


def short(path):
    lines = path.read_text().splitlines()
    return "".join(line + "\n" for line in lines if line.strip() and not line.strip().startswith("#"))


def c_bytes(name, data):
    """Numbers: a C compiler need not take long strings."""
    rows = [data[i:i + 24] for i in range(0, len(data), 24)]
    lines = ("    " + " ".join(f"{b if b < 128 else b - 256}," for b in row) for row in rows)
    return f"static const char {name}[] = {{\n" + "\n".join(lines) + "\n    0};\n"


def main():
    out, call, *parts = (pathlib.Path(a) for a in sys.argv[1:])
    source = "".join(f"{p.stem.upper()} = {short(p)!r}\n" for p in parts) + short(call)
    compile(source, str(call), "exec")
    for part in parts:
        compile(part.read_text(), str(part), "exec")
    out.write_text("/* Made by embed_py.py. */\n" + c_bytes(out.stem, source.encode()))


main()
