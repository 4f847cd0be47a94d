"""Audits: how much of each gain survives on the held-out split, what looks wrong, and what it all says."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import StrEnum

from msgspec import Struct

from loopty.domain.ids import NodeId, handle_name
from loopty.domain.objective import Direction, Metric, Metrics, gain
from loopty.domain.trial import Outcome
from loopty.kit.records import Record, replace
from loopty.record.directives import AuditConcluded
from loopty.record.fold import Recorded
from loopty.record.history import History
from loopty.record.trials import Cohorts, SplitShown, TrialEnded
from loopty.show.figures import figure, moment, plural
from loopty.show.terminal import Terminal, cut, pad, width, wrap


class ComparisonScale(Record):
    """The one number that compares a node with its baseline: a metric, or the weighted sum of several."""

    metrics: tuple[Metric, ...]
    weighted: bool = False

    @property
    def name(self) -> str:
        """Return the metric's name; empty for a weighted sum."""
        return "" if self.weighted else self.metrics[0].name

    @property
    def direction(self) -> Direction:
        return Direction.MAX if self.weighted else self.metrics[0].direction

    def value(self, metrics: Metrics) -> float | None:
        """Return the value on this scale; None if a metric is missing."""
        if any(metric.name not in metrics for metric in self.metrics):
            return None
        if not self.weighted:
            return metrics[self.metrics[0].name]
        return sum(_weight(metric) * metrics[metric.name] for metric in self.metrics)

    def noise(self, floor: Mapping[str, float]) -> float:
        """Return the noise of one measurement on this scale; 0 if unknown."""
        if not self.weighted:
            return floor.get(self.metrics[0].name, 0.0)
        return math.hypot(*(_weight(metric) * floor.get(metric.name, 0.0) for metric in self.metrics))


def comparison_scale(metrics: tuple[Metric, ...], values: Metrics, baseline: Metrics) -> ComparisonScale:
    """Return the scale that decides between a node and its baseline; the first metric if none does."""
    if all(metric.weight is not None for metric in metrics):
        return ComparisonScale(metrics, weighted=True)
    if all(metric.name in values and metric.name in baseline for metric in metrics):
        deciding = gain(values, baseline, metrics).metric
        return ComparisonScale((deciding or metrics[0],))
    return ComparisonScale(metrics[:1])


def _weight(metric: Metric) -> float:
    return metric.direction.sign * (metric.weight or 0.0)


class Survival(Record):
    """A node and its baseline, in the search and on the held-out split. A missing value is None."""

    scale: ComparisonScale
    search: float | None
    search_baseline: float | None
    held_out: float | None
    held_out_baseline: float | None
    noise: float
    """Of one measurement; 0 if unknown."""

    @property
    def search_gain(self) -> float | None:
        return self._gain(self.search, self.search_baseline)

    @property
    def held_out_gain(self) -> float | None:
        return self._gain(self.held_out, self.held_out_baseline)

    @property
    def share(self) -> float | None:
        """Return the share of the search's gain that the held-out split shows, too; 0 if it shows no gain.

        None without a gain in the search.
        """
        searched, held_out = self.search_gain, self.held_out_gain
        if searched is None or held_out is None or searched <= 0:
            return None
        share = held_out / searched
        if self.search_baseline and self.held_out_baseline:
            # Splits differ in size: the gains are compared in the metric's unit or relative to the baselines,
            # whichever gives the larger share.
            share = max(share, share * abs(self.search_baseline / self.held_out_baseline))
        return max(share, 0.0)

    def _gain(self, value: float | None, baseline: float | None) -> float | None:
        """Return the gain; positive is better."""
        if value is None or baseline is None:
            return None
        return self.scale.direction.sign * (value - baseline)


# Only the events have audits. Nothing that the search reads may be derived from them.


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
    def is_contaminated(self) -> bool:
        return any(flag.kind is Suspicion.CONTAMINATION for flag in self.flags)

    @property
    def gap(self) -> float | None:
        """Say how much larger the gain is in the search than on the held-out split."""
        if self.search_gain is None or self.held_out_gain is None:
            return None
        return self.search_gain - self.held_out_gain


class _Trial(Struct):
    """A trial on the split, collected from its events."""

    shown: SplitShown
    at: float
    look: int
    outcome: Outcome | None = None
    lost: bool = False


def audits(
    history: History, events: Iterable[Recorded], leaks: Mapping[NodeId, Sequence[str]] | None = None
) -> list[AuditRow]:
    """List every look, oldest first. `leaks` says for each node where the search could see the split."""
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
    """List every trial that saw the split, also one that never ended."""
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
    """Find the newest baseline result on the same split and the same machine, or None."""
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
        node=trial.shown.node,
        number=trial.shown.number,
        at=trial.at,
        split=trial.shown.split,
        look=trial.look,
        metric=survival.scale.name,
        search=survival.search,
        search_gain=survival.search_gain,
        held_out=survival.held_out,
        held_out_gain=survival.held_out_gain,
        survives=survival.share,
        ended=_reason_without_score(trial, survival),
        fingerprint=trial.outcome.fingerprint if trial.outcome else "",
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
    """Say how much the value improved; 0 if either is missing."""
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


_MOST_REFUTED = 32


def audit_conclusion(run: int, rows: Sequence[AuditRow], steers: bool = False) -> AuditConcluded:
    """Conclude from a run's looks, oldest first, at the split that was looked at last."""
    compared = [row for row in rows if row.split == rows[-1].split and _has_gains(row)]
    # What saw the split says nothing about others: it is refuted or not, but compared with none.
    holding = [row for row in compared if not row.is_contaminated and (row.held_out_gain or 0.0) > 0]
    anchor = max(holding, key=lambda row: row.held_out_gain or 0.0, default=None)
    newest = {row.node: row for row in compared}.values()
    worse = [row for row in newest if _shows_no_gain(row) and not any(_is_above(row, other) for other in holding)]
    if anchor:
        # A later node that gains more in the search and less on the split only fits the data of the search.
        later = compared[compared.index(anchor) + 1 :]
        worse += [row for row in later if _is_refuted(row, anchor) and not _is_above(row, anchor)]
    refuted = {row.node: row.name for row in worse}
    return AuditConcluded(run, tuple(refuted)[-_MOST_REFUTED:], _text(tuple(refuted.values()), steers), steers)


def _is_above(row: AuditRow, other: AuditRow) -> bool:
    return other.node.is_within(row.node)


def _has_gains(row: AuditRow) -> bool:
    return row.search_gain is not None and row.held_out_gain is not None


def _shows_no_gain(row: AuditRow) -> bool:
    """Say whether the baseline does as well on the split as a node that beats it in the search."""
    return (row.search_gain or 0.0) > 0 >= (row.held_out_gain or 0.0)


def _is_refuted(row: AuditRow, anchor: AuditRow) -> bool:
    gains, anchored = (row.search_gain or 0.0, row.held_out_gain or 0.0), anchor
    return gains[0] > (anchored.search_gain or 0.0) and gains[1] < (anchored.held_out_gain or 0.0)


def _text(names: Sequence[str], steers: bool) -> str:
    if not names:
        return ""
    gains = "the gain of {} does" if len(names) == 1 else "the gains of {} do"
    found = f"{gains.format(', '.join(names))} not carry over to the held-out split"
    return f"{found}: no change starts there or is judged against it" if steers else found


_HEAD = ("look", "node", "when", "search", "gain", "held out", "gain", "survives")
_WHEN = 2
_LEFT_ALIGNED = (1, _WHEN)
_LONGEST_NAME = 16


def audits_text(audits: Sequence[AuditRow], columns: int = 80, terminal: Terminal | None = None) -> str:
    """Format the audits of one run, oldest first, one block for each split."""
    terminal = terminal or Terminal()
    if not audits:
        return "no audit yet"
    blocks = [_block(split, audits, columns, terminal) for split in dict.fromkeys(row.split for row in audits)]
    return terminal.render("\n\n".join(blocks))


def looks_text(looks: int) -> str:
    """Say how many looks there were at a split, with a warning if they are many."""
    count = f"{plural(looks, 'look')} at this split"
    if looks < MANY_LOOKS:
        return count
    return f"{count}: each one makes it a little less independent, so a fresh split would say more"


def _block(split: str, audits: Sequence[AuditRow], columns: int, terminal: Terminal) -> str:
    rows = [row for row in audits if row.split == split]
    metric = rows[-1].metric or "weighted sum"
    lines = [f"{terminal.paint(f'split {split}', 'strong')}  {cut(metric, columns // 2)}", ""]
    head, *table = _table([_HEAD, *map(_cells, rows)], columns)
    lines.append(terminal.paint(head, "dim"))
    for row, line in zip(rows, table, strict=True):
        lines.append(terminal.paint(line, "warn" if row.flags else ""))
        if row.ended:
            lines += [" " * 6 + terminal.paint(text, "bad") for text in wrap(row.ended, columns - 6)]
    for text in _flags(rows):
        lines += ["", *(terminal.paint(line, "warn") for line in wrap(text, columns))]
    return "\n".join([*lines, "", *wrap(looks_text(rows[-1].look), columns)])


def _table(cells: Sequence[Sequence[str]], columns: int) -> list[str]:
    """Lay the cells out in columns; the time of each audit only if there is room for it."""
    widths = [max(map(width, column)) for column in zip(*cells, strict=True)]
    shown = [i for i in range(len(widths)) if i != _WHEN or sum(widths) + 2 * len(widths) <= columns]
    lines = ("  ".join(pad(row[i], widths[i], right=i not in _LEFT_ALIGNED) for i in shown) for row in cells)
    return [cut(line.rstrip(), columns) for line in lines]


def _cells(row: AuditRow) -> tuple[str, ...]:
    return (
        str(row.look),
        row.name,
        moment(row.at),
        _value(row.search),
        _gain(row.search_gain),
        _value(row.held_out),
        _gain(row.held_out_gain),
        "" if row.survives is None else f"{100 * row.survives:.0f} %" if row.survives else "none",
    )


def _value(value: float | None) -> str:
    return "" if value is None else figure(value)


def _gain(gain: float | None) -> str:
    return "" if gain is None else f"{gain:+.4g}"


def _flags(rows: Sequence[AuditRow]) -> Iterator[str]:
    """Yield what is suspicious about each node, from its last audit."""
    for row in {row.node: row for row in rows}.values():
        yield from (f"{row.name} {flag.kind}: {flag.words}" for flag in row.flags)
