"""The directive, audits and past versions come before what a selector chooses."""

from __future__ import annotations

import random

import pytest

from loopty.domain.ids import NodeId
from loopty.domain.task_tables import Anchors
from loopty.domain.trial import Ending, Outcome, Pool, Verdict
from loopty.engine.protocols import Ask
from loopty.proposers.selectors.choices import BestSelector, IslandsSelector, RestartSelector, RootSelector
from loopty.proposers.selectors.judged_nodes import MOST, SteeredSelector, population
from loopty.record.directives import AuditConcluded, DirectiveSet
from loopty.record.fold import Event
from loopty.record.nodes import NodeAdded
from loopty.record.trials import TrialEnded, TrialStarted
from loopty.record.verdicts import NodeJudged, VerdictWithdrawn
from loopty.show.run_status import version_lead

from .test_populations import COMMIT, Search

BEST = SteeredSelector(BestSelector())


@pytest.fixture
def search() -> Search:
    """A line 1.1, 1.1.1 that gains, and 1.2 beside it."""
    found = Search()
    for name, score in (("1.1", 2.0), ("1.1.1", 3.0), ("1.2", 1.5)):
        found.add(name, score)
    return found


def record(search: Search, *events: Event) -> None:
    search.recorder.record(lambda _: list(events))


def add_version(search: Search, name: str, score: float, verdict: Verdict = Verdict.KEPT) -> None:
    node = NodeId(name)
    record(
        search,
        NodeAdded(node, Pool.VERSION, "version", f"version {name}", COMMIT, f"{len(name):040x}"),
        TrialStarted(node, 1, Pool.VERSION, "owner"),
        TrialEnded(node, 1, Outcome(Ending.FINISHED, {"score": score})),
        NodeJudged(node, verdict, "", NodeId("1")),
    )


def test_nothing_changes_where_nobody_says_anything(search):
    assert BEST.select(search.ask()) == BestSelector().select(search.ask())


def test_no_change_starts_below_a_refuted_node(search):
    record(search, AuditConcluded(1, (NodeId("1.1.1"),), "it stopped"))
    chosen = BEST.select(search.ask())
    assert (chosen.node.id, chosen.reason) == (
        "1.1",
        "the best node that may be changed: an audit found that the gain of @3 does not carry over",
    )
    assert "1.1.1" not in search.counts(SteeredSelector(IslandsSelector(count=2)))
    assert SteeredSelector(RestartSelector()).select(search.ask()).node.id == "1.1"
    search.add("1.1.2", 2.5)
    assert BEST.select(search.ask()).node.id == "1.1.2", "the search goes on beside it"


def test_audits_do_not_steer_where_the_task_says_so(search):
    record(search, AuditConcluded(1, (NodeId("1.1.1"),), "it stopped"))
    ask = Ask(search.recorder.history, 1, Pool.ATTEMPT, random.Random, anchors=Anchors(audits=False))
    assert BEST.select(ask).node.id == "1.1.1"
    assert "1.1.1" in [one.id for one in population(ask)]


def test_a_directive_keeps_the_search_out_of_a_subtree_and_is_lifted(search):
    record(search, DirectiveSet(1, "", (), (NodeId("1.1"),)))
    chosen = BEST.select(search.ask())
    assert chosen.node.id == "1.2"
    assert chosen.reason.endswith("the directive says: nothing at or below @2")
    record(search, DirectiveSet(1, ""))
    assert BEST.select(search.ask()).node.id == "1.1.1"


def test_what_is_allowed_is_found_below_many_that_are_not(search):
    for number in range(1, MOST + 2):
        search.add(f"1.1.1.{number}", 3.0 + number)
    record(search, DirectiveSet(1, "", (), (NodeId("1.1"),)))
    assert BEST.select(search.ask()).node.id == "1.2"
    record(search, DirectiveSet(1, "", (), (NodeId("1.1"), NodeId("1.2"))))
    assert BEST.select(search.ask()).node.id == "1", "the baseline is always allowed"


def test_a_directive_builds_on_a_node_and_climbs_below_it(search):
    record(search, DirectiveSet(1, "", (NodeId("1.2"),)))
    chosen = SteeredSelector(RootSelector()).select(search.ask())
    assert (chosen.node.id, chosen.is_directed) == ("1.2", True)
    assert chosen.reason == "the directive says: build on @4"
    search.add("1.2.1", 1.7)
    assert BEST.select(search.ask()).node.id == "1.2.1", "the best one at or below it"


def test_a_node_that_a_person_took_back_is_changed_no_more(search):
    record(search, VerdictWithdrawn(NodeId("1.1.1"), Verdict.DISCARDED, "it is a trick", by_hand=True))
    assert "1.1.1" not in search.counts(SteeredSelector(IslandsSelector(count=2)))


def test_a_control_is_not_steered(search):
    record(search, DirectiveSet(1, "", (NodeId("1.2"),)))
    ask = Ask(search.recorder.history, 1, Pool.CONTROL, random.Random)
    assert BEST.select(ask).node.id == "1"


def test_a_change_starts_from_a_past_version_while_it_is_better(search):
    add_version(search, "1.3", 3.5)
    chosen = BEST.select(search.ask())
    assert (chosen.node.id, chosen.reason) == ("1.3", "version 1.3 is better than the best node, @3")
    assert SteeredSelector(RootSelector(), takes_versions=False).select(search.ask()).node.id == "1"
    search.add("1.3.1", 4.0)
    assert BEST.select(search.ask()).node.id == "1.3.1"


def test_the_run_says_when_a_past_version_is_ahead(search):
    def lead() -> str:
        return version_lead(search.recorder.history, search.recorder.history.runs[1])

    assert not lead(), "there is none"
    add_version(search, "1.3", 2.0)
    assert not lead()
    add_version(search, "1.4", 3.5)
    assert lead() == ("the best node, @3, is worse than version 1.4: 3 against 3.5; `loopty apply @6` takes that")
    search.add("1.4.1", 3.6)
    assert not lead()
