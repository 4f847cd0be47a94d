"""Every node of a run as the views of all nodes see it, and each judged one as a point of the chart.

A node is decoded only where its facts do not tell everything: where it has results under several fingerprints, a
verdict that was taken back, or a score in another metric than the one that counts.
"""

from __future__ import annotations

import functools
import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from typing import NamedTuple

from loopty.domain.ids import NodeId
from loopty.domain.objective import Direction, Metric, score_metric
from loopty.domain.trial import SEARCH_POOLS, Ending, Pool, Verdict
from loopty.kit.records import Record, field
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.node_table import NodeFacts
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


class RatedNode(NamedTuple):
    """One node of a run."""

    order: int
    handle: int
    pool: Pool
    verdict: str | None
    ending: str | None
    """How its own trial ended; None before that."""
    fingerprint: str
    """That of its own trial."""
    own_score: float | None
    """Of its own trial, whatever its ending."""
    score: float | None
    """Under the run's present fingerprint, where that is comparable."""
    error_rate: float | None
    """Of the comparison in pairs that led to its verdict."""
    repeats: int
    """How often it and the incumbent beside it were measured again."""
    is_comparable: bool
    """Whether a ranking under the run's present fingerprint may use it."""
    is_foreign: bool
    """Whether it has results, but none under the run's present fingerprint."""
    record: Node | None = None
    """The whole node, where the rest does not tell everything about it."""

    @property
    def is_baseline(self) -> bool:
        return self.order == 1


class RatedNodes:
    """The nodes of the search, the attempts first, each pool oldest first."""

    def __init__(self, history: History, nodes: Sequence[RatedNode]) -> None:
        self._history = history
        self.nodes = nodes

    @property
    def records(self) -> Iterator[Node]:
        """Yield the whole nodes about which facts do not tell everything."""
        return (node.record for node in self.nodes if node.record)

    @functools.cached_property
    def measured(self) -> Sequence[RatedNode]:
        """List the nodes with a comparable score, and those that were pruned."""
        return [node for node in self.nodes if node.score is not None or node.ending == Ending.PRUNED]

    def ids(self, nodes: Sequence[RatedNode]) -> list[NodeId]:
        """Return the ids of these nodes."""
        found = self._history.nodes_of_handles([node.handle for node in nodes])
        return [found[node.handle] for node in nodes]


def rated_nodes(history: History, run: int) -> RatedNodes:
    """Rate the nodes of a run."""
    rating = _Rating(history, run)
    return RatedNodes(history, [node for pool in SEARCH_POOLS for node in rating.nodes(pool)])


_MOST_CONTROLS = 1_000
"""More say nothing more about the proposer, and a status is to take no longer in a long run."""


def attempts_beside_control(history: History, run: int) -> Iterator[tuple[RatedNode, RatedNode]]:
    """Yield each node of the control with the attempt that was added right before it, or else right after it."""
    rating = _Rating(history, run)
    control = list(itertools.islice(history.facts(run, Pool.CONTROL), _MOST_CONTROLS))
    beside = [(facts.handle - 1, facts.handle + 1) for facts in control]
    found = history.facts_of(sorted(set(itertools.chain.from_iterable(beside))))
    attempts = {
        facts.handle: facts
        for its_run, facts in found
        if its_run == run and facts.pool == Pool.ATTEMPT and facts.place_in_run > 1
    }
    for theirs, handles in zip(control, beside, strict=True):
        if mine := next(filter(None, (attempts.pop(handle, None) for handle in handles)), None):
            yield rating.rate(mine, Pool.ATTEMPT), rating.rate(theirs, Pool.CONTROL)


class _Look(NamedTuple):
    """What nodes with the same verdict, ending and basis have in common."""

    fingerprint: str
    is_comparable: bool
    is_foreign: bool
    is_told: bool
    """Whether the facts tell everything."""


class _Rating:
    """Rates the nodes of one run."""

    def __init__(self, history: History, run: int) -> None:
        self._history = history
        self._run = history.runs[run]
        metrics = history.counting_metrics(run)
        self._metric = score_metric(metrics).name if metrics else None
        self._present, self._has_baseline = Cohorts.of(self._run).fingerprint, has_baseline(self._run)
        self._looks: dict[tuple[str | None, str | None, str], _Look] = {}

    def nodes(self, pool: Pool) -> Iterator[RatedNode]:
        return (self.rate(facts, pool) for facts in self._history.facts(self._run.number, pool))

    def rate(self, facts: NodeFacts, pool: Pool) -> RatedNode:
        handle, order, _, verdict, ending, basis, own, rate, repeats, _, is_plain = facts
        look = self._looks.get((verdict, ending, basis)) or self._look(facts)
        if not (is_plain and look.is_told):
            return rate_whole(self._history, self._history[self._history.node_of_handle(handle)], self._present)
        fingerprint, is_comparable, is_foreign, _ = look
        score = own if is_comparable else None
        what, scores = (order, handle, pool, verdict, ending, fingerprint), (own, score)
        return RatedNode(*what, *scores, rate, repeats, is_comparable, is_foreign)

    def _look(self, facts: NodeFacts) -> _Look:
        fingerprint, metric = json.loads(facts.basis)
        is_told = facts.ending is None or self._metric is None or metric == self._metric
        is_measured, is_here = facts.ending == Ending.FINISHED, fingerprint == self._present
        is_comparable = is_measured and is_here and facts.verdict not in UNRANKED
        look = _Look(fingerprint, is_comparable, self._has_baseline and is_measured and not is_here, is_told)
        self._looks[facts.verdict, facts.ending, facts.basis] = look
        return look


def rate_whole(history: History, node: Node, present: str) -> RatedNode:
    """Rate the node as its record tells about it, under this fingerprint."""
    outcome, result = node.outcome, comparable_result(node, present)
    return RatedNode(
        order=node.order,
        handle=node.handle,
        pool=node.pool,
        verdict=node.verdict,
        ending=outcome.ending if outcome else None,
        fingerprint=outcome.fingerprint if outcome else "",
        own_score=history.score(node),
        score=score(history, node, present) if result else None,
        error_rate=node.effect.error_rate if node.effect else None,
        repeats=node.repeats,
        is_comparable=result is not None,
        is_foreign=has_only_other_fingerprints(node, history.runs[node.id.run]),
        record=node,
    )


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
    judged = sorted(node for node in rated.nodes if node.verdict is not None)  # by their orders
    here = [node for node in judged if not node.is_foreign]
    kept = frozenset(history[node].handle for node in incumbents(history, record, fingerprint))
    marks = [_mark(node, node.handle in kept) for node in here]
    counts: Counter[Mark] = Counter()
    beside: Counter[Pool] = Counter()
    for (pool, mark), count in Counter(zip((node.pool for node in here), marks, strict=True)).items():
        if pool is Pool.ATTEMPT or mark in _WITHOUT_SCORE:
            counts[mark] += count
        else:
            beside[pool] += count
    places = range(len(here)) if most is None or len(here) <= most else _places_to_draw(here, marks, most)
    drawn = [here[place] for place in places]
    ids = rated.ids(drawn)
    metrics = history.counting_metrics(run) or _metrics_of_any(history, rated, judged)
    return ScorePoints(
        metric=score_metric(metrics).name if metrics else "score",
        direction=score_metric(metrics).direction if metrics else record.objective.direction,
        items=tuple(
            ScorePoint(node.order, name, node.pool, marks[place], node.score, node.handle)
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


def _mark(node: RatedNode, kept: bool) -> Mark:
    if node.verdict == Verdict.REJECTED:
        return Mark.REJECTED
    if node.score is None:
        return Mark.PRUNED if node.ending == Ending.PRUNED else Mark.FAILED
    if kept:
        return Mark.KEPT
    return Mark.INCONCLUSIVE if node.verdict == Verdict.INCONCLUSIVE else Mark.DISCARDED
