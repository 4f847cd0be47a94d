"""A trial as data: what a worker gets of it, and what it gives back. It says nothing about the rest of the run."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from loopty.domain.declared_types import cut_words, misfit
from loopty.domain.gate_spec import Gate
from loopty.domain.outcome import Outcome
from loopty.domain.pool import Pool
from loopty.domain.recordable import with_short_words
from loopty.domain.rig import Rig
from loopty.domain.space import Value
from loopty.executors.frames import LinkLost
from loopty.kit import codec
from loopty.kit.records import Record, field

LONGEST_FILES = 256 << 20
"""The most bytes of files that a worker may send back for one trial."""
_MOST_FILES = 10_000
_LONGEST_NAME = 1_000


class RigPackage(Record):
    """What a worker needs before its first trial: how trials run, and the files that they change."""

    rig: Rig
    tree: str
    """The baseline's tree by content, as trials see it: hidden and held-out files are not in it."""
    run: int
    """Only to tell runs apart: each has its own baseline."""


class FileChange(Record):
    """One file of a node that differs from the baseline; its content is in the message's block."""

    path: str
    size: int = 0
    mode: str = ""
    """As in git; empty where the node has no such file."""


class WorkerOrder(Record):
    """One trial, as a worker gets it."""

    node: str
    number: int
    pool: Pool
    seed: int
    token: str
    slice: str = ""
    gates: tuple[Gate, ...] = ()
    params: Mapping[str, Value] = field(default_factory=dict)
    changes: tuple[FileChange, ...] = ()
    name: str = ""
    """Of the node, for what the worker says."""


class PackedOrder(Record):
    """An order with the content of its files, one after the other."""

    order: WorkerOrder
    block: bytes = b""


class TrialReport(Record):
    """How a trial ended on a worker, with the files that it left: logs, metrics, result, traces."""

    outcome: Outcome
    files: Mapping[str, bytes] = field(default_factory=dict)


def pack_report(report: TrialReport) -> tuple[dict[str, Any], bytes]:
    """The fields and the block of the message that carries a report."""
    sizes = [[name, len(content)] for name, content in report.files.items()]
    return {"outcome": codec.plain(report.outcome), "files": sizes}, b"".join(report.files.values())


def unpack_report(fields: Mapping[str, Any], block: bytes) -> TrialReport:
    """The report of a message. Raises LinkLost for one that no worker of ours sends."""
    try:
        outcome = with_short_words(codec.build(Outcome, fields["outcome"]))
        if fault := misfit(outcome):
            raise ValueError(fault)
        files = _split(fields.get("files", ()), block)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        reason = cut_words(str(error), 200)
        raise LinkLost(f"the worker sent a report that cannot be read ({reason})") from None
    return TrialReport(outcome, files)


def _split(sizes: Sequence[Any], block: bytes) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    start = 0
    for name, size in sizes:
        if not isinstance(name, str) or type(size) is not int or not 0 <= size <= len(block) - start:
            raise ValueError("its files do not fit")
        if not _is_plain(name) or len(files) >= _MOST_FILES:
            raise ValueError(f"its file {name!r} has no plain name")
        files[name] = block[start : start + size]
        start += size
    if any(above in files for name in files for above in _folders(name)):
        raise ValueError("one of its files is a folder of another")
    return files


def _is_plain(name: str) -> bool:
    """Whether a name leads to a file below a folder, and nowhere else."""
    parts = name.split("/")
    if len(name) > _LONGEST_NAME:
        return False
    return all(part not in ("", ".", "..") and "\0" not in part and len(part.encode()) < 256 for part in parts)


def _folders(name: str) -> list[str]:
    """The folders that a file is in."""
    parts = name.split("/")
    return ["/".join(parts[:end]) for end in range(1, len(parts))]


def message(value: Any) -> Any:
    """A value as it goes into a message."""
    return json.loads(codec.text(value))
