"""Roles that are stated in vain."""

import pytest

from loopty.domain.model import Role
from loopty.taskfile.read import parse
from loopty.taskfile.unused_roles import idle_roles

TASK = '[benchmark]\ncommand = "python3 evaluate.py"\ntimeout_seconds = 30\n[access]\nwrite = ["program.py"]\n'
EVOLVER = '[roles.evolver]\nmodel = "openai:m"\n'
VERIFIER = '[roles.verifier]\nmodel = "openai:m"\n'
RUNGS = '[proposer]\nkind = "ladder"\n[[proposer.rungs]]\nkind = "mutate"\n'


def told(text: str) -> dict[Role, str]:
    return dict(idle_roles(parse(TASK + text)))


@pytest.mark.parametrize(
    ("proposer", "why"),
    [
        ("", "the evolver has model openai:m, but mutate asks none: name llm-parameters or llm-code"),
        (RUNGS, "the evolver has model openai:m, but no rung of the ladder asks it: name llm-"),
    ],
)
def test_an_evolver_that_no_proposer_asks_is_told_with_the_remedy(proposer, why):
    found = told(EVOLVER + proposer)
    assert list(found) == [Role.EVOLVER]
    assert found[Role.EVOLVER].startswith(why)


@pytest.mark.parametrize(
    "proposer", ['[proposer]\nkind = "llm-code"\n', RUNGS + '[[proposer.rungs]]\nkind = "llm-code"\n']
)
def test_an_evolver_that_proposes_is_not_idle(proposer):
    assert told(EVOLVER + proposer) == {}


def test_a_verifier_that_nothing_asks_is_told_with_the_remedy():
    assert told(VERIFIER) == {
        Role.VERIFIER: "the verifier has model openai:m, but nothing asks it: "
        "say what for under [verifier], with screen, review or judged"
    }
    assert told(VERIFIER + '[verifier]\nrules = "No tables."\n')
    assert told(VERIFIER + '[verifier]\nreview = "flag"\n') == {}


def test_caps_without_a_model_hold_for_nothing():
    assert told("[roles.user]\ntokens = 5\n") == {
        Role.USER: '[roles.user] names no model, so nothing is asked: add model = "…"'
    }
    assert told("") == told('[roles.user]\nmodel = "openai:m"\ntokens = 5\n') == {}
