"""The manifest: the description that an exported winner carries."""

from __future__ import annotations

import json
import sys
import types
import typing
from collections.abc import Mapping
from enum import Enum
from typing import Any

from loopty.domain.access import ObjectName
from loopty.domain.benchmark import Gate
from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.objective import Metric, Metrics, Objective
from loopty.domain.space import Value
from loopty.domain.trial import Effect, Outcome, Verdict
from loopty.kit import codec
from loopty.kit.records import NODEFAULT, Record, as_dict, field, field_types, fields_of, is_record
from loopty.record.node_record import Result

FORMAT = 1


class Manifest(Record):
    """The origin of a node, its content, and how it was measured."""

    node: NodeId
    operator: str
    summary: str
    commit: ObjectName
    tree: ObjectName
    baseline_commit: ObjectName
    baseline_tree: ObjectName
    seed: int
    verdict: Verdict
    reason: str
    judged_at: float
    objective: Objective
    counting: tuple[Metric, ...]
    """The metrics that count, in order."""
    outcome: Outcome
    """Its metrics are medians where there are several samples."""
    benchmark: str
    """Digest of the benchmark's files."""
    data: str
    """Digest of the benchmark's data outside the repository."""
    criteria: Mapping[str, str]
    """Digests of everything that must be equal for results to be comparable, by part."""
    loopty: str
    """The version that wrote this."""
    params: Mapping[str, Value] = field(default_factory=dict)
    gates: tuple[Gate, ...] = ()
    """The gates added to the node or its ancestors; the task's own gates are in its file."""
    samples: tuple[Metrics, ...] = ()
    effect: Effect | None = None
    other_fingerprints: Mapping[str, Result] = field(default_factory=dict)
    """Its results under other fingerprints."""
    machines: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The facts behind each fingerprint."""
    format: int = FORMAT

    @property
    def text(self) -> str:
        """Return the manifest as JSON, with every field."""
        return json.dumps(as_dict(self), indent=2, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def parse(cls, text: bytes) -> Manifest:
        """Parse the manifest in this JSON. Raises Misuse when it is not one that `text` wrote."""
        try:
            data = json.loads(text, parse_constant=_refuse_constant)
        except (ValueError, RecursionError):
            raise Misuse("manifest.json is not JSON: export the node again") from None
        if isinstance(data, dict) and isinstance(data.get("format"), int) and data["format"] > FORMAT:
            raise Misuse(f"it has format {data['format']}, which is newer than this loopty: update loopty")
        if not _fits(data, cls):
            raise Misuse("manifest.json was not written by loopty: export the node again")
        NodeId.parse(data["node"])
        return codec.build(cls, data)


def _fits(value: Any, hint: Any) -> bool:
    """Say whether plain data has the type of the hint."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return any(_fits(value, argument) for argument in arguments)
    if origin is tuple:
        return isinstance(value, list) and all(_fits(item, arguments[0]) for item in value)
    if origin is Mapping:
        return isinstance(value, dict) and all(_fits(item, arguments[1]) for item in value.values())
    if is_record(hint):
        return isinstance(value, dict) and _fields_fit(value, typing.cast(type, hint))
    if hint is types.NoneType:
        return value is None
    if hint is float:
        return type(value) in (int, float) and abs(value) <= sys.float_info.max
    if issubclass(hint, Enum):
        return value in [member.value for member in hint]
    return isinstance(value, str) if issubclass(hint, str) else type(value) is hint


def _fields_fit(value: Mapping[str, Any], hint: type) -> bool:
    hints = field_types(hint)
    for known in fields_of(hint):
        if (
            known.default is NODEFAULT
            if known.name not in value
            else not _fits(value[known.name], hints[known.name])
        ):
            return False
    return True


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a finite number")
