"""The record as the dashboard reads it: opened once, brought up to date by new events, never rescanned.

Everything here runs in one thread, because a ledger belongs to one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from loopty.campaign.reader import CampaignReader
from loopty.dashboard.run_fold import RunFold, needs_new_fold
from loopty.domain.errors import Misuse
from loopty.kit.records import Record
from loopty.record.event import Recorded
from loopty.record.history import History
from loopty.record.run_record import Run

_MOST_FOLDS = 3
"""Runs that are kept folded."""
_MOST_EVENTS = 20_000
"""With more new events than this, the run is folded anew."""
_CALLS_AT_ONCE = 2_000


class FoldProgress(Record):
    """How far the record is read."""

    what: str
    done: int
    total: int

    @property
    def is_ready(self) -> bool:
        return not self.what


READY = FoldProgress("", 0, 0)


class RecordFeed:
    """The newest state of one repository's record."""

    def __init__(self, path: Path, clock: Callable[[], float] = time.time) -> None:
        self._path = path
        self.clock = clock
        self.reader: CampaignReader | None = None
        self.opening = READY
        """How far a record of an older version is folded anew. Other threads read it."""
        self._folds: dict[int, RunFold] = {}
        self._call_events: dict[int, Iterator[Recorded]] = {}

    @property
    def history(self) -> History:
        if self.reader is None:
            raise Misuse("nothing has run here yet: start with `loopty optimize`")
        return self.reader.record.history

    @property
    def number(self) -> int:
        """The last event that is known; 0 before the first."""
        return self.history.number if self.reader else 0

    def open(self) -> bool:
        """Open the record where there is one."""
        if self.reader is None:
            reader = CampaignReader(self._path)
            try:
                reader.record.read_history(self._note_progress)
            except Misuse as fault:
                if "nothing has run" not in str(fault):
                    raise
                return False
            self.reader, self.opening = reader, READY
        return True

    def _note_progress(self, done: int, total: int) -> None:
        self.opening = FoldProgress("folding the record for this version", done, total)

    def run(self, number: int | None = None) -> Run:
        """The run with this number, or the newest. Raises Misuse where there is none."""
        runs = self.history.runs
        if number is not None and number not in runs:
            raise Misuse(f"there is no run {number}: the runs are 1 to {max(runs)}")
        return runs[max(runs) if number is None else number]

    def fold(self, number: int | None = None) -> RunFold:
        """The fold of a run; one that was not asked for yet begins with the facts of its nodes."""
        run = self.run(number).number
        if run not in self._folds:
            while len(self._folds) >= _MOST_FOLDS:
                self._forget(min(self._folds))
            self._folds[run] = RunFold(self.history, run)
            self._call_events[run] = self._ledger.read_calls()
        return self._folds[run]

    def whole_fold(self, number: int | None = None) -> RunFold:
        """The fold with all its details."""
        fold = self.fold(number)
        while self.read_more(fold.run_number):
            pass
        return fold

    def read_more(self, number: int | None = None) -> bool:
        """Read some more details of a run; False when all are known. Between two calls others are answered."""
        fold = self.fold(number)
        if not fold.is_whole:
            fold.read_details(self.history)
            return True
        events = self._call_events.get(fold.run_number)
        if events is not None and not fold.read_calls(events, _CALLS_AT_ONCE):
            del self._call_events[fold.run_number]
            fold.calls_number = max(fold.calls_number, fold.number)
        return fold.run_number in self._call_events

    def progress(self, number: int | None = None) -> FoldProgress:
        fold = self.fold(number)
        if fold.is_whole and fold.run_number not in self._call_events:
            return READY
        what = "reading nodes" if not fold.is_whole else "reading model calls"
        return FoldProgress(what, fold.columns.detailed, len(fold.columns))

    def update(self) -> dict[int, list[int]]:
        """Take in what was recorded since: the places that changed, by run."""
        if not self.open():
            return {}
        before, ledger = self.number, self._ledger
        ledger.update(self.history)
        if self.number == before:
            return {}
        changed: dict[int, list[int]] = {}
        events: list[Recorded] | None = None
        if self.number - before <= _MOST_EVENTS:
            events = [recorded for recorded in ledger.read(before) if recorded.number <= self.number]
        for run, fold in list(self._folds.items()):
            if events is None or needs_new_fold(fold, self.history):
                self._forget(run)
            else:
                changed[run] = fold.apply(self.history, events)
        return changed

    def _forget(self, run: int) -> None:
        self._folds.pop(run, None)
        self._call_events.pop(run, None)

    @property
    def _ledger(self) -> Any:
        assert self.reader is not None
        return self.reader.record.ledger
