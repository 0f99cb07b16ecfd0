#!/usr/bin/env python3
"""embed_sh.py OUT.h LIB.sh SCRIPT.sh... - shell scripts as C strings, each with LIB (or "-") in front.

They travel with every use, so lines that are only a comment and indentation are left out:
the scripts must not depend on either (a here-document in them neither).
"""
import pathlib
import sys


def short(path):
    if str(path) == "-":
        return ""
    lines = (line.strip(" ") for line in path.read_text().splitlines())
    return "".join(line + "\n" for line in lines if line and not line.startswith("#"))


def c_bytes(name, data):
    """Numbers: a C compiler need not take long strings."""
    rows = [data[i:i + 24] for i in range(0, len(data), 24)]
    lines = ("    " + " ".join(f"{b if b < 128 else b - 256}," for b in row) for row in rows)
    return f"static const char {name}[] = {{\n" + "\n".join(lines) + "\n    0};\n"


def main():
    out, lib, *scripts = (pathlib.Path(a) for a in sys.argv[1:])
    out.write_text("/* Made by embed_sh.py. */\n" + "".join(
        c_bytes("script_" + script.stem, (short(lib) + short(script)).encode()) for script in scripts))


main()
