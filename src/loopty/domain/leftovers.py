"""What a node left behind, for whoever proposes the next change."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Leftovers:
    """The files of a node's folder, shortened. Programs and models wrote them: show them fenced."""

    diff: str = ""
    """What it changes in its parent."""
    stdout: str = ""
    """How it ended."""
    stderr: str = ""
    traces: Mapping[str, str] = field(default_factory=dict)
    """By task, those that failed first: score, summary, reason of the failure, log."""
    artifacts: Mapping[str, str] = field(default_factory=dict)
    """What the benchmark's result says besides its numbers, by name."""
