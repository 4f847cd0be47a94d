"""Selectors with a population: which node they choose, and why."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from loopty.domain.access import ObjectName
from loopty.domain.ids import NodeId
from loopty.domain.objective import Objective
from loopty.domain.trial import Ending, Outcome, Pool, Verdict
from loopty.engine.protocols import Ask
from loopty.ledgers.sqlite import MemoryLedger
from loopty.proposers.selectors.choices import IslandsSelector, MapElitesSelector, ParetoSelector, RestartSelector
from loopty.proposers.selectors.judged_nodes import MOST, population
from loopty.record.nodes import NodeAdded
from loopty.record.recorder import Recorder
from loopty.record.sessions import RunStarted
from loopty.record.trials import TrialEnded, TrialStarted
from loopty.record.verdicts import Incumbents, NodeJudged
from loopty.taskfile.plugins import SELECTORS

COMMIT = ObjectName("0" * 40)


class Search:
    """A run in memory; `add` records a node with its result."""

    def __init__(self) -> None:
        self.recorder = Recorder(MemoryLedger(), lambda: 0.0)
        self.recorder.record(lambda _: [RunStarted(1, "criteria", Objective(), 0, "")])
        self.add("1", 1.0)

    def add(self, name: str, score: float | None, operator: str = "diff", **columns: float) -> None:
        node, history = NodeId(name), self.recorder.history
        best = Incumbents.of(history.runs[1], Pool.ATTEMPT).best
        over = history.score(history[best]) if best else None
        kept = score is not None and (over is None or score > over)
        outcome = (
            Outcome(Ending.FINISHED, {"score": score, **columns}) if score is not None else Outcome(Ending.FAILED)
        )
        self.recorder.record(
            lambda _: [
                NodeAdded(node, Pool.ATTEMPT, operator, "", COMMIT, f"{len(name):040x}"),
                TrialStarted(node, 1, Pool.ATTEMPT, "owner"),
                TrialEnded(node, 1, outcome),
                NodeJudged(node, Verdict.KEPT if kept else Verdict.DISCARDED, ""),
            ]
        )

    def ask(self, seed: int = 0) -> Ask:
        return Ask(self.recorder.history, 1, Pool.ATTEMPT, lambda at: random.Random(f"{seed} {at}"))

    def counts(self, selector: Any, count: int = 200) -> Counter[str]:
        return Counter(str(selector.select(self.ask(seed)).node.id) for seed in range(count))


@pytest.fixture
def search() -> Search:
    return Search()


@pytest.fixture
def grown(search: Search) -> Search:
    for number, score in enumerate((5.0, 4.0, None, 3.0, 2.0), start=1):
        search.add(f"1.{number}", score)
    return search


@pytest.mark.parametrize("kind", SELECTORS)
def test_every_selector_starts_at_the_baseline_and_gives_a_reason(search, kind):
    options = {"columns": {"size": 1.0}} if kind == "map-elites" else {}
    selection = SELECTORS[kind].load_options()(**options).select(search.ask())
    assert selection.node.id == "1"
    assert selection.reason


@pytest.mark.parametrize("kind", SELECTORS)
def test_a_new_process_selects_as_the_old_one_does(grown, kind):
    options = {"columns": {"score": 1.0}} if kind == "map-elites" else {}
    selector = SELECTORS[kind].load_options()(**options)
    before = [selector.select(grown.ask(seed)) for seed in range(20)]
    grown.recorder = Recorder(grown.recorder._ledger, lambda: 0.0)
    after = [selector.select(grown.ask(seed)) for seed in range(20)]
    assert [(one.node.id, one.reason) for one in before] == [(one.node.id, one.reason) for one in after]


def test_the_population_is_the_best_and_bounded(grown):
    assert [str(one.id) for one in population(grown.ask())] == ["1.1", "1.2", "1.4", "1.5", "1"]
    for number in range(6, 6 + MOST):
        grown.add(f"1.{number}", 10.0 + number)
    assert len(population(grown.ask())) == MOST
    assert population(grown.ask())[0].id == f"1.{5 + MOST}"


def test_pareto_finds_the_best_of_each_task_and_nodes_without_tasks_compete_by_their_place(search):
    search.add("1.1", 3.0, **{"tasks.a": 5.0, "tasks.b": 1.0})
    search.add("1.2", 2.5, **{"tasks.a": 1.0, "tasks.b": 4.0})
    assert set(search.counts(ParetoSelector())) == {"1.1", "1.2"}
    search.add("1.3", 2.9)
    assert set(search.counts(ParetoSelector())) == {"1.1", "1.2"}, "nodes with tasks have a better score"
    search.add("1.4", 3.1)
    found = search.counts(ParetoSelector())
    assert set(found) == {"1.1", "1.2", "1.4"}
    assert min(found.values()) > 25, "the best node shares each turn with the best of a task"


@pytest.mark.parametrize("scale", [1000.0, 0.001])
def test_the_scale_of_tasks_decides_nothing_between_nodes_with_and_without_them(search, scale):
    search.add("1.1", 3.0, **{"tasks.a": 5 * scale, "tasks.b": 1 * scale})
    search.add("1.2", 2.5, **{"tasks.a": 1 * scale, "tasks.b": 4 * scale})
    search.add("1.3", 2.9)
    assert set(search.counts(ParetoSelector())) == {"1.1", "1.2"}
    search.add("1.4", 3.1)
    assert set(search.counts(ParetoSelector())) == {"1.1", "1.2", "1.4"}


def test_islands_take_turns_and_take_over_a_neighbours_best(search):
    for number, score in enumerate((5.0, 9.0, 4.0, 3.0), start=1):
        search.add(f"1.{number}", score)  # positions 0 to 3: islands 1 and 2 in turn
    selection = IslandsSelector(count=2, migration=0).select(search.ask())
    assert (selection.node.id, selection.reason) == ("1.1", "the best of island 1 of 2")
    migration = IslandsSelector(count=2, migration=2).select(search.ask())
    assert (migration.node.id, migration.reason) == ("1.2", "island 1 takes over the best of island 2")


def test_map_elites_keeps_the_best_of_a_bad_cell(search):
    for number in range(1, 70):
        search.add(f"1.{number}", 10.0 + number, size=5.0)
    search.add("1.70", 2.0, size=42.0)
    found = search.counts(MapElitesSelector(columns={"size": 10.0}))
    assert set(found) == {"1.69", "1.70"}
    reasons = {MapElitesSelector(columns={"size": 10.0}).select(search.ask(seed)).reason for seed in range(20)}
    assert any("2 are filled" in reason for reason in reasons), reasons


def test_restart_begins_a_new_line_after_a_drought_and_climbs_only_it(search):
    selector = RestartSelector(patience=3)
    search.add("1.1", 5.0)
    for number in (1, 2, 3):
        assert selector.select(search.ask()).node.id == "1.1"
        search.add(f"1.1.{number}", 4.0)
    over = selector.select(search.ask())
    assert (over.node.id, over.operator) == ("1", "draft")
    search.add("1.2", 2.0, "draft")
    assert selector.select(search.ask()).node.id == "1.2"
    search.add("1.2.1", 3.0)
    line = selector.select(search.ask())
    assert (line.node.id, line.reason, line.operator) == ("1.2.1", "the best of line 2", "")
