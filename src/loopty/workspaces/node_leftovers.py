"""Reads what a node's trial left in its folder, with care: bounded, regular files only, no link followed.

The folder holds the files of the search's own trial of the node. Audits keep theirs elsewhere, and nothing here
reads them: what the held-out split shows must not reach a proposer.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any

from loopty.domain.trial import Leftovers
from loopty.kit.records import Record
from loopty.record.node_record import Node
from loopty.workspaces.node_folders import CHANGE, NodeFolder, NodeFolders

_DIFF_BYTES = 64 << 10
_TAIL_BYTES = 16 << 10
_JSON_BYTES = 1 << 20
_MAX_FILES = 2_000
_MAX_READ = 200
_MAX_TRACES = 24
_MAX_ARTIFACTS = 24
_LONGEST_TEXT = 4_000

_KEYS_LOOPTY_READS = frozenset({"score", "tasks", "tasks_meta", "started_at", "ended_at"})
"""Keys of a result that loopty itself reads."""
_PRIVATE = "private"
"""Key of the metrics that an evaluator hides from the search."""
_TRACES = "traces"
_TRACE_KEYS = ("status", "score", "summary", "failure_reason", "log")


class NodeLeftovers:
    """The folders of nodes."""

    def __init__(self, folders: NodeFolders) -> None:
        self._folders = folders

    def read(self, node: Node) -> Leftovers:
        """Read what the node's own trial left. Anything that is missing or unreadable is empty."""
        folder = self._folders.open(node.id)
        return Leftovers(
            diff=_diff(folder),
            stdout=_decode(_read(folder, "stdout.log", _TAIL_BYTES, tail=True)),
            stderr=_decode(_read(folder, "stderr.log", _TAIL_BYTES, tail=True)),
            traces=dict(_traces(folder)),
            artifacts=dict(islice(_artifacts(_json_object(folder, "result.json")), _MAX_ARTIFACTS)),
        )

    def read_diff(self, node: Node) -> str:
        """Only its change to the parent."""
        known = self._folders.new_description(node.id).get(CHANGE)
        return _diff(self._folders.open(node.id)) if known is None else _decode(known[:_DIFF_BYTES])


def _diff(folder: NodeFolder) -> str:
    return _decode(_read(folder, CHANGE, _DIFF_BYTES))


def _traces(folder: NodeFolder) -> Iterator[tuple[str, str]]:
    """Yield the traces of tasks, failed tasks first."""
    traces = [trace for name in _trace_names(folder)[:_MAX_READ] if (trace := _trace(folder, name))]
    traces.sort(key=lambda trace: not trace.has_failed)
    yield from ((trace.task, trace.text) for trace in traces[:_MAX_TRACES])


class _Trace(Record):
    """What is shown of a trace. A megabyte of JSON can take forty in memory, so it is not kept."""

    task: str
    text: str
    has_failed: bool


def _trace(folder: NodeFolder, name: str) -> _Trace | None:
    found = _json_object(folder, f"{_TRACES}/{name}")
    if not found:
        return None
    task = _value_text(found.get("task_id") or name.removeprefix("task_").removesuffix(".json"))
    lines = (f"{key}: {_value_text(found[key])}" for key in _TRACE_KEYS if found.get(key) not in (None, ""))
    return _Trace(task, "\n".join(lines), bool(found.get("failure_reason")) or found.get("status") == "failed")


def _artifacts(result: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the other entries of a result; those in its `artifacts` by their own names."""
    for name, value in result.items():
        if name in _KEYS_LOOPTY_READS or name == _PRIVATE or value in (None, "", {}, []):
            continue
        if name == "artifacts" and isinstance(value, dict):
            yield from ((str(key), _value_text(inner)) for key, inner in value.items() if key != _PRIVATE)
        else:
            yield name, _value_text(value)


def _value_text(value: Any) -> str:
    """Return the value as text; only the end if it is long, because logs say there what went wrong."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_TEXT else f"…{text[1 - _LONGEST_TEXT :]}"


def _trace_names(folder: NodeFolder) -> list[str]:
    try:
        names = folder.names_below(_TRACES)[:_MAX_FILES]
    except OSError:
        return []
    return [name for name in names if name.startswith("task_") and name.endswith(".json")]


def _json_object(folder: NodeFolder, name: str) -> dict[str, Any]:
    """Read the JSON object in a file; empty if there is none."""
    try:
        value = json.loads(_read(folder, name, _JSON_BYTES))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _decode(raw: bytes) -> str:
    return raw.decode(errors="replace")


def _read(folder: NodeFolder, name: str, limit_bytes: int, tail: bool = False) -> bytes:
    """Read the head or the tail of a regular file, at most `limit_bytes` long; empty if it cannot be read."""
    try:
        return folder.read(name, limit_bytes, tail)
    except OSError:
        return b""
