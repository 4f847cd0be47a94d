"""The name of a node on the screen: its id, and its handle, the short name that every verb accepts."""

from __future__ import annotations

import re
from collections.abc import Callable

from loopty.domain.ids import NodeId
from loopty.kit.dataclass import Record, dataclass

_LONGEST_ID = 16
_DEEP_ID = r"(?<![\w./-])\d+(?:\.\d++){2,}+(?![\w/-])"


def node_name(node: str, handle: int) -> str:
    """`1.3 #4`. Of a deep id only the run and the last numbers are shown, in every view the same: `1…7.2 #431`.

    The handle is 0 where a node has none: a run that nobody recorded.
    """
    return f"{short_id(node)} #{handle}" if handle else short_id(node)


def name_within(node: str, handle: int, columns: int) -> str:
    """The name in at most this many columns: the handle alone where there is no room for both."""
    name = node_name(node, handle)
    return name if len(name) <= columns or not handle else f"#{handle}"


def name_to_type(node: str, handle: int) -> str:
    """What to type for the node: its id, or for a deep one the handle, with an `@` for the sake of shells."""
    return str(node) if short_id(node) == node or not handle else f"@{handle}"


def short_id(node: str) -> str:
    """The id, or the run and the last two numbers of a deep one: a chain of thousands has an id of kilobytes."""
    if len(node) <= _LONGEST_ID or node.count(".") < 2:
        return str(node)
    run, *_, above, last = node.split(".")
    return f"{run}…{above}.{last}"


def shorten_ids(text: str) -> str:
    """The text with its deep ids shortened, as every verb shows and accepts them."""
    return re.sub(_DEEP_ID, lambda found: short_id(found[0]), text)


@dataclass(frozen=True, slots=True)
class NodeNames(Record):
    """The names of nodes that a text has only the ids of; without a way to their handles, the ids alone."""

    handle: Callable[[NodeId], int] = lambda _: 0

    def name(self, node: str) -> str:
        return node_name(node, self.handle(NodeId(node)))

    def argument(self, node: str) -> str:
        return name_to_type(node, self.handle(NodeId(node)))
