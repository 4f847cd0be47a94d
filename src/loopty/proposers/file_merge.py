"""A merge of the files of two commits, as a proposer sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol


class FileMerge(Protocol):
    """What has to change in one commit so that it holds the changes of another, too."""

    @property
    def edits(self) -> Mapping[str, bytes | None]: ...

    @property
    def conflicts(self) -> tuple[str, ...]:
        """Paths that both change in the same place."""
        ...


MergeFiles = Callable[[str, str, str, tuple[str, str]], FileMerge]
"""Merges, given the commits of the common ancestor, of the node and of the other one, and the names of both."""
