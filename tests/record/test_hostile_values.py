"""Whatever somebody says is refused where it comes in, or is written and read back as it was said."""

from __future__ import annotations

import json
import types
import typing
from collections.abc import Mapping
from enum import Enum

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loopty.domain.access import ObjectName, TreePath
from loopty.domain.declared_types import misfit
from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.proposal import recordable
from loopty.domain.task import Noise, Pools
from loopty.domain.trial import Ending, Outcome, Pool, Verdict
from loopty.engine import decisions
from loopty.features.fleet.messages import LinkLost, TrialReport, pack_report, unpack_report
from loopty.judge.tuning import Judging
from loopty.kit import codec
from loopty.kit.records import field_types, fields_of, is_record
from loopty.ledgers.sqlite import SqliteLedger
from loopty.record.calls import CallReserved, CallSettled
from loopty.record.directives import NoteAdded
from loopty.record.fold import Event
from loopty.record.history import FAMILIES, encode_event, read_event
from loopty.record.recorder import Recorder
from loopty.record.sessions import SessionEnded, SessionStalled
from loopty.record.trials import MachineSeen, TrialStarted
from loopty.testing.ledger_suite import run_events

EVENTS = [event for family in FAMILIES for event in family.events]
TEXTS = st.text(st.characters(categories=["L", "N", "P", "S", "Z", "C"]), max_size=12)
"""Half characters, controls and marks of direction among them."""
LONG = st.sampled_from("xé").map(lambda letter: letter * 100_001)
FLOATS = st.floats() | st.sampled_from([1e308, -1e308, 5e-324, -0.0])
INTS = st.integers() | st.sampled_from([10**400, -(10**400), 2**63, 2**63 - 1, -1, 0])
SCALARS = st.none() | st.booleans() | INTS | FLOATS | TEXTS
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=5
)
ODD = [[1], {"a": True}, {1: 2}, (True,), ("a", None), b"x", bytearray(), object(), Ending.FAILED, Ending, 1j]
ANYTHING = SCALARS | LONG | st.sampled_from(ODD)
NAMES = {
    NodeId: st.sampled_from(["1", "1.2", "7.1.1"]).map(NodeId),
    ObjectName: st.sampled_from(["a" * 40, "0" * 64]).map(ObjectName),
    TreePath: st.sampled_from(["a", "a/b.py"]).map(TreePath),
}
PLAIN = {
    str: TEXTS,
    int: st.integers(0, 10**6),
    float: st.floats(0, 1e6) | st.integers(0, 9),
    bool: st.booleans(),
    type(None): st.none(),
}
FAST = settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))


def values(hint, spice):
    """Values of this type; with spice, about one in eight is anything else, at any depth."""
    found = typed_values(hint, spice)
    return st.one_of(*[found] * 7, ANYTHING) if spice else found


def typed_values(hint, spice):
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        return st.one_of(*(values(argument, spice) for argument in arguments))
    if origin is tuple:
        return st.lists(values(arguments[0], spice), max_size=2).map(tuple)
    if origin is not None:
        assert issubclass(origin, Mapping)
        return st.dictionaries(values(arguments[0], False), values(arguments[1], spice), max_size=2)
    if is_record(hint):
        hints = field_types(hint)
        return st.builds(hint, **{each.name: values(hints[each.name], spice) for each in fields_of(hint)})
    if issubclass(hint, Enum):
        return st.sampled_from(list(hint))
    return NAMES[hint] if hint in NAMES else PLAIN[hint]


def shown(value):
    """The value as JSON, which tells 1, 1.0 and true apart."""
    return json.dumps(codec.plain(value))


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: event.__name__)
def test_any_value_in_any_field_is_refused_or_read_back_equal(event):
    @settings(FAST, max_examples=12)
    @given(typed_values(event, True))
    def check(made):
        if misfit(made) is not None:
            misfit(made).encode()
            return
        again = read_event(1, 0.0, *encode_event(made)).event
        assert again == made
        assert shown(again) == shown(made)

    check()


def test_sound_events_are_taken():
    @given(st.one_of(*(values(event, False) for event in EVENTS)))
    @settings(FAST)
    def check(made):
        fault = misfit(made)
        assert fault is None or "half a character" in fault

    check()


@pytest.fixture
def recorder(tmp_path):
    made = Recorder(SqliteLedger(tmp_path / "ledger.sqlite"), lambda: 1.0)
    made.record(lambda _: run_events())
    made.saves_rarely = True
    return made


def of_run(cls: type[Event], **fixed):
    """Events about run 1, with anything in their other fields."""
    hints = field_types(cls)
    spiced = {name: values(hint, True) for name, hint in hints.items() if name not in fixed}
    return st.builds(cls, **{name: st.just(value) for name, value in fixed.items()}, **spiced)


WORDS = st.one_of(
    of_run(NoteAdded, run=1, node=None),
    of_run(CallReserved, run=1, node=None),
    of_run(CallSettled, run=1),
    of_run(MachineSeen, run=1),
    of_run(SessionStalled, run=1),
    of_run(SessionEnded, run=1),
)


def test_the_ledger_takes_an_event_or_stays_as_it_was(recorder):
    ledger = recorder._ledger

    @given(st.lists(WORDS, min_size=1, max_size=3))
    @FAST
    def check(events):
        before = recorder.history.number
        try:
            written = recorder.record(lambda _: events)
        except Misuse:
            assert any(misfit(event) for event in events)
            assert recorder.refresh().number == before
            return
        assert [item.event for item in ledger.read(before)] == [item.event for item in written] == events

    check()
    assert ledger.flaw() is None
    assert ledger.history().number == recorder.history.number


METRICS = st.dictionaries(st.sampled_from(["score", "tasks.a"]) | TEXTS, SCALARS, max_size=3)
OUTCOMES = JSON | st.fixed_dictionaries(
    {"ending": st.sampled_from([*Ending]) | JSON},
    optional={
        **{each.name: JSON for each in fields_of(Outcome) if each.name not in ("ending", "metrics")},
        "metrics": METRICS | JSON,
        "reason": LONG | TEXTS,
        "directions": st.dictionaries(TEXTS, st.sampled_from(["min", "max"]) | JSON, max_size=2),
    },
)
FILE_NAMES = TEXTS | st.sampled_from(["a", "a/b", "../x"])
FILES = JSON | st.lists(st.tuples(FILE_NAMES, INTS | st.integers(0, 2)), max_size=3)


@given(st.fixed_dictionaries({"outcome": OUTCOMES}, optional={"files": FILES}), st.binary(max_size=4))
@settings(FAST, max_examples=120)
def test_a_report_of_a_worker_is_refused_or_can_be_recorded(fields, block):
    try:
        report = unpack_report(fields, block)
    except LinkLost as refusal:
        str(refusal).encode()
        return
    assert misfit(report.outcome) is None
    assert sum(map(len, report.files.values())) <= len(block)
    again, joined = pack_report(TrialReport(report.outcome, report.files))
    assert unpack_report(json.loads(json.dumps(again)), joined) == report


def test_whatever_a_trial_says_it_ends_and_the_run_goes_on(recorder):
    """The outcome as any executor returns it, also one of a plugin that no type checker has seen."""
    root, judging = NodeId("1"), Judging(Pools(), Noise())

    @given(typed_values(Outcome, True))
    @FAST
    def check(outcome):
        number = recorder.history[root].trials + 1
        recorder.record(lambda _: [TrialStarted(root, number, Pool.CONFIRM, "me")])
        recorder.record(lambda history: decisions.end_trial(history, root, number, recordable(outcome), judging))

    check()
    assert recorder._ledger.flaw() is None
    assert recorder.history[root].verdict in (None, *Verdict)
