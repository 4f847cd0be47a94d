"""Dotted ids: `1` is the baseline of run 1, `1.3` the third change to it. `@4` is the fourth node's short name."""

from __future__ import annotations

import hashlib
import re

from loopty.domain.errors import Misuse

_SHAPE = re.compile(r"[1-9][0-9]*(\.[1-9][0-9]*)*")
_LONGEST_NAME = 100


def handle_name(handle: int) -> str:
    """Return `@95`: the name by which a node is printed and accepted everywhere. Its id is a path, which grows."""
    return f"@{handle}"


class NodeId(str):
    """The id of a node, which tells its position in the tree."""

    __slots__ = ()

    @classmethod
    def parse(cls, text: str) -> NodeId:
        """Parse the id that a person typed."""
        if not _SHAPE.fullmatch(text):
            raise Misuse(
                f"{text!r} is not a node id: a node is @431, its path as in 1.3.2, best or baseline "
                "(see `loopty tree`)"
            )
        return cls(text)

    @classmethod
    def from_record(cls, text: str) -> NodeId:
        """Parse the id that a record holds. Raises Misuse for anything else: it names folders and branches."""
        if not _SHAPE.fullmatch(text):
            raise Misuse(f"the record names the node {text[:80]!r}, which is no node id: it was changed by hand")
        return cls(text)

    @property
    def run(self) -> int:
        return int(self.split(".", 1)[0])

    @property
    def parent(self) -> NodeId | None:
        head, dot, _ = self.rpartition(".")
        return NodeId(head) if dot else None

    @property
    def depth(self) -> int:
        return self.count(".")

    def is_within(self, top: NodeId | str) -> bool:
        """Say whether this id is that node or one of its descendants."""
        return self == top or self.startswith(f"{top}.")

    @property
    def sort_key(self) -> tuple[int, ...]:
        """Return the numbers of the id: the order of a tree."""
        return tuple(map(int, self.split(".")))

    @property
    def lineage(self) -> list[NodeId]:
        """List the ids from the root to this node."""
        parts = self.split(".")
        return [NodeId(".".join(parts[: end + 1])) for end in range(len(parts))]

    @property
    def name(self) -> str:
        """Return the id as the name of a file or branch; a digest if it is too long for a file system."""
        if len(self) <= _LONGEST_NAME:
            return str(self)
        digest = hashlib.sha256(self.encode()).hexdigest()[:16]
        return f"{self.run}.x{self.depth}.{digest}"

    @property
    def branch(self) -> str:
        # One flat namespace: refs/heads/x/1 and refs/heads/x/1/3 cannot coexist in git.
        return f"loopty-{self.name}"

    def child(self, number: int) -> NodeId:
        return NodeId(f"{self}.{number}")
