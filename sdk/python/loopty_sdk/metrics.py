"""The learning curve: a CSV that grows by one complete line per step."""

from __future__ import annotations

import csv
import fcntl
import io
import os
from collections.abc import Iterable, Mapping
from itertools import chain
from numbers import Integral

from .figures import finite_number

STEP_COLUMN = "iteration"


class MetricsStream:
    """The rows of one CSV, which several processes may share; without a path rows are checked but not written."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._columns: list[str] | None = None

    def append(self, step: object, *metrics: Mapping[str, float]) -> None:
        """Add one row. Raises ValueError when its columns differ from the header's."""
        if isinstance(step, bool) or not isinstance(step, Integral):
            raise TypeError(f"step must be an int, not {step!r}; a task's score goes to log_task(task_id, score)")
        row: dict[str, float] = {STEP_COLUMN: int(step)}
        for name, value in chain.from_iterable(part.items() for part in metrics):
            row[_column(name)] = finite_number(value, f"metric {name!r}")
        if len(row) == 1:
            raise ValueError("a row needs at least one metric, as in report(3, accuracy=0.9)")
        if self._path is None:
            self._columns = self._columns or list(row)
            _cells_in_order(row, self._columns)
        else:
            self._append_to(self._path, row)

    def _append_to(self, path: str, row: Mapping[str, float]) -> None:
        # With O_APPEND and one write per line, the lines of several processes never mix.
        stream = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            if self._columns is None:
                # When several processes write their first row at once, only one may write the header.
                fcntl.flock(stream, fcntl.LOCK_EX)
                self._columns = _header_of(path)
                if not self._columns:
                    self._columns = list(row)
                    _write_line(stream, self._columns)
            _write_line(stream, _cells_in_order(row, self._columns))
        finally:
            os.close(stream)


def _column(name: str) -> str:
    if name == STEP_COLUMN or not name.strip() or "\n" in name or "\r" in name:
        raise ValueError(f"a metric cannot be called {name!r}: use one non-empty line other than {STEP_COLUMN!r}")
    return name


def _header_of(path: str) -> list[str]:
    with open(path, encoding="utf-8", newline="") as file:  # noqa: PTH123
        line = file.readline()
    if line and not line.endswith("\n"):
        raise ValueError(f"the header of {path} is cut short: remove the file and start again")
    return next(csv.reader([line]), [])


def _cells_in_order(row: Mapping[str, float], columns: list[str]) -> list[float]:
    if set(row) != set(columns):
        raise ValueError(
            f"this row has the columns {list(row)}, the header has {columns}: "
            "report the same metrics at every step"
        )
    return [row[column] for column in columns]


def _write_line(stream: int, cells: Iterable[object]) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    line = text.getvalue().encode()
    written = os.write(stream, line)
    if written != len(line):
        raise OSError(f"only {written} of {len(line)} bytes of a metrics line were written: is the disk full?")
