"""What audits found: how much of each gain survives on the held-out split, and what looks wrong.

Audits are in the events alone. Nothing that the search reads may be made from this.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from loopty.domain.ids import NodeId
from loopty.domain.outcome import Outcome
from loopty.record.cohorts import Cohorts
from loopty.record.event import Recorded
from loopty.record.history import History
from loopty.record.trials import SplitShown, TrialEnded
from loopty.views.survival import Survival, comparison_scale

MANY_LOOKS = 10
"""From so many looks on, a choice made by what audits said is no longer independent of them."""

_LEAST_SHARE = 0.5


class Suspicion(enum.StrEnum):
    OVERFITTING = "overfitting"
    DRIFT = "drift"
    CONTAMINATION = "contamination"
    SPLIT = "another split"


@dataclass(frozen=True, slots=True)
class Flag:
    """Something that looks wrong, in one sentence."""

    kind: Suspicion
    words: str


@dataclass(frozen=True, slots=True)
class AuditRow:
    """One look at the held-out split. Gains are over the baseline, positive is better; missing is missing."""

    node: NodeId
    number: int
    at: float
    split: str
    look: int
    """How many looks at this split there had been, with this one."""
    metric: str
    """The metric that makes the search's gain; empty for a weighted sum."""
    search: float | None
    search_gain: float | None
    held_out: float | None
    held_out_gain: float | None
    survives: float | None
    """The share of the search's gain that there is on the held-out split, too; 0 where there is none."""
    ended: str
    """Why there is no held-out score; empty where there is one."""
    fingerprint: str
    """Of the machine that looked: held-out scores are compared under the same one alone."""
    flags: tuple[Flag, ...] = ()

    @property
    def gap(self) -> float | None:
        """How much larger the gain is for the search than on the held-out split."""
        if self.search_gain is None or self.held_out_gain is None:
            return None
        return self.search_gain - self.held_out_gain


@dataclass(slots=True)
class _Trial:
    """A trial on the split, as the events tell it."""

    shown: SplitShown
    at: float
    look: int
    outcome: Outcome | None = None
    lost: bool = False


def audits(
    history: History, events: Iterable[Recorded], leaks: Mapping[NodeId, Sequence[str]] | None = None
) -> list[AuditRow]:
    """Every look, oldest first; `leaks` says of each node where the search could see the split, in sentences."""
    trials = _trials(events)
    rows: list[AuditRow] = []
    for trial in trials:
        found = _survival(history, trial, trials)
        row = _row(trial, found)
        earlier = [other for other in rows if other.node.run == row.node.run]
        flags = (
            *_overfitting(found),
            *_drift(row, found, earlier),
            *(Flag(Suspicion.CONTAMINATION, words) for words in (leaks or {}).get(row.node, ())),
            *_coincidence(row, found),
            *_other_split(row, earlier),
        )
        rows.append(replace(row, flags=flags))
    return rows


def _trials(events: Iterable[Recorded]) -> list[_Trial]:
    """Each trial that the split was shown to, also one that never ended."""
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
    mine = node.outcome.metrics if node.outcome and node.outcome.is_finished else {}
    root = history[run.root].result(fingerprint)
    theirs = root.outcome.metrics if root and node.id != run.root else {}
    scale = comparison_scale(history.counting_metrics(run.number), mine, theirs)
    baseline = _baseline(run.root, trial, trials) if node.id != run.root else None
    return Survival(
        scale,
        scale.value(mine),
        scale.value(theirs),
        scale.value(trial.outcome.metrics) if trial.outcome and trial.outcome.is_finished else None,
        scale.value(baseline.metrics) if baseline else None,
        scale.noise(Cohorts.of(run).noise.get(fingerprint, {})),
    )


def _baseline(root: NodeId, trial: _Trial, trials: Sequence[_Trial]) -> Outcome | None:
    """The newest result of the baseline that can be compared with: the same split on the same machine."""
    outcomes = (
        other.outcome
        for other in reversed(trials)
        if other.shown.node == root and other.shown.split == trial.shown.split
    )
    wanted = trial.outcome.fingerprint if trial.outcome else None
    return next((found for found in outcomes if found and found.is_finished and found.fingerprint == wanted), None)


def _row(trial: _Trial, found: Survival) -> AuditRow:
    return AuditRow(
        trial.shown.node,
        trial.shown.number,
        trial.at,
        trial.shown.split,
        trial.look,
        found.scale.name,
        found.search,
        found.search_gain,
        found.held_out,
        found.held_out_gain,
        found.share,
        _reason_without_score(trial, found),
        trial.outcome.fingerprint if trial.outcome else "",
    )


def _reason_without_score(trial: _Trial, found: Survival) -> str:
    if trial.outcome is None:
        return "still running"
    if trial.lost:
        return f"lost: {trial.outcome.reason}; the split may have been seen, so it counts as a look"
    if not trial.outcome.is_finished:
        return f"{trial.outcome.ending}: {trial.outcome.reason}"
    if found.held_out is None:
        wanted = ", ".join(metric.name for metric in found.scale.metrics)
        return f"did not report {wanted}, by which the search compares"
    return ""


def _overfitting(found: Survival) -> Iterator[Flag]:
    there, here, share = found.search_gain, found.held_out_gain, found.share
    if there is None or here is None or share is None:
        return
    if here <= 0:
        word = "worse" if here < 0 else "no better"
        by = f" by {-here:.4g}" if here < 0 else ""
        yield Flag(
            Suspicion.OVERFITTING,
            f"better by {there:.4g} for the search, but {word}{by} on the held-out split: "
            "it fits the search's data, not the task",
        )
    elif share < _LEAST_SHARE and there * _LEAST_SHARE - here > found.noise:
        yield Flag(
            Suspicion.OVERFITTING,
            f"only {100 * share:.0f} % of its gain survives on the held-out split ({here:.4g} of {there:.4g})",
        )


def _drift(row: AuditRow, found: Survival, earlier: Sequence[AuditRow]) -> Iterator[Flag]:
    """An earlier winner does better on the held-out split, though the search's score went on to rise."""
    sign = found.scale.direction.sign
    passed = [
        other
        for other in earlier
        if row.node.parent
        and other.node.parent
        and (other.split, other.fingerprint, other.metric) == (row.split, row.fingerprint, row.metric)
        and _rise(other.search, row.search, sign) > 0
        and _rise(row.held_out, other.held_out, sign) > found.noise
    ]
    if passed:
        peak = max(passed, key=lambda other: _rise(row.held_out, other.held_out, sign))
        yield Flag(
            Suspicion.DRIFT,
            f"since {peak.node} the search's score got better, from {peak.search:.6g} to {row.search:.6g}, "
            f"and the held-out score worse, from {peak.held_out:.6g} to {row.held_out:.6g}",
        )


def _rise(before: float | None, after: float | None, sign: int) -> float:
    """By how much it got better; not at all where one of them is missing."""
    return 0.0 if before is None or after is None else sign * (after - before)


def _coincidence(row: AuditRow, found: Survival) -> Iterator[Flag]:
    """Two different splits that give the very same score; a whole number alone may be chance."""
    if row.held_out is None or row.held_out != row.search:
        return
    twice = found.search_baseline is not None and found.search_baseline == found.held_out_baseline
    if twice or not row.held_out.is_integer():
        yield Flag(
            Suspicion.CONTAMINATION,
            f"the held-out score is exactly the search's ({row.held_out:.6g}): perhaps both measure the same data",
        )


def _other_split(row: AuditRow, earlier: Sequence[AuditRow]) -> Iterator[Flag]:
    if earlier and row.split not in (other.split for other in earlier):
        yield Flag(
            Suspicion.SPLIT,
            "the split has changed since the first audit: looks are counted anew, and nothing is compared across",
        )
