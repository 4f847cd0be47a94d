"""The tools of agents: what each does and takes. Hosts, shells, sessions and prompts use this table.

Imported by the forwarder of each agent at its start, so it imports nothing heavy. What a client sends may be
anything.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from loopty.domain.errors import Misuse
from loopty.kit.records import Record

LONGEST_WAIT_SECONDS = 3_600
DEFAULT_WAIT_SECONDS = 100
"""Shells of agents end a command after 120 s. What takes longer is a ticket, and `wait` asks again."""
LARGEST_CALL = 1 << 20
"""Bytes of a call."""
LARGEST_PATCH = 256 << 10
DEFAULT_WORDS, DEFAULT_LINES = 600, 80

Arguments = Mapping[str, Any]
_Schema = dict[str, Any]


class Tool(Record):
    """One tool."""

    words: str
    """What it does."""
    arguments: Mapping[str, _Schema]
    """What it takes, by name, as JSON schemas."""
    needs: tuple[str, ...] = ()
    """The arguments that no call may leave out."""
    reads: bool = False
    """Whether it changes nothing, so that a host need not ask for approval."""
    prompt: str = ""
    """What an agent that loopty starts is told about it."""

    @property
    def schema(self) -> _Schema:
        """Return the schema of its arguments."""
        schema = {"type": "object", "properties": dict(self.arguments), "additionalProperties": False}
        return schema | ({"required": list(self.needs)} if self.needs else {})


def _text(longest: int, words: str = "") -> _Schema:
    return {"type": "string", "maxLength": longest} | ({"description": words} if words else {})


def _number(least: int, most: int, words: str) -> _Schema:
    return {"type": "integer", "minimum": least, "maximum": most, "description": words}


_ID = _text(2_000, "A node: @4, its path as in 1.3, best or baseline.")
_WAIT = _number(
    0, LONGEST_WAIT_SECONDS, "Wait for the result for up to so many seconds. Default: as long as your host allows."
)

TOOLS = {
    "context": Tool(
        words="Read this first: the task, what an attempt costs, the best and the way to it, what could be "
        "merged, what failed, who works on what, notes, the user's directive, advice. At most 600 words.",
        arguments={
            "id": {**_ID, "description": "Also say what is known about this node."},
            "words": _number(60, 1_000, f"Default: {DEFAULT_WORDS}."),
        },
        reads=True,
        prompt="`loopty tool context` tells more about the search.",
    ),
    "open": Tool(
        words="Open a draft for one hypothesis: a folder with a whole tree to edit. It is yours alone. The same "
        "hypothesis on the same parent is refused while somebody works on it, and after it was tried.",
        arguments={
            "hypothesis": _text(400, "What you change, and why it helps."),
            "surface": _text(80, "The part of the code, in a few words."),
            "parent": {**_ID, "description": "The node to change. Default: the best."},
            "merge": {
                "type": "array",
                "items": _ID,
                "minItems": 2,
                "maxItems": 2,
                "description": "In place of parent: two nodes whose changes the draft is to hold.",
            },
            "params": {"type": "object", "description": "Values of the task's parameters, by name."},
        },
        needs=("hypothesis",),
    ),
    "try": Tool(
        words="Run a shell line on a draft's files in the sandbox of the trials (tests, a profiler). Nothing is "
        "recorded about the node, and no attempt is charged. A line that runs the benchmark counts as a tune.",
        arguments={"id": _ID, "command": _text(4_000), "wait": _WAIT},
        needs=("id", "command"),
        prompt='`loopty tool try command="…"` runs a line on your files as the trials do.',
    ),
    "check": Tool(
        words="Check a draft as submit would: access rules, twins, and the gates. No attempt is charged.",
        arguments={"id": _ID, "wait": _WAIT},
        needs=("id",),
        prompt="`loopty tool check` runs the gates on them.",
    ),
    "submit": Tool(
        words="Hand a draft over, and wait. Mode attempt freezes its files, measures it and gives the verdict; "
        "mode tune measures the task's slice once on it as it is now, without a verdict.",
        arguments={
            "id": _ID,
            "mode": {"type": "string", "enum": ["attempt", "tune"], "description": "Default: attempt."},
            "params": {
                "type": "object",
                "description": "Values of parameters, also of those that the program declares.",
            },
            "patch": _text(LARGEST_PATCH, "A unified diff against the draft, where you cannot write its files."),
            "wait": _WAIT,
        },
        needs=("id",),
        prompt="""`loopty tool submit mode=tune params='{"step": 2.0}'` measures your files on a short """
        "benchmark, with these values of declared parameters; without params, with those that they have. It costs "
        "no attempt.",
    ),
    "wait": Tool(
        words="Wait for the result of a node or a ticket to its end, as long as your host allows. Work goes on "
        "whether anybody waits or not.",
        arguments={
            "id": _text(2_000, "A node, @4, 4 or 1.3; or a ticket such as t1.17."),
            "wait": _WAIT,
        },
        needs=("id",),
        reads=True,
    ),
    "show": Tool(
        words="Show a node: its diff, the end of its log, its gates and what a failed one printed, or its traces.",
        arguments={
            "id": _ID,
            "what": {"type": "string", "enum": ["diff", "log", "gate", "traces"]},
            "lines": _number(1, 400, f"Default: {DEFAULT_LINES}."),
        },
        needs=("id", "what"),
        reads=True,
        prompt="`loopty tool show id=1.2 what=diff` shows an earlier change (or its log, gate, traces).",
    ),
    "note": Tool(
        words="Leave a note for everybody who works on this: what you learned, what to avoid.",
        arguments={"text": _text(1_000), "id": _ID},
        needs=("text",),
        prompt='`loopty tool note text="…"` tells other agents what you learned, if it helps them.',
    ),
    "manage": Tool(
        words="Only as far as `[agents] may` in loopty.toml permits: abort a ticket or a draft, discard or "
        "invalidate a node (why), remeasure what lost against it, add a gate (name, command) to a node.",
        arguments={
            "action": {"type": "string", "enum": ["abort", "discard", "gate", "invalidate", "remeasure"]},
            "id": {**_ID, "description": "A node; for abort also a ticket."},
            "why": _text(400),
            "name": _text(80),
            "command": _text(4_000),
        },
        needs=("action", "id"),
    ),
}


def mcp_listing() -> list[dict[str, object]]:
    """Describe the tools as the Model Context Protocol wants them."""
    return [
        {
            "name": name,
            "description": tool.words,
            "inputSchema": tool.schema,
            "annotations": {
                "readOnlyHint": tool.reads,
                "destructiveHint": name == "manage",
                "openWorldHint": False,
            },
        }
        for name, tool in TOOLS.items()
    ]


def prompt_lines(has_slice: bool) -> str:
    """Tell an agent that loopty starts which lines it may type; `submit` only where the task has a slice."""
    shown = (tool.prompt for name, tool in TOOLS.items() if tool.prompt and (has_slice or name != "submit"))
    return "\n".join(f"- {line}" for line in shown)


def asks_for_help(name: str, arguments: Any) -> bool:
    """Say whether a call is `loopty tool NAME --help`."""
    return name in TOOLS and isinstance(arguments, dict) and not arguments.keys().isdisjoint(("--help", "-h"))


def tool_help(name: str) -> str:
    """Say what a tool does, and what it takes."""
    tool = TOOLS[name]
    lines = [f"{name}: {tool.words}"]
    for argument, schema in tool.arguments.items():
        kind = " | ".join(schema["enum"]) if "enum" in schema else schema["type"]
        needed = "needed" if argument in tool.needs else "optional"
        lines.append(f"  {argument}=  {kind}, {needed}. {schema.get('description', '')}".rstrip())
    return "\n".join(lines)


_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "array": (list,),
    "object": (dict,),
}
_MOST_PARAMS = 200
_LONGEST_PARAM = 400


def check_arguments(tool: str, arguments: object) -> dict[str, Any]:
    """Return the arguments, if the tool takes them; a null counts as absent. Raises Misuse.

    A text is read as what the tool takes: shells, and some hosts, have nothing but texts.
    """
    if tool not in TOOLS:
        raise Misuse(f"there is no tool {tool[:40]!r}: the tools are {', '.join(TOOLS)}")
    known, needs = TOOLS[tool].arguments, TOOLS[tool].needs
    if not isinstance(arguments, dict):
        raise Misuse(f"the arguments of {tool} must be an object")
    given = {name: value for name, value in arguments.items() if value is not None}
    if unknown := next((name for name in given if name not in known), None):
        raise Misuse(f"{tool} takes no {unknown[:40]!r}: it takes {', '.join(known)}")
    if missing := next((name for name in needs if name not in given), None):
        raise Misuse(f"{tool} needs {missing}")
    read = {name: _value(known[name]["type"], value) for name, value in given.items()}
    for name, value in read.items():
        if fault := _fault(known[name], value):
            raise Misuse(f"{name} of {tool} {fault}")
    return read


def _value(kind: str, value: Any) -> Any:
    """Read a text as a value of this type; return it as it is where it is none."""
    if kind == "string" or not isinstance(value, str):
        return value
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        found = value
    return value.split(",") if kind == "array" and not isinstance(found, list) else found


def _fault(schema: Mapping[str, Any], value: Any) -> str | None:
    """Say what is wrong with a value, or None."""
    kind: str = schema["type"]
    if not isinstance(value, _TYPES[kind]) or isinstance(value, bool):
        return f"must be {'an' if kind[0] in 'aio' else 'a'} {kind}"
    if isinstance(value, str):
        return _text_fault(schema, value)
    if isinstance(value, int) and not schema["minimum"] <= value <= schema["maximum"]:
        return f"must be from {schema['minimum']} to {schema['maximum']}"
    if isinstance(value, list):
        if len(value) not in range(schema["minItems"], schema["maxItems"] + 1):
            return f"must have {schema['minItems']} items"
        return next(filter(None, (_fault(schema["items"], item) for item in value)), None)
    if isinstance(value, dict):
        return _params_fault(value)
    return None


def _text_fault(schema: Mapping[str, Any], value: str) -> str | None:
    if "enum" in schema and value not in schema["enum"]:
        return f"must be one of {', '.join(schema['enum'])}"
    if len(value) > schema.get("maxLength", len(value)):
        return f"has {len(value):,} characters, more than {schema['maxLength']:,}"
    if "\0" in value or not _is_storable(value):
        return "has characters that no file can hold"
    return None


def _params_fault(values: Mapping[str, Any]) -> str | None:
    if len(values) > _MOST_PARAMS:
        return f"has more than {_MOST_PARAMS} entries"
    for name, value in values.items():
        is_number = isinstance(value, (int, float)) and abs(value) <= sys.float_info.max
        is_text = isinstance(value, str) and len(value) <= _LONGEST_PARAM and _is_storable(value)
        if not (is_number or is_text or isinstance(value, bool)) or not _is_storable(name):
            return "must have numbers, texts and truth values only"
    return None


def _is_storable(text: str) -> bool:
    """Say whether the text has no lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
