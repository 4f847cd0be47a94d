"""`loopty model cost`: what models cost."""

import pytest

from loopty.domain.ids import NodeId
from loopty.domain.model import Usage
from loopty.domain.trial import Pool
from loopty.ledgers.sqlite import SqliteLedger
from loopty.record.calls import CallReserved, CallSettled
from loopty.record.nodes import NodeAdded
from loopty.record.recorder import Recorder

from .conftest import Place

CAPS = """
[models.near]
provider = "openai"
model = "anything"
url = "http://127.0.0.1:11434/v1"
[roles.evolver]
model = "near"
tokens = 50000
"""


@pytest.fixture
def ran(parameter_place) -> Place:
    """A repository with a run that called no model."""
    text = (parameter_place.top / "loopty.toml").read_text()
    parameter_place.write("loopty.toml", text.replace("attempts = 8", "attempts = 1") + CAPS)
    parameter_place.commit()
    parameter_place.loopty("optimize", "--quiet")
    return parameter_place


def call(place: Place, name: str, model: str, money_usd: float) -> None:
    """A call of the evolver that gave the first node that there is not yet."""
    recorder = Recorder(SqliteLedger(place.state / "ledger.sqlite"), lambda: 1.0)

    def made(history):
        node = NodeId("1").child(history[NodeId("1")].children + 1)
        yield CallReserved(1, name, "evolver", 900, 0.1, "host:1:1", model, "invent", NodeId("1"), Pool.ATTEMPT)
        yield CallSettled(1, name, 700, money_usd, Usage(500, 200))
        yield NodeAdded(node, Pool.ATTEMPT, "invent", "", "a" * 40, "f0" * 20, calls=(name,))

    recorder.record(made)


def test_a_run_without_calls_says_so_in_one_line(ran):
    assert ran.loopty("spend").stdout == "no model was called in run 1\n"
    assert ran.json("spend")["total"]["calls"] == 0


def test_the_calls_of_a_run_are_shown_with_their_limits(ran):
    call(ran, "a", "acme:large", 0.25)
    call(ran, "b", "openai:anything", 0.0)
    text = ran.loopty("spend").stdout
    assert text.startswith("run 1  2 calls, 1,400 tokens, $0.25\n")
    assert "evolver: 1,400 of 50,000 tokens" in text
    found = ran.json("spend")
    assert [(row["name"], row["sum"]["money_usd"]) for row in found["model"]] == [
        ("acme:large", 0.25),
        ("openai:anything", 0.0),
    ]
    assert "@4" in ran.loopty("spend", "--by", "node").stdout
    assert "1,400 tokens, $0.25" in ran.loopty("status").stdout


def test_a_price_that_is_not_known_is_shown_as_unknown_without_a_task_file(ran):
    call(ran, "a", "openai:anything", 0.0)
    assert "unknown" not in ran.loopty("spend").stdout
    ran.write("loopty.toml", "broken")
    assert "1 call, 700 tokens, unknown" in ran.loopty("spend").stdout
