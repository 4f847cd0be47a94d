"""Roles whose settings have no effect."""

import pytest

from loopty.domain.model import Role
from loopty.taskfile.model_tables import idle_roles
from loopty.taskfile.read import parse

TASK = '[benchmark]\ncommand = "python3 evaluate.py"\ntimeout_seconds = 30\n[access]\nwrite = ["program.py"]\n'
EVOLVER = '[roles.evolver]\nmodel = "openai:m"\n'
VERIFIER = '[roles.verifier]\nmodel = "openai:m"\n'
RUNGS = '[proposer]\nkind = "ladder"\n[[proposer.rungs]]\nkind = "mutate"\n'


def idle(text: str) -> dict[Role, str]:
    return dict(idle_roles(parse(TASK + text)))


@pytest.mark.parametrize(
    ("proposer", "reason"),
    [
        ("", "the evolver has model openai:m, but the proposer mutate calls no model: set the kind"),
        (RUNGS, "the evolver has model openai:m, but no rung of the ladder calls it: set the kind"),
    ],
)
def test_an_evolver_that_no_proposer_calls_is_reported_with_the_remedy(proposer, reason):
    messages = idle(EVOLVER + proposer)
    assert list(messages) == [Role.EVOLVER]
    assert messages[Role.EVOLVER].startswith(reason)
    assert messages[Role.EVOLVER].endswith("of the proposer, or of a rung, to llm-parameters or llm-code")


@pytest.mark.parametrize(
    "proposer", ['[proposer]\nkind = "llm-code"\n', RUNGS + '[[proposer.rungs]]\nkind = "llm-code"\n']
)
def test_an_evolver_that_proposes_is_not_idle(proposer):
    assert idle(EVOLVER + proposer) == {}


def test_a_verifier_that_nothing_calls_is_reported_with_the_remedy():
    assert idle(VERIFIER) == {
        Role.VERIFIER: "the verifier has model openai:m, but nothing calls it: "
        "set review or judged under [verifier]"
    }
    assert idle(VERIFIER + '[verifier]\nrules = "No tables."\n')
    assert idle(VERIFIER + '[verifier]\nreview = "flag"\n') == {}


def test_limits_without_a_model_are_reported():
    assert idle("[roles.user]\ntokens = 5\n") == {
        Role.USER: '[roles.user] names no model, so its settings have no effect: add model = "…"'
    }
    assert idle("") == idle('[roles.user]\nmodel = "openai:m"\ntokens = 5\n') == {}
