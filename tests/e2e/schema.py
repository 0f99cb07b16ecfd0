"""Checks what the server sent against the JSON schemas of the protocol's revisions. They
are not part of this repository: ANYBOX_MCP_SCHEMAS names the folder that holds them as
schema-<revision>.json. Without it, or without python3-jsonschema, nothing is checked and
the header of the test run says so."""
import functools
import json
import os
import pathlib

from mcp_client import MODERN

try:
    import jsonschema
except ImportError:
    jsonschema = None

FOLDER = pathlib.Path(os.environ.get("ANYBOX_MCP_SCHEMAS")
                      or pathlib.Path(__file__).resolve().parents[3] / "shared/specs/mcp")
# 2024-11-05 and 2025-03-26 have no schema file here; what we send them is a subset of
# what 2025-06-18 describes.
FILES = {"2024-11-05": "2025-06-18", "2025-03-26": "2025-06-18"}
RESULTS = {"initialize": "InitializeResult", "ping": "EmptyResult", "tools/list": "ListToolsResult",
           "tools/call": "CallToolResult", "server/discover": "DiscoverResult",
           "subscriptions/listen": "SubscriptionsListenResult", "prompts/list": "ListPromptsResult",
           "prompts/get": "GetPromptResult", "completion/complete": "CompleteResult",
           "resources/list": "ListResourcesResult", "resources/read": "ReadResourceResult",
           "resources/templates/list": "ListResourceTemplatesResult",
           "resources/subscribe": "EmptyResult", "resources/unsubscribe": "EmptyResult",
           "logging/setLevel": "EmptyResult"}
NOTIFICATIONS = {"notifications/progress": "ProgressNotification",
                 "notifications/cancelled": "CancelledNotification",
                 "notifications/message": "LoggingMessageNotification",
                 "notifications/tools/list_changed": "ToolListChangedNotification",
                 "notifications/prompts/list_changed": "PromptListChangedNotification",
                 "notifications/resources/updated": "ResourceUpdatedNotification",
                 "notifications/subscriptions/acknowledged": "SubscriptionsAcknowledgedNotification"}
QUESTIONS = {"elicitation/create": "ElicitRequest", "sampling/createMessage": "CreateMessageRequest",
             "roots/list": "ListRootsRequest"}


def why_not():
    if jsonschema is None:
        return "not checked (python3-jsonschema is not installed)"
    if not (FOLDER / f"schema-{MODERN}.json").exists():
        return "not checked (ANYBOX_MCP_SCHEMAS names no folder with schema-<revision>.json)"
    return None


def available():
    return why_not() is None


@functools.lru_cache(maxsize=None)
def validator(version, name):
    """The validator of one definition, or None where that revision has none."""
    version = FILES.get(version, version)
    document = json.loads((FOLDER / f"schema-{version}.json").read_text())
    key = "$defs" if "$defs" in document else "definitions"
    if name not in document[key]:
        return None
    return jsonschema.Draft202012Validator({**document, "$ref": f"#/{key}/{name}"}) \
        if key == "$defs" else jsonschema.Draft7Validator({key: document[key], "$ref": f"#/{key}/{name}"})


def problems(version, name, value):
    found = validator(version, name)
    if found is None:
        return [f"{version} has no {name}"]
    return [f"{version} {name}: {'/'.join(map(str, e.path))}: {e.message[:300]}"
            for e in found.iter_errors(value)]


def check(answers, notifications, questions=()):
    """Every answer, notification and question of a test's clients; cheap ones and each kind once."""
    if not available():
        return
    bad, seen = [], set()
    for version, method, message in answers:
        kind = (version, method, "error" in message)
        if kind in seen and method != "tools/call":
            continue
        seen.add(kind)
        if "error" in message:
            envelope = "JSONRPCError" if FILES.get(version, version) == "2025-06-18" else "JSONRPCErrorResponse"
            if "id" not in message and envelope == "JSONRPCError":
                continue  # that revision's schema wants an id even where none could be read
            bad += problems(version, envelope, message)
        elif method in RESULTS and len(str(message)) < 100000:
            asks = message["result"].get("resultType") == "input_required"
            bad += problems(version, "InputRequiredResult" if asks else RESULTS[method], message["result"])
    for version, message in notifications:
        if (version, message["method"]) not in seen:
            seen.add((version, message["method"]))
            assert message["method"] in NOTIFICATIONS, f"unexpected notification {message}"
            bad += problems(version, NOTIFICATIONS[message["method"]], message)
    for version, message in questions:
        if "id" in message:
            bad += problems(version, QUESTIONS[message["method"]], message)
    assert not bad, "\n".join(bad)
