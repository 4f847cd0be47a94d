"""Every node of a run as the views of all nodes see it, and each judged one as a point of the chart.

A page is decoded only where the facts beside it do not tell everything: where a node has results under several
fingerprints, a verdict that was taken back, or a score in another metric than the one that counts. Nodes that
differ only in order and score share one kind: views count kinds, so that a million nodes take little time.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from loopty.domain.ids import NodeId
from loopty.domain.objective import Direction, Metric, score_metric
from loopty.domain.trial import SEARCH_POOLS, Ending, Pool, Verdict
from loopty.kit.records import Record, field, replace
from loopty.record.history import History
from loopty.record.node_facts import FactsBlock, FactsKind
from loopty.record.node_record import Node
from loopty.record.trials import Cohorts
from loopty.show.comparisons import (
    UNRANKED,
    comparable_result,
    has_baseline,
    has_only_other_fingerprints,
    incumbents,
    score,
    sigma,
)


class RatedKind(Record, eq=False):
    """What nodes have in common. Two kinds may be alike: each is itself."""

    pool: Pool
    verdict: str | None
    ending: str | None
    """How its own trial ended; None before that."""
    fingerprint: str
    """That of its own trial."""
    is_comparable: bool
    """Whether a ranking under the run's present fingerprint may use it."""
    is_foreign: bool
    """Whether it has results, but none under the run's present fingerprint."""
    repeats: int
    """How often it and the incumbent beside it were measured again."""
    is_baseline: bool = False
    record: Node | None = None
    """The whole node, where the rest does not tell everything about it: then it has a kind of its own."""


class RatedNode(NamedTuple):
    """One node of a run."""

    order: int
    handle: int
    own_score: float | None
    """Of its own trial, whatever its ending."""
    score: float | None
    """Under the run's present fingerprint, where that is comparable."""
    error_rate: float | None
    """Of the comparison in pairs that led to its verdict."""
    kind: RatedKind


class RatedNodes:
    """The nodes of the search, the attempts first, each pool oldest first."""

    def __init__(self, history: History, nodes: Sequence[RatedNode]) -> None:
        self._history = history
        self.nodes = nodes
        self.kinds: Mapping[RatedKind, int] = Counter([node.kind for node in nodes])
        """How many nodes there are of each kind, in the order of the first."""

    @property
    def records(self) -> Iterator[Node]:
        """Yield the whole nodes about which facts do not tell everything."""
        return (kind.record for kind in self.kinds if kind.record)

    @functools.cached_property
    def measured(self) -> Sequence[RatedNode]:
        """List the nodes with a comparable score, and those that were pruned."""
        pruned = {kind for kind in self.kinds if kind.ending == Ending.PRUNED}
        return [node for node in self.nodes if node.score is not None or node.kind in pruned]

    def ids(self, nodes: Sequence[RatedNode]) -> list[NodeId]:
        """Return the ids of these nodes."""
        found = self._history.nodes_of_handles([node.handle for node in nodes])
        # Facts of a node that does not exist were written by hand: asking for it says so.
        return [found.get(node.handle) or self._history.node_of_handle(node.handle) for node in nodes]


class RatedBlock(Record):
    """Neighbouring nodes of a run as columns: an object for each of them takes longer than the rest."""

    facts: FactsBlock
    kinds: Sequence[RatedKind]
    """By the place of the kind among those of the facts."""
    nodes: Sequence[RatedNode] | None
    """The nodes one by one, where some belong to other runs or have a kind of their own; then these count."""


def rated_blocks(history: History, run: int) -> Iterator[RatedBlock]:
    """Yield the nodes of a run in the order of their handles, for callers that keep columns."""
    rating = _Rating(history, run)
    return map(rating.block, history.facts())


def rated_nodes(history: History, run: int) -> RatedNodes:
    """Rate the nodes of a run."""
    rating = _Rating(history, run)
    by_pool: dict[Pool, list[RatedNode]] = {pool: [] for pool in SEARCH_POOLS}
    for block in history.facts():
        nodes = rating.nodes(block)
        pools = {kind.pool for kind in {node.kind for node in nodes}}
        for pool in pools:
            by_pool[pool] += nodes if len(pools) == 1 else [node for node in nodes if node.kind.pool is pool]
    return RatedNodes(history, list(itertools.chain(*by_pool.values())))


_POOLS = {pool.value: pool for pool in SEARCH_POOLS}
_LEFT_OUT = RatedKind(Pool.ATTEMPT, None, None, "", is_comparable=False, is_foreign=False, repeats=0)
"""Of another run, or not of the search."""
_DECODED = replace(_LEFT_OUT)
"""The node has to be decoded."""


class _Rating:
    """Rates the nodes of one run, block by block."""

    def __init__(self, history: History, run: int) -> None:
        self._history = history
        self._run = history.runs[run]
        self._baseline = history[self._run.root].handle
        metrics = history.counting_metrics(run)
        self._metric = score_metric(metrics).name if metrics else None
        self._present, self._has_baseline = Cohorts.of(self._run).fingerprint, has_baseline(self._run)
        self._known: dict[FactsKind, RatedKind] = {}

    def block(self, block: FactsBlock) -> RatedBlock:
        kinds = self._kinds(block)
        return RatedBlock(block, kinds, self.nodes(block) if self._has_special(block, kinds) else None)

    def _kinds(self, block: FactsBlock) -> list[RatedKind]:
        return [self._known.get(kind) or self._rate(kind) for kind in block.kinds]

    def _has_special(self, block: FactsBlock, found: Sequence[RatedKind]) -> bool:
        """Say whether some of its nodes belong to other runs, or have a kind of their own."""
        is_first = 0 <= self._baseline - block.first < len(block.orders)
        return is_first or _LEFT_OUT in found or _DECODED in found

    def nodes(self, block: FactsBlock) -> list[RatedNode]:
        """List the nodes of the block that belong to the run."""
        found = self._kinds(block)
        kinds = [found[place] for place in block.kind_places]
        handles = range(block.first, block.first + len(kinds))
        scores = [score if kind.is_comparable else None for score, kind in zip(block.scores, kinds, strict=True)]
        rows = zip(block.orders, handles, block.scores, scores, block.error_rates, kinds, strict=True)
        nodes = list(map(RatedNode._make, rows))
        if self._has_special(block, found):
            return [self._look_at(node) for node in nodes if node.kind is not _LEFT_OUT]
        return nodes

    def _look_at(self, node: RatedNode) -> RatedNode:
        """Give the node a kind of its own, if it needs one."""
        if node.kind is _DECODED:
            return rate_whole(
                self._history, self._history[self._history.node_of_handle(node.handle)], self._present
            )
        is_baseline = node.handle == self._baseline
        return node._replace(kind=replace(node.kind, is_baseline=True)) if is_baseline else node

    def _rate(self, kind: FactsKind) -> RatedKind:
        self._known[kind] = rated = self._rated(kind)
        return rated

    def _rated(self, facts: FactsKind) -> RatedKind:
        pool, ending = _POOLS.get(facts.pool), facts.ending
        if facts.run != self._run.number or pool is None:
            return _LEFT_OUT
        if not facts.is_plain or (
            ending is not None and self._metric is not None and facts.metric != self._metric
        ):
            return _DECODED
        is_measured, is_here = ending == Ending.FINISHED, facts.fingerprint == self._present
        is_comparable = is_measured and is_here and facts.verdict not in UNRANKED
        is_foreign = self._has_baseline and is_measured and not is_here
        verdict, fingerprint = facts.verdict, facts.fingerprint
        return RatedKind(
            pool=pool,
            verdict=verdict,
            ending=ending,
            fingerprint=fingerprint,
            is_comparable=is_comparable,
            is_foreign=is_foreign,
            repeats=facts.repeats,
        )


def rate_whole(history: History, node: Node, present: str) -> RatedNode:
    """Rate the node as its page tells about it, under this fingerprint."""
    outcome, result = node.outcome, comparable_result(node, present)
    kind = RatedKind(
        pool=node.pool,
        verdict=node.verdict,
        ending=outcome.ending if outcome else None,
        fingerprint=outcome.fingerprint if outcome else "",
        is_comparable=result is not None,
        is_foreign=has_only_other_fingerprints(node, history.runs[node.id.run]),
        repeats=node.repeats,
        is_baseline=node.id.parent is None,
        record=node,
    )
    error_rate = node.effect.error_rate if node.effect else None
    here = score(history, node, present) if result else None
    return RatedNode(node.order, node.handle, history.score(node), here, error_rate, kind)


class Mark(StrEnum):
    """How a point is drawn. A node without a comparable score failed, unless it was pruned or rejected."""

    KEPT = "kept"
    DISCARDED = "discarded"
    INCONCLUSIVE = "inconclusive"
    PRUNED = "pruned"
    FAILED = "failed"
    REJECTED = "rejected"


_WITHOUT_SCORE = (Mark.PRUNED, Mark.FAILED, Mark.REJECTED)


class ScorePoint(Record):
    """One experiment of the chart."""

    order: int
    node: NodeId
    pool: Pool
    mark: Mark
    score: float | None
    """None if the node failed, was pruned or was rejected."""
    handle: int = 0


class ScorePoints(Record):
    """The points of one run in the order of the experiments, and the name of their score."""

    metric: str
    direction: Direction
    items: tuple[ScorePoint, ...]
    under_other_fingerprints: int
    """The number of nodes with results only under other fingerprints; they are not among these points."""
    noise: float = 0.0
    """Of one measurement; 0 where results do not vary."""
    marks: Mapping[Mark, int] = field(default_factory=dict)
    """How many nodes have each mark, without those of the control and the past versions that have a score."""
    control: int = 0
    """Nodes of the control that have a score."""
    versions: int = 0
    """Past versions that have a score."""
    is_thinned: bool = False
    """Whether some points were left out because there are too many to draw."""


def points(history: History, run: int, rated: RatedNodes | None = None, most: int | None = None) -> ScorePoints:
    """List the points of a run under its present fingerprint; about `most` of them, or all.

    `rated` are the nodes of the run, where they are known. Of many points, those stay that were kept, and among
    neighbours the lowest, the highest and one of each mark.
    """
    record = history.runs[run]
    fingerprint = Cohorts.of(record).fingerprint
    rated = rated or rated_nodes(history, run)
    open_kinds = {kind for kind in rated.kinds if kind.verdict is None}
    foreign_kinds = {kind for kind in rated.kinds if kind.is_foreign}
    judged = sorted(node for node in rated.nodes if node.kind not in open_kinds)  # by their orders
    here = [node for node in judged if node.kind not in foreign_kinds] if foreign_kinds else judged
    marks = _marks(here, frozenset(history[node].handle for node in incumbents(history, record, fingerprint)))
    counts: Counter[Mark] = Counter()
    beside: Counter[Pool] = Counter()
    for (kind, mark), count in Counter(zip((node.kind for node in here), marks, strict=True)).items():
        if kind.pool is Pool.ATTEMPT or mark in _WITHOUT_SCORE:
            counts[mark] += count
        else:
            beside[kind.pool] += count
    places = range(len(here)) if most is None or len(here) <= most else _places_to_draw(here, marks, most)
    drawn = [here[place] for place in places]
    ids = rated.ids(drawn)
    metrics = history.counting_metrics(run) or _metrics_of_any(history, rated, judged)
    return ScorePoints(
        metric=score_metric(metrics).name if metrics else "score",
        direction=score_metric(metrics).direction if metrics else record.objective.direction,
        items=tuple(
            ScorePoint(node.order, name, node.kind.pool, marks[place], node.score, node.handle)
            for place, name, node in zip(places, ids, drawn, strict=True)
        ),
        under_other_fingerprints=len(judged) - len(here),
        noise=sigma(record, fingerprint, score_metric(metrics).name) if metrics else 0.0,
        marks=counts,
        control=beside[Pool.CONTROL],
        versions=beside[Pool.VERSION],
        is_thinned=len(drawn) < len(here),
    )


def _metrics_of_any(history: History, rated: RatedNodes, judged: Sequence[RatedNode]) -> Sequence[Metric]:
    """Return the metrics of the first node that has some, for when the task and the baseline name none."""
    return next(filter(None, (history.metrics(history[node]) for node in rated.ids(judged))), ())


def _places_to_draw(nodes: Sequence[RatedNode], marks: Sequence[Mark], most: int) -> list[int]:
    """Choose from each group of neighbours what was kept, the lowest, highest, last, and one of each mark."""
    size = max(4 * len(nodes) // most, 1)
    drawn: list[int] = []
    for start in range(0, len(nodes), size):
        group = range(start, min(start + size, len(nodes)))
        scores = [node.score for node in nodes[start : group.stop]]
        last_of_mark = dict(zip(marks[start : group.stop], group, strict=True))
        places = {*last_of_mark.values(), group[-1]}
        if Mark.KEPT in last_of_mark:
            places |= {place for place in group if marks[place] is Mark.KEPT}
        if some := [score for score in scores if score is not None]:
            places |= {start + scores.index(min(some)), start + scores.index(max(some))}
        drawn += sorted(places)
    return drawn


def _marks(nodes: Sequence[RatedNode], kept: frozenset[int]) -> list[Mark]:
    """Return the marks of these nodes; those with the handles `kept` are incumbents."""
    usual: dict[RatedKind, Mark] = {}
    marks = []
    for node in nodes:
        _, handle, _, score, _, kind = node
        if score is None or handle in kept:
            marks.append(_mark(node, handle in kept))
        else:
            marks.append(usual.get(kind) or usual.setdefault(kind, _mark(node, kept=False)))
    return marks


def _mark(node: RatedNode, kept: bool) -> Mark:
    if node.kind.verdict == Verdict.REJECTED:
        return Mark.REJECTED
    if node.score is None:
        return Mark.PRUNED if node.kind.ending == Ending.PRUNED else Mark.FAILED
    if kept:
        return Mark.KEPT
    return Mark.INCONCLUSIVE if node.kind.verdict == Verdict.INCONCLUSIVE else Mark.DISCARDED
