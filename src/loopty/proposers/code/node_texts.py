"""The files of nodes as text, read once for all nodes that have a file from the same ancestor."""

from __future__ import annotations

import functools
from collections.abc import Callable

from loopty.domain.errors import LooptyError
from loopty.kit.records import Record
from loopty.record.history import History
from loopty.record.node_record import Node

_MAX_CACHED = 512


class Origin(Record):
    """Where the files of a node come from."""

    base: str
    """The commit with every other file."""
    changed: dict[str, str]
    """The last commit that changed a file, by path, the newest first."""

    def commit(self, path: str) -> str:
        return self.changed.get(path, self.base)


def origin_of(history: History, node: Node) -> Origin:
    """The origin of the node's files, back to the baseline or to a node by a person, whose edits are unknown."""
    changed: dict[str, str] = {}
    for ancestor in map(history.__getitem__, reversed(node.id.lineage)):
        parent = ancestor.id.parent
        if parent is None or (not ancestor.edits and ancestor.commit != history[parent].commit):
            break
        for path in ancestor.edits:
            changed.setdefault(path, ancestor.commit)
    return Origin(ancestor.commit, changed)


class TextCache:
    """Reads files of commits, and caches the most recent ones."""

    def __init__(self, read: Callable[[str, str], str | None]) -> None:
        self.text = functools.lru_cache(_MAX_CACHED)(functools.partial(_read_text, read))
        """The text of a file of a commit; None when the file does not exist or is not text."""


def _read_text(read: Callable[[str, str], str | None], commit: str, path: str) -> str | None:
    try:
        return read(commit, path)
    except LooptyError:  # git has no such file
        return None
