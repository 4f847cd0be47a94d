"""Pages: the parts of the fold that a ledger saves, runs among them, and how it gives them back.

There is one per run and one for each block of entries of its long mappings, one per node, and one for the facts of
each block of nodes.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import chain, compress, repeat
from operator import attrgetter, is_not
from typing import Any, Protocol, get_args

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.trial import Pool
from loopty.kit import codec
from loopty.kit.records import Record, field_types, fields_of, is_record, replace
from loopty.record.run_record import Run, RunPart

RUN_KEY = "run "
FACTS_KEY = "facts "
"""How the keys of pages begin; a node's key is its id."""


UNREADABLE = (ArithmeticError, AttributeError, IndexError, KeyError, RecursionError, TypeError, ValueError)
"""What reading a page raises that no version of loopty wrote."""


LEDGER_REMEDY = (
    "Put back a copy of it, or move it away to begin a new one (`loopty ledger` says where it is); the commits of "
    "nodes are in git, whatever the ledger says"
)


def damaged_page(what: str) -> Misuse:
    """Return the error for a page that cannot be read."""
    return Misuse(f"the ledger was changed by hand: the record of {what} is damaged. {LEDGER_REMEDY}")


def facts_key(block: int) -> str:
    """Return the key of the facts of a block: its leading zeros keep the keys in the order of blocks."""
    return f"{FACTS_KEY}{block:010}"


class NodePlace(Record):
    """What a node is found by, and what a line of the tree shows of it."""

    handle: int
    run: int
    pool: Pool
    waits: bool
    """Whether the node waits for a trial."""
    identity: str | None
    """Where it became known in this write: the node is new, or no longer a draft."""
    tree_facts: str
    """What a line of the tree needs of it, as one line of JSON."""


class Page(Record):
    """One page of the fold as one line of JSON; for a node, also what it is found by and shown with."""

    body: str
    place: NodePlace | None = None


class SavedNodes(Protocol):
    """The nodes that a ledger has saved, read when they are asked for; always those of the last write."""

    def page(self, node: NodeId) -> str | None:
        """Return the node as one line of JSON; None if there is no such node."""
        ...

    def pages(self) -> Iterator[tuple[NodeId, str]]:
        """Yield all nodes, each as one line of JSON, in the order in which they were added."""
        ...

    def tree_facts(self, node: NodeId) -> str | None:
        """Return what a line of the tree needs of the node, as one line of JSON; None if there is no such node."""
        ...

    def all_tree_facts(self) -> Iterator[tuple[NodeId, str]]:
        """Yield the tree facts of all nodes, in the order in which they were added, without a look at pages."""
        ...

    def count(self) -> int:
        """Count the nodes of all runs."""
        ...

    def ids(self) -> Iterator[NodeId]:
        """Yield all ids, in the order in which the nodes were added."""
        ...

    def node_of_handle(self, handle: int) -> NodeId | None: ...

    def pool_size(self, run: int, pool: Pool, newest: int) -> int:
        """Count the nodes of one pool of one run, up to the short name `newest`."""
        ...

    def nodes_of_pool(self, run: int, pool: Pool, start: int, stop: int) -> Sequence[NodeId]:
        """List the nodes of one pool of one run from place `start` to before `stop`, oldest first."""
        ...

    def twins(self, run: int, identity: str) -> Sequence[tuple[NodeId, Pool]]:
        """List the nodes of this run that are the same experiment, each with its pool, oldest first."""
        ...

    def waiting_nodes(self, run: int, pool: Pool) -> Sequence[NodeId]:
        """List the nodes that wait for a trial, oldest first."""
        ...

    def nodes_of_handles(self, handles: Sequence[int]) -> Mapping[int, NodeId]:
        """Look up the nodes with these handles; those that do not exist are left out."""
        ...

    def facts_page(self, block: int) -> str | None:
        """Return the facts of one block of nodes as one line of JSON; None if it has no node yet."""
        ...

    def facts_pages(self) -> Iterator[tuple[int, str]]:
        """Yield the facts of all blocks with their numbers, oldest first."""
        ...


LONG = 16
"""A mapping with fewer entries stays in the page of its run."""
BLOCK_SIZE = 8
"""Entries in a page: each change of one writes all of them."""
_NOTHING = object()


class EntryPages:
    """One mapping as it was last saved: which entry is in which block, and in which order they were added."""

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self._places: dict[str, tuple[int, int]] = {}
        """The order and the block of each entry."""
        self._blocks: dict[int, dict[str, str]] = {}
        """The texts of the entries of each block; empty for an entry that was read and not written since."""
        self._saved: dict[int, str] = {}
        """The text of each block."""
        self._last_order = 0

    def __len__(self) -> int:
        return len(self._values)

    def read(self, block: int, text: str) -> None:
        """Take the entries of a saved page."""
        self._saved[block], self._blocks[block] = text, {}
        for key, (order, value) in json.loads(text).items():
            self._values[key], self._places[key] = value, (order, block)
            self._blocks[block][key] = ""
            self._last_order = max(self._last_order, order)

    def mapping(self) -> dict[str, Any]:
        """Return what was read, as plain data, in the order in which the entries were added."""
        self._values = {key: self._values[key] for key in sorted(self._values, key=self._places.__getitem__)}
        return dict(self._values)

    def change(self, mapping: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
        """Yield the blocks that change, with their texts, when the mapping becomes this one."""
        keys = list(mapping)
        touched = self._remove_others(mapping) if keys[: len(self._values)] != list(self._values) else set()
        touched |= self._put_changed(mapping)
        if list(self._values) != keys:  # an entry was removed and added again since the last save
            touched |= self._remove_others({}) | self._put_changed(mapping)
        for block in sorted(touched):
            text = f"{{{','.join(self._blocks[block].values())}}}"
            if text != self._saved.get(block):
                self._saved[block] = text
                yield block, text

    def _remove_others(self, mapping: Mapping[str, Any]) -> set[int]:
        """Remove the entries that the mapping does not have; returns their blocks."""
        touched = set()
        for key in self._values.keys() - mapping.keys():
            del self._values[key]
            _, block = self._places.pop(key)
            del self._blocks[block][key]
            touched.add(block)
        return touched

    def _put_changed(self, mapping: Mapping[str, Any]) -> set[int]:
        """Put the entries whose values are not the saved ones, where both are in one order; returns their blocks.

        Values never change, so that they are the same where they are identical: this looks at all of them.
        """
        differ = map(is_not, mapping.values(), chain(self._values.values(), repeat(_NOTHING)))
        changed = list(compress(mapping.items(), differ))
        for key, value in changed:
            order, block = self._places.get(key) or self._add(key)
            self._values[key] = value
            self._blocks[block][key] = f"{codec.text(str(key))}:[{order},{codec.text(value)}]"
        return {self._places[key][1] for key, _ in changed}

    def _add(self, key: str) -> tuple[int, int]:
        """Find the place of a new entry: the last in order, in the first block with room."""
        self._last_order += 1
        blocks = (number for number, entries in self._blocks.items() if len(entries) < BLOCK_SIZE)
        block = min(blocks, default=len(self._blocks))
        self._places[key] = self._last_order, block
        self._blocks.setdefault(block, {})
        return self._places[key]


_HEAD = attrgetter(*(field.name for field in fields_of(Run) if field.name not in ("parts", "pools")))


class RunPages:
    """Reads and writes runs as a ledger saves them. Parts are values that never change, so each is encoded once.

    The key of a run's page is `run 1`, that of a page of entries `run 1 Workers.members 0`.
    """

    def __init__(self) -> None:
        self._head: tuple[tuple[Any, ...], str] = ((), "")
        """What a run has besides its parts, which hardly ever changes, and the text of it."""
        self._texts: dict[int, tuple[Any, str]] = {}
        """The texts of the last page, with the parts that they encode, by the parts' identity."""
        self._entries: dict[str, dict[str, EntryPages]] = {}
        """The mappings that have pages of their own, by part (`run 1 Workers`) and field."""

    def read(self, pages: Mapping[str, str]) -> list[Run]:
        """Read the runs that have these pages, which are all that there are. Raises Misuse for what is none."""
        self._entries.clear()
        try:
            return self._read(pages)
        except UNREADABLE as error:
            raise damaged_page("its runs") from error

    def _read(self, pages: Mapping[str, str]) -> list[Run]:
        runs: dict[str, Any] = {}
        for key, text in pages.items():
            head, _, block = key.rpartition(" ")
            if head == RUN_KEY.strip():
                runs[key] = json.loads(text)
            else:
                part, _, field = head.partition(".")
                self._entries.setdefault(part, {}).setdefault(field, EntryPages()).read(int(block), text)
        for part, fields in self._entries.items():
            key, _, name = part.rpartition(" ")
            parts = runs[key].setdefault("parts", {})
            parts.setdefault(name, {}).update(
                {field: entries.mapping() for field, entries in fields.items() if entries}
            )
        return [codec.build(Run, data) for data in runs.values()]

    def changed_pages(self, run: Run) -> dict[str, Page]:
        """Return the page of a run that has changed, and the pages of its entries that have."""
        key = f"{RUN_KEY}{run.number}"
        entries: dict[str, Page] = {}
        known, self._texts = self._texts, {}

        def encode(name: str, part: Any) -> str:
            found = known.get(id(part))
            if found is None or found[0] is not part:
                found = part, self._part_text(f"{key} {name}", part, entries)
            self._texts[id(part)] = found
            return f'"{name}":{found[1]}'

        def encode_parts(parts: Mapping[str, Any]) -> str:
            return ",".join(encode(name, part) for name, part in parts.items())

        if (head := _HEAD(run)) != self._head[0]:
            self._head = head, codec.text(replace(run, parts={}, pools={}))[1:-1]
        texts = [self._head[1]]
        if run.parts:
            texts.append(f'"parts":{{{encode_parts(run.parts)}}}')
        if run.pools:
            pools = ",".join(f'"{pool}":{{{encode_parts(parts)}}}' for pool, parts in run.pools.items())
            texts.append(f'"pools":{{{pools}}}')
        return {key: Page(f"{{{','.join(texts)}}}"), **entries}

    def _part_text(self, place: str, part: Any, entries: dict[str, Page]) -> str:
        """Return the part without its long mappings, whose pages go to `entries` if they change."""
        mine = self._entries.get(place, {})
        if isinstance(part, dict):  # as it was read, so that no entry has changed
            return codec.text({name: item for name, item in part.items() if not mine.get(name)})
        if not isinstance(part, RunPart):
            return codec.text(part)
        kind: type = type(part)
        long = {name for name in _mappings(kind) if mine.get(name) or len(getattr(part, name)) >= LONG}
        if not long:
            return codec.text(part)
        for name in long:
            pages = self._entries.setdefault(place, {}).setdefault(name, EntryPages())
            changes = pages.change(getattr(part, name))
            entries |= {f"{place}.{name} {block}": Page(text) for block, text in changes}
        return codec.text({name: item for name, item in codec.stated_fields(part) if name not in long})


@cache
def _mappings(cls: type) -> tuple[str, ...]:
    """List the fields of a part that map names to records: their entries get pages of their own if that pays."""
    hints = ((name, get_args(hint)) for name, hint in field_types(cls).items())
    return tuple(name for name, inner in hints if len(inner) == 2 and is_record(inner[1]))
