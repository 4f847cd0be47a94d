"""Pushes what changes to all viewers: folded once, encoded once, at most twice a second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from msgspec import Struct

from loopty.domain.errors import LooptyError
from loopty.kit.records import field
from loopty.web.api import DashboardApi, encode
from loopty.web.columns import MARKS
from loopty.web.record import RecordFeed

T = TypeVar("T")
InThread = Callable[[Callable[[], T]], Awaitable[T]]
TICK_SECONDS = 0.5
_IDLE_TICK_SECONDS = 2.0
_NOW_SECONDS = 1.0
_QUIET_SECONDS = 2.0
"""After this, an overview also tells what changed beside the nodes: a pause, a limit, a directive, a call."""
_POLITE_SECONDS = 0.25
"""For so long after a question, details of a long record wait."""
HEARTBEAT_SECONDS = 15.0
_MOST_WAITING = 64
_MOST_NODES = 400
MOST_VIEWERS = 200


class Viewer(Struct, eq=False):
    """One open page. Messages that it does not take in time end its stream; it then asks for everything anew."""

    run: int | None
    messages: asyncio.Queue[bytes] = field(default_factory=lambda: asyncio.Queue(_MOST_WAITING))
    is_lost: bool = False

    def put(self, message: bytes) -> None:
        if self.messages.full():
            self.is_lost = True
        else:
            self.messages.put_nowait(message)


def message(kind: str, data: Any, number: int) -> bytes:
    """Encode one event of the stream."""
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (number, kind.encode(), encode(data))


class LiveFeed:
    """The viewers, and the loop that folds new events for all of them."""

    def __init__(self, api: DashboardApi, in_thread: Callable[..., Awaitable[Any]]) -> None:
        self._api = api
        self._in_thread = in_thread
        self.viewers: set[Viewer] = set()
        self._last_now: dict[int | None, bytes] = {}
        self._now_at = 0.0
        self._newest: int | None = None
        self._is_ready = False
        self._changed: dict[int, list[int]] = {}
        """The places that changed since the last tick, by run."""
        self._asked_at = 0.0
        self._told: dict[int | None, tuple[int, float]] = {}
        """The last event that an overview told, and when, by run."""

    @property
    def _feed(self) -> RecordFeed:
        return self._api.feed

    async def join(self, run: int | None, last_event: int | None) -> Viewer:
        """Add a viewer with its first messages. `last_event` is the last one that it saw before it was cut off."""
        viewer = Viewer(run)
        for each in await self._in_thread(lambda: self._first_messages(run, last_event)):
            viewer.put(each)
        self.viewers.add(viewer)
        return viewer

    def leave(self, viewer: Viewer) -> None:
        self.viewers.discard(viewer)

    def _first_messages(self, run: int | None, last_event: int | None) -> list[bytes]:
        feed = self._feed
        if feed.reader is None:
            return [message("hello", {"event": 0, "run": None, "now": feed.clock()}, 0)]
        number, fold = feed.number, feed.fold(run)
        found = [message("hello", {"event": number, "run": fold.run_number, "now": feed.clock()}, number)]
        if last_event:
            places = fold.changes_since(last_event) if last_event <= number else None
            if places is None or len(places) > _MOST_NODES:
                found.append(message("reset", {"event": number, "run": fold.run_number}, number))
            elif places:
                found.append(self._nodes_message(fold.run_number, places))
        return [*found, self._overview_message(run)]

    def _overview_message(self, run: int | None) -> bytes:
        data = self._api.overview({"run": str(run)} if run else {})
        self._told[run] = self._feed.number, time.monotonic()
        return message("overview", data, self._feed.number)

    def _is_overdue(self, run: int | None) -> bool:
        """Say whether events were taken in that no overview has told, for a while."""
        number, at = self._told.get(run, (0, 0.0))
        return self._feed.number > number and time.monotonic() - at >= _QUIET_SECONDS

    async def follow(self) -> None:
        """Fold and push until this is cancelled."""
        while True:
            began = time.monotonic()
            runs = {viewer.run for viewer in self.viewers}
            try:
                messages = await self._in_thread(lambda runs=runs: self._collect(runs))
            except (LooptyError, OSError):  # a ledger that cannot be read now; each request says why
                messages, self._is_ready = [], True
            for run, each in messages:
                for viewer in tuple(self.viewers):
                    if run is _ALL or viewer.run == run:
                        viewer.put(each)
            wait = TICK_SECONDS if self.viewers or not self._is_ready else _IDLE_TICK_SECONDS
            await asyncio.sleep(max(wait - (time.monotonic() - began), 0.01) if self._is_ready else self._pause())

    def note_question(self) -> None:
        """Note that someone waits for an answer: details are read later."""
        self._asked_at = time.monotonic()

    def _pause(self) -> float:
        """Return the seconds between two slices of details; an opening page asks several questions in a row."""
        return _POLITE_SECONDS if time.monotonic() - self._asked_at < _POLITE_SECONDS else 0.01

    def take_in(self) -> None:
        """Fold new events now; viewers hear of them with the next tick. In the thread that owns the record."""
        for run, places in self._feed.update().items():
            self._changed.setdefault(run, []).extend(places)

    def _collect(self, runs: set[int | None]) -> list[tuple[Any, bytes]]:
        """Take new events in, and say what they change, for each run that somebody looks at."""
        feed, found = self._feed, list[tuple[Any, bytes]]()
        self.take_in()
        changed, self._changed = self._changed, {}
        self._told = {run: told for run, told in self._told.items() if run in runs}
        if feed.reader is None:
            self._is_ready = True
            return []
        newest = feed.run().number
        if self._newest not in (None, newest):
            data = {"event": feed.number, "run": newest}
            found.append((None, message("reset", data, feed.number)))
        self._newest = newest
        was_ready, self._is_ready = self._is_ready, not feed.read_more(newest)
        if not self._is_ready:
            progress = feed.progress(newest)
            data = dict[str, Any](what=progress.what, done=progress.done, total=progress.total)
            if time.monotonic() - self._now_at > TICK_SECONDS and runs:
                self._now_at = time.monotonic()
                found.append((_ALL, message("progress", data, feed.number)))
            return found
        if not was_ready:
            found += [(run, self._overview_message(run)) for run in runs]
        for run in runs:
            number = newest if run is None else run
            if places := changed.get(number):
                found += self._changes(run, number, places)
            elif self._is_overdue(run):
                found.append((run, self._overview_message(run)))
        if time.monotonic() - self._now_at >= _NOW_SECONDS:
            self._now_at = time.monotonic()
            found += [(run, each) for run in runs if (each := self._now_message(run))]
        return found

    def _changes(self, run: int | None, number: int, places: list[int]) -> list[tuple[Any, bytes]]:
        feed = self._feed
        overview = (run, self._overview_message(run))
        if len(places) > _MOST_NODES:
            return [(run, message("reset", {"event": feed.number, "run": number}, feed.number)), overview]
        return [(run, self._nodes_message(number, places)), overview]

    def _nodes_message(self, run: int, places: list[int]) -> bytes:
        feed, fold = self._feed, self._feed.fold(run)
        columns, unique = fold.columns, sorted(set(places))
        ids = columns.ids(feed.history, unique)
        rows = []
        for place in unique:
            parent = columns.parents[place]
            rows.append(
                [
                    columns.handles[place],
                    place + 1,
                    columns.times[place],
                    fold.calls.cost_at(columns.times[place]),
                    columns.score(place),
                    MARKS[columns.marks[place]],
                    ids.get(place, ""),
                    columns.handles[parent] if parent >= 0 else None,
                    columns.summaries[place],
                    columns.operator(place),
                ]
            )
        data = {"event": feed.number, "run": run, "nodes": rows, "counts": fold.counts()}
        return message("nodes", data, feed.number)

    def _now_message(self, run: int | None) -> bytes | None:
        data = self._api.running({"run": str(run)} if run else {})
        shown = encode({**data, "now": 0})
        if self._last_now.get(run) == shown:
            return None
        self._last_now = {run: shown, **{key: value for key, value in self._last_now.items() if key != run}}
        if len(self._last_now) > 8:
            self._last_now.popitem()
        return message("now", data, self._feed.number)


_ALL = object()
