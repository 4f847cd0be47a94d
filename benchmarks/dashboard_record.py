"""A long record of made-up trials, as a night leaves it: for measuring the dashboard, in loopty's own environment.

Called as `python dashboard_record.py TRIALS [PER_SECOND]` in a git repository; it begins a run, or goes on.
With PER_SECOND it takes its time, and prints the CPU seconds that it took.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from loopty.domain.ids import NodeId
from loopty.domain.objective import Objective
from loopty.domain.trial import Ending, Outcome, Pool, Verdict
from loopty.git.folders import GitFolders
from loopty.ledgers.open_ledger import open_ledger
from loopty.record.fold import Event
from loopty.record.history import History
from loopty.record.nodes import NodeAdded
from loopty.record.recorder import Recorder
from loopty.record.sessions import RunStarted
from loopty.record.trials import TrialEnded, TrialStarted
from loopty.record.verdicts import Incumbents, NodeJudged
from loopty.workspaces.state_folder import StateFolder

_BATCH = 500
_FINGERPRINT = "made-up"
_KEPT_EVERY = 300


def main(trials: int, per_second: float | None) -> None:
    state = StateFolder.of(GitFolders.find(Path.cwd()))
    state.prepare()
    clock = Clock()
    recorder = Recorder(open_ledger(state.ledger_url), clock)
    chance = random.Random(trials)
    if not recorder.history.runs:
        recorder.record(lambda _: baseline())
    if per_second is None:
        for start in range(0, trials, _BATCH):
            count = min(_BATCH, trials - start)
            recorder.record(lambda history, count=count: several(history, chance, count))  # type: ignore[misc]
        return
    began, cpu = time.monotonic(), time.process_time()
    for number in range(trials):
        for event in trial(recorder.history, chance):
            recorder.record(lambda _, event=event: [event])  # type: ignore[misc]
        time.sleep(max(began + (number + 1) / per_second - time.monotonic(), 0.0))
    print(time.process_time() - cpu, flush=True)


class Clock:
    """Time goes three seconds on with every event: a night in a minute."""

    def __init__(self) -> None:
        self._now = time.time() - 12 * 3600

    def __call__(self) -> float:
        self._now += 0.75
        return self._now


def baseline() -> Iterator[Event]:
    root = NodeId("1")
    yield RunStarted(1, "made-up", Objective(), 0, "the first run", secret="none")
    yield NodeAdded(root, Pool.ATTEMPT, "baseline", "the code as it is", "a" * 40, "b" * 40)
    yield TrialStarted(root, 1, Pool.ATTEMPT, "bench")
    outcome = Outcome(Ending.FINISHED, {"score": 1.0}, fingerprint=_FINGERPRINT, seconds=1.0)
    yield TrialEnded(root, 1, outcome)
    yield NodeJudged(root, Verdict.KEPT, "the baseline")


def several(history: History, chance: random.Random, count: int) -> Iterator[Event]:
    for _ in range(count):
        yield from trial(history, chance)


def trial(history: History, chance: random.Random) -> Iterator[Event]:
    """One trial of the best node or, as control, of the baseline."""
    is_control = chance.random() < 0.2
    pool = Pool.CONTROL if is_control else Pool.ATTEMPT
    best = Incumbents.of(history.runs[1], Pool.ATTEMPT).best or NodeId("1")
    parent = NodeId("1") if is_control else best
    node = parent.child(history[parent].children + 1)
    number = history.count
    tree = f"{number:040x}"
    base = history[parent].outcome
    score = (base.metrics["score"] if base else 1.0) * (1 + chance.gauss(-0.02, 0.02))
    operator = chance.choice(["mutate:number", "mutate:statement", "tpe", "diff"])
    yield NodeAdded(
        node, pool, operator, f"change {number} of a made-up night", tree, tree, {"x": chance.random()}
    )
    yield TrialStarted(node, 1, pool, "bench")
    if chance.random() < 0.08:
        failure = Outcome(Ending.FAILED, reason="exit code 1", seconds=1.0, fingerprint=_FINGERPRINT)
        yield TrialEnded(node, 1, failure)
        yield NodeJudged(node, Verdict.DISCARDED, "failed: exit code 1", parent)
        return
    is_kept = not is_control and chance.randrange(_KEPT_EVERY) == 0
    if is_kept:
        score = (base.metrics["score"] if base else 1.0) * 1.002
    outcome = Outcome(Ending.FINISHED, {"score": score}, seconds=1.0, fingerprint=_FINGERPRINT)
    yield TrialEnded(node, 1, outcome)
    verdict = Verdict.KEPT if is_kept else chance.choice([Verdict.DISCARDED] * 9 + [Verdict.INCONCLUSIVE])
    yield NodeJudged(node, verdict, "worse" if not is_kept else "better", parent)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]) if len(sys.argv) > 2 else None)
