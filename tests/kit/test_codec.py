"""Events are read back from the ledger as they were written."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopty.domain.access import ObjectName, TreePath
from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.objective import Direction, Metric, Objective
from loopty.domain.trial import Ending, Outcome, Pool, Verdict
from loopty.kit import codec
from loopty.record.fold import Event
from loopty.record.history import decode_event, encode_event
from loopty.record.nodes import NodeAdded
from loopty.record.sessions import RunStarted
from loopty.record.trials import TrialEnded
from loopty.record.verdicts import NodeJudged

_floats = st.floats(allow_nan=False, allow_infinity=False)
_words = st.text(max_size=8)
_ids = st.lists(st.integers(1, 99), min_size=1, max_size=4).map(lambda parts: NodeId(".".join(map(str, parts))))
_names = st.binary(min_size=20, max_size=20).map(lambda raw: ObjectName(raw.hex()))
_params = st.dictionaries(_words, st.one_of(_floats, st.integers(), _words, st.booleans()), max_size=4)
_metrics = st.builds(
    Metric, _words, st.sampled_from(list(Direction)), st.floats(0, 10), st.one_of(st.none(), st.floats(0.1, 9))
)
_outcomes = st.builds(
    Outcome,
    st.sampled_from(list(Ending)),
    st.dictionaries(_words, _floats, max_size=3),
    st.dictionaries(_words, st.sampled_from(list(Direction)), max_size=3),
    _words,
    st.floats(0, 1e6),
    st.lists(_words, max_size=2).map(tuple),
)
_events = st.one_of(
    st.builds(
        NodeAdded, _ids, st.sampled_from(list(Pool)), _words, _words, _names, _names, _params, st.booleans()
    ),
    st.builds(TrialEnded, _ids, st.integers(1, 9), _outcomes, st.booleans()),
    st.builds(NodeJudged, _ids, st.sampled_from(list(Verdict)), _words, st.one_of(st.none(), _ids)),
    st.builds(
        RunStarted,
        st.integers(1, 9),
        _words,
        st.builds(
            Objective,
            st.sampled_from(list(Direction)),
            st.lists(_metrics, max_size=3).map(tuple),
        ),
        st.integers(0),
        _words,
    ),
)


@given(_events)
def test_an_event_is_read_back_as_it_was_written(event: Event) -> None:
    again = decode_event(*encode_event(event))
    assert again == event
    assert _types(again) == _types(event)


def _types(value: object) -> object:
    """The value as JSON, which shows types: 1, 1.0 and True are equal, but not the same."""
    plain = codec.plain(value)
    return json.dumps(plain)


def test_enums_and_ids_keep_their_types() -> None:
    event = decode_event(*encode_event(NodeJudged(NodeId("1.2"), Verdict.KEPT, "", NodeId("1"))))
    assert isinstance(event, NodeJudged)
    assert type(event.node) is type(event.against) is NodeId
    assert event.verdict is Verdict.KEPT


def test_fields_at_their_default_are_left_out_and_unknown_keys_are_ignored() -> None:
    assert codec.text(Outcome(Ending.FAILED)) == '{"ending":"failed"}'
    assert codec.build(Outcome, {"ending": "failed", "colour": "red"}) == Outcome(Ending.FAILED)


@pytest.mark.parametrize(
    "value",
    ['a "b"\\ \n\t\x01 é … \U0001f600', 10**30, -0.0, 1e22, 0.1, True, None, [], {}, {"a": [1, {"b": "c"}]}],
)
def test_plain_data_is_written_as_the_standard_encoder_writes_it(value: object) -> None:
    written = json.dumps(value, ensure_ascii=False, separators=(",", ":"))

    assert codec.text(value) == codec._JSON.encode(value) == written


def test_a_number_that_json_cannot_represent_is_an_error() -> None:
    with pytest.raises(ValueError):
        codec.text(Outcome(Ending.FINISHED, {"score": float("nan")}))


WRONG = {
    ObjectName: ["", "HEAD", "--output=x", "a" * 39, "A" * 40, "a" * 40 + "\n", "a" * 64 + "0"],
    TreePath: ["", "/etc/passwd", "../x", "a/../../x", "a//b", ".git/config", "a\0b"],
    NodeId: ["", "1/2", "../1", "1.", "01", "1.x", "-1", "1\n"],
}


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in WRONG.items() for text in texts])
def test_a_name_that_was_never_written_is_refused(kind: type, text: str) -> None:
    with pytest.raises(Misuse, match="changed by hand"):
        kind.from_record(text)  # type: ignore[attr-defined]


def test_an_event_with_such_a_name_is_refused() -> None:
    kind, body = encode_event(
        NodeAdded(NodeId("1"), Pool.ATTEMPT, "", "", ObjectName("a" * 40), ObjectName("b" * 64))
    )
    assert decode_event(kind, body)
    with pytest.raises(Misuse, match="changed by hand"):
        decode_event(kind, body.replace("a" * 40, "--output=x"))
