"""A search that learns how to search: its moves, and that all of it follows from the record."""

from __future__ import annotations

import random
from typing import Any

import pytest

from loopty.domain.model import ModelOption
from loopty.domain.proposal import Proposal, SearchConfig, SearchMove
from loopty.domain.trial import Pool
from loopty.engine.protocols import Ask
from loopty.kit.records import replace
from loopty.ledgers.sqlite import MemoryLedger
from loopty.proposers.code.arms import choose_arm, draft_share, drought_spread, gain_bias
from loopty.proposers.code.options import CodeOptions, Operator, Policy
from loopty.proposers.code.search_moves import WINDOW, next_move
from loopty.record.search_learning import GainSum, SearchLearning, SearchMoved
from loopty.show.operators import operator_report, operators_text

LEARNS = CodeOptions(policy=Policy.GRADIENT, operators=(Operator.DIFF,), exploration=0.2, drafts=0)
MEANS = {"exploration": 0.5, "drafts": 0.5, "restart": 0.5, "batch": 0.5}
DRAWN = {"exploration": 0.7, "drafts": 0.3, "restart": 0.5, "batch": 0.6}


def learning_of(world: Any) -> SearchLearning:
    return SearchLearning.of(world.recorder.history.runs[1], Pool.ATTEMPT)


def record_move(world: Any, move: SearchMove) -> None:
    world.recorder.record(lambda _: [SearchMoved(1, Pool.ATTEMPT, move)])


def begin(world: Any) -> None:
    move = next_move(world.ask(), LEARNS)
    assert move is not None
    record_move(world, move)


def fail_often(world: Any, count: int) -> None:
    for number in range(count):
        world.try_edits({"src/other.py": f"LIMIT = {number + 100}\n"}, 0.5)


def test_the_first_move_states_the_values_and_the_next_is_due_after_a_window(world):
    begin(world)
    first = learning_of(world)
    assert first.number == 1
    assert first.move.means["exploration"] == pytest.approx((0.2 - 0.02) / 0.48, abs=1e-3)
    assert next_move(world.ask(), LEARNS) is None
    fail_often(world, WINDOW)
    move = next_move(world.ask(), LEARNS)
    assert move is not None
    assert move.number == 2
    assert move.means == first.move.means, "before the second window there is nothing to compare with"
    assert "10 proposals gained 0.00" in move.reason


@pytest.mark.parametrize(("gained", "sign"), [(3.0, 1), (0.0, -1)])
def test_the_means_move_towards_values_that_improved_more_for_a_token(world, gained, sign):
    last = SearchMove(2, MEANS, DRAWN, SearchConfig(), "", reward_mean=1.0, reward_spread=1.0)
    part = SearchLearning(last, answered=WINDOW, gained=gained, tokens=1000.0)
    history = world.recorder.history
    history.runs[1] = history.runs[1].with_pool_part(Pool.ATTEMPT, part)
    move = next_move(world.ask(), LEARNS)
    assert move is not None
    assert sign * (move.means["exploration"] - 0.5) > 0
    assert sign * (move.means["drafts"] - 0.5) < 0
    assert move.means["restart"] == 0.5
    assert ("more than before" if sign > 0 else "less than before") in move.reason


def test_the_signal_decays_in_a_drought_and_a_gain_restores_it(world):
    begin(world)
    fail_often(world, 5)
    dry = learning_of(world)
    assert dry.signal == pytest.approx(0.95**5)
    assert dry.dry == 5
    assert drought_spread(dry) > drought_spread(SearchLearning(dry.move))
    world.try_edits({"src/main.py": "better = 1\n"}, 2.0)
    assert (learning_of(world).signal, learning_of(world).dry) == (1.0, 0)
    assert learning_of(world).gained == 1.0


def test_gains_bias_operators_and_mutations_and_few_tries_are_believed_less():
    gains = {"diff": GainSum(20, 6.0), "fix": GainSum(20, 0.0), "mutate": GainSum(1, 0.0)}
    assert gain_bias(gains, "diff") > 1 > gain_bias(gains, "mutate") > gain_bias(gains, "fix")
    tags = {"mutate:number": GainSum(9, 3.0), "mutate:statement": GainSum(9, 0.0), **gains}
    assert gain_bias(tags, "mutate:number") > gain_bias(tags, "mutate:word") > gain_bias(tags, "mutate:statement")


def test_a_long_drought_asks_for_drafts():
    move = SearchMove(1, {}, {}, SearchConfig(drafts=0.05, restart=30), "")
    assert draft_share(SearchLearning(move, dry=29)) == 0.05
    assert draft_share(SearchLearning(move, dry=30)) == 0.25


def test_a_move_that_two_processes_made_counts_once(world):
    begin(world)
    before = learning_of(world)
    record_move(world, replace(before.move, reason="the same one, later"))
    assert learning_of(world) == before


def test_all_of_it_follows_from_the_record(world):
    begin(world)
    fail_often(world, WINDOW)
    again = MemoryLedger().history()
    for recorded in world.ledger.read():
        again.apply(recorded)
    there = Ask(again, 1, Pool.ATTEMPT, lambda at: random.Random(f"0 {at}"))
    assert SearchLearning.of(again.runs[1], Pool.ATTEMPT) == learning_of(world)
    assert next_move(there, LEARNS) == next_move(world.ask(), LEARNS)
    choices = [choose_arm(ask, LEARNS, (Operator.DIFF,), (ModelOption("m"),)) for ask in (there, world.ask())]
    assert choices[0] == choices[1]
    assert "move 1, signal 0.60" in choices[0].reason


async def test_a_proposer_moves_first_and_then_proposes(world, block):
    proposer = world.proposer("diff", policy=Policy.GRADIENT)
    move = await world.get_answer(proposer)
    assert isinstance(move, SearchMove)
    record_move(world, move)
    answer = await world.get_answer(proposer, block("    y = x * 2", "    y = x * 3"))
    assert isinstance(answer, Proposal)
    assert "gradient: drawn with 100 %" in answer.arm_reason


def test_the_report_shows_the_values_and_why(world):
    begin(world)
    fail_often(world, 2)
    report = operator_report(world.recorder.history, world.recorder.history.runs[1])
    text = " ".join(operators_text(report, 200).split())
    assert "move 1: exploration from" in text
    assert "after 2 verdicts without a new best node" in text
    assert "the values as they are stated" in text
