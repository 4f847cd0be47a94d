"""Proposers that share a pool, like the rungs of a ladder: none counts the answers of another as its own."""

import pytest

from loopty.domain.errors import Exhausted
from loopty.domain.proposal import Refusal
from loopty.domain.space import ParameterGrid
from loopty.domain.trial import Verdict
from loopty.proposers.parameters.optuna_samplers import STATEFUL_SAMPLERS, StatefulProposer, StatelessProposer
from loopty.proposers.parameters.points import GridOptions, GridProposer, RandomProposer
from loopty.proposers.shared_pool import parameter_parent, turn

from .desk import Desk
from .test_parameter_proposers import PLAIN, value_of

KINDS = [*STATEFUL_SAMPLERS, "tpe", "random", "grid"]


def make_proposer(kind):
    if kind in STATEFUL_SAMPLERS:
        return StatefulProposer(kind, PLAIN)
    if kind == "tpe":
        return StatelessProposer(kind, PLAIN)
    return RandomProposer(PLAIN) if kind == "random" else GridProposer(PLAIN, GridOptions(points=6))


def disturb(desk, number):
    """Record answers of others: a point, code that is not better, a refusal."""
    if number % 3 == 0:
        desk.try_point({"x": number / 10, "y": -1.0}, -30.0, operator="llm-parameters")
    if number % 4 == 0:
        desk.try_point({"x": 0.0, "y": 0.0}, -40.0, operator="code:diff", tree=f"tree {number}")
    if number % 5 == 0:
        desk.records(Refusal("code:diff", "does not apply"))


async def collect_points(folder, proposer, times, disturbed=True):
    desk, points = Desk(folder), []
    for number in range(times):
        answer = await proposer().propose(desk.ask())
        points.append(dict(answer.params))
        if number % 7 == 6:
            desk.records(Refusal(answer.operator, "the same as another"))
        else:
            desk.records(answer, -value_of(answer.params))
        if disturbed:
            disturb(desk, number)
    return points


@pytest.mark.parametrize("kind", [*STATEFUL_SAMPLERS, "grid"])
async def test_answers_of_others_change_nothing_for_a_proposer_that_counts_its_turns(tmp_path, kind) -> None:
    alone, among = make_proposer(kind), make_proposer(kind)
    expected = await collect_points(tmp_path, lambda: alone, 30, disturbed=False)
    assert await collect_points(tmp_path, lambda: among, 30) == expected


@pytest.mark.parametrize("kind", KINDS)
async def test_among_others_a_new_proposer_continues_exactly_where_another_stopped(tmp_path, kind) -> None:
    lasting = make_proposer(kind)
    uninterrupted = await collect_points(tmp_path, lambda: lasting, 30)
    sessions = (proposer for _ in range(6) for proposer in [make_proposer(kind)] * 5)
    assert await collect_points(tmp_path, lambda: next(sessions), 30) == uninterrupted
    assert all(PLAIN.fault(params) is None for params in uninterrupted)
    assert len({str(params) for params in uninterrupted}) == 30


async def test_the_grid_skips_no_point_and_ends_after_its_last(tmp_path) -> None:
    proposer = make_proposer("grid")
    points, grid = await collect_points(tmp_path, lambda: proposer, 36), list(ParameterGrid(PLAIN, 6))
    assert len(points) == len(grid)
    assert all(point in points for point in grid)
    with pytest.raises(Exhausted, match="36 points"):
        await collect_points(tmp_path, lambda: make_proposer("grid"), 37)


async def test_tpe_learns_from_other_proposers_only_with_the_same_code(tmp_path) -> None:
    async def near(tree):
        desk = Desk(tmp_path)
        for number in range(60):
            point = {"x": -4.0 + 0.01 * (number % 20), "y": 3.0 - 0.01 * (number % 7)}
            far = {"x": number / 6 - 5, "y": 5 - number / 6}
            desk.try_point(point, -0.001 * number, operator="llm-parameters", tree=tree)
            desk.try_point(far, -50.0 - number, operator="llm-parameters", tree=tree)
        points = []
        proposer = make_proposer("tpe")
        for _ in range(8):
            answer = await proposer.propose(desk.ask())
            points.append(answer.params)
            desk.records(answer, -value_of(answer.params))
        return sum(abs(point["x"] + 4) < 1 and abs(point["y"] - 3) < 1 for point in points)

    assert await near(None) >= 5
    assert await near("other code") <= 2


@pytest.mark.parametrize("kind", KINDS)
async def test_parameters_are_changed_at_the_first_node_with_the_best_code(tmp_path, kind) -> None:
    desk, proposer = Desk(tmp_path), make_proposer(kind)
    tuned = desk.try_point({"x": 1.0, "y": 1.0}, 1.0, Verdict.KEPT, operator="tpe")
    assert parameter_parent(desk.ask()).id == desk.root.id, "only parameters changed"
    assert (await proposer.propose(desk.ask())).parent == desk.root.id
    desk.records(await proposer.propose(desk.ask()))
    code = desk.try_point({"x": 1.0, "y": 1.0}, 2.0, Verdict.KEPT, operator="code:diff", tree="better")
    proposal = await proposer.propose(desk.ask())
    assert proposal.parent == code
    desk.records(proposal, 3.0, Verdict.KEPT)
    assert parameter_parent(desk.ask()).id == code, "the best is a change of parameters of that code"
    assert tuned != code


def test_turns_are_counted_for_each_operator(tmp_path) -> None:
    desk = Desk(tmp_path)
    desk.try_point({"x": 0.1}, 1.0, operator="grid")
    desk.try_point({"x": 0.2}, 1.0, operator="tpe")
    desk.records(Refusal("grid", "the same"))
    node = desk.try_point({"x": 0.3}, 1.0, operator="grid")
    assert [turn(desk.ask(), name) for name in ("grid", "tpe", "qmc")] == [3, 1, 0]
    assert turn(desk.ask(ahead=1), "grid") == 4
    assert (desk.history[node].turn, desk.history[node].position) == (2, 3)
