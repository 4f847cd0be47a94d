"""The calls of a node on a terminal: exact, readable, and without anything that steers it."""

from __future__ import annotations

import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from loopty.domain.ids import NodeId
from loopty.domain.model import Message, Prompt, Reply, Speaker, Usage
from loopty.domain.pool import Pool
from loopty.domain.proposal import Objection
from loopty.models.archive import CallRecord
from loopty.record.calls import CallReserved, CallSettled
from loopty.record.proposals import ProposalRefused
from loopty.report.calls_text import calls_text
from loopty.report.columns import width
from loopty.report.figures import moment
from loopty.report.terminal import Terminal
from loopty.views.model_calls import ModelCall


def reserved(call: str, role: str = "evolver", operator: str = "code:diff") -> CallReserved:
    return CallReserved(1, call, role, 900, 0.9, "me", "lab:large", operator, NodeId("1.2"), Pool.ATTEMPT)


AT = 1_700_000_000.0
CALL = ModelCall(
    reserved("c0ffee"), AT, CallSettled(1, "c0ffee", 130, 0.0125, Usage(100, 30, 40, 10)), [NodeId("1.2.1")]
)


def kept(asked: str, replied: str | None = "fine", **reply: bool) -> CallRecord:
    prompt = Prompt("Be brief.", (Message(Speaker.ASKER, asked),), {"type": "object"})
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
  gave      1.2.1

system
  │ Be brief.

asker
  │ What now?
  │
  │     x = 1

schema of the reply
  │ {{
  │   "type": "object"
  │ }}

reply
  │ fine
"""


def test_a_call_is_shown_with_what_it_cost_and_every_word_of_it():
    assert calls_text([(CALL, kept("What now?\n\n\tx = 1"))]) + "\n" == SHOWN


def test_a_long_line_goes_on_behind_another_margin():
    text = calls_text([(CALL, kept("word " * 40))], columns=40)
    assert all(width(line) <= 40 for line in text.splitlines())
    lines = [line[4:] for line in text.splitlines() if line.startswith(("  │ word", "  ╎"))]
    assert "".join(lines) == "word " * 40
    assert all(line.endswith("word ") for line in lines), "no word is broken that fits"


def test_a_reply_that_was_cut_off_and_one_that_never_came_say_so():
    assert "reply, cut off at its longest" in calls_text([(CALL, kept("x", whole=False))])
    failed = ModelCall(reserved("c1"), AT, CallSettled(1, "c1", 9, 0.0, failure="429: too many requests"))
    text = calls_text([(CALL, kept("x")), (failed, kept("x", None))])
    assert "call 2 of 2" in text
    assert "429: too many requests" in text


def test_a_refused_call_says_why_and_one_that_was_asked_again_says_so():
    event = ProposalRefused(1, Pool.ATTEMPT, "code:diff", "src/x: no such line", Objection.APPLY, ("c0", "c1"))
    done = (
        ModelCall(reserved(name), AT, CallSettled(1, name, 9, 0.0), refused_proposals=[event])
        for name in event.calls
    )
    text = calls_text((call, kept("x")) for call in done)
    assert "no use    the model was told why, and asked again" in text
    assert text.count("refused   apply: src/x: no such line") == 1


def test_a_call_in_flight_and_one_whose_file_is_gone_say_so():
    text = calls_text([(ModelCall(reserved("c2", "verifier", "review"), AT), None)])
    assert "900 tokens as reserved" in text
    assert "not in .loopty/calls" in text


def test_a_terminal_without_unicode_gets_ascii():
    assert calls_text([(CALL, kept("naïve"))], look=Terminal(unicode=False)).isascii()


@given(
    st.text() | st.lists(st.sampled_from(["\x1b[2J", "\x9b1A", "\u202e", "\r", "\x07", "a", "\n"])).map("".join)
)
def test_nothing_that_was_said_steers_the_terminal(said):
    text = calls_text([(CALL, kept(said, said))])
    steering = {letter for letter in text if unicodedata.category(letter) in ("Cc", "Cf", "Cs")} - {"\n"}
    assert not steering


def test_what_would_steer_the_terminal_is_spelled_out():
    assert r"red \x1b[31m alert \u202e" in calls_text([(CALL, kept("red \x1b[31m alert \u202e"))])
