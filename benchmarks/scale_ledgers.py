"""Compare the ledgers on a long record: append, best, lineage, the best nodes, pages; PostgreSQL beside SQLite.

python benchmarks/scale.py [--trials N] [--writes N]

PostgreSQL runs on this machine, reached by a unix socket, with fsync off; SQLite is synchronous, as always. CPU is
this process's alone, without the server's.
"""

import argparse
import itertools
import os
import platform
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from loopty.domain.ids import NodeId
from loopty.domain.outcome import Ending, Outcome, Verdict
from loopty.domain.pool import Pool
from loopty.ledgers.open_ledger import open_ledger
from loopty.record.event import Event
from loopty.record.ledger import Ledger
from loopty.record.nodes import NodeAdded
from loopty.record.recorder import Recorder
from loopty.record.trials import TrialEnded, TrialStarted
from loopty.record.verdicts import Incumbents, NodeJudged
from loopty.testing.ledger_suite import run_events
from loopty.testing.postgres_server import PostgresServer
from loopty.views.leaderboard import leaderboard

_NODES_PER_WRITE = 1_000
_CHAIN = 40
"""A node has this many descendants in a row, before the next chain starts at the baseline."""
_PAGE = 50
_REPEATS = 30


@dataclass(frozen=True, slots=True)
class Cost:
    """The median of some repeats, in milliseconds."""

    cpu: float
    wall: float


def main() -> None:
    options = _options()
    server = PostgresServer()
    try:
        with tempfile.TemporaryDirectory() as folder:
            urls = {"SQLite": f"sqlite://{folder}/state/ledger.sqlite", "PostgreSQL": server.url()}
            costs = {name: _measure(url, options.trials, options.writes) for name, url in urls.items()}
    finally:
        server.remove()
    where = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    print(f"\n{options.trials:,} trials ({where}), ms\n")
    print("| what | SQLite: CPU | wall | PostgreSQL: CPU | wall | CPU ratio | wall ratio |")
    print("|---" * 7 + "|")
    for what, ours in costs["SQLite"].items():
        theirs = costs["PostgreSQL"][what]
        cells = (f"{ours.cpu:.3f}", f"{ours.wall:.3f}", f"{theirs.cpu:.3f}", f"{theirs.wall:.3f}")
        print(f"| {what} | {' | '.join(cells)} | ×{theirs.cpu / ours.cpu:.1f} | ×{theirs.wall / ours.wall:.1f} |")
    for name, found in costs.items():
        trial = found["the four writes of a trial"]
        print(
            f"\n{name}: one driver's ledger takes {1000 / trial.wall:.0f} trials a second; with 1,000 workers it "
            f"is the limit when trials last less than {trial.wall:.1f} s"
        )


def _measure(url: str, trials: int, writes: int) -> dict[str, Cost]:
    if url.startswith("sqlite:"):
        Path(url.removeprefix("sqlite://")).parent.mkdir()
    recorder, ids = Recorder(open_ledger(url), time.time), _ids()
    recorder.record(lambda _: run_events())
    for start in range(0, trials, _NODES_PER_WRITE):
        nodes = list(itertools.islice(ids, min(_NODES_PER_WRITE, trials - start)))
        recorder.record(lambda _, nodes=nodes: [event for node in nodes for event in _events(node)])  # type: ignore[misc]
    last = nodes[-1]
    ledger: Ledger = open_ledger(url)
    return {
        "the four writes of a trial": _median(lambda: _append(recorder, next(ids)), writes),
        "open, and the best node": _median(lambda: _best(ledger)),
        f"lineage of {last.depth} nodes": _median(lambda: _lineage(ledger, last)),
        f"the newest {_PAGE} nodes": _median(lambda: _newest(ledger)),
        "the ten best": _median(lambda: leaderboard(ledger.history(), 1, 10), 3),
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


def _newest(ledger: Ledger) -> None:
    history = ledger.history()
    assert all(history[node] for node in history.nodes_of_pool(1, Pool.ATTEMPT)[-_PAGE:])


def _median(work: Callable[[], object], repeats: int = _REPEATS) -> Cost:
    costs = []
    for _ in range(repeats):
        cpu, wall = time.process_time(), time.perf_counter()
        work()
        costs.append((time.process_time() - cpu, time.perf_counter() - wall))
    middle = len(costs) // 2
    return Cost(*(1000 * sorted(values)[middle] for values in zip(*costs, strict=True)))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=1_000_000, help="the length of the record")
    parser.add_argument("--writes", type=int, default=200, help="trials that are appended one by one")
    return parser.parse_args()


if __name__ == "__main__":
    main()
