"""Finds out whether counted instructions can choose in place of the clock: they repeat, and a delay moves them."""

from __future__ import annotations

import math
import re
import shutil
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from loopty.domain import counting
from loopty.domain.objective import SCORE, Direction
from loopty.features.setup.causes.results import CPU_TIMER
from loopty.features.setup.proven_task import CountProof, MeasuredNoise
from loopty.features.setup.sensitivity import CheckCost, SensitivityProof
from loopty.features.setup.task_draft import TaskDraft
from loopty.kit.records import replace
from loopty.show.figures import figure

if TYPE_CHECKING:
    from loopty.domain.trial import Outcome
    from loopty.features.setup.edited_tree import EditedTree

_JIT = re.compile(
    r"\b(node|npm|npx|yarn|pnpm|bun|deno|java|mvn|gradle|gradlew|sbt|pypy3?|dotnet|julia|luajit|php|ruby)\b"
)
"""What compiles while it runs: how much, depends on the clock."""
_PYTHON = re.compile(r"python3? [^;&|<>$`]+")
"""One call of Python."""
_ONE_CORE = 1.3
_BUSY_CORE = 0.6
"""Of a trial that has a core for itself: one that uses less waits for something."""
_SLOWER = 60.0
"""A run under the counter takes so many times its CPU time, at most, besides a start of some seconds."""
_START_SECONDS = 3.0
_RUNS = 5
"""Two equal counts, and a delay that takes as long again; and room for a busy machine."""
_MUCH_NOISE_PERCENT = 3.0
_LONGEST_SECONDS = 60.0
_TIMEOUT_FACTOR = 10.0
_LEAST_MOVE = 1.01


def count_refusal(draft: TaskDraft, noise: MeasuredNoise, seconds: float) -> str:
    """Tell why counting is not tried, or an empty text. `seconds` are left for it."""
    runs = noise.seconds[1:]
    cpu_seconds = noise.usage.cpu_seconds / max(len(runs), 1)
    cores = noise.usage.busy_seconds / max(sum(runs), 0.001)
    if draft.isolated:
        return "the candidate runs apart, and is not counted"
    if draft.is_without_start:
        return "the start of the tests would be counted with them"
    if draft.devices or draft.network:
        return "what a device does, and waiting for the network, executes nothing here"
    if found := _JIT.search(draft.command):
        return f"{found[0]} compiles while it runs, and how much of that it does depends on the clock"
    if cores > _ONE_CORE:
        return f"a run keeps {cores:.1f} cores busy, and instructions of threads do not add up to time"
    if cores < _BUSY_CORE:
        return f"a run computes {100 * cores:.0f} % of its time, and waits for the rest"
    if not shutil.which("valgrind"):
        return "valgrind is not installed (apt-get install valgrind)"
    expected = _START_SECONDS + _SLOWER * cpu_seconds
    if _RUNS * expected > seconds:
        return f"a counted run would take about {expected:.2g} s, and there is no time left to try it"
    return ""


def count_text(found: CountProof, noise: MeasuredNoise) -> str:
    """Say it in a paragraph: what was seen, what it costs beside the clock, and what was done about it."""
    if found.refusal:
        return f"instructions are not counted: {found.refusal}"
    spread = (max(found.counts) - min(found.counts)) / max(found.counts)
    same = "the same" if not spread else f"within {100 * spread:.2g} %"
    clock = f"{max(noise.seconds):.2g} s by the clock, which varies by {noise.percent:.2g} %"
    done = (
        'measure = "instructions" is set, and the clock confirms the best'
        if found.is_better
        else 'to do so, uncomment measure = "instructions" in loopty.toml'
    )
    start = f" ({100 * found.start / found.counts[0]:.2g} % of it Python's start)" if found.start else ""
    return (
        f"instructions can be counted: {figure(found.counts[0])}{start}, twice {same}, more with a planted delay; "
        f"one run of {found.seconds:.2g} s decides, instead of many of {clock}: {done}"
    )


def prove_count(
    open_tree: Callable[[str], EditedTree], command: str, noise: MeasuredNoise, seconds: Callable[[], float]
) -> CountProof:
    """Count the files as they are, and once more with a planted delay. `open_tree` takes the command."""
    tree = open_tree(command)
    outcomes = tree.runs(2)
    if failed := next((one for one in outcomes if not one.is_finished), None):
        return CountProof(refusal=failed.reason)
    counts, took = _counts(outcomes), max(one.seconds for one in outcomes)
    if not counting.repeats([{SCORE: count} for count in counts]):
        return CountProof(refusal=f"two runs of the same files count {figure(counts[0])} and {figure(counts[1])}")
    proof = SensitivityProof(
        tree=tree,
        usual=counts,
        metric=SCORE,
        label="the number of instructions",
        direction=Direction.MIN,
        is_speed=True,
        cost=CheckCost(took, 0.0),
        seconds=seconds(),
    )
    found = proof.prove_delay()
    if found.unknown or found.slowed is None:
        return CountProof(refusal=found.unknown or "a planted delay takes too long to count")
    # The delay waits for the clock, which takes few instructions: by how much it moves the count says little.
    if found.slowed < _LEAST_MOVE * max(counts):
        return CountProof(refusal=f"a planted delay leaves {figure(counts[0])} instructions as they are")
    is_better = noise.percent > _MUCH_NOISE_PERCENT and took < _LONGEST_SECONDS
    return CountProof(counts=counts, seconds=took, start=_start(open_tree, command), is_better=is_better)


def _start(open_tree: Callable[[str], EditedTree], command: str) -> float:
    """Count what Python executes for an empty program, where the command is one call of Python; else 0."""
    timer = f"{CPU_TIMER} " if command.startswith(f"{CPU_TIMER} ") else ""
    if not _PYTHON.fullmatch(command.removeprefix(timer)):
        return 0.0
    (outcome,) = open_tree(f"{timer}python3 -c pass").runs(1)
    return outcome.metrics.get(SCORE, 0.0)


def with_count(draft: TaskDraft, found: CountProof, noise: MeasuredNoise, may_set: bool) -> TaskDraft:
    """Let the task count where that is better; else propose it in a comment."""
    clock = f"by the clock a run takes {max(noise.seconds):.2g} s and varies by {noise.percent:.2g} %"
    counted = f"{figure(found.counts[0])} instructions, twice the same; one run of {found.seconds:.2g} s decides"
    why = f"{counted}; {clock}"
    timeout = max(draft.timeout_seconds, float(math.ceil(_TIMEOUT_FACTOR * found.seconds)))
    if not (found.is_better and may_set):
        others = "" if timeout == draft.timeout_seconds else f"; with timeout_seconds = {timeout:g}"
        others += "; without [[objective.metrics]]" if draft.metrics else ""
        return draft.with_note("measure", f"{why}{others}")
    profile = draft.profile and replace(draft.profile, seconds=round(found.seconds, 3))
    return replace(
        draft,
        is_counted=True,
        direction="min",
        metrics=(),
        warm=False,
        timeout_seconds=timeout,
        profile=profile,
        notes={**draft.notes, "warm": "counted runs start by themselves"},
    ).with_note("measure", why)


def _counts(outcomes: Sequence[Outcome]) -> tuple[float, ...]:
    return tuple(one.metrics[SCORE] for one in outcomes)
