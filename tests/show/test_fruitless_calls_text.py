"""Fruitless calls to change a node, on a terminal: bounded, however long the reasons are."""

from __future__ import annotations

import pytest

from loopty.domain.ids import NodeId
from loopty.domain.proposal import Objection
from loopty.domain.trial import Pool
from loopty.record.calls import CallReserved, CallSettled
from loopty.record.nodes import ProposalRefused
from loopty.show.calls import MAX_SHOWN, ModelCall, fruitless_calls_text
from loopty.show.figures import moment
from loopty.show.terminal import Terminal, width

AT = 1_700_000_000.0
NODE = NodeId("1.2")


def call(name: str, *reasons: str, failure: str = "", again: bool = False, new_node: str = "") -> ModelCall:
    reserved = CallReserved(1, name, "evolver", 900, 0.9, "me", "lab:large", "code:diff", NODE, Pool.ATTEMPT)
    calls = (name, "another") if again else (name,)
    refused = [ProposalRefused(1, Pool.ATTEMPT, "code:diff", why, Objection.APPLY, calls) for why in reasons]
    settled = CallSettled(1, name, 0 if failure else 1234, 0.0125, failure=failure)
    return ModelCall(reserved, AT, settled, [NodeId(new_node)] if new_node else [], refused)


def test_each_call_has_time_operator_model_cost_and_reason():
    calls = [
        call("a", failure="503: overloaded"),
        call("b", "x", again=True),
        call("c", "no such line"),
        call("d"),
    ]
    assert fruitless_calls_text(NODE, calls).splitlines() == [
        "1.2  1 proposal refused, 1 request failed, 1 reply not taken",
        "",
        f"  {moment(AT)}  code:diff  lab:large      0 tokens  $0.0125",
        "    failed: 503: overloaded",
        f"  {moment(AT)}  code:diff  lab:large  1,234 tokens  $0.0125",
        "    retried: unusable reply; the model was asked again with the reason",
        f"  {moment(AT)}  code:diff  lab:large  1,234 tokens  $0.0125",
        "    refused: apply: no such line",
        f"  {moment(AT)}  code:diff  lab:large  1,234 tokens  $0.0125",
        "    not taken: its reply waits; no proposal has been made from it so far",
        "",
        "full prompts and replies: loopty show 1.2 --refused --prompt",
    ]


def test_a_batch_names_a_few_reasons_and_its_nodes():
    text = fruitless_calls_text(NODE, [call("a", *(f"no {number}" for number in range(16)), new_node="1.2.1")])
    assert text.startswith("1.2  16 proposals refused")
    assert "no 2\n    and 13 more\n    its reply also led to 1.2.1" in text


@pytest.mark.parametrize("columns", [30, 80])
def test_many_calls_with_endless_reasons_fit_the_terminal(columns):
    calls = [call(f"c{number}", f"{number} \x1b[2J\u202e " + "so long a word " * 900) for number in range(300)]
    text = fruitless_calls_text(NODE, calls, columns, Terminal(unicode=False))
    assert all(width(line) <= columns for line in text.splitlines())
    assert len(text.splitlines()) <= 3 * MAX_SHOWN + 6
    assert "280 older calls" in text
    assert text.rindex("apply: 299") > text.rindex("apply: 280")
    assert "apply: 279" not in text
    assert text.isascii()
    assert "\x1b" not in text
