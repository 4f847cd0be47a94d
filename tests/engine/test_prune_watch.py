"""Which trials can be stopped, and why none can."""

import functools
from dataclasses import dataclass, field

import pytest

from loopty.domain.ids import NodeId
from loopty.domain.objective import Direction
from loopty.domain.trial import Ending, Outcome, Pool, Row
from loopty.engine.protocols import Trial
from loopty.engine.prune_watch import PruneWatch
from loopty.ledgers.sqlite import MemoryLedger
from loopty.proposers.pruners import MedianPruner
from loopty.record.fold import Recorded
from loopty.record.nodes import NodeAdded
from loopty.record.sessions import RunStarted
from loopty.record.trials import TrialEnded, TrialStarted

from .conftest import make_task

PEERS = 6
LOWER = {"loss": Direction.MIN}


@dataclass
class Search:
    """A run whose trials have finished with these curves and scores."""

    curves: list[list[float]]
    scores: list[float]
    directions: dict = field(default_factory=dict)
    name: str = "loss"
    seconds: float = 1.0
    said: list[str] = field(default_factory=list)

    def __post_init__(self):
        self.history, self.number = MemoryLedger().history(), 0
        self.add(RunStarted(1, "", make_task().objective, 0, ""))
        for place, score in enumerate(self.scores):
            node = NodeId("1") if place == 0 else NodeId(f"1.{place}")
            self.add(NodeAdded(node, Pool.ATTEMPT, "x", "", f"{place:040}", f"{place:040}"))
            self.add(TrialStarted(node, 1, Pool.ATTEMPT, "me"))
            outcome = Outcome(Ending.FINISHED, {"score": score}, seconds=self.seconds, fingerprint="here")
            self.add(TrialEnded(node, 1, outcome))
        self.add(NodeAdded(NodeId("1.99"), Pool.ATTEMPT, "x", "", "f" * 40, "f" * 40))
        self.watch = PruneWatch(
            lambda: self.history,
            MedianPruner(startup_trials=2),
            self.read,
            "here",
            functools.cache(self.said.append),
        )

    def add(self, event):
        self.number += 1
        self.history.apply(Recorded(self.number, 0.0, event))

    def rows(self, values):
        return [Row(float(step), {self.name: value, "epoch": 1.0}) for step, value in enumerate(values)]

    def read(self, node):
        place = 0 if node.id == "1" else int(str(node.id).split(".")[1])
        return self.rows(self.curves[place]), self.directions

    def reason(self, values):
        node, root = self.history[NodeId("1.99")], self.history[NodeId("1")]
        on_metrics = self.watch.watch(Trial(node, root, 1, Pool.ATTEMPT, 0, ()))
        return on_metrics(self.rows(values), self.directions)


def falling(directions=LOWER, **more):
    """Losses that fall, and scores that rise with them."""
    return Search(
        [[1.0, 0.9 - place / 10] for place in range(PEERS)],
        [0.1 + place / 10 for place in range(PEERS)],
        directions,
        **more,
    )


def test_a_score_that_comes_at_the_end_alone_is_foreseen_by_the_leftmost_metric():
    search = falling()
    assert "worse than the median" in search.reason([1.0, 0.99])
    assert search.reason([1.0, 0.1]) is None
    assert search.said == []


def test_a_metric_that_does_not_go_with_the_score_stops_nothing_and_that_is_said_once():
    search = falling(directions={})  # without the hint, a higher loss would be better
    assert search.reason([1.0, 0.1]) is None
    assert search.reason([1.0, 0.99]) is None
    assert len(search.said) == 1
    assert "loss, which the benchmark reports while it runs, does not go with its score" in search.said[0]


def test_the_score_itself_needs_no_proof():
    search = Search([[0.2, 0.5]] * PEERS, [0.5] * PEERS, name="score")
    assert "worse than the median" in search.reason([0.2, 0.1])


@pytest.mark.parametrize(
    ("curves", "seconds", "why"),
    [
        ([], 1.0, "reports no metrics while it runs"),
        ([0.5], 1.0, "reports once"),
        ([1.0, 0.5], 0.1, "over within"),
    ],
)
def test_a_pruner_that_can_stop_nothing_says_why(curves, seconds, why):
    search = Search([curves] * PEERS, [0.5] * PEERS, LOWER, seconds=seconds)
    assert search.reason([1.0, 0.9]) is None or seconds < 1
    assert len(search.said) == 1
    assert why in search.said[0]
    assert why in search.watch.obstacle(search.history[NodeId("1")])


def test_without_a_pruner_nothing_is_said():
    search = falling(directions={})
    search.watch = PruneWatch(lambda: search.history, None, search.read, "here", search.said.append)
    assert search.reason([1.0, 0.99]) is None
    assert search.said == []
