"""The questions that the page asks, by path. Runs in the thread that owns the record."""

from __future__ import annotations

import contextlib
import gzip
import json
import math
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import msgspec

from loopty.campaign.campaign import Campaign
from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.task import Audit, Task
from loopty.domain.trial import Pool
from loopty.kit.records import Record, as_dict
from loopty.record.nodes import NodeCount
from loopty.record.trials import TrialCounts
from loopty.session.queries import task_of_run, task_or_none
from loopty.session.reader import CampaignReader
from loopty.show.audits import AuditRow
from loopty.version import __version__
from loopty.web import agents, charts, comparison, node_files, tree
from loopty.web.answers import slots_answer
from loopty.web.charts import chart_points
from loopty.web.node import node_answer
from loopty.web.node_files import running_rows
from loopty.web.overview import Overview
from loopty.web.record import FoldProgress, RecordFeed

Query = Mapping[str, str]
_MOST_CACHED = 64
_LARGEST_CACHED = 1 << 20
_FRESH_SECONDS = 1.0
_UPLIFT_SECONDS = 5.0
_TASK_SECONDS = 2.0
_QUICK_NODES = 2_000
"""A run of so many nodes is read whole before the first answer."""


class Missing(Exception):  # noqa: N818
    """There is no such path."""


class Encoded(Record):
    """An answer as it is sent."""

    body: bytes
    packed: bytes
    event: int


def encode(data: Any) -> bytes:
    """Encode JSON with all records in it; NaN and infinity, which browsers do not read, become null."""
    plain = as_dict(data)
    try:
        return msgspec.json.encode(plain)
    except UnicodeEncodeError:  # half of a surrogate pair, from a file that is not text
        text = json.dumps(plain, ensure_ascii=False).encode(errors="replace")
        return msgspec.json.encode(json.loads(text, parse_constant=lambda _: None))


class DashboardApi:
    """Answers of one server. Equal questions between two events get the same bytes."""

    def __init__(self, feed: RecordFeed, name: str, top: Path) -> None:
        self.feed = feed
        self.name = name
        self._top = top
        self._cache: OrderedDict[tuple[str, tuple[tuple[str, str], ...]], tuple[float, Encoded]] = OrderedDict()
        self._uplifts: dict[int, tuple[int, float, Any]] = {}
        self._audits: dict[int, tuple[object, list[AuditRow]]] = {}
        self._task: tuple[float, Task | None] = (-math.inf, None)
        self._paths: dict[str, tuple[Callable[[Query], Any], bool]] = {
            "overview": (self.overview, True),
            "running": (self.running, True),
            "points": (self._points, False),
            "log": (self._log, False),
            "map": (self._map, False),
            "compare": (self._compare, False),
            "compare-runs": (self._compare_runs, False),
            "parameters": (self._parameters, False),
            "operators": (self._operators, False),
            "agents": (self._agents, True),
            "audit": (self._audit, False),
            "find": (self._find, False),
        }
        """By path: the function, and whether its answer changes with time alone."""

    def answer(self, path: str, query: Query) -> Encoded:
        """Answer a question. Raises Missing, Misuse."""
        key, now = (path, tuple(sorted(query.items()))), time.monotonic()
        if (known := self._cache.get(key)) and known[1].event == self.feed.number and now <= known[0]:
            return known[1]
        data, lasts = self._find_answer(path, query)
        body = encode(data)
        packed = gzip.compress(body, 3, mtime=0) if len(body) > 1_000 else b""
        found = Encoded(body, packed, self.feed.number)
        if len(body) <= _LARGEST_CACHED:
            self._cache[key] = now + (_FRESH_SECONDS if not lasts else math.inf), found
            while len(self._cache) > _MOST_CACHED:
                self._cache.popitem(last=False)
        return found

    def _find_answer(self, path: str, query: Query) -> tuple[Any, bool]:
        """Return the answer, and whether it lasts until the next event."""
        name, _, rest = path.partition("/")
        if not rest and name in self._paths:
            function, is_timely = self._paths[name]
            return function(query), not is_timely
        if name == "node" and rest:
            return self._node(rest, query), False
        if name == "trial" and rest.endswith("/tail"):
            trial = unquote(rest.removesuffix("/tail"))
            if "#" not in trial:
                raise Missing
            try:
                return node_files.trial_tail(self.reader, trial, *_range(query)), False
            except ValueError:
                raise Missing from None
        raise Missing

    def session(self, actions: list[str], progress: FoldProgress) -> dict[str, Any]:
        """Return what the page needs first. `progress` is that of opening the record, if that is not done."""
        runs: list[dict[str, Any]] = []
        if progress.is_ready and self.feed.reader is not None:
            history = self.feed.history
            newest = max(history.runs)
            for number, run in sorted(history.runs.items())[-100:]:
                state = "stopped" if number != newest else self._status(number).word
                nodes = NodeCount.of(run).nodes
                runs.append(
                    {"run": number, "started_at": run.started_at, "state": state, "nodes": nodes, "why": run.why}
                )
            progress = self.feed.progress()
        return {
            "version": __version__,
            "task": self.name,
            "runs": runs,
            "run": runs[-1]["run"] if runs else None,
            "actions": actions,
            "now": self.feed.clock(),
            "event": self.feed.number,
            "fold": {
                "ready": progress.is_ready,
                "what": progress.what,
                "done": progress.done,
                "total": progress.total,
            },
        }

    @property
    def reader(self) -> CampaignReader:
        if self.feed.reader is None:
            raise Misuse("nothing has run here yet: start with `loopty run`")
        return self.feed.reader

    def task(self) -> Task | None:
        """Return the task file, read again every other second."""
        now = time.monotonic()
        if now - self._task[0] > _TASK_SECONDS:
            self._task = now, task_or_none(self._top)
        return self._task[1]

    def _task_of(self, run: int) -> Task | None:
        task = self.task()
        return task_of_run(task, self.feed.history.runs[run]) if task else None

    def overview(self, query: Query) -> dict[str, Any]:
        fold = self.feed.fold(_run(query))
        if len(fold.columns) <= _QUICK_NODES:
            fold = self.feed.whole_fold(fold.run_number)
        status, now = self._status(fold.run_number), self.feed.clock()
        # Audits are read from the events: of a long run after its first view.
        audits = (self.read_audits if self.feed.progress(fold.run_number).is_ready else self._known_audits)(
            fold.run_number
        )
        task = self._task_of(fold.run_number)
        made = Overview(
            history=self.feed.history,
            fold=fold,
            status=status,
            task=task,
            uplift=self._uplift(fold.run_number),
            audits=audits,
            now=now,
        )
        return made.answer(self.name, self._rows(fold.run_number, status, now))

    def running(self, query: Query) -> dict[str, Any]:
        run = self.feed.run(_run(query)).number
        status, now = self._status(run), self.feed.clock()
        task = self.task()
        return {
            "event": self.feed.number,
            "now": now,
            "running": self._rows(run, status, now),
            "slots": slots_answer(status, task.width if task else None),
        }

    def read_audits(self, run: int) -> list[AuditRow] | None:
        """List looks at the held-out split; read again when there are more of them. None without a split."""
        task = self.task()
        if task is None or task.audit == Audit():
            return None
        known = dict(TrialCounts.of(self.feed.run(run), Pool.AUDIT).endings)
        if known and self._audits.get(run, ({}, []))[0] != known:
            rows: list[AuditRow] = []
            with contextlib.suppress(Misuse):
                rows = Campaign(self._top).audits(run)
            self._audits[run] = known, rows
        return self._known_audits(run)

    def _known_audits(self, run: int) -> list[AuditRow]:
        return self._audits.get(run, ({}, []))[1]

    def _status(self, run: int) -> Any:
        return self.reader.status(run)

    def _rows(self, run: int, status: Any, now: float) -> list[dict[str, Any]]:
        history = self.feed.history
        return running_rows(history, history.runs[run], status, self.reader.record.state, self.task(), now)

    def _uplift(self, run: int) -> Any:
        """Return the uplift over the control; a long run's is computed again only every few seconds."""
        fold, now = self.feed.fold(run), time.monotonic()
        known = self._uplifts.get(run)
        if known and (known[0] == fold.number or (len(fold.columns) > 2_000 and now - known[1] < _UPLIFT_SECONDS)):
            return known[2]
        found = comparison.feed_uplift(self.feed, fold)
        self._uplifts[run] = fold.number, now, found
        return found

    def _points(self, query: Query) -> Any:
        axis = query.get("x", "experiment")
        run = _run(query)
        fold = self.feed.fold(run) if axis == "experiment" else self.feed.whole_fold(run)
        return chart_points(self.feed.history, fold, axis, _number(query, "w", 960), _number(query, "h", 360))

    def _log(self, query: Query) -> Any:
        fold = self.feed.whole_fold(_run(query))
        after, limit = max(_number(query, "after", 0), 0), _number(query, "limit", 100)
        return tree.log_rows(self.feed.history, fold, after, limit, query.get("branch", ""))

    def _map(self, query: Query) -> Any:
        return tree.map_nodes(self.feed.history, self.feed.whole_fold(_run(query)), query.get("top", ""))

    def _compare(self, query: Query) -> Any:
        one, other = (self._find_node(query.get(name, "")) for name in ("a", "b"))
        return comparison.compare_nodes(self.feed, self.reader, one, other)

    def _compare_runs(self, query: Query) -> Any:
        one, other = (self.feed.run(_number(query, name, 0)).number for name in ("a", "b"))
        return comparison.compare_runs(self.feed, self.reader, one, other)

    def _parameters(self, query: Query) -> Any:
        fold = self.feed.fold(_run(query))
        return charts.parameters_answer(self.feed.history, fold, self._task_of(fold.run_number))

    def _operators(self, query: Query) -> Any:
        return charts.operators_answer(self.feed.history, self.feed.whole_fold(_run(query)))

    def _agents(self, query: Query) -> Any:
        fold = self.feed.whole_fold(_run(query))
        status, now = self._status(fold.run_number), self.feed.clock()
        return agents.agents_answer(self.feed.history, fold, status, self.task(), now, self._top)

    def _audit(self, query: Query) -> Any:
        fold = self.feed.whole_fold(_run(query))
        return agents.audit_answer(self.reader, fold, self.read_audits(fold.run_number), self.task())

    def _find(self, query: Query) -> Any:
        fold = self.feed.whole_fold(_run(query))
        return tree.find_nodes(self.feed.history, fold, query.get("q", ""), _number(query, "limit", 20))

    def _node(self, rest: str, query: Query) -> Any:
        name, _, part = rest.partition("/")
        node, reader = self._find_node(unquote(name)), self.reader
        if not part:
            fold = self.feed.whole_fold(node.run)
            return node_answer(reader, fold, node, self.read_audits(node.run))
        log = query.get("name", "stdout.log")
        parts: dict[str, Callable[[], Any]] = {
            "diff": lambda: node_files.diff_answer(reader, node, query.get("against", "parent")),
            "calls": lambda: node_files.call_answers(reader, node),
            "log": lambda: node_files.log_part(reader, node, log, *_range(query)),
            "trace": lambda: node_files.trace_text(reader, node, query.get("task", "")),
            "curve": lambda: node_files.curve(reader, node),
            "raw": lambda: node_files.raw_record(reader, node),
        }
        if part not in parts:
            raise Missing
        return parts[part]()

    def _find_node(self, text: str) -> NodeId:
        if not text or len(text) > 20_000:
            raise Misuse("name a node: its id, `@431`, or `best`")
        return self.feed.history[self.reader.find_node(text)].id


def _run(query: Query) -> int | None:
    return _number(query, "run", 0) if query.get("run") else None


def _number(query: Query, name: str, default: int) -> int:
    text = query.get(name, "")
    if not text:
        return default
    try:
        return int(text[:18])
    except ValueError:
        raise Misuse(f"{name} is a whole number") from None


def _range(query: Query) -> tuple[int, int]:
    count = _number(query, "bytes", 1 << 16)
    return _number(query, "from", 0), count
