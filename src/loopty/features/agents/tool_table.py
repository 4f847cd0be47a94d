"""The tools of agents: what each does and takes, as JSON schemas. The same behind every door.

Imported by the forwarder of each agent at its start, so it imports nothing heavy.
"""

from __future__ import annotations

from typing import Any

LONGEST_CALL_SECONDS = 25
"""Hosts end calls after 30 to 300 s. What takes longer is a ticket, and `wait` asks again."""
LARGEST_REPLY = 8_000
"""Characters. Hosts cut longer ones."""
LARGEST_CALL = 1 << 20
"""Bytes of a call."""
MANAGED = ("abort", "discard", "gate", "invalidate", "remeasure")
"""What `manage` does where the task file permits it."""

_ID = {"type": "string", "maxLength": 2_000, "description": "A node: @4, its path as in 1.3, best or baseline."}
_TICKET = {"type": "string", "maxLength": 2_000, "description": "A ticket such as t1.17, or the id of its node."}
_WAIT = {
    "type": "integer",
    "minimum": 0,
    "maximum": LONGEST_CALL_SECONDS,
    "description": "Wait for the result for up to this many seconds. Default: 20.",
}


def _schema(required: tuple[str, ...] = (), **properties: dict[str, object]) -> dict[str, object]:
    schema: dict[str, object] = {"type": "object", "properties": properties, "additionalProperties": False}
    return schema | ({"required": list(required)} if required else {})


TOOLS: dict[str, dict[str, Any]] = {
    "context": {
        "description": (
            "Read this first: the task, what an attempt costs, the best and the way to it, what could be merged, "
            "what failed, who works on what, notes, the user's directive, advice. At most 600 words."
        ),
        "inputSchema": _schema(
            id={**_ID, "description": "Also say what is known about this node."},
            words={"type": "integer", "minimum": 60, "maximum": 1_000, "description": "Default: 600."},
        ),
        "reads": True,
    },
    "open": {
        "description": (
            "Open a draft for one hypothesis: a folder with a whole tree to edit. It is yours alone. The same "
            "hypothesis on the same parent is refused while somebody works on it, and after it was tried."
        ),
        "inputSchema": _schema(
            ("hypothesis",),
            hypothesis={"type": "string", "maxLength": 400, "description": "What you change, and why it helps."},
            surface={"type": "string", "maxLength": 80, "description": "The part of the code, in a few words."},
            parent={**_ID, "description": "The node to change. Default: the best."},
            merge={
                "type": "array",
                "items": _ID,
                "minItems": 2,
                "maxItems": 2,
                "description": "In place of parent: two nodes whose changes the draft is to hold.",
            },
            params={"type": "object", "description": "Values of the task's parameters, by name."},
        ),
    },
    "try": {
        "description": (
            "Run a shell line on a draft's files in the sandbox of the trials (tests, a profiler). Nothing is "
            "recorded about the node, and no attempt is charged."
        ),
        "inputSchema": _schema(
            ("id", "command"), id=_ID, command={"type": "string", "maxLength": 4_000}, wait=_WAIT
        ),
    },
    "check": {
        "description": (
            "Check a draft as submit would: access rules, twins, and the gates. No attempt is charged."
        ),
        "inputSchema": _schema(("id",), id=_ID, wait=_WAIT),
    },
    "submit": {
        "description": (
            "Hand a draft over. Mode attempt freezes its files, measures it and gives the verdict; mode tune "
            "runs the benchmark once on it as it is now, without a verdict. Answers with the result or a ticket."
        ),
        "inputSchema": _schema(
            ("id",),
            id=_ID,
            mode={"type": "string", "enum": ["attempt", "tune"], "description": "Default: attempt."},
            params={
                "type": "object",
                "description": "Values of parameters, also of those that the program declares.",
            },
            patch={
                "type": "string",
                "maxLength": 256 << 10,
                "description": "A unified diff against the draft, where you cannot write its files.",
            },
            wait=_WAIT,
        ),
    },
    "wait": {
        "description": ("The result of a ticket, or how far it is. Work goes on whether anybody waits or not."),
        "inputSchema": _schema(("ticket",), ticket=_TICKET, wait=_WAIT),
        "reads": True,
    },
    "show": {
        "description": (
            "Show a node: its diff, the end of its log, its gates and what a failed one printed, or its traces."
        ),
        "inputSchema": _schema(
            ("id", "what"),
            id=_ID,
            what={"type": "string", "enum": ["diff", "log", "gate", "traces"]},
            lines={"type": "integer", "minimum": 1, "maximum": 400, "description": "Default: 80."},
        ),
        "reads": True,
    },
    "note": {
        "description": "Leave a note for everybody who works on this: what you learned, what to avoid.",
        "inputSchema": _schema(("text",), text={"type": "string", "maxLength": 1_000}, id=_ID),
    },
    "manage": {
        "description": (
            "Only as far as `[agents] may` in loopty.toml permits: abort a ticket or a draft, discard or "
            "invalidate a node (why), remeasure what lost against it, add a gate (name, command) to a node."
        ),
        "inputSchema": _schema(
            ("action", "id"),
            action={"type": "string", "enum": list(MANAGED)},
            id={**_ID, "description": "A node; for abort also a ticket."},
            why={"type": "string", "maxLength": 400},
            name={"type": "string", "maxLength": 80},
            command={"type": "string", "maxLength": 4_000},
        ),
    },
}
"""By name. `reads`: the tool changes nothing, so that a host need not ask for approval."""


def asks_for_help(name: str, arguments: Any) -> bool:
    """Say whether a call is `loopty tool NAME --help`."""
    return name in TOOLS and isinstance(arguments, dict) and not arguments.keys().isdisjoint(("--help", "-h"))


def tool_help(name: str) -> str:
    """Say what a tool does, and what it takes."""
    entry = TOOLS[name]
    schema = entry["inputSchema"]
    lines = [f"{name}: {entry['description']}"]
    for argument, of in schema["properties"].items():
        kind = " | ".join(of["enum"]) if "enum" in of else of["type"]
        needed = "needed" if argument in schema.get("required", ()) else "optional"
        lines.append(f"  {argument}=  {kind}, {needed}. {of.get('description', '')}".rstrip())
    return "\n".join(lines)
