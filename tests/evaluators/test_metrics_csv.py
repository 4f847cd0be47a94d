"""The metrics stream: complete lines only, no matter how slowly they are appended."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopty.domain.objective import Direction
from loopty.domain.trial import Row
from loopty.evaluators import metrics
from loopty.evaluators.metrics import MetricsStream, parse_column
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
        huge.truncate(metrics.LARGEST_STREAM + 1)
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


def test_of_many_rows_every_nth_and_the_last_one_are_kept(file: Path) -> None:
    stream = stream_of(file, b"i,a\n" + b"".join(b"%d,%d\n" % (step, -step) for step in range(100_001)))
    steps = [row.step for row in stream.rows]
    assert 2_000 <= len(steps) <= 4_001
    assert steps[0] == 0
    assert len({later - sooner for sooner, later in itertools.pairwise(steps[:-1])}) == 1
    assert stream.rows[-1] == Row(100_000.0, {"a": -100_000.0})
    assert stream.rows_left_out == 100_001 - len(steps)


def test_which_rows_are_kept_does_not_depend_on_when_they_are_read(file: Path) -> None:
    raw = b"i,a\n" + b"".join(b"%d,1\n" % step for step in range(20_000))
    at_once = [row.step for row in stream_of(file, raw).rows]
    slow = MetricsStream(SafeFolder(file.parent).file(file.name))
    for end in range(0, len(raw) + 997, 997):
        file.write_bytes(raw[:end])
        slow.read_new()
    assert [row.step for row in slow.rows] == at_once


def test_a_short_stream_is_kept_whole(file: Path) -> None:
    stream = stream_of(file, b"i,a\n" + b"".join(b"%d,1\n" % step for step in range(4_000)))
    assert len(stream.rows) == 4_000
    assert stream.rows_left_out == 0


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"i," + b",".join(b"%d" % column for column in range(1_000)) + b"\n", "has 1001 columns"),
        (b"i," + b"a" * (2 << 20), "has a line of more than 1048576 bytes"),
    ],
)
def test_what_would_take_too_much_memory_is_refused(file: Path, raw: bytes, message: str) -> None:
    with pytest.raises(Unreadable, match=message):
        stream_of(file, raw)


_UNDER_A_LIMIT = """
import resource, sys
from pathlib import Path
from loopty.evaluators.metrics import MetricsStream
from loopty.kit.safe_folder import SafeFolder
from loopty.kit.untrusted_files import Unreadable
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + (40 << 20),) * 2)
folder, name = SafeFolder(Path(sys.argv[1]).parent), Path(sys.argv[1]).name
stream = MetricsStream(folder.file(name), copy=folder.file(name + ".copy"))
try:
    stream.read_new()
except Unreadable as error:
    print(error)
else:
    print(stream.rows[-1].step if stream.rows else "no rows", stream.rows_left_out)
"""


@pytest.mark.parametrize(
    ("header", "line", "count", "expected"),
    [
        # As seen: 18 MB of short cells took 626 MB.
        (b"i," + b",".join(b"m%d" % column for column in range(90)), b"7" + b",2" * 90, 99_990, "7.0 "),
        (b"i,a", b"7,1", 5 << 20, "7.0 "),
        (b"i,a", b"", 18 << 20, "no rows 0"),
        (b"i,a", b"7,1" + b" " * 190, 1 << 20, "holds 203700004 bytes, more than the 67108864 allowed"),
    ],
    ids=["18 MB of columns", "20 MB of rows", "18 MB of line breaks", "200 MB"],
)
def test_memory_is_bounded_whatever_a_trial_writes(
    file: Path, header: bytes, line: bytes, count: int, expected: str
) -> None:
    with file.open("wb") as out:
        out.write(header + b"\n")
        for _ in range(0, count, 10_000):
            out.write((line + b"\n") * 10_000)
    done = subprocess.run(
        [sys.executable, "-c", _UNDER_A_LIMIT, file], capture_output=True, text=True, timeout=300
    )
    assert done.stdout.startswith(expected), done.stdout + done.stderr
