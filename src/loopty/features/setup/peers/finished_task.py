"""The last steps of a task of another tool: a sandbox for its program, and the stages that it passes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from loopty.features.setup.peers.peer_task import PeerTask
from loopty.features.setup.proven_task import ProvenTask
from loopty.features.setup.task_draft import StageDraft, TaskDraft
from loopty.kit.records import replace
from loopty.session.by_hand import CheckResult

Run = Callable[[TaskDraft], CheckResult]
"""Checks a draft."""
_SAME = 1e-9
_ENOUGH = 3


def finished_task(peer: PeerTask, proven: ProvenTask, run: Run) -> tuple[TaskDraft, str]:
    """Return the task as it is to be written, and a sentence about its integrity."""
    draft, said = _with_isolation(peer, proven, run)
    return with_reached_stages(draft, run), said


def _with_isolation(peer: PeerTask, proven: ProvenTask, run: Run) -> tuple[TaskDraft, str]:
    """Run the program in a sandbox of its own, if it has the same score there."""
    draft, form = proven.draft, peer.isolation
    if form is None:
        return draft, ""
    reason = form.reason
    if form.draft:
        change = form.draft
        isolated = replace(draft, command=change.command, stages=change.stages, isolated=True, warm=False)
        result = run(replace(isolated, stages=()))
        score = next(iter(result.outcome.metrics.values()), None)
        values = _plain_scores(proven, score, run)
        if result.problem is None and score is not None and _is_one_of(score, values):
            profile = isolated.profile and replace(isolated.profile, seconds=result.outcome.seconds)
            why = "the evaluator gets a program whose functions call the candidate in a sandbox of its own"
            said = f"integrity is strong: {', '.join(form.names)} of the program runs in a sandbox of its own"
            return replace(isolated, profile=profile).with_note("isolated", why), said
        reason = f"in a sandbox of its own the program gives {result.problem or f'{score:g}, not {values[0]:g}'}"
    return draft, f"integrity is weak, because the program runs in the evaluator's process: {reason}"


def _plain_scores(proven: ProvenTask, score: float | None, run: Run) -> list[float]:
    """Return the scores without that sandbox: of a slow evaluator some more, where one alone differs."""
    values = [*proven.noise.values] if proven.noise else [proven.score[1]]
    while score is not None and not _is_one_of(score, values) and len(values) < _ENOUGH:
        again = run(replace(proven.draft, stages=())).outcome.metrics
        if not again:
            break
        values.append(next(iter(again.values())))
    return values


def _is_one_of(score: float, values: Sequence[float]) -> bool:
    """Say whether a score is like these, as far as they vary."""
    low, high = min(values), max(values)
    room = max(3 * (high - low), _SAME * max(1.0, abs(low)))
    return low - room <= score <= high + room


def with_reached_stages(draft: TaskDraft, run: Run) -> TaskDraft:
    """Return the draft without stages that the program itself misses: they would reject what is better, too.

    Other tools rank what misses a stage by that stage's score, which is comparable with no other.
    """
    kept: list[StageDraft] = []
    for stage in draft.stages:
        result = run(replace(draft, command=stage.command, stages=(), gates=()))
        value = next(iter(result.outcome.metrics.values()), None)
        if result.problem is None and value is not None and value >= stage.minimum:
            kept.append(stage)
            continue
        reached = f"reaches {value:.4g}" if value is not None else "has no score there"
        why = f"{stage.name} would need {stage.minimum:g}, and the program as it is {reached}: left out"
        draft = draft.with_note("stages", why)
    return replace(draft, stages=tuple(kept))
