"""loopty's own tree-structured Parzen estimator."""

import random

import pytest

from loopty.domain.proposal import Proposal
from loopty.domain.space import Parameter, ParameterKind, Space
from loopty.proposers.parameters.tpe import TpeProposer
from loopty.testing.proposer_suite import ProposerConformance, ScoredRun

PLANE = Space({name: Parameter(ParameterKind.FLOAT, -5.0, 5.0) for name in ("x", "y")})


class TestTpe(ProposerConformance):
    @pytest.fixture
    def make(self):
        return TpeProposer


async def best_after(space: Space, count: int) -> float:
    proposer, run = TpeProposer(space), ScoredRun()
    found = []
    for _ in range(count):
        proposal = await proposer.propose(run.ask)
        assert isinstance(proposal, Proposal)
        found.append(-abs(float(proposal.params["x"])))
        run.record(proposal)
    return max(found)


async def test_it_comes_closer_than_chance():
    generator = random.Random(1)
    chance = sorted(max(-abs(generator.uniform(-5, 5)) for _ in range(60)) for _ in range(200))
    assert await best_after(PLANE, 60) > chance[150]


async def test_a_parameter_that_comes_later_is_drawn_with_the_others():
    parameters = dict(PLANE.parameters)
    proposer, run = TpeProposer(Space(parameters)), ScoredRun()
    for number in range(30):
        proposal = await proposer.propose(run.ask)
        assert ("z" in proposal.params) == (number > 15)
        run.record(proposal)
        if number == 15:
            parameters["z"] = Parameter(ParameterKind.CATEGORICAL, choices=("a", "b"))


async def test_a_point_is_proposed_once_while_others_are_left():
    space = Space({"x": Parameter(ParameterKind.INT, 1, 9)})
    proposer, run, seen = TpeProposer(space), ScoredRun(), []
    for _ in range(7):
        proposal = await proposer.propose(run.ask)
        seen.append(proposal.params["x"])
        run.record(proposal)
    assert len(set(seen)) >= 6
