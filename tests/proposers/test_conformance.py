"""Every parameter proposer passes the conformance suite."""

import importlib.util

import pytest

from loopty.proposers.parameters.optuna_samplers import (
    STATEFUL_SAMPLERS,
    STATELESS_SAMPLERS,
    StatefulProposer,
    StatelessProposer,
)
from loopty.proposers.parameters.points import GridOptions, GridProposer, RandomProposer
from loopty.testing.proposer_suite import ProposerConformance

OPTUNA = {
    **{name: lambda space, name=name: StatelessProposer(name, space) for name in STATELESS_SAMPLERS},
    **{name: lambda space, name=name: StatefulProposer(name, space) for name in STATEFUL_SAMPLERS},
}


class TestRandom(ProposerConformance):
    @pytest.fixture
    def make(self):
        return RandomProposer


class TestGrid(ProposerConformance):
    @pytest.fixture
    def make(self):
        return lambda space: GridProposer(space, GridOptions(points=3))


class TestOptuna(ProposerConformance):
    @pytest.fixture(params=OPTUNA)
    def make(self, request):
        if request.param == "gp" and importlib.util.find_spec("torch") is None:
            pytest.skip("needs torch")
        return OPTUNA[request.param]
