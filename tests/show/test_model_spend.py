"""What models cost a run, and which calls led to nothing."""

from __future__ import annotations

import pytest

from loopty.domain.ids import NodeId
from loopty.domain.model import RoleBudget, Roles, Usage
from loopty.domain.proposal import Objection
from loopty.domain.task import Pools
from loopty.domain.trial import Pool, Verdict
from loopty.record.calls import CallReserved, CallSettled
from loopty.record.nodes import NodeAdded, ProposalRefused
from loopty.record.verdicts import NodeJudged
from loopty.show.spend import SpendCap, SpendReport, SpendRow, spend

from .story import OWNER, Story

USED = Usage(800, 200, 300, 50)


class PaidRun(Story):
    """A run whose proposals cost money."""

    def calls(
        self,
        call: str,
        role: str = "evolver",
        model: str = "openai:big",
        operator: str = "rewrite",
        node: str = "1",
        money_usd: float = 0.01,
        settled: CallSettled | None = None,
        in_flight: bool = False,
    ) -> str:
        pool = Pool.ATTEMPT if role == "evolver" else None
        self.tell(CallReserved(1, call, role, 1500, 0.02, OWNER, model, operator, NodeId(node), pool))
        if not in_flight:
            self.tell(settled or CallSettled(1, call, USED.tokens, money_usd, USED))
        return call

    def gives(self, *calls: str, left: int = 0, verdict: Verdict = Verdict.DISCARDED) -> NodeId:
        node = NodeId("1").child(self.recorder.history[NodeId("1")].children + 1)
        added = NodeAdded(
            node, Pool.ATTEMPT, "rewrite", "", "b" * 40, "f0" * 20, calls=calls, remaining_in_reply=left
        )
        self.tell(added, NodeJudged(node, verdict, "a verdict"))
        return node

    def objects(self, *calls: str, objection: Objection = Objection.APPLY, left: int = 0) -> None:
        self.tell(ProposalRefused(1, Pool.ATTEMPT, "rewrite", "no", objection, calls, left))

    def spend(self, pools: Pools | None = None, roles: Roles | None = None) -> SpendReport:
        return spend(
            self.ledger.history(),
            self.ledger.read_calls(),
            1,
            lambda model: model.startswith("local:"),
            pools,
            roles,
        )


def names(rows: tuple[SpendRow, ...]) -> dict[str, int]:
    return {row.name: row.sum.calls for row in rows}


@pytest.fixture
def run() -> PaidRun:
    return PaidRun()


def test_a_run_without_calls_cost_nothing(run: PaidRun) -> None:
    found = run.spend()
    assert found.total.calls == 0
    assert found.role == found.model == found.operator == found.node == found.waste == ()


def test_every_table_adds_up_to_the_total(run: PaidRun) -> None:
    run.gives(run.calls("a"), verdict=Verdict.KEPT)
    run.calls("b", role="user", operator="benchmark", model="openai:small", node="1.1", money_usd=0.03)
    run.calls("c", role="verifier", operator="review", node="1.1")
    run.objects(run.calls("d"))
    found = run.spend()
    assert (found.total.calls, found.total.tokens) == (4, 4000)
    assert found.total.money_usd == pytest.approx(0.06)
    assert (found.total.input_tokens, found.total.output_tokens) == (3200, 800)
    assert (found.total.cached_tokens, found.total.reasoning_tokens) == (1200, 200)
    for rows in (found.role, found.model, found.operator, found.node):
        assert sum(row.sum.tokens for row in rows) == pytest.approx(found.total.tokens)
        assert sum(row.sum.money_usd for row in rows) == pytest.approx(found.total.money_usd)
    assert names(found.role) == {"user": 1, "evolver": 2, "verifier": 1}
    assert names(found.model) == {"openai:small": 1, "openai:big": 3}
    assert names(found.node) == {"1.1": 3, "": 1}
    assert found.kept == 1


def test_the_nodes_of_one_reply_share_its_cost(run: PaidRun) -> None:
    run.calls("a")
    first, second = run.gives("a", left=2), run.gives("a", left=1)
    found = run.spend()
    shares = {row.name: (row.sum.tokens, row.sum.money_usd) for row in found.node}
    assert shares == {first: (500, 0.005), second: (500, 0.005)}
    assert found.untaken == 1
    assert not found.waste


def test_a_node_pays_for_every_call_behind_it(run: PaidRun) -> None:
    node = run.gives(run.calls("first try"), run.calls("corrected"))
    found = run.spend()
    assert names(found.node) == {node: 2}
    assert not found.waste


def test_fruitless_calls_are_grouped_by_reason(run: PaidRun) -> None:
    run.calls("a", settled=CallSettled(1, "a", 0, 0.0, Usage(), failure="429"))
    run.calls("b", settled=CallSettled(1, "b", 1500, 0.02, lost=True))
    run.objects(run.calls("c"), run.calls("d"), objection=Objection.APPLY)
    run.objects(run.calls("e"), objection=Objection.DUPLICATE)
    run.calls("f")
    run.calls("g", role="user", node="1")
    found = run.spend()
    assert names(found.waste) == {
        "failed": 1,
        "its process died": 1,
        "refused: apply": 2,
        "refused: duplicate": 1,
        "not taken": 1,
    }
    lost = next(row.sum for row in found.waste if row.name == "its process died")
    assert (lost.tokens, lost.input_tokens, lost.money_usd) == (1500, 0, 0.02)


def test_a_reply_that_led_to_a_node_is_not_fruitless_for_another_of_its_proposals(run: PaidRun) -> None:
    run.calls("a")
    run.objects("a", objection=Objection.DUPLICATE, left=1)
    run.gives("a")
    assert run.spend().waste == ()


def test_a_call_in_flight_is_not_in_the_total(run: PaidRun) -> None:
    run.calls("a", in_flight=True)
    found = run.spend()
    assert (found.in_flight.calls, found.in_flight.tokens, found.in_flight.money_usd) == (1, 1500, 0.02)
    assert found.total.calls == 0


def test_a_late_settlement_of_a_process_presumed_dead_is_charged_once(run: PaidRun) -> None:
    run.calls("a", settled=CallSettled(1, "a", 1500, 0.02, lost=True))
    run.tell(CallSettled(1, "a", 1000, 0.01, USED))
    assert run.spend().total.tokens == 1500


def test_an_unknown_price_is_not_free(run: PaidRun) -> None:
    run.calls("a", money_usd=0.0)
    run.calls("b", money_usd=0.0, model="local:small")
    run.calls("c")
    run.calls("d", settled=CallSettled(1, "d", 0, 0.0, failure="no answer"))
    unpriced = {row.name: row.sum.unpriced for row in run.spend().model}
    assert unpriced == {"openai:big": 1, "local:small": 0}


def test_replies_from_memory_are_counted_separately(run: PaidRun) -> None:
    run.calls("a", role="user", operator="cached", settled=CallSettled(1, "a", 0, 0.0, Usage()))
    found = run.spend()
    assert (found.given_again, found.total.calls) == (1, 0)


def test_only_kept_nodes_with_calls_count_as_kept(run: PaidRun) -> None:
    run.tries("1", 5.0)
    run.gives(run.calls("a"))
    run.gives(run.calls("b"), verdict=Verdict.KEPT)
    assert run.spend().kept == 1


def test_the_calls_of_another_run_are_not_counted(run: PaidRun) -> None:
    run.calls("a")
    assert spend(run.ledger.history(), run.ledger.read_calls(), 2, lambda _: False).total.calls == 0


def test_the_caps_of_the_budget_are_listed(run: PaidRun) -> None:
    caps = run.spend(Pools(tokens=9000), Roles(user=RoleBudget(money_usd=2.0))).caps
    assert caps == (SpendCap("run", 9000, None), SpendCap("user", None, 2.0))
