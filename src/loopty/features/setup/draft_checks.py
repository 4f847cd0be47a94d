"""Writes a draft as the task file and measures it: result, cost, direction, files that it never loads."""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import resource
import shlex
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Protocol

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.proposal import complete_params
from loopty.domain.task_tables import ResourceProfile
from loopty.domain.trial import Outcome, Pool
from loopty.engine.protocols import Trial
from loopty.features.setup.causes.builds import NO_TEST_RAN
from loopty.features.setup.causes.results import NO_RESULT, has_built_nothing, has_run_no_tests, is_only_usage
from loopty.features.setup.causes.this_host import known_cause
from loopty.features.setup.proven_task import MeasuredNoise
from loopty.features.setup.task_draft import TaskDraft
from loopty.features.setup.template import write_task_file
from loopty.kit import paths
from loopty.kit.process import at_work_end
from loopty.kit.records import Record, replace
from loopty.record.node_record import Node
from loopty.sandboxes.resource_usage import threads_of_tree
from loopty.session.by_hand import CheckResult, check_trial_result
from loopty.session.context import CampaignContext
from loopty.session.runs import BASELINE
from loopty.show.explanation import Explanation
from loopty.workspaces.state_folder import StateFolder


def lock_init(state: StateFolder) -> None:
    """Keep every other `init` of this repository out until this work or process ends. Raises Misuse."""
    state.prepare()
    descriptor = state.init_lock.open(os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
        os.close(descriptor)
        process = f" (process {holder})" if holder.isdecimal() else ""
        raise Misuse(
            f"another `loopty init` works in this repository{process}: wait until it ends, then try again"
        ) from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    at_work_end(functools.partial(os.close, descriptor))


_NOISE_SECONDS = 30.0
_MOST_RUNS = 5
_FEWEST_RUNS = 3
_NOTHING_BUILT = "the command ended well, and nothing was compiled"
_ONLY_USAGE = "the command ended well, and only printed how it is used: give it its arguments, with --command"


class TimedCheck(Record):
    """A check, and how long it took."""

    result: CheckResult
    seconds: float

    @property
    def gate_seconds(self) -> float:
        """Return about how long the gates took."""
        return self.seconds - self.result.outcome.seconds


class _Facade(Protocol):
    """What of the facade checks need."""

    def trust(self, only_task_file: bool = False) -> object: ...

    def check(self, node: str | None = None, unsafe: bool = False) -> CheckResult: ...


class DraftChecks:
    """Checks drafts in the repository around a folder."""

    def __init__(self, campaign: Callable[[], _Facade], path: Path, unsafe: bool) -> None:
        self._campaign = campaign
        self._path = path
        self._unsafe = unsafe

    def write(self, draft: TaskDraft) -> None:
        write_task_file(self._path, draft)
        self._campaign().trust(only_task_file=True)  # what the user has just written, the user allows

    def run(self, draft: TaskDraft) -> TimedCheck:
        """Check a draft; the check fails if it measured nothing."""
        started_at = time.monotonic()
        self.write(draft)
        check = self.run_again()
        seconds = time.monotonic() - started_at
        if check.problem is not None:
            return TimedCheck(_without_timing(draft, check), seconds)
        if draft.times_the_tests and has_run_no_tests(check.output):
            cause = known_cause(self._path, NO_TEST_RAN, (), output=check.output)
            check = replace(check, problem=NO_TEST_RAN, explanation=Explanation((), "", cause))
        elif draft.last_resort and has_built_nothing(draft.command, check.output, _score(check)):
            check = replace(check, problem=_NOTHING_BUILT)
        elif draft.is_cpu_time and is_only_usage(check.output):
            check = replace(check, problem=_ONLY_USAGE)
        return TimedCheck(check, seconds)

    def run_again(self) -> CheckResult:
        """Check the file as it is."""
        return self._campaign().check(unsafe=self._unsafe)

    def noise(self, draft: TaskDraft, first: CheckResult, seconds: float) -> MeasuredNoise | None:
        """Measure the spread of as many more runs as take half a minute, or these seconds if that is less.

        The gates have passed already.
        """
        budget = min(_NOISE_SECONDS, seconds)
        runs = min(_MOST_RUNS, 1 + int(budget / max(first.outcome.seconds, 0.001)))
        metric = next(iter(first.outcome.metrics))
        outcomes = [first.outcome]
        self.write(replace(draft, gates=()))
        try:
            for _ in range(runs - 1):
                outcome = self.run_again().outcome
                if not outcome.is_finished or metric not in outcome.metrics:
                    return None
                outcomes.append(outcome)
        finally:
            self.write(draft)
        if len(outcomes) < _FEWEST_RUNS:
            return None
        values = tuple(outcome.metrics[metric] for outcome in outcomes)
        return MeasuredNoise(metric, values, tuple(outcome.seconds for outcome in outcomes))

    def slow_run(self, draft: TaskDraft) -> Outcome:
        """Run the benchmark at about a third of its speed, without gates."""
        command = f"python3 -m loopty_sdk.slow_down {shlex.quote(draft.command)}"
        self.write(replace(draft, gates=(), command=command))
        try:
            return self.run_again().outcome
        finally:
            self.write(draft)


def _score(check: CheckResult) -> float:
    return next(iter(check.outcome.metrics.values()))


def _without_timing(draft: TaskDraft, check: CheckResult) -> CheckResult:
    """Propose no CPU time as the score of what trains a model, or works for a fixed time."""
    explanation = check.explanation
    if not (explanation and explanation.cause and explanation.cause.name == NO_RESULT):
        return check
    if not (draft.trains or draft.has_fixed_time):
        return check
    sentence = (
        "the training printed no metric that is known"
        if draft.trains
        else "the benchmark works for a fixed time, so how long it takes says nothing, and it printed no rate"
    )
    cause = replace(explanation.cause, sentence=sentence, settings=())
    return replace(check, explanation=replace(explanation, cause=cause))


_RUNS = 3
_PERIOD_SECONDS = 0.02
_PAGE_BYTES = resource.getpagesize()


def measure_profile(check: Callable[[], CheckResult]) -> ResourceProfile | None:
    """Check the baseline a few times and watch it; None where a check fails."""
    seconds, cores, scores, peak = list[float](), list[float](), set[tuple[tuple[str, float], ...]](), 0
    for _ in range(_RUNS):
        before, since = _cpu_seconds(), time.monotonic()
        with _watch_memory() as peaks:
            outcome = check().outcome
        if not outcome.is_finished:
            return None
        seconds.append(outcome.seconds)
        cores.append((_cpu_seconds() - before) / max(time.monotonic() - since, 0.001))
        scores.add(tuple(sorted(outcome.metrics.items())))
        peak = max(peak, *peaks)
    return ResourceProfile(
        max(round(statistics.median(seconds), 3), 0.001),
        round(max(cores), 2),
        max(peak >> 20, 1),
        len(scores) == 1,
    )


@contextlib.contextmanager
def _watch_memory() -> Iterator[list[int]]:
    """Watch the memory of all processes below this one, again and again while the block runs."""
    peaks, stop = [0], threading.Event()

    def look() -> None:
        while not stop.wait(_PERIOD_SECONDS):
            peaks[0] = max(peaks[0], _memory_below(os.getpid()))

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield peaks
    finally:
        stop.set()
        thread.join()


def _memory_below(root: int) -> int:
    """Sum the bytes. A page that processes share counts for each of them, so the sum is rather too high."""
    return sum(_resident_bytes(pid) for pid in threads_of_tree(root) if pid != root)


def _resident_bytes(pid: int) -> int:
    with contextlib.suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    return 0


def _cpu_seconds() -> float:
    """Return the CPU seconds of the processes below this one that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


_SLOWEST = 10.0
"""Seconds: a longer run is not repeated at a third of its speed."""
_SLOWER = 1.3
_GROWTH = 1.3
"""A score that is a time grows at least so much at a third of the speed, above all that was seen before."""
_CORRELATION = 0.95
_CORRELATION_OF_SLOW = 0.9
"""Of independent scores, one in 200 looks so by chance: the runs that were slowed down count, too."""
_FEWEST_TO_DOUBT = 4
_SHARES = (0.5, 20.0)
"""How much a time grows when its run takes one percent longer: about as much, or more after a long start."""


def direction_doubt(noise: MeasuredNoise | None, slow_run: Callable[[], Outcome], seconds: float) -> str:
    """Say why a score of which more is better may be a time; empty if nothing speaks for it.

    The checked runs show it where they differ; else two runs at a third of the speed, if `seconds` are enough.
    """
    if noise is None or min(noise.values) <= 0 or min(noise.values) == max(noise.values):
        return ""  # what is the same each time is no time
    runs = [*zip(noise.seconds, noise.values, strict=True)]
    if _follow_duration(runs, _CORRELATION):
        return f"{noise.metric} grew and fell with the duration of the {len(runs)} checked runs"
    longest = max(noise.seconds)
    if longest > _SLOWEST or 8 * longest > seconds:
        return ""
    slow = [
        (one.seconds, one.metrics[noise.metric]) for one in (slow_run(), slow_run()) if noise.metric in one.metrics
    ]
    if len(slow) < 2 or min(slow)[0] < _SLOWER * longest:
        return ""
    grew = min(value for _, value in slow) > _GROWTH * max(noise.values)
    if not grew and not _follow_duration([*runs, *slow], _CORRELATION_OF_SLOW):
        return ""
    usual, value = statistics.median(noise.values), statistics.fmean(value for _, value in slow)
    return f"{noise.metric} grew from {usual:.3g} to {value:.3g} in runs that were slowed down"


def _follow_duration(runs: Sequence[tuple[float, float]], least: float) -> bool:
    """Say whether the values of these runs grow with their seconds, and by about as much."""
    seconds, values = zip(*runs, strict=True)
    if len(runs) < _FEWEST_TO_DOUBT or min(seconds) == max(seconds):
        return False
    slope = statistics.linear_regression(seconds, values).slope
    share = slope * statistics.fmean(seconds) / statistics.fmean(values)
    return statistics.correlation(seconds, values) >= least and _SHARES[0] <= share <= _SHARES[1]


# That needs no trace of the program and no knowledge of its language, and one more run for each pattern.


_NONSENSE = b"}{ )( loopty writes this to learn whether the benchmark loads this file ]['\n"
"""No program in any language that is tried here, nor JSON or TOML."""
_LONGEST_SECONDS = 20.0
"""Of a benchmark that takes longer, nothing is found out."""
_MOST_PATTERNS = 4
_ALIKE = 2.0
"""A score that changes by less than this factor is the same: times vary that much on a busy machine."""


def unloaded_patterns(
    context: CampaignContext, patterns: Sequence[str], proven: Outcome, unsafe: bool
) -> list[str]:
    """List the patterns of writable files without which the benchmark gives the same score as with them."""
    score = next(iter(proven.metrics.values()), 0.0)
    if proven.seconds > _LONGEST_SECONDS or not score or len(patterns) > _MOST_PATTERNS:
        return []
    base = context.files.with_declarations(context.repository.working_tree.snapshot("a check of the task"))
    params = complete_params(base.declared, context.task.space.baseline())
    root = Node(
        id=NodeId("1"),
        pool=Pool.CHECK,
        operator=BASELINE,
        summary="",
        commit=base.commit,
        tree=base.tree,
        added_at=0.0,
        order=1,
        position=0,
        params=params,
    )
    writable = context.files.writable_files(base.commit)

    def is_unloaded(pattern: str) -> bool:
        files = [path for path in writable if paths.matches(path, (pattern,))]
        if not files:
            return False
        entries = context.repository.entries(base.commit, files)
        edits: dict[str, str | bytes | None] = dict.fromkeys(files, _NONSENSE)
        spoilt = context.repository.commit(base.commit, edits, entries, "a check of the task\n")
        node = Node(
            id=NodeId("1.1"),
            pool=Pool.CHECK,
            operator=BASELINE,
            summary="",
            commit=spoilt.commit,
            tree=spoilt.tree,
            added_at=0.0,
            order=1,
            position=0,
            params=params,
        )
        outcome = check_trial_result(
            context, Trial(node, root, 0, Pool.CHECK, context.task.seed, ()), unsafe
        ).outcome
        now = next(iter(outcome.metrics.values()), 0.0) if outcome.is_finished else 0.0
        return 1 / _ALIKE < now / score < _ALIKE

    return [pattern for pattern in patterns if is_unloaded(pattern)]
