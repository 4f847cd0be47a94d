"""Shares of roles: they cap calls, move by evidence, and a resumed run decides the same."""

import pytest

from loopty.domain.access import ObjectName
from loopty.domain.errors import Exhausted
from loopty.domain.ids import NodeId
from loopty.domain.model import Roles
from loopty.domain.task import Pools
from loopty.domain.trial import Ending, Outcome, Pool, Verdict
from loopty.models.purse import WINDOW, look_worth
from loopty.record.calls import RoleFigures, RoleShares, RoleSharesChanged
from loopty.record.nodes import NodeAdded
from loopty.record.trials import TrialEnded, TrialStarted
from loopty.record.verdicts import NodeJudged
from loopty.show import spend as model_spend

from .spending import PaidRun

SPLIT = {"evolver": 0.5, "user": 0.3, "verifier": 0.2}
POOLS = Pools(tokens=1_000)


def add_nodes(paid, count, verdict, outcome, first=1):
    """So many attempts with their verdicts."""

    def events(_history):
        for number in range(first, first + count):
            node = NodeId("1").child(number)
            name = ObjectName(f"{number:040x}")
            yield NodeAdded(node, Pool.ATTEMPT, "diff", "a change", name, name)
            yield TrialStarted(node, 1, Pool.ATTEMPT, "me")
            yield TrialEnded(node, 1, outcome)
            yield NodeJudged(node, verdict, "so", NodeId("1"))

    paid.recorder.record(events)


def spend(paid, role, tokens, operator="diff"):
    paid.purse.settle(paid.purse.reserve(role, tokens, 0.0, operator=operator), tokens, 0.0)


def test_a_static_split_caps_each_role_at_its_share(tmp_path):
    paid = PaidRun(tmp_path, POOLS, Roles(shares=SPLIT))
    spend(paid, "evolver", 500)
    with pytest.raises(Exhausted, match="50 % of the run's"):
        paid.purse.reserve("evolver", 1, 0.0)
    spend(paid, "verifier", 200, "judge")
    assert RoleShares.of(paid.run).shares == {}


def test_no_share_holds_up_the_review_of_a_winner(tmp_path):
    paid = PaidRun(tmp_path, POOLS, Roles(shares=SPLIT))
    spend(paid, "verifier", 200, "judge")
    with pytest.raises(Exhausted):
        paid.purse.reserve("verifier", 1, 0.0, operator="judge")
    spend(paid, "verifier", 100, "review")


def test_an_evolver_that_gains_nothing_loses_some_of_its_share(tmp_path):
    paid = PaidRun(tmp_path, POOLS, Roles(shares=SPLIT, allocation="adaptive"))
    add_nodes(paid, WINDOW, Verdict.DISCARDED, Outcome(Ending.FINISHED, {"score": 0.0}))
    spend(paid, "evolver", 10)
    decided = RoleShares.of(paid.run)
    assert decided.shares["evolver"] < decided.shares["verifier"] * SPLIT["evolver"] / SPLIT["verifier"]
    assert sum(decided.shares.values()) == pytest.approx(1.0, abs=0.001)
    assert "none became the best and 0 % failed" in decided.reason


def test_an_evolver_whose_trials_fail_is_funded(tmp_path):
    paid = PaidRun(tmp_path, POOLS, Roles(shares=SPLIT, allocation="adaptive"))
    add_nodes(paid, WINDOW, Verdict.DISCARDED, Outcome(Ending.FAILED, reason="no"))
    spend(paid, "evolver", 10)
    assert RoleShares.of(paid.run).shares["evolver"] > SPLIT["evolver"]


def test_a_resumed_run_decides_once_and_the_same(tmp_path):
    roles = Roles(shares=SPLIT, allocation="adaptive")
    paid = PaidRun(tmp_path, POOLS, roles)
    add_nodes(paid, WINDOW, Verdict.DISCARDED, Outcome(Ending.FAILED, reason="no"))
    spend(paid, "evolver", 10)
    again = PaidRun(tmp_path, POOLS, roles, paid.ledger)
    assert RoleShares.of(again.run) == RoleShares.of(paid.run)
    spend(again, "evolver", 10)
    events = [recorded.event for recorded in paid.ledger.read()]
    assert sum(isinstance(event, RoleSharesChanged) for event in events) == 1


def test_a_look_of_the_verifier_is_worth_more_the_more_it_objects():
    assert look_worth(RoleFigures()) == 0.5
    assert look_worth(RoleFigures(looks=40)) < 0.1
    assert look_worth(RoleFigures(looks=40, objections=20)) > 1.0


def test_spend_shows_the_last_decision_with_its_evidence(tmp_path):
    paid = PaidRun(tmp_path, POOLS, Roles(shares=SPLIT, allocation="adaptive"))
    add_nodes(paid, WINDOW, Verdict.DISCARDED, Outcome(Ending.FAILED, reason="no"))
    spend(paid, "evolver", 10)
    report = model_spend.spend(paid.recorder.history, paid.ledger.read(), 1, lambda _: True)
    assert "evolver 56 %, user 22 %, verifier 22 %" in report.shares
    assert "100 % failed" in report.shares
