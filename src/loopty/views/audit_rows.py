"""Audit results: how much of each gain survives on the held-out split, and what looks wrong.

Only the events have audits. Nothing that the search reads may be derived from them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from loopty.domain.ids import NodeId, handle_name
from loopty.domain.outcome import Outcome
from loopty.kit.records import Record, replace
from loopty.record.cohorts import Cohorts
from loopty.record.event import Recorded
from loopty.record.history import History
from loopty.record.trials import SplitShown, TrialEnded
from loopty.views.survival import Survival, comparison_scale

MANY_LOOKS = 10
"""From this many looks on, choices based on audit results are no longer independent of the split."""

_LEAST_SHARE = 0.5


class Suspicion(StrEnum):
    OVERFITTING = "overfitting"
    DRIFT = "drift"
    CONTAMINATION = "contamination"
    SPLIT = "another split"


class Flag(Record):
    """Something that looks wrong, in one sentence."""

    kind: Suspicion
    words: str


class AuditRow(Record):
    """One look at the held-out split. Gains are over the baseline, positive is better; a missing value is None."""

    node: NodeId
    number: int
    at: float
    split: str
    look: int
    """The number of looks at this split so far, including this one."""
    metric: str
    """The metric behind the search's gain; empty for a weighted sum."""
    search: float | None
    search_gain: float | None
    held_out: float | None
    held_out_gain: float | None
    survives: float | None
    """The share of the search's gain that the held-out split shows, too; 0 when it shows no gain."""
    ended: str
    """Why there is no held-out score; empty if there is one."""
    fingerprint: str
    """The fingerprint of this look: held-out scores are compared only under the same one."""
    flags: tuple[Flag, ...] = ()
    handle: int = 0

    @property
    def name(self) -> str:
        return handle_name(self.handle)

    @property
    def gap(self) -> float | None:
        """How much larger the gain is in the search than on the held-out split."""
        if self.search_gain is None or self.held_out_gain is None:
            return None
        return self.search_gain - self.held_out_gain


@dataclass(slots=True)
class _Trial:
    """A trial on the split, collected from its events."""

    shown: SplitShown
    at: float
    look: int
    outcome: Outcome | None = None
    lost: bool = False


def audits(
    history: History, events: Iterable[Recorded], leaks: Mapping[NodeId, Sequence[str]] | None = None
) -> list[AuditRow]:
    """Every look, oldest first. `leaks` has sentences for each node on where the search could see the split."""
    trials = _trials(events)
    rows: list[AuditRow] = []
    for trial in trials:
        survival = _survival(history, trial, trials)
        row = _row(trial, survival)
        earlier = [other for other in rows if other.node.run == row.node.run]
        flags = (
            *_overfitting(survival),
            *_drift(row, survival, earlier),
            *(Flag(Suspicion.CONTAMINATION, words) for words in (leaks or {}).get(row.node, ())),
            *_coincidence(row, survival),
            *_other_split(row, earlier),
        )
        rows.append(replace(row, flags=flags, handle=history.handle(row.node)))
    return rows


def _trials(events: Iterable[Recorded]) -> list[_Trial]:
    """Every trial that saw the split, also one that never ended."""
    trials: dict[tuple[NodeId, int], _Trial] = {}
    looks: dict[str, int] = {}
    for item in events:
        match item.event:
            case SplitShown() as shown:
                looks[shown.split] = looks.get(shown.split, 0) + 1
                trials[shown.node, shown.number] = _Trial(shown, item.at, looks[shown.split])
            case TrialEnded(node, number, outcome, lost) if (node, number) in trials:
                trials[node, number].outcome = outcome
                trials[node, number].lost = lost
    return list(trials.values())


def _survival(history: History, trial: _Trial, trials: Sequence[_Trial]) -> Survival:
    node, run = history[trial.shown.node], history.runs[trial.shown.node.run]
    fingerprint = node.outcome.fingerprint if node.outcome else ""
    metrics = node.outcome.metrics if node.outcome and node.outcome.is_finished else {}
    root = history[run.root].result(fingerprint)
    baseline_metrics = root.outcome.metrics if root and node.id != run.root else {}
    scale = comparison_scale(history.counting_metrics(run.number), metrics, baseline_metrics)
    baseline = _baseline(run.root, trial, trials) if node.id != run.root else None
    return Survival(
        scale,
        scale.value(metrics),
        scale.value(baseline_metrics),
        scale.value(trial.outcome.metrics) if trial.outcome and trial.outcome.is_finished else None,
        scale.value(baseline.metrics) if baseline else None,
        scale.noise(Cohorts.of(run).noise.get(fingerprint, {})),
    )


def _baseline(root: NodeId, trial: _Trial, trials: Sequence[_Trial]) -> Outcome | None:
    """The newest baseline result on the same split and the same machine, or None."""
    outcomes = (
        other.outcome
        for other in reversed(trials)
        if other.shown.node == root and other.shown.split == trial.shown.split
    )
    wanted = trial.outcome.fingerprint if trial.outcome else None
    comparable = (
        outcome for outcome in outcomes if outcome and outcome.is_finished and outcome.fingerprint == wanted
    )
    return next(comparable, None)


def _row(trial: _Trial, survival: Survival) -> AuditRow:
    return AuditRow(
        trial.shown.node,
        trial.shown.number,
        trial.at,
        trial.shown.split,
        trial.look,
        survival.scale.name,
        survival.search,
        survival.search_gain,
        survival.held_out,
        survival.held_out_gain,
        survival.share,
        _reason_without_score(trial, survival),
        trial.outcome.fingerprint if trial.outcome else "",
    )


def _reason_without_score(trial: _Trial, survival: Survival) -> str:
    if trial.outcome is None:
        return "still running"
    if trial.lost:
        return f"lost: {trial.outcome.reason}; the split may have been seen, so it counts as a look"
    if not trial.outcome.is_finished:
        return f"{trial.outcome.ending}: {trial.outcome.reason}"
    if survival.held_out is None:
        wanted = ", ".join(metric.name for metric in survival.scale.metrics)
        return f"did not report {wanted}, which the search compares"
    return ""


def _overfitting(survival: Survival) -> Iterator[Flag]:
    there, here, share = survival.search_gain, survival.held_out_gain, survival.share
    if there is None or here is None or share is None:
        return
    if here <= 0:
        word = "worse" if here < 0 else "no better"
        by = f" by {-here:.4g}" if here < 0 else ""
        yield Flag(
            Suspicion.OVERFITTING,
            f"better by {there:.4g} in the search, but {word}{by} on the held-out split: "
            "it fits the search's data, not the task",
        )
    elif share < _LEAST_SHARE and there * _LEAST_SHARE - here > survival.noise:
        yield Flag(
            Suspicion.OVERFITTING,
            f"only {100 * share:.0f} % of its gain survives on the held-out split ({here:.4g} of {there:.4g})",
        )


def _drift(row: AuditRow, survival: Survival, earlier: Sequence[AuditRow]) -> Iterator[Flag]:
    """Flag a node that an earlier winner beats on the held-out split although the search's score improved."""
    sign = survival.scale.direction.sign
    better_before = [
        other
        for other in earlier
        if row.node.parent
        and other.node.parent
        and (other.split, other.fingerprint, other.metric) == (row.split, row.fingerprint, row.metric)
        and _rise(other.search, row.search, sign) > 0
        and _rise(row.held_out, other.held_out, sign) > survival.noise
    ]
    if better_before:
        peak = max(better_before, key=lambda other: _rise(row.held_out, other.held_out, sign))
        yield Flag(
            Suspicion.DRIFT,
            f"since {peak.name} the search's score got better ({peak.search:.6g} to {row.search:.6g}), "
            f"but the held-out score got worse ({peak.held_out:.6g} to {row.held_out:.6g})",
        )


def _rise(before: float | None, after: float | None, sign: int) -> float:
    """How much the value improved; 0 if either is missing."""
    return 0.0 if before is None or after is None else sign * (after - before)


def _coincidence(row: AuditRow, survival: Survival) -> Iterator[Flag]:
    """Flag a held-out score that equals the search's score; a whole number alone may be chance."""
    if row.held_out is None or row.held_out != row.search:
        return
    same_baseline = survival.search_baseline is not None and survival.search_baseline == survival.held_out_baseline
    if same_baseline or not row.held_out.is_integer():
        yield Flag(
            Suspicion.CONTAMINATION,
            f"the held-out score equals the search's exactly ({row.held_out:.6g}): both may measure the same data",
        )


def _other_split(row: AuditRow, earlier: Sequence[AuditRow]) -> Iterator[Flag]:
    if earlier and row.split not in (other.split for other in earlier):
        yield Flag(
            Suspicion.SPLIT,
            "the split has changed since the first audit: looks are counted anew, and splits are not compared",
        )
