"""A bounded sample of a long stream of rows: every n-th row, and always the newest."""

from __future__ import annotations

from loopty.domain.curve import Row

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
        """How many rows are not kept."""
        return self._count - len(self.rows)

    @property
    def skip_count(self) -> int:
        """How many of the next rows are not kept, unless one of them is the newest."""
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
    """How many rows of this width are kept: an even number, so that the newest one stays when half of them go."""
    return max(min(_MAX_ROWS, _MAX_CELLS // (len(row.metrics) + 1)), _MIN_ROWS) // 2 * 2
