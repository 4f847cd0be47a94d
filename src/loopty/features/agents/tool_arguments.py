"""What goes into a tool of agents and what comes out: arguments by their schema, replies within bounds.

A client may send anything.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from loopty.domain.errors import Misuse
from loopty.features.agents.tool_table import LARGEST_REPLY, TOOLS
from loopty.kit.foreign_text import escape_hidden, fence_text
from loopty.record.node_record import Node
from loopty.session.reader import CampaignReader

_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "array": (list,),
    "object": (dict,),
}
_MOST_PARAMS = 200
_LONGEST_PARAM = 400


def check_arguments(tool: str, arguments: object) -> dict[str, Any]:
    """Return the arguments, if the tool takes them; a null counts as absent. Raises Misuse."""
    if tool not in TOOLS:
        raise Misuse(f"there is no tool {tool[:40]!r}: the tools are {', '.join(TOOLS)}")
    schema: Mapping[str, Any] = TOOLS[tool]["inputSchema"]
    if not isinstance(arguments, dict):
        raise Misuse(f"the arguments of {tool} must be an object")
    given = {name: value for name, value in arguments.items() if value is not None}
    known: Mapping[str, Any] = schema["properties"]
    if unknown := next((name for name in given if name not in known), None):
        raise Misuse(f"{tool} takes no {unknown[:40]!r}: it takes {', '.join(known)}")
    if missing := next((name for name in schema.get("required", ()) if name not in given), None):
        raise Misuse(f"{tool} needs {missing}")
    for name, value in given.items():
        if fault := _fault(known[name], value):
            raise Misuse(f"{name} of {tool} {fault}")
    return given


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


DEFAULT_WORDS, DEFAULT_LINES = 600, 80
LONGEST_TEXT = LARGEST_REPLY - 600
"""Characters: the rest of a reply has its names and its JSON."""


def cut_reply(reply: Mapping[str, Any]) -> dict[str, Any]:
    """Return the reply without hidden characters, cut to the longest that hosts show."""
    key = "error" if "error" in reply else "text"
    text = escape_hidden(str(reply[key]))
    if len(text) > LONGEST_TEXT:
        text = f"{text[: LONGEST_TEXT - 1]}…"
    bounded = {**reply, key: text}
    while len(json.dumps(bounded, ensure_ascii=False)) > LARGEST_REPLY:
        if len(bounded) > 1:
            bounded.pop(next(name for name in reversed(bounded) if name != key))
        else:
            bounded[key] = f"{bounded[key][: len(bounded[key]) * 3 // 4]}…"
    return bounded


def node_excerpt(campaign: CampaignReader, node: Node, what: str, lines: int, longest: int) -> str:
    """Cut what is wanted to at most so many lines and characters. `what` is diff, gate, log or traces."""
    from loopty.workspaces.node_leftovers import NodeLeftovers

    name = node.name
    if what == "diff":
        patch = campaign.diff(node.id).patch.splitlines()
        more = f"\n… {len(patch) - lines} more lines" if len(patch) > lines else ""
        return fence_text(f"the change of {name}", "\n".join(patch[:lines]) + more, longest, exact=True)
    if what == "gate":
        gates = [f"{gate.name}: {gate.command or gate.metric}" for _, gate in campaign.gates(node.id)]
        printed = node.outcome.error_lines if node.outcome else ()
        text = "\n".join((f"verdict: {node.verdict}: {node.reason}", *gates, *printed)[-lines:])
        return fence_text(f"the gates of {name}, and what a failed one printed", text, longest)
    left = NodeLeftovers(campaign.record.folders).read(node)
    if what == "log":
        outputs = {"stdout:": left.stdout, "stderr:": left.stderr}
        text = "\n".join("\n".join((head, *output.splitlines()[-lines:])) for head, output in outputs.items())
        return fence_text(f"the end of the output of {name}", text, longest)
    texts = (f"{task}\n{text}" for task, text in left.traces.items())
    text = "\n".join("\n".join(texts).splitlines()[:lines])
    return fence_text(f"the traces of {name}, failed tasks first", text or "none", longest)
