"""The metrics stream: complete lines only, no matter how slowly they are appended."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopty.domain.curve import Row
from loopty.domain.objective import Direction
from loopty.evaluators import metrics_csv
from loopty.evaluators.metrics_csv import MetricsStream, parse_column
from loopty.kit.safe_folder import SafeFolder
from loopty.kit.untrusted_files import Unreadable


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "metrics.csv"


def stream_of(file: Path, raw: bytes) -> MetricsStream:
    file.write_bytes(raw)
    stream = MetricsStream(SafeFolder(file.parent).file(file.name))
    stream.read_new()
    return stream


@pytest.mark.parametrize(
    ("column", "name", "direction"),
    [
        ("latency ms (lower is better)", "latency ms", Direction.MIN),
        ("latency ms [Lower Is Better]", "latency ms", Direction.MIN),
        ("accuracy (higher is better)", "accuracy", Direction.MAX),
        ("loss, lower is better", "loss", Direction.MIN),
        ("loss - lower is better", "loss", Direction.MIN),
        ("lower is better: loss", "loss", Direction.MIN),
        ("lower is better", "lower is better", Direction.MIN),
        ("  accuracy ", "accuracy", None),
    ],
)
def test_a_column_may_name_its_direction(column: str, name: str, direction: Direction) -> None:
    assert parse_column(column) == (name, direction)


def test_rows_are_read_in_order_with_priority_from_left_to_right(file: Path) -> None:
    stream = stream_of(file, b"iteration,latency ms (lower is better),accuracy\n1,5,0.5\n2,4.5,1e-3\n")
    assert stream.rows == [
        Row(1.0, {"latency ms": 5.0, "accuracy": 0.5}),
        Row(2.0, {"latency ms": 4.5, "accuracy": 0.001}),
    ]
    assert stream.directions == {"latency ms": Direction.MIN}
    assert list(stream.rows[0].metrics) == ["latency ms", "accuracy"]


def test_an_incomplete_last_line_is_no_row_until_it_ends(file: Path) -> None:
    stream = stream_of(file, b"i,a\n1,0.5\n2,0.")
    assert len(stream.rows) == 1
    with file.open("ab") as more:
        more.write(b"75")
    assert not stream.read_new()
    with file.open("ab") as more:
        more.write(b"\n3")
    assert stream.read_new()
    assert stream.rows[-1] == Row(2.0, {"a": 0.75})


@pytest.mark.parametrize(
    "raw",
    [
        b"i,a\r\n1,0.5\r\n",
        b"\xef\xbb\xbfi,a\n1,0.5\n",
        b'\xef\xbb\xbf"i, or so",a\n1,0.5\n',
        b'"i","a"\n"1","0.5"\n',
        b"\n\ni,a\n\n1,0.5\n\n",
        b"i,a\n 1 , 0.5 \n",
        b"i,a\n1,+5e-1\n",
    ],
)
def test_ways_of_writing_csv_that_mean_the_same(file: Path, raw: bytes) -> None:
    assert stream_of(file, raw).rows == [Row(1.0, {"a": 0.5})]


def test_a_quoted_comma_belongs_to_the_name(file: Path) -> None:
    assert stream_of(file, b'i,"a, b"\n1,2\n').rows == [Row(1.0, {"a, b": 2.0})]


@pytest.mark.parametrize(
    "raw",
    [
        b"iteration\n",
        b"i,\n1,2\n",
        b"i,a,a\n",
        b"i,a,a (lower is better)\n",
        b"i,a\x1b[2J\n",
        b"i," + b"x" * 1000 + b"\n",
        b"i,a\n1\n",
        b"i,a\n1,2,3\n",
        b"i,a\n1,2,\n",
        b"i,a\n1,\n",
        b"i,a\n,1\n",
        b"i,a\n1,nan\n",
        b"i,a\n1,inf\n",
        b"i,a\n1,1e999\n",
        b"i,a\n1,1_000\n",
        b"i,a\n1,0x10\n",
        b"i,a\n1,true\n",
        b"i,a\n1,1 000\n",
        b"i,a\n1,\xff\n",
        b"i,a\n1,\x00\n",
        b'i,a\n1,"2\n',
        b'i,a\n1,"2"3\n',
        b"i,a\n1,2\r3,4\n",
        b"i,a\n1," + b"9" * 200_000 + b"\n",
        b"1,2\n3,4\ni,a\n",
    ],
    ids=lambda raw: repr(raw[:20]),
)
def test_a_broken_contract_has_a_one_line_reason(file: Path, raw: bytes) -> None:
    with pytest.raises(Unreadable) as caught:
        stream_of(file, raw)
    assert len(str(caught.value).splitlines()) == 1
    assert len(str(caught.value)) < 200


def test_a_truncated_file_is_refused(file: Path) -> None:
    stream = stream_of(file, b"i,a\n1,2\n3,4\n")
    file.write_bytes(b"i,a\n")
    with pytest.raises(Unreadable, match="was truncated"):
        stream.read_new()


def test_links_pipes_and_huge_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "real").write_bytes(b"i,a\n1,2\n")
    (tmp_path / "link").symlink_to("real")
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "hard").hardlink_to(tmp_path / "real")
    with (tmp_path / "huge").open("wb") as huge:
        huge.truncate(metrics_csv.LARGEST_STREAM + 1)
    for name in ("link", "fifo", "hard", "huge"):
        with pytest.raises(Unreadable):
            MetricsStream(SafeFolder(tmp_path).file(name)).read_new()


def test_a_missing_file_has_no_new_rows(file: Path) -> None:
    stream = MetricsStream(SafeFolder(file.parent).file(file.name))
    assert not stream.read_new()
    file.write_bytes(b"i,a\n1,2\n")
    assert stream.read_new()
    assert not stream.read_new()


def test_a_writer_that_appends_byte_by_byte_is_followed_live(file: Path) -> None:
    lines = ["i,a (lower is better)", *(f"{step},{step / 7}" for step in range(60))]
    script = (
        "import sys\n"
        "with open(sys.argv[1], 'wb', buffering=0) as file:\n"
        "    for byte in sys.argv[2].encode():\n"
        "        file.write(bytes([byte]))\n"
    )
    writer = subprocess.Popen([sys.executable, "-c", script, str(file), "\n".join(lines) + "\n"])
    stream, until = MetricsStream(SafeFolder(file.parent).file(file.name)), time.monotonic() + 60
    while writer.poll() is None and time.monotonic() < until:
        stream.read_new()
        assert all(row.metrics["a"] == row.step / 7 for row in stream.rows)
    stream.read_new()
    assert [row.step for row in stream.rows] == list(range(60))


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 99), st.floats(-1e9, 1e9), st.floats(-1, 1)), max_size=8),
    st.lists(st.integers(0, 200), max_size=6),
)
def test_where_a_read_cuts_the_file_makes_no_difference(
    tmp_path_factory: pytest.TempPathFactory, values: list[tuple[int, float, float]], cuts: list[int]
) -> None:
    raw = "".join(f"{step},{one!r},{two!r}\n" for step, one, two in values)
    whole = f"i,a,b\n{raw}".encode()
    file = tmp_path_factory.mktemp("torn") / "metrics.csv"
    stream = MetricsStream(SafeFolder(file.parent).file(file.name))
    for cut in [*sorted(cuts), len(whole)]:
        file.write_bytes(whole[:cut])
        stream.read_new()
    assert [(row.step, row.metrics["a"], row.metrics["b"]) for row in stream.rows] == values


def test_too_many_rows_are_refused_before_they_fill_the_memory(tmp_path: Path) -> None:
    (tmp_path / "metrics.csv").write_text("i,a\n" + "0,0\n" * 100_001)
    with pytest.raises(Unreadable, match="more than 100000 rows"):
        MetricsStream(SafeFolder(tmp_path).file("metrics.csv")).read_new()
