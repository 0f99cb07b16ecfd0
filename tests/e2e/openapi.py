"""Checks what the stand-in of an OpenSandbox platform was asked and what it answered against the
platform's own OpenAPI files, so that it is no invention of ours. They are not part of this
repository: ANYBOX_OPENSANDBOX_SPECS names the folder that holds them. Without it, or without
python3-jsonschema and python3-yaml, nothing is checked and the header of the test run says so."""
import functools
import os
import pathlib
import re

try:
    import jsonschema
    import yaml
except ImportError:
    jsonschema = yaml = None

FOLDER = pathlib.Path(os.environ.get("ANYBOX_OPENSANDBOX_SPECS")
                      or pathlib.Path(__file__).resolve().parents[3] / "shared/specs/opensandbox")
FILES = {"server": "sandbox-lifecycle.yml", "execd": "execd-api.yaml"}

# Where the platform's code does otherwise than its specification, and the stand-in does as the code.
STATUSES = {
    ("server", 422),  # what the schema refuses: the specification says 400
    ("execd", 401),   # a token is asked for, which the specification does not know
}
ANSWERS = {
    ("execd", "GET", "/command/{id}/logs", 400),  # an id that is unknown: the specification says 404
}


def why_not():
    if jsonschema is None:
        return "not checked (python3-jsonschema or python3-yaml is not installed)"
    if not all((FOLDER / name).exists() for name in FILES.values()):
        return f"not checked (ANYBOX_OPENSANDBOX_SPECS names no folder with {' and '.join(FILES.values())})"
    return None


@functools.lru_cache(maxsize=None)
def document(api):
    return yaml.safe_load((FOLDER / FILES[api]).read_text(encoding="utf-8"))


@functools.lru_cache(maxsize=None)
def templates(api):
    return [(re.compile(re.sub(r"\{[^}]+\}", "[^/]+", path)), path) for path in document(api)["paths"]]


def template_of(api, path):
    """The path as the file writes it; what has fewer variables goes first."""
    found = [name for pattern, name in templates(api) if pattern.fullmatch(path)]
    return min(found, key=lambda name: name.count("{")) if found else None


def resolved(api, what):
    while what and "$ref" in what:
        at = document(api)
        for part in what["$ref"].removeprefix("#/").split("/"):
            at = at[part]
        what = at
    return what


def errors(api, schema, value, where):
    whole = {**schema, "components": document(api)["components"]}
    return [f"{where}: {'/'.join(map(str, e.absolute_path))}: {e.message[:200]}"
            for e in jsonschema.Draft202012Validator(whole).iter_errors(value)]


def check_answer(api, method, template, operation, status, value):
    where = f"{method} {template} -> {status}"
    if (api, status) in STATUSES or (api, method, template, status) in ANSWERS:
        return []
    answer = resolved(api, operation["responses"].get(str(status)))
    if answer is None:
        return [f"{where}: the specification has no such answer"]
    content = answer.get("content", {})
    schema = (content.get("application/json") or content.get("text/event-stream") or {}).get("schema")
    if not isinstance(value, (dict, list)):
        return [f"{where}: a JSON answer is specified"] if schema and value and api == "server" else []
    return errors(api, schema, value, where) if schema else [f"{where}: no JSON answer is specified"]


def problems(exchanges):
    """`exchanges`: (api, method, path, what was asked, status, what was answered); JSON is parsed."""
    bad = []
    for api, method, path, asked, status, value in exchanges:
        template = template_of(api, path)
        operation = template and document(api)["paths"][template].get(method.lower())
        if not operation:
            bad += [] if status in (404, 405) else [f"{method} {path}: the specification has no such operation"]
            continue
        bad += check_answer(api, method, template, operation, status, value)
        schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
        if asked is not None and schema and status < 300:
            bad += errors(api, schema, asked, f"{method} {template}")
    return sorted(set(bad))
