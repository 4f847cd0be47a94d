"""Names in git that a record or an artifact holds, checked as they are read: git gets them on its command line."""

from __future__ import annotations

import re

from loopty.domain.access import is_clean_path
from loopty.domain.errors import Misuse

_OBJECT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


class ObjectName(str):
    """The name of a commit or a tree."""

    __slots__ = ()

    @classmethod
    def from_record(cls, text: str) -> ObjectName:
        """The name that a record holds. Raises Misuse for anything that is not 40 or 64 hex digits."""
        if not _OBJECT.fullmatch(text):
            raise Misuse(f"the record names the commit {text[:80]!r}, which no git made: it was changed by hand")
        return cls(text)


class TreePath(str):
    """The path of a file in the repository."""

    __slots__ = ()

    @classmethod
    def from_record(cls, text: str) -> TreePath:
        """The path that a record holds. Raises Misuse for one that is not relative or leads outside."""
        if not is_clean_path(text):
            raise Misuse(
                f"the record names the file {text[:80]!r}, which no commit can hold: it was changed by hand"
            )
        return cls(text)
