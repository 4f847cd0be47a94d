"""Selectors choose the node to change next."""

from __future__ import annotations

import random
from collections.abc import Mapping

import pytest

from loopty.domain.ids import NodeId
from loopty.domain.objective import Direction, Metric, Objective
from loopty.domain.trial import Ending, Outcome, Pool, Verdict
from loopty.engine.protocols import Ask
from loopty.ledgers.sqlite import MemoryLedger
from loopty.proposers.selectors.choices import BestSelector, RootSelector
from loopty.record.fold import Event
from loopty.record.nodes import NodeAdded
from loopty.record.recorder import Recorder
from loopty.record.sessions import RunStarted
from loopty.record.trials import TrialEnded, TrialStarted
from loopty.record.verdicts import NodeJudged
from loopty.testing.fakes import object_name

FAST = Metric("latency", Direction.MIN)


def events_of(nodes: Mapping[str, Outcome | None], best: str = "1") -> list[Event]:
    events: list[Event] = [RunStarted(1, "criteria", Objective(metrics=(FAST,)), 0, "")]
    for name, outcome in nodes.items():
        node = NodeId(name)
        events += [NodeAdded(node, Pool.ATTEMPT, "operator", "", object_name("commit"), object_name(name))]
        if outcome:
            verdict = Verdict.KEPT if name in ("1", best) else Verdict.DISCARDED
            events += [TrialStarted(node, 1, Pool.ATTEMPT, "owner"), TrialEnded(node, 1, outcome)]
            events += [NodeJudged(node, verdict, "")]
    return events


def asks(events: list[Event], count: int) -> list[Ask]:
    recorder = Recorder(MemoryLedger(), lambda: 0.0)
    recorder.record(lambda _: events)
    return [Ask(recorder.history, 1, Pool.ATTEMPT, lambda _, n=n: random.Random(n)) for n in range(count)]  # type: ignore[misc]


def latency(value: float) -> Outcome:
    return Outcome(Ending.FINISHED, {"latency": value})


@pytest.fixture
def nodes() -> dict[str, Outcome | None]:
    return {
        "1": latency(5),
        "1.1": latency(4),
        "1.2": latency(3),
        "1.3": latency(9),
        "1.4": Outcome(Ending.FAILED, reason="crashed"),
        "1.5": Outcome(Ending.FINISHED, {"score": 1.0}),
        "1.6": None,
    }


def test_best_and_root_always_answer_the_same(nodes: dict[str, Outcome | None]) -> None:
    (ask,) = asks(events_of(nodes, best="1.2"), 1)
    assert BestSelector().select(ask).node.id == "1.2"
    assert RootSelector().select(ask).node.id == "1"
