#!/usr/bin/env python3
"""check-layers.py - who may include whom, and how long a file may be.

Reads the #include lines of src/ and says, one line each, what breaks the law of
ARCHITECTURE.md: a folder includes only its own and those named here; a library's
header has its homes; a file has at most 800 lines (above 400 it is mentioned).
"""
import pathlib
import re
import sys

MAY_INCLUDE = {
    "base": [],
    "tree": ["base"],
    "agent": ["base", "tree"],
    "boxinit": ["base", "tree", "agent"],
    "json": ["base"],
    "config": ["base", "json"],
    "results": ["base", "json"],
    "store": ["base"],
    "provider": ["base", "tree", "agent"],
    "provider/opensandbox": ["base", "tree", "agent", "json", "provider"],
    "sync": ["base", "tree", "provider"],
    "core": ["base", "tree", "json", "config", "store", "provider", "sync"],
    "watch": ["base", "json", "config", "store", "provider", "core"],
    "tools": ["base", "tree", "json", "config", "core", "results", "store", "provider", "sync", "watch"],
    "mcp": ["base", "json", "config", "core", "tools"],
    "serve": ["base", "json", "config", "core", "tools", "mcp"],
}
# Folders (or folder/part) that may see a library's header; "main" is src/*.c itself.
HOMES = {
    r"jansson\.h": ["json", "config", "results", "provider/opensandbox", "core", "tools", "mcp", "serve", "main"],
    r"sqlite3\.h": ["store"],
    r"seccomp\.h": ["boxinit"],
    r"sys/capability\.h": ["boxinit"],
    r"linux/seccomp\.h": ["boxinit"],
}
SRC = pathlib.Path(__file__).resolve().parent.parent / "src"
PROVIDERS = ["local", "docker", "ssh", "opensandbox"]
LINES_MAX, LINES_WISHED = 800, 400
INCLUDE = re.compile(r'\s*#\s*include\s+([<"])([^>"]+)[>"]')


def included_wrongly(rel, quote, name):
    """What is wrong with rel (a path below src) including name, or None."""
    folder = rel.parts[0] if len(rel.parts) > 1 else "main"
    part = "/".join(rel.parts[:2])
    law = part if part in MAY_INCLUDE else folder
    if quote == "<":
        for pattern, homes in HOMES.items():
            if re.fullmatch(pattern, name) and folder not in homes and part not in homes:
                return f"<{name}> belongs to {', '.join(homes)}"
        return None
    parts = pathlib.PurePath(name).parts
    if len(parts) == 1 and folder == "main" and (SRC / name).exists():
        return None
    if len(parts) == 1 or parts[0] not in MAY_INCLUDE:
        return f'write "{name}" from src/ on, like "base/err.h"'
    if len(parts) == 3 and parts[0] == "provider" and parts[1] in PROVIDERS:
        if rel.parts[:2] != parts[:2] and rel != pathlib.PurePath("provider/registry.c"):
            return f"only provider/{parts[1]}/ may include its own headers"
    if folder == "main" or parts[0] == folder or parts[0] in MAY_INCLUDE.get(law, []):
        return None
    return f"{folder}/ may not include {parts[0]}/"


def main():
    bad = 0
    for path in sorted(SRC.rglob("*.[ch]")):
        rel = path.relative_to(SRC)
        lines = path.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines, 1):
            match = INCLUDE.match(line)
            problem = match and included_wrongly(rel, *match.groups())
            if problem:
                print(f"src/{rel}:{number}: {problem}")
                bad += 1
        if len(lines) > LINES_MAX:
            print(f"src/{rel}:{LINES_MAX}: {len(lines)} lines, at most {LINES_MAX} are allowed")
            bad += 1
        elif len(lines) > LINES_WISHED and "-v" in sys.argv:
            print(f"src/{rel}: {len(lines)} lines, more than the {LINES_WISHED} we wish for")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
