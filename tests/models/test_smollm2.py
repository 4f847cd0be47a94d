"""A real model in the loop, without a key: it is tiny, and its proposals are tried like any others."""

import os
from dataclasses import replace

import pytest

from loopty.domain.errors import Misuse
from loopty.domain.model import Message, ModelSpec, Prompt, Role, Speaker
from loopty.domain.proposal import Proposal
from loopty.domain.space import Parameter, ParameterKind, Space
from loopty.domain.task import Pools
from loopty.kit.safe_folder import SafeFolder
from loopty.models.archive import Archive
from loopty.models.catalogue import Catalogue
from loopty.models.purse import RunPurse
from loopty.models.weights import fetch_weights
from loopty.proposers.llm_parameters import ParametersProposer
from loopty.proposers.parameters.parameters_options import ParametersOptions
from loopty.record.calls import CallSettled
from loopty.views.model_spend import spend

from ..proposers.desk import Desk, Plain

pytestmark = pytest.mark.slow
pytest.importorskip("xllamacpp")

SPACE = Space(
    {
        "optimizer": Parameter(ParameterKind.CATEGORICAL, default="sgd", choices=("sgd", "adam", "rmsprop")),
        "layers": Parameter(ParameterKind.INT, 1, 8),
    }
)
SMALL = ModelSpec(
    "local",
    model="smollm2",
    temperature=0.7,
    max_output_tokens=300,
    context_tokens=4096,
    settings={"seed": 5},
)
MAX_REQUESTS = 6
"""Its replies are often unusable; the loop would ask again, too."""


@pytest.fixture(scope="module")
def catalogue(tmp_path_factory) -> Catalogue:
    try:
        fetch_weights("smollm2", os.environ)
    except Misuse as error:
        if "could not download" in str(error):
            pytest.skip(str(error))
        raise
    models = {"small": SMALL, "sure": replace(SMALL, temperature=0.0)}
    return Catalogue(models, os.environ, tmp_path_factory.mktemp("top"))


async def test_smollm2_answers_a_question(catalogue):
    reply = await catalogue.model("sure").reply(
        Prompt(
            "You are a helpful assistant.",
            (Message(Speaker.ASKER, "What is the capital of France?"),),
            max_output_tokens=40,
        )
    )
    assert "Paris" in reply.text


async def test_smollm2_proposes_valid_parameters(catalogue, tmp_path):
    desk = Desk(tmp_path / "calls")
    role_model = catalogue.role_model(
        Role.EVOLVER, "small", RunPurse(desk.recorder, 1, Pools(), "me"), Archive(SafeFolder(tmp_path, ("calls",)))
    )
    proposer = ParametersProposer(SPACE, role_model, Plain(), ParametersOptions(batch=2))
    for _ in range(MAX_REQUESTS):
        suggestion = await proposer.propose(desk.ask())
        desk.records(suggestion)
        if isinstance(suggestion, Proposal):
            break
    assert isinstance(suggestion, Proposal), suggestion
    assert suggestion.params["optimizer"] in ("sgd", "adam", "rmsprop")
    assert 1 <= suggestion.params["layers"] <= 8
    settled = [item.event for item in desk.bench.ledger.read() if isinstance(item.event, CallSettled)]
    assert all(event.usage and event.usage.input_tokens > 100 for event in settled)
    (row,) = spend(desk.bench.history, desk.bench.ledger.read(), 1, lambda _: True).model
    assert (row.name, row.sum.calls, row.sum.money_usd) == ("local:smollm2", len(settled), 0.0)
