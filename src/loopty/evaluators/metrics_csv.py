"""The metrics stream: a CSV that grows while the trial runs. Its first column is the iteration, then metrics."""

from __future__ import annotations

import csv
import math
import os
import stat
from collections.abc import Sequence

from loopty.domain.curve import Row
from loopty.domain.objective import Direction
from loopty.kit.safe_folder import SafeFile
from loopty.kit.untrusted_files import Unreadable, is_printable_name

LARGEST_STREAM = 64 << 20
_MAX_ROWS = 100_000
_HINTS = {"lower is better": Direction.MIN, "higher is better": Direction.MAX}


class MetricsStream:
    """Reads a growing file: each call reads the complete lines that were appended since the last.

    With a `copy`, everything read is also appended there, out of reach of the trial that writes the file.
    """

    def __init__(self, file: SafeFile, copy: SafeFile | None = None) -> None:
        self._file = file
        self._copy = copy
        self._bytes_read = 0
        self._incomplete_line = b""
        self._names: list[str] | None = None
        self.directions: dict[str, Direction] = {}
        self.rows: list[Row] = []

    def read_new(self) -> bool:
        """Read the new rows; returns whether there were any.

        Raises Unreadable when the file breaks the contract.
        """
        before = len(self.rows)
        lines = (self._incomplete_line + self._read_appended()).split(b"\n")
        self._incomplete_line = lines.pop()
        for line in lines:
            self._parse_line(line.rstrip(b"\r"))
        return len(self.rows) > before

    def _parse_line(self, line: bytes) -> None:
        if not line.strip():
            return
        try:
            # Spreadsheets and some writers put a byte order mark before the header.
            (cells,) = csv.reader([line.decode("utf-8" if self._names else "utf-8-sig")], strict=True)
        except (UnicodeDecodeError, csv.Error, ValueError) as error:
            raise Unreadable(f"has a line that is not valid CSV ({error})") from None
        if self._names is None:
            self._names = self._parse_header(cells)
            return
        if len(cells) != len(self._names) + 1:
            raise Unreadable(f"has a row of {len(cells)} cells under a header of {len(self._names) + 1}")
        if len(self.rows) >= _MAX_ROWS:
            raise Unreadable(f"has more than {_MAX_ROWS} rows")
        values = [_number(cell) for cell in cells]
        self.rows.append(Row(values[0], dict(zip(self._names, values[1:], strict=True))))

    def _parse_header(self, cells: Sequence[str]) -> list[str]:
        names = []
        for cell in cells[1:]:
            name, direction = parse_column(cell)
            if direction is not None:
                self.directions[name] = direction
            names.append(name)
        if not names or not all(map(is_printable_name, names)) or len(set(names)) < len(names):
            raise Unreadable("needs a header: the iteration, then at least one metric, each name once")
        return names

    def _read_appended(self) -> bytes:
        try:
            descriptor = self._file.open(os.O_RDONLY)
        except FileNotFoundError:
            return b""
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
            chunk = os.pread(descriptor, status.st_size - self._bytes_read, self._bytes_read)
            self._bytes_read += len(chunk)
            if self._copy and chunk:
                self._copy.append(chunk)
            return chunk
        finally:
            os.close(descriptor)


def parse_column(column: str) -> tuple[str, Direction | None]:
    """The name of a column without the hint, and the direction that the hint gives."""
    for hint, direction in _HINTS.items():
        at = column.lower().find(hint)
        if at >= 0:
            rest = column[:at] + column[at + len(hint) :]
            return rest.replace("()", "").replace("[]", "").strip(" \t-,;:") or column.strip(), direction
    return column.strip(), None


def _number(cell: str) -> float:
    try:
        value = float(cell.replace("_", "x"))  # only Python reads 1_000 as a number
    except ValueError:
        raise Unreadable(f"has a cell that is not a number: {cell[:40]!r}") from None
    if not math.isfinite(value):
        raise Unreadable(f"has a cell that is not finite: {cell[:40]!r}")
    return value
