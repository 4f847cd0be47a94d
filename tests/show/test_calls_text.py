"""The model calls of a node on a terminal: exact, readable, and without control characters."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from loopty.domain.ids import NodeId
from loopty.domain.model import Message, Prompt, Reply, Speaker, Usage
from loopty.domain.proposal import Objection
from loopty.domain.trial import Pool
from loopty.models.archive import CallRecord
from loopty.record.calls import CallReserved, CallSettled
from loopty.record.nodes import ProposalRefused
from loopty.show.calls import ModelCall, calls_text
from loopty.show.figures import moment
from loopty.show.terminal import Terminal, width


def reserved(call: str, role: str = "evolver", operator: str = "code:diff") -> CallReserved:
    return CallReserved(1, call, role, 900, 0.9, "me", "lab:large", operator, NodeId("1.2"), Pool.ATTEMPT)


AT = 1_700_000_000.0
CALL = ModelCall(
    reserved("c0ffee"), AT, CallSettled(1, "c0ffee", 130, 0.0125, Usage(100, 30, 40, 10)), [NodeId("1.2.1")]
)


def call_record(question: str, replied: str | None = "fine", **reply: bool) -> CallRecord:
    prompt = Prompt("Be brief.", (Message(Speaker.ASKER, question),), {"type": "object"})
    answer = None if replied is None else Reply(replied, Usage(100, 30), **reply)
    return CallRecord("c0ffee", 1.0, "lab:large", "evolver", "code:diff", prompt, answer)


SHOWN = f"""\
call 1 of 1

  call      c0ffee
  when      {moment(AT)}
  model     lab:large
  role      evolver
  operator  code:diff
  about     1.2
  tokens    100 in (40 cached), 30 out (10 reasoning)
  money     $0.0125
  led to    1.2.1

system
  │ Be brief.

asker
  │ What now?
  │
  │     x = 1

reply schema
  │ {{
  │   "type": "object"
  │ }}

reply
  │ fine
"""


def test_a_call_is_shown_with_its_cost_and_full_text():
    assert calls_text([(CALL, call_record("What now?\n\n\tx = 1"))]) + "\n" == SHOWN


def test_a_long_line_continues_behind_another_margin():
    text = calls_text([(CALL, call_record("word " * 40))], columns=40)
    assert all(width(line) <= 40 for line in text.splitlines())
    lines = [line[4:] for line in text.splitlines() if line.startswith(("  │ word", "  ╎"))]
    assert "".join(lines) == "word " * 40
    assert all(line.endswith("word ") for line in lines), "a word that fits is not broken"


def test_a_cut_off_reply_and_a_missing_one_are_marked():
    assert "reply, cut off at the length limit" in calls_text([(CALL, call_record("x", whole=False))])
    failed = ModelCall(reserved("c1"), AT, CallSettled(1, "c1", 9, 0.0, failure="429: too many requests"))
    text = calls_text([(CALL, call_record("x")), (failed, call_record("x", None))])
    assert "call 2 of 2" in text
    assert "429: too many requests" in text


def test_a_refused_call_shows_its_reason_and_a_retried_one_is_marked():
    event = ProposalRefused(1, Pool.ATTEMPT, "code:diff", "src/x: no such line", Objection.APPLY, ("c0", "c1"))
    done = (
        ModelCall(reserved(name), AT, CallSettled(1, name, 9, 0.0), refused_proposals=[event])
        for name in event.calls
    )
    text = calls_text((call, call_record("x")) for call in done)
    assert "retried   unusable reply; the model was asked again with the reason" in text
    assert text.count("refused   apply: src/x: no such line") == 1


def test_a_call_in_flight_and_a_missing_text_are_marked():
    text = calls_text([(ModelCall(reserved("c2", "verifier", "review"), AT), None)])
    assert "900 tokens reserved" in text
    assert "no longer in the archive of calls" in text


def test_a_terminal_without_unicode_gets_ascii():
    assert calls_text([(CALL, call_record("naïve"))], terminal=Terminal(unicode=False)).isascii()


@given(
    st.text() | st.lists(st.sampled_from(["\x1b[2J", "\x9b1A", "\u202e", "\r", "\x07", "a", "\n"])).map("".join)
)
def test_no_text_controls_the_terminal(words):
    text = calls_text([(CALL, call_record(words, words))])
    control = {letter for letter in text if unicodedata.category(letter) in ("Cc", "Cf", "Cs")} - {"\n"}
    assert not control


def test_control_characters_are_escaped():
    assert r"red \x1b[31m alert \u202e" in calls_text([(CALL, call_record("red \x1b[31m alert \u202e"))])
