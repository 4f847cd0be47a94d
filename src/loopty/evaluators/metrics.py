"""The metrics stream of a running trial: a CSV that grows, and a bounded sample of its rows."""

from __future__ import annotations

import contextlib
import csv
import math
import os
import stat
from collections.abc import Iterator, Sequence

from loopty.domain.objective import Direction, Directions
from loopty.domain.trial import Row
from loopty.evaluators.contract import METRICS
from loopty.kit.safe_folder import SafeFile, SafeFolder
from loopty.kit.untrusted_files import Unreadable, is_printable_name

LARGEST_STREAM = 64 << 20
_CHUNK = 256 << 10
_LONGEST_LINE = 1 << 20
_MAX_COLUMNS = 1_000
_HINTS = {"lower is better": Direction.MIN, "higher is better": Direction.MAX}


class MetricsStream:
    """Reads a growing file: each call reads the complete lines that were appended since the last.

    With a `copy`, everything read is also appended there, out of reach of the trial that writes the file. It takes
    little memory, whatever the trial writes: of very many rows only a sample is kept.
    """

    def __init__(self, file: SafeFile, copy: SafeFile | None = None) -> None:
        self._file = file
        self._copy = copy
        self._bytes_read = 0
        self._incomplete_line = b""
        self._names: list[str] | None = None
        self._sample = RowSample()
        self.directions: dict[str, Direction] = {}
        self.rows: Sequence[Row] = self._sample.rows
        """The rows, or every n-th where there are very many; the last one is always the newest."""

    @property
    def rows_left_out(self) -> int:
        return self._sample.left_out

    def read_new(self) -> bool:
        """Read the new rows; returns whether there were any.

        Raises Unreadable when the file breaks the contract.
        """
        newest = self.rows[-1] if self.rows else None
        for chunk in self._new_chunks():
            lines = (self._incomplete_line + chunk).split(b"\n")
            self._incomplete_line = lines.pop()
            self._parse_lines([line for line in lines if line.strip()])
            if len(self._incomplete_line) > _LONGEST_LINE:
                raise Unreadable(f"has a line of more than {_LONGEST_LINE} bytes")
        return bool(self.rows) and self.rows[-1] is not newest

    def _parse_lines(self, lines: Sequence[bytes]) -> None:
        """Read the lines that are kept, and the last one. The others would take minutes if there are millions."""
        position = 0
        if self._names is None and lines:
            # Spreadsheets and some writers put a byte order mark before the header.
            self._names, position = self._parse_header(_cells(lines[0], "utf-8-sig")), 1
        while position < len(lines):
            skip_count = min(self._sample.skip_count, len(lines) - 1 - position)
            self._sample.skip(skip_count)
            self._sample.add(self._parse_row(lines[position + skip_count]))
            position += skip_count + 1

    def _parse_row(self, line: bytes) -> Row:
        assert self._names is not None
        cells = _cells(line, "utf-8")
        if len(cells) != len(self._names) + 1:
            raise Unreadable(f"has a row of {len(cells)} cells under a header of {len(self._names) + 1}")
        values = [_number(cell) for cell in cells]
        return Row(values[0], dict(zip(self._names, values[1:], strict=True)))

    def _parse_header(self, cells: Sequence[str]) -> list[str]:
        names: list[str] = []
        if len(cells) > _MAX_COLUMNS:
            raise Unreadable(f"has {len(cells)} columns, more than the {_MAX_COLUMNS} allowed")
        for cell in cells[1:]:
            name, direction = parse_column(cell)
            if direction is not None:
                self.directions[name] = direction
            names.append(name)
        if not names or not all(map(is_printable_name, names)) or len(set(names)) < len(names):
            raise Unreadable("needs a header: the iteration, then at least one metric, each name once")
        return names

    def _new_chunks(self) -> Iterator[bytes]:
        try:
            descriptor = self._file.open(os.O_RDONLY)
        except FileNotFoundError:
            return
        except OSError:
            raise Unreadable("is a link or cannot be opened") from None
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode) or status.st_nlink != 1:
                raise Unreadable("is not a regular file")
            if status.st_size > LARGEST_STREAM:
                raise Unreadable(f"holds {status.st_size} bytes, more than the {LARGEST_STREAM} allowed")
            if status.st_size < self._bytes_read:
                raise Unreadable("was truncated: rows may only be appended")
            while self._bytes_read < status.st_size:
                chunk = os.pread(descriptor, min(_CHUNK, status.st_size - self._bytes_read), self._bytes_read)
                if not chunk:
                    return
                self._bytes_read += len(chunk)
                if self._copy:
                    self._copy.append(chunk)
                yield chunk
        finally:
            os.close(descriptor)


def parse_column(column: str) -> tuple[str, Direction | None]:
    """Split a column into its name without the hint, and the direction that the hint gives."""
    for hint, direction in _HINTS.items():
        at = column.lower().find(hint)
        if at >= 0:
            rest = column[:at] + column[at + len(hint) :]
            return rest.replace("()", "").replace("[]", "").strip(" \t-,;:") or column.strip(), direction
    return column.strip(), None


def _cells(line: bytes, encoding: str) -> list[str]:
    try:
        (cells,) = csv.reader([line.rstrip(b"\r").decode(encoding)], strict=True)
    except (UnicodeDecodeError, csv.Error, ValueError) as error:
        raise Unreadable(f"has a line that is not valid CSV ({error})") from None
    return cells


def _number(cell: str) -> float:
    try:
        value = float(cell.replace("_", "x"))  # only Python reads 1_000 as a number
    except ValueError:
        raise Unreadable(f"has a cell that is not a number: {cell[:40]!r}") from None
    if not math.isfinite(value):
        raise Unreadable(f"has a cell that is not finite: {cell[:40]!r}")
    return value


def read_curve(folder: SafeFolder) -> tuple[Sequence[Row], Directions]:
    """Read the learning curve in a node's folder."""
    stream = MetricsStream(folder.file(METRICS))
    with contextlib.suppress(Unreadable):
        stream.read_new()
    return stream.rows, stream.directions


_MAX_ROWS = 4_000
_MIN_ROWS = 64
_MAX_CELLS = 100_000
"""A row takes a hundred bytes and sixty for each cell: this is about six megabytes for a trial."""


class RowSample:
    """Keeps every row of a short stream. Which rows of a long one it keeps does not depend on when they came."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        """Oldest first. The same list all the time, so that whoever holds it sees the newest row."""
        self._count = 0
        self._stride = 1
        self._is_newest_extra = False
        """Whether the newest row is kept only until the next one."""

    @property
    def left_out(self) -> int:
        """Count the rows that are not kept."""
        return self._count - len(self.rows)

    @property
    def skip_count(self) -> int:
        """Count how many of the next rows are not kept, unless one of them is the newest."""
        return -self._count % self._stride

    def skip(self, count: int) -> None:
        """Leave out the next rows."""
        self._count += count

    def add(self, row: Row) -> None:
        if self._is_newest_extra:
            self.rows.pop()
        self.rows.append(row)
        self._is_newest_extra = self._count % self._stride != 0
        self._count += 1
        if len(self.rows) > _capacity(row) and not self._is_newest_extra:
            del self.rows[1::2]
            self._stride *= 2


def _capacity(row: Row) -> int:
    """Compute how many rows of this width are kept: even, so that the newest one stays when half of them go."""
    return max(min(_MAX_ROWS, _MAX_CELLS // (len(row.metrics) + 1)), _MIN_ROWS) // 2 * 2
