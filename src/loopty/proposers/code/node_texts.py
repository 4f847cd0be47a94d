"""The files of nodes as text: read once for all nodes that have them from the same ancestor."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

from loopty.domain.errors import LooptyError
from loopty.record.history import History
from loopty.record.node_record import Node

_MAX_CACHED = 512


@dataclass(frozen=True, slots=True)
class Origin:
    """Where the files of a node come from: the commits that changed them last, newest first; the rest from one."""

    base: str
    changed: dict[str, str]

    def commit(self, path: str) -> str:
        return self.changed.get(path, self.base)


def origin_of(history: History, node: Node) -> Origin:
    """Up to the baseline, or to a node of which only its commit is known, because a person made it."""
    changed: dict[str, str] = {}
    for at in map(history.__getitem__, reversed(node.id.lineage)):
        if at.id.parent is None or (not at.edits and at.commit != history[at.id.parent].commit):
            break
        for path in at.edits:
            changed.setdefault(path, at.commit)
    return Origin(at.commit, changed)


class TextCache:
    """Reads files of commits, and keeps the last of them."""

    def __init__(self, read: Callable[[str, str], str | None]) -> None:
        self.text = functools.lru_cache(_MAX_CACHED)(functools.partial(_read_text, read))
        """A file of a commit; None when it is not there or not text."""


def _read_text(read: Callable[[str, str], str | None], commit: str, path: str) -> str | None:
    try:
        return read(commit, path)
    except LooptyError:  # git has no such file
        return None
