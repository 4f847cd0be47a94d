"""`loopty show NODE --prompt` and `--refused`: what models were sent, and what they answered."""

import json

import pytest

from loopty.domain.ids import NodeId
from loopty.domain.model import Message, Prompt, Reply, Speaker, Usage
from loopty.domain.objective import Objective
from loopty.domain.trial import Pool
from loopty.ledgers.sqlite import SqliteLedger
from loopty.models.archive import Archive
from loopty.record.calls import CallReserved, CallSettled
from loopty.record.nodes import NodeAdded
from loopty.record.recorder import Recorder
from loopty.record.sessions import RunStarted

from .conftest import CODE_TASK, Place
from .serving import evolver, number, vendor

TEXT = "Make it fast.\n\x1b[2J\ud800 naïve\ttabbed\n"
PROMPT = Prompt("Be brief.", (Message(Speaker.ASKER, TEXT),), {"type": "object"}, 100)
REPLY = Reply('{"x": 1}', Usage(100, 30, 40, 10))


@pytest.fixture
def proposed(place: Place) -> Place:
    """A run with a node that took two calls, one of which failed."""
    state = place.state_folder
    state.prepare()
    recorder = Recorder(SqliteLedger(state.ledger.path_for_programs()), lambda: 1.0)
    archive = Archive(state.calls)
    events = [
        RunStarted(1, "c", Objective(), 0, "the first run"),
        NodeAdded(NodeId("1"), Pool.ATTEMPT, "baseline", "as it is", "a" * 40, "f0" * 20),
    ]
    for call, reply, failure in (("c1", None, "503: overloaded"), ("c2", REPLY, "")):
        names = {"model": "lab:large", "role": "evolver", "operator": "code:diff", "node": NodeId("1")}
        archive.keep(call, PROMPT, reply, failure, **names)
        events.append(
            CallReserved(1, call, "evolver", 500, 0.5, "me", "lab:large", "code:diff", NodeId("1"), Pool.ATTEMPT)
        )
        events.append(CallSettled(1, call, 130 if reply else 0, 0.01, reply and reply.usage, failure))
    added = NodeAdded(
        NodeId("1.1"), Pool.ATTEMPT, "code:diff", "a change", "b" * 40, "f1" * 20, calls=("c1", "c2")
    )
    recorder.record(lambda _: [*events, added])
    return place


def test_json_has_every_call_unchanged(proposed):
    shown = proposed.json("show", "1.1", "--prompt")
    assert (shown["node"], shown["operator"]) == ("1.1", "code:diff")
    failed, answered = shown["calls"]
    assert (failed["failure"], failed["reply"]) == ("503: overloaded", None)
    assert answered["prompt"] == {
        "system": "Be brief.",
        "messages": [{"speaker": "asker", "text": TEXT}],
        "schema": {"type": "object"},
        "max_output_tokens": 100,
        "form": "",
    }
    assert answered["reply"]["text"] == REPLY.text
    assert answered["tokens"] == 130
    assert answered["usage"]["cached_tokens"] == 40
    assert (answered["role"], answered["model"], answered["node"]) == ("evolver", "lab:large", "1")


def test_the_text_has_the_same_calls_without_control_characters(proposed):
    shown = proposed.loopty("show", "1.1", "--prompt").stdout
    assert "call 2 of 2" in shown
    assert "503: overloaded" in shown
    assert r"\x1b[2J\ud800 naïve" in shown
    assert '{"x": 1}' in shown
    assert "\x1b" not in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_a_node_that_no_model_made_says_so(proposed):
    shown = proposed.loopty("show", "1", "--prompt")
    assert shown.stdout == ""
    assert shown.stderr == "no model call led to @1: `baseline` made it\n"
    assert proposed.json("show", "1", "--prompt") == {
        "node": "1",
        "handle": 1,
        "operator": "baseline",
        "calls": [],
    }


def test_a_call_whose_record_is_missing_or_torn_is_shown_from_the_ledger(proposed):
    folder = proposed.state / "calls"
    file = folder / "c1.jsonl"
    file.write_bytes(file.read_bytes().partition(b"\n")[2][:-40])
    shown = proposed.json("show", "1.1", "--prompt")["calls"]
    assert [call["prompt"] for call in shown] == [None, None]
    assert shown[1]["tokens"] == 130
    assert "no longer in the archive of calls" in proposed.loopty("show", "1.1", "--prompt").stdout


def test_show_mentions_the_calls(proposed):
    assert "loopty show @2 --prompt" in proposed.loopty("show", "1.1").stdout
    assert json.loads(proposed.loopty("show", "1.1", "--json").stdout)["calls"] == ["c1", "c2"]


def test_refused_calls_are_shown_with_reason_and_full_text(code_place):
    reply = "nothing to change \x1b[2J"
    with vendor(reply, reply, number(7), reply) as server:
        code_place.write("loopty.toml", CODE_TASK.format(attempts="2\nquestions = 1") + evolver(server))
        closing = code_place.loopty("optimize", "--quiet")
    assert closing.stderr.endswith("what was refused: loopty show @2 --refused\n")

    shown = code_place.json("show", "1", "--refused")
    reasons = [call["fruitless_reason"] for call in shown["calls"]]
    assert reasons == ["refused: reply"] * 4, "two before the first node, two while it ran"
    assert all(
        call["tokens"] == 120 and call["operator"] and call["at"] and "reply" not in call
        for call in shown["calls"]
    )
    (refused,) = shown["calls"][1]["refused"]
    assert refused["objection"] == "reply"
    worded = code_place.json("show", "1", "--refused", "--prompt")["calls"]
    assert [call["reply"]["text"] for call in worded] == [reply] * 4
    assert worded[1]["prompt"]["messages"][-1]["text"] == server.requests[1].body["messages"][-1]["content"]

    listed = code_place.loopty("show", "1", "--refused").stdout
    assert listed.startswith("@1  2 proposals refused\n")
    assert f"refused: reply: {refused['reason']}"[:60] in listed
    text = code_place.loopty("show", "1", "--refused", "--prompt").stdout
    assert "call 4 of 4" in text
    assert r"│ nothing to change \x1b[2J" in text

    many = code_place.loopty("show", "1.1", "--refused", "--prompt")
    assert "call 20 of 20" in many.stdout
    count = len(code_place.json("show", "1.1", "--refused")["calls"])
    assert count == len(server.requests) - 5
    assert many.stderr == f"these are the newest 20 of {count} calls: --json has them all\n"


def test_a_node_without_refused_calls_says_so(proposed):
    shown = proposed.loopty("show", "1", "--refused")
    assert (shown.stdout, shown.stderr) == ("", "no call to change @1 was refused or failed\n")
    assert proposed.json("show", "1", "--refused") == {
        "node": "1",
        "handle": 1,
        "operator": "baseline",
        "calls": [],
    }
