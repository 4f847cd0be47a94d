"""Ledgers as a record grows: append, best, lineage, frontier, pages; SQLite and PostgreSQL beside a thousand.

PostgreSQL runs on this machine, reached by a unix socket, with fsync off; SQLite is synchronous, as always. CPU is
this process's alone, without the server's.
"""

import itertools
import os
import sqlite3
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psycopg
from from_tests import PostgresServer

from loopty.domain.ids import NodeId
from loopty.domain.trial import Ending, Outcome, Pool, Verdict
from loopty.ledgers.open_ledger import open_ledger
from loopty.record.fold import Event
from loopty.record.ledger import Ledger
from loopty.record.node_table import NodeRow
from loopty.record.nodes import NodeAdded
from loopty.record.recorder import Recorder
from loopty.record.trials import TrialEnded, TrialStarted
from loopty.record.verdicts import Incumbents, NodeJudged
from loopty.show.best import leaderboard
from loopty.testing.ledger_suite import run_events

SMALL = 1_000
_NODES_PER_WRITE = 1_000
_CHAIN = 40
"""A node has this many descendants in a row, before the next chain starts at the baseline."""
_PAGE = 50
_REPEATS = 30
_WRITES = 200
_TABLES = {
    "events": "number, at, kind, body, digest, row_sum, seal",
    "runs": "place, run, part, entry, body, digest",
    "nodes": f"{', '.join(NodeRow._fields)}, facts_digest, digest",
    "fold": "version",
}


@dataclass(frozen=True, slots=True)
class QueryCost:
    """The median of some repeats, in milliseconds."""

    cpu: float
    wall: float


def measure_ledgers(trials: int, records: Path, save: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """The costs at a thousand and at `trials` trials; `save` is called with what is there after each ledger.

    A record in the folder `records` is used again, and a half-made one is continued.
    """
    found: dict[str, Any] = {"trials": trials}
    server = PostgresServer()
    try:
        places = {size: _make_ledgers(size, records, server) for size in (SMALL, trials)}
        for name in ("SQLite", "PostgreSQL"):
            for size in places:  # one right after the other, so that both meet the same load
                costs = _measure(places[size][name], size)
                found[f"{name} {size}"] = {what: asdict(cost) for what, cost in costs.items()}
                found[f"load at {name} {size}"] = os.getloadavg()[0]
                save(found)
    finally:
        server.remove()
    return found


def _make_ledgers(size: int, records: Path, server: PostgresServer) -> dict[str, str]:
    """The URLs of two ledgers with this many trials."""
    file = records / str(size) / "ledger.sqlite"
    file.parent.mkdir(parents=True, exist_ok=True)
    _make_record(f"sqlite://{file}", size)
    url = server.url(f"trials{size}")
    _copy_rows(file, url)
    return {"SQLite": f"sqlite://{file}", "PostgreSQL": url}


def ledger_rows(found: dict[str, Any]) -> Iterator[tuple[str, ...]]:
    """A row for each question: CPU at the large size, and its ratio to a thousand, for each ledger."""
    names, trials = ("SQLite", "PostgreSQL"), found["trials"]
    yield (
        "what",
        *(f"{name}: {part}" for name in names for part in ("CPU, ms", "wall, ms", "CPU ratio", "wall ratio")),
    )
    for what in found[f"{names[0]} {trials}"]:
        row = [what]
        for name in names:
            small, large = found[f"{name} {SMALL}"][what], found[f"{name} {trials}"][what]
            row += [f"{large['cpu']:.3f}", f"{large['wall']:.3f}"]
            row += [f"×{large[part] / small[part]:.2f}" for part in ("cpu", "wall")]
        yield tuple(row)


def _make_record(url: str, trials: int) -> None:
    """Write the events of this many trials, after those that are there."""
    recorder, ids = Recorder(open_ledger(url), time.time), _ids()
    if not recorder.history.runs:
        recorder.record(lambda _: run_events())
    done = len(recorder.history.nodes_of_pool(1, Pool.ATTEMPT)) - 1
    for _ in itertools.islice(ids, done):
        pass
    for start in range(done, trials, _NODES_PER_WRITE):
        nodes = list(itertools.islice(ids, min(_NODES_PER_WRITE, trials - start)))
        recorder.record(lambda _, nodes=nodes: [event for node in nodes for event in _events(node)])  # type: ignore[misc]


def _copy_rows(file: Path, url: str) -> None:
    """Copy the rows of a SQLite ledger into an empty one of PostgreSQL: both keep the same rows."""
    open_ledger(url).history()  # makes its tables
    address, schema = url.rpartition("&ledger=")[::2]
    source = sqlite3.connect(file)
    with psycopg.connect(address, options=f"-c search_path={schema}") as target:
        for table, columns in _TABLES.items():
            target.execute(f"TRUNCATE {table}")
            with target.cursor().copy(f"COPY {table} ({columns}) FROM STDIN") as copy:
                for row in source.execute(f"SELECT {columns} FROM {table} ORDER BY 1"):
                    copy.write_row(row)
    with psycopg.connect(address, options=f"-c search_path={schema}", autocommit=True) as target:
        target.execute("VACUUM ANALYZE")
    source.close()


def _measure(url: str, trials: int) -> dict[str, QueryCost]:
    recorder, ids = Recorder(open_ledger(url), time.time), _ids()
    present = len(recorder.history.nodes_of_pool(1, Pool.ATTEMPT)) - 1
    last = list(itertools.islice(ids, present))[-1]
    ledger: Ledger = open_ledger(url)
    return {
        "append: the four writes of a trial": _median(lambda: _append(recorder, next(ids)), _WRITES),
        "open, and the best node": _median(lambda: _best(ledger)),
        f"lineage of {last.depth} nodes": _median(lambda: _lineage(ledger, last)),
        "frontier: the ten best": _median(lambda: leaderboard(ledger.history(), 1, 10), 3),
        f"page: the newest {_PAGE} nodes": _median(lambda: _newest(ledger)),
        f"page: {_PAGE} nodes in the middle": _median(lambda: _newest(ledger, trials // 2)),
    }


def _ids() -> Iterator[NodeId]:
    for number in itertools.count(1):
        node = NodeId("1").child(number)
        for _ in range(_CHAIN):
            yield node
            node = node.child(1)


def _events(node: NodeId) -> Sequence[Event]:
    """The events of a node that is measured once and discarded."""
    score = hash(node) % 10_000 / 10_000
    added = NodeAdded(node, Pool.ATTEMPT, "hand", "a change", "c0" * 20, "e0" * 20, {"x": score})  # type: ignore[arg-type]
    outcome = Outcome(Ending.FINISHED, {"score": score}, seconds=1.0)
    reason = "worse: score 0.5 against 0.9 of 1"
    return (
        added,
        TrialStarted(node, 1, Pool.ATTEMPT, "bench"),
        TrialEnded(node, 1, outcome),
        NodeJudged(node, Verdict.DISCARDED, reason, NodeId("1")),
    )


def _append(recorder: Recorder, node: NodeId) -> None:
    for event in _events(node):
        recorder.record(lambda _, event=event: [event])  # type: ignore[misc]


def _best(ledger: Ledger) -> None:
    history = ledger.history()
    best = Incumbents.of(history.runs[1], Pool.ATTEMPT).best
    assert history[best or NodeId("1")]


def _lineage(ledger: Ledger, node: NodeId | None) -> None:
    history = ledger.history()
    while node:
        node = history[node].id.parent


def _newest(ledger: Ledger, before: int = 0) -> None:
    """Read a page of nodes that ends this many before the newest."""
    history = ledger.history()
    nodes = history.nodes_of_pool(1, Pool.ATTEMPT)
    end = len(nodes) - before
    assert all(history[node] for node in nodes[end - _PAGE : end])


def _median(work: Callable[[], object], repeats: int = _REPEATS) -> QueryCost:
    costs = []
    for _ in range(repeats):
        cpu, wall = time.process_time(), time.perf_counter()
        work()
        costs.append((time.process_time() - cpu, time.perf_counter() - wall))
    middle = len(costs) // 2
    return QueryCost(*(1000 * sorted(values)[middle] for values in zip(*costs, strict=True)))
