"""Events, the state that they fold to, and families: what each keeps of a run, and how events change it."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId, handle_name
from loopty.domain.objective import Metric, Objective, score_metric
from loopty.domain.trial import Outcome, Pool
from loopty.kit import codec
from loopty.kit.records import Record, field
from loopty.record.node_facts import (
    FactsBlock,
    FactsKind,
    NodeFacts,
    block_number,
    read_block,
    tree_facts_text,
    with_nodes,
)
from loopty.record.node_record import Node
from loopty.record.pages import RUN_KEY, UNREADABLE, NodePlace, Page, RunPages, SavedNodes, damaged_page, facts_key
from loopty.record.run_record import Run
from loopty.record.saved_nodes import KnownPools, NodesInMemory, UnsavedNodes


class Event(Record):
    """The base of all events. Each family (a file of this room) defines its own as frozen dataclasses.

    To change an event, add fields with defaults or define a new event. Decoding ignores unknown fields, so an
    older loopty reads a newer ledger as far as it can.
    """


class Recorded(Record):
    """An event with its number in the ledger. `at` is in seconds since the epoch."""

    number: int
    at: float
    event: Event


_MOST_DECODED = 500_000
"""Characters of the pages whose nodes are kept decoded; with more, all are read again when they are asked for.

Decoded, a node takes some nine times as much. A process that drives a run has the same memory after any number.
"""


class FoldState:
    """Every run and node as the events so far leave them. Families read it and put new records into it."""

    def __init__(self, saved: SavedNodes | None = None) -> None:
        if saved is None:
            saved = NodesInMemory()
        self.number = 0
        """The number of the last event folded in."""
        self.saved_number = 0
        """The number of the last event whose changes are in the saved pages."""
        self.runs: dict[int, Run] = {}
        self._saved: SavedNodes = saved
        self._saved_count = 0
        """How many of its nodes belong to that event: another process may have saved more since."""
        self._decoded: dict[NodeId, Node] = {}
        """Some of the saved nodes."""
        self._decoded_sizes: dict[NodeId, int] = {}
        """The characters of their pages, which grow with what is known about them."""
        self._decoded_size = 0
        """The sum of these."""
        self._unsaved: dict[NodeId, Node] = {}
        """Nodes that changed since the last save."""
        self._index = UnsavedNodes()
        self._pools = KnownPools()
        self._counting: dict[int, tuple[Objective, Outcome | None, tuple[Metric, ...]]] = {}
        """The counting metrics of each run, with what they follow from."""
        self._blocks: dict[int, FactsBlock] = {}
        """Blocks of facts that were just saved: the next node of a block need not read it again."""
        self._run_pages = RunPages()
        self._changed: dict[str, None] = {}
        """In the order in which pages first changed: a ledger keeps them so, and nodes in their order."""

    @property
    def run(self) -> Run | None:
        """Return the newest run."""
        return self.runs[max(self.runs)] if self.runs else None

    @property
    def ids(self) -> Iterator[NodeId]:
        """Yield all node ids, in the order in which they were added."""
        return itertools.chain(itertools.islice(self._saved.ids(), self._saved_count), self._index)

    @property
    def count(self) -> int:
        """Count the nodes of all runs."""
        return self._saved_count + len(self._index)

    def handle(self, node: NodeId) -> int:
        """Return the node's place among all nodes, from 1: its short name, which never changes."""
        return self[node].handle

    def name(self, node: NodeId | str) -> str:
        """Return `@95`, as the node is printed and accepted everywhere."""
        return self[NodeId(node)].name

    def node_of_handle(self, handle: int) -> NodeId:
        """Look up the node with this short name."""
        new = (node for node in self._index if self._unsaved[node].handle == handle)
        found = self._saved.node_of_handle(handle) or next(new, None)
        if found is None:
            newest = f"the newest is {handle_name(self.count)}" if self.count else "nothing has run here yet"
            raise Misuse(f"there is no node {handle_name(handle)}: {newest} (see `loopty tree`)")
        return found

    def __getitem__(self, node: NodeId) -> Node:
        found = self._unsaved.get(node) or self._decoded.get(node)
        return self._read(node) if found is None else found

    def _read(self, node: NodeId) -> Node:
        """Decode the page of a saved node."""
        page = self._saved.page(node)
        if page is None:
            raise Misuse(f"there is no node {node}: `loopty tree` lists them")
        try:
            found = codec.build(Node, json.loads(page))
        except UNREADABLE as error:
            raise damaged_page(f"node {node}") from error
        if found.id != node:
            raise Misuse(f"the record of node {node} is that of {found.id}: it was changed by hand")
        self._keep_decoded(found, len(page))
        return found

    def _keep_decoded(self, node: Node, size: int) -> None:
        if self._decoded_size >= _MOST_DECODED:
            self._forget_decoded()
        self._decoded_size += size - self._decoded_sizes.get(node.id, 0)
        self._decoded_sizes[node.id] = size
        self._decoded[node.id] = node

    def _forget_decoded(self) -> None:
        self._decoded.clear()
        self._decoded_sizes.clear()
        self._decoded_size = 0

    def page(self, node: NodeId) -> str:
        """Return the node as one line of JSON."""
        page = None if node in self._unsaved else self._saved.page(node)
        return codec.text(self[node]) if page is None else page

    def pages(self) -> Iterator[tuple[NodeId, str]]:
        """Yield every node of all runs as one line of JSON, in the order in which they were added."""
        for node, page in itertools.islice(self._saved.pages(), self._saved_count):
            yield node, codec.text(self._unsaved[node]) if node in self._unsaved else page
        yield from ((node, codec.text(self._unsaved[node])) for node in self._index)

    def tree_facts(self, node: NodeId) -> str:
        """Return what a line of the tree needs of the node, as one line of JSON."""
        facts = None if node in self._unsaved else self._saved.tree_facts(node)
        return tree_facts_text(self[node]) if facts is None else facts

    def all_tree_facts(self) -> Iterator[tuple[NodeId, str]]:
        """Yield the tree facts of every node of all runs, in the order in which they were added."""
        unsaved, all_saved = self._unsaved, itertools.islice(self._saved.all_tree_facts(), self._saved_count)
        if not unsaved:
            return all_saved
        saved = ((node, tree_facts_text(unsaved[node]) if node in unsaved else facts) for node, facts in all_saved)
        return itertools.chain(saved, ((node, tree_facts_text(unsaved[node])) for node in self._index))

    def nodes_of_pool(self, run: int, pool: Pool) -> Sequence[NodeId]:
        """List the nodes of one pool of one run, oldest first; the baseline is among the attempts."""
        return self._pools.nodes(self._saved, self._saved_count, run, pool, self._index.of_pool)

    def nodes(self, run: int, pool: Pool) -> Iterator[Node]:
        return map(self.__getitem__, self.nodes_of_pool(run, pool))

    def waiting_nodes(self, run: int, pool: Pool) -> Iterator[Node]:
        """Yield the nodes of this run and pool that wait for a trial, oldest first, without the baseline."""
        ids = (*self._saved.waiting_nodes(run, pool), *self._unsaved)
        nodes = sorted({self[node].handle: self[node] for node in ids}.items())
        return (node for _, node in nodes if node.id.run == run and node.pool is pool and _waits(node))

    def facts(self) -> Iterator[FactsBlock]:
        """Yield the facts of every node of all runs, oldest first."""
        changed = self._changed_facts()
        for number, text in self._saved.facts_pages():
            block = read_block(number, text)
            yield with_nodes(number, block, changed.pop(number)) if number in changed else block
        yield from (with_nodes(number, None, nodes) for number, nodes in sorted(changed.items()))

    def nodes_of_handles(self, handles: Sequence[int]) -> Mapping[int, NodeId]:
        """Look up the nodes with these short names."""
        return {
            **self._saved.nodes_of_handles(handles),
            **{self._unsaved[node].handle: node for node in self._index},
        }

    def twin(self, run: int, pool: Pool, identity: str) -> NodeId | None:
        """Find the node of this run and pool that is the same experiment, or None; all pools have the baseline."""
        twins = (*self._saved.twins(run, identity), *self._index.twins(run, identity))
        return next((node for node, other in twins if other is pool or node.parent is None), None)

    def metrics(self, node: Node) -> tuple[Metric, ...]:
        """Return the metrics by which this node is compared, most important first."""
        if metrics := self.counting_metrics(node.id.run):
            return metrics
        if node.outcome is None:
            return ()
        return self.runs[node.id.run].objective.counting_metrics(node.outcome.metrics, node.outcome.directions)

    def counting_metrics(self, run: int) -> tuple[Metric, ...]:
        """Return the metrics that count in this run: those that the task names, else what the baseline reported.

        No candidate can change them. Empty while the task names none and the baseline has no result.
        """
        objective, outcome = self.runs[run].objective, self[self.runs[run].root].outcome
        known = self._counting.get(run)
        if known is None or known[0] is not objective or known[1] is not outcome:
            metrics = objective.metrics
            if outcome is not None and outcome.is_finished:
                metrics = objective.counting_metrics(outcome.metrics, outcome.directions)
            known = self._counting[run] = objective, outcome, metrics
        return known[2]

    def score(self, node: Node) -> float | None:
        """Return the node's value of the metric that lists show, or None if it has none."""
        metrics = self.metrics(node)
        if node.outcome is None or not metrics:
            return None
        return node.outcome.metrics.get(score_metric(metrics).name)

    def put_run(self, run: Run) -> None:
        self.runs[run.number] = run
        self._changed[f"{RUN_KEY}{run.number}"] = None

    def put(self, node: Node) -> None:
        self._unsaved[node.id] = node
        self._changed[node.id] = None

    def add_to_index(self, node: Node) -> None:
        """Index a node that was just put for the first time."""
        self._index.add(node)
        self._pools.add(node.id, node.pool)

    def seal_in_index(self, node: Node) -> None:
        """Index the files of a node that was a draft until now."""
        self._index.seal(node)

    def take_changed_pages(self) -> dict[str, Page]:
        """Take the pages that changed since the last call, to save them: from then on they are read back."""
        pages: dict[str, Page] = {}
        for key in self._changed:
            if key.startswith(RUN_KEY):
                pages |= self._run_pages.changed_pages(self.runs[int(key.removeprefix(RUN_KEY))])
            else:
                pages[key] = self._page(NodeId(key))
        pages |= self._facts_pages()
        for node in self._unsaved.values():
            self._keep_decoded(node, len(pages[node.id].body))
        self.saved_number, self._saved_count = self.number, self.count
        self._forget_unsaved()
        return pages

    def _forget_unsaved(self) -> None:
        self._changed.clear()
        self._unsaved.clear()
        self._index.clear()

    def _page(self, key: NodeId) -> Page:
        node = self._unsaved[key]
        place = NodePlace(
            node.handle, key.run, node.pool, _waits(node), self._index.identity(key), tree_facts_text(node)
        )
        return Page(codec.text(node), place)

    def _facts_pages(self) -> dict[str, Page]:
        """Return the blocks of facts after the changes since the last save."""
        known, self._blocks = self._blocks, {}
        for number, nodes in self._changed_facts().items():
            block = known.get(number)
            if block is None and (text := self._saved.facts_page(number)):
                block = read_block(number, text)
            self._blocks[number] = with_nodes(number, block, nodes)
        return {facts_key(number): Page(block.text) for number, block in self._blocks.items()}

    def _changed_facts(self) -> dict[int, dict[int, NodeFacts]]:
        """Return the facts of the nodes that changed since the last save, by block and handle."""
        changed: dict[int, dict[int, NodeFacts]] = {}
        for node in self._unsaved.values():
            changed.setdefault(block_number(node.handle), {})[node.handle] = self._facts(node)
        return changed

    def _facts(self, node: Node) -> NodeFacts:
        outcome, verdict = node.outcome, node.verdict
        metrics = self.metrics(node) if outcome else ()
        kind = FactsKind(
            run=node.id.run,
            pool=node.pool.value,
            verdict=verdict.value if verdict else None,
            ending=outcome.ending.value if outcome else None,
            fingerprint=outcome.fingerprint if outcome else "",
            metric=score_metric(metrics).name if metrics else None,
            repeats=node.repeats,
            is_plain=not (node.other_fingerprints or node.withdrawn or node.reopened_for),
        )
        score = outcome.metrics.get(score_metric(metrics).name) if outcome and metrics else None
        rate = node.effect.error_rate if node.effect else None
        return NodeFacts(node.order, score, rate, node.judged, kind)


def _waits(node: Node) -> bool:
    return node.is_pending and node.id.parent is not None


Fold = Callable[[FoldState, Any, float], None]
"""Folds one event, recorded at this time, into the state. Constant work, whatever the length of the history."""


class Family(Record):
    """One file of this room, as the table in `families.py` lists it."""

    events: tuple[type[Event], ...]
    """The events that the family defines. Each is stored under its name: `NodeAdded` as `node-added`."""
    folds: Mapping[type[Event], Fold] = field(default_factory=dict)
    """What the family does at each event; it may fold events of other families, too."""
