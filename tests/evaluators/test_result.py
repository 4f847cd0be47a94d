"""The result contract: one valid JSON object with a finite score, or a one-line reason."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopty.domain.objective import Direction
from loopty.evaluators.result import LARGEST_RESULT, parse_result
from loopty.kit import untrusted_files
from loopty.kit.untrusted_files import Unreadable


def reason(raw: bytes) -> str:
    with pytest.raises(Unreadable) as caught:
        parse_result(raw)
    message = str(caught.value)
    assert message
    assert len(message.splitlines()) == 1
    assert len(message) < 300
    return message


def test_a_score_alone_is_a_result() -> None:
    assert parse_result(b'{"score": 1}').metrics == {"score": 1.0}
    assert parse_result(b'\xef\xbb\xbf{"score": -0.5}\r\n').metrics == {"score": -0.5}


def test_tasks_are_metrics_with_their_own_directions() -> None:
    result = parse_result(
        b'{"score": 0.6, "tasks": {"t1": 0.8, "ms": 4}, "tasks_meta": {"ms": {"direction": "min"}, "t1": {}},'
        b' "started_at": "2026-01-01T00:00:00Z", "extra": [1, {"a": null}]}'
    )
    assert result.metrics == {"score": 0.6, "tasks.t1": 0.8, "tasks.ms": 4.0}
    assert result.directions == {"tasks.ms": Direction.MIN}


def test_an_empty_list_of_tasks_can_be_written_in_two_ways() -> None:
    assert parse_result(b'{"score": 1, "tasks": null, "tasks_meta": {}}').metrics == {"score": 1.0}


@pytest.mark.parametrize(
    ("raw", "word"),
    [
        (b"", "empty"),
        (b" \n\t", "empty"),
        (b"{", "JSON"),
        (b"{}", "no score"),
        (b"[]", "object"),
        (b"1.0", "object"),
        (b'"score"', "object"),
        (b"null", "object"),
        (b'{"score": NaN}', "NaN"),
        (b'{"score": Infinity}', "Infinity"),
        (b'{"score": -Infinity}', "Infinity"),
        (b'{"score": 1e999}', "finite"),
        (b'{"score": 1' + b"0" * 400 + b"}", "finite"),
        (b'{"score": 1' + b"0" * 5000 + b"}", "JSON"),
        (b'{"score": true}', "not a number"),
        (b'{"score": null}', "not a number"),
        (b'{"score": "9e9"}', "not a number"),
        (b'{"score": [1]}', "not a number"),
        (b'{"score": "a\\nb"}', "not a number"),
        (b'{"score": 1, "score": 2}', "twice"),
        (b'{"score": 1, "a": {"b": 1, "b": 2}}', "twice"),
        (b'{"score": 1} {"score": 2}', "JSON"),
        (b'{"score": 1}\x00', "JSON"),
        (b'{"score": 1, "a": ' + b"[" * 10_000 + b"]" * 10_000 + b"}", "nested"),
        (b'{"score": 1, "a": ' + b"[" * 65 + b"]" * 65 + b"}", "nested"),
        (b'{"score": 1, "a": ' + b'["]",' * 100 + b"0" + b"]" * 100 + b"}", "nested"),
        (b'{"score": 1, "a": ' + b'{"a":' * 10_000 + b"0" + b"}" * 10_000 + b"}", "nested"),
        (b'{"score": \xff}', "JSON"),
        ('{"score": 1}'.encode("utf-16"), "JSON"),
        ('{"score": 1}'.encode("utf-16-le"), "JSON"),
        ('{"score": 1}'.encode("utf-32"), "JSON"),
        (b'{"score": 1, "x": "\xff"}', "JSON"),
        (b'{"score": 1, "tasks": {"\\ud800": 1}}', "JSON"),
        (b'{"score": 1, "tasks": {"a\\nb": 1}}', "one short line"),
        (b'{"score": 1, "tasks": {"\\u001b[2J": 1}}', "one short line"),
        (b'{"score": 1, "tasks": {"": 1}}', "one short line"),
        (b'{"score": 1, "tasks": {"' + b"x" * 100_000 + b'": 1}}', "one short line"),
        (b'{"score": 1, "tasks": {"t": true}}', "tasks.t"),
        (b'{"score": 1, "tasks": {"t": 1e999}}', "tasks.t"),
        (b'{"score": 1, "tasks": [1]}', "objects"),
        (b'{"score": 1, "tasks_meta": "x"}', "objects"),
        (b'{"score": 1, "tasks_meta": {"t": {"direction": "down"}}}', "min or max"),
        (b'{"score": 1, "tasks_meta": {"t": {"direction": ["min"]}}}', "min or max"),
        (b'{"score": 1, "tasks_meta": {"' + b"x" * 9999 + b'": {"direction": "\\n"}}}', "min or max"),
    ],
    ids=lambda value: None if isinstance(value, bytes) else value,
)
def test_an_invalid_result_has_a_one_line_reason(raw: bytes, word: str) -> None:
    assert word in reason(raw)


def test_brackets_in_text_are_no_nesting() -> None:
    assert parse_result(json.dumps({"score": 1, "log": "[{" * 500}).encode()).metrics == {"score": 1.0}


@given(st.binary(max_size=40) | st.text(max_size=40).map(str.encode))
def test_garbage_is_unreadable_and_nothing_else(raw: bytes) -> None:
    reason(raw)


_trees = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(["score", "tasks", "tasks_meta", "other"]), _trees))
def test_any_document_is_a_result_with_finite_numbers_or_unreadable(document: dict[str, object]) -> None:
    try:
        result = parse_result(json.dumps(document).encode())
    except Unreadable:
        return
    assert all(abs(value) < float("inf") for value in result.metrics.values())


def test_a_regular_file_gives_its_bytes_and_a_missing_one_gives_none(tmp_path: Path) -> None:
    assert untrusted_files.content(tmp_path / "none", 10) is None
    (tmp_path / "file").write_bytes(b"x" * 10)
    assert untrusted_files.content(tmp_path / "file", 10) == b"x" * 10


def test_only_small_regular_files_with_one_name_are_read(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text('{"score": 1}')
    (tmp_path / "link").symlink_to(secret)
    (tmp_path / "zero").symlink_to("/dev/zero")
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "hard").hardlink_to(secret)
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "fifo")
    with (tmp_path / "huge").open("wb") as file:
        file.truncate(100 << 20)
    for name in ("link", "zero", "loop", "hard", "folder", "fifo", "huge"):
        with pytest.raises(Unreadable):
            untrusted_files.content(tmp_path / name, LARGEST_RESULT)


def test_more_tasks_than_a_node_can_hold_are_refused() -> None:
    raw = b'{"score": 1, "tasks": {' + b",".join(b'"%d": 1' % task for task in range(10_001)) + b"}}"
    with pytest.raises(Unreadable, match="more than 10000 tasks"):
        parse_result(raw)
