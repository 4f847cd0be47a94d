"""What a node left in its folder, for the proposer of the next change."""

from __future__ import annotations

from collections.abc import Mapping

from loopty.kit.records import Record, field


class Leftovers(Record):
    """The files of a node's folder, shortened. Programs and models wrote them, so they are shown fenced."""

    diff: str = ""
    """Its change to the parent."""
    stdout: str = ""
    """The end of its output."""
    stderr: str = ""
    traces: Mapping[str, str] = field(default_factory=dict)
    """By task, failed ones first: score, summary, reason of the failure, log."""
    artifacts: Mapping[str, str] = field(default_factory=dict)
    """The other values of the benchmark's result, by name."""
