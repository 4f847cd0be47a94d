"""Arms of a comparison: paired differences between searches, with intervals, by task and pooled."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

from loopty.domain.trial import Pool, Verdict
from loopty.kit.records import Record
from loopty.record.history import History
from loopty.show.comparisons import run_metric
from loopty.show.terminal import Terminal, cut, pad, width

_DRAWS = 2000
FEWEST_PAIRS = 5
"""With fewer pairs there is no interval: five pairs of one sign are luck once in sixteen times."""


class GainCurve(Record):
    """The best score so far of one search: what was spent after each attempt, and how much better it was."""

    spent: tuple[float, ...]
    gains: tuple[float, ...]
    """Over the baseline, in the most important metric: positive is better."""

    @property
    def final(self) -> float:
        return self.gains[-1] if self.gains else 0.0

    def area(self, budget: float) -> float:
        """Return the mean of the best gain so far over the budget."""
        if budget <= 0:
            return 0.0
        total, best, since = 0.0, 0.0, 0.0
        for spent, gained in zip(self.spent, self.gains, strict=True):
            now = min(max(spent, since), budget)
            total += best * (now - since)
            best, since = gained, now
        return (total + best * (budget - since)) / budget


class Difference(Record):
    """How much better an arm is than the first one, over pairs of the same task and seed."""

    mean: float
    low: float | None
    high: float | None
    """The ends of the 95 % interval; None with too few pairs."""
    pairs: int

    @property
    def is_sure(self) -> bool:
        """Say whether the interval excludes zero."""
        return self.low is not None and self.high is not None and (self.low > 0 or self.high < 0)


def curve_of(history: History, run: int, unit: str) -> GainCurve:
    """Return the curve of a run, with its spending in `attempts`, `seconds`, `tokens` or `money`."""
    root = history[history.runs[run].root]
    metric = run_metric(history, history.runs[run])
    base = history.score(root)
    spent, best, spending, gains = 0.0, 0.0, [], []
    for node in history.nodes(run, Pool.ATTEMPT):
        if node.id.parent is None or node.verdict is None:
            continue
        seconds = node.outcome.seconds if node.outcome else 0.0
        spent += {"attempts": 1.0, "seconds": seconds, "tokens": node.tokens, "money": node.money_usd}[unit]
        score = history.score(node)
        if node.verdict is Verdict.KEPT and score is not None and base is not None:
            best = max(best, metric.direction.sign * (score - base))
        spending.append(spent)
        gains.append(best)
    return GainCurve(tuple(spending), tuple(gains))


def paired_difference(by_task: Sequence[Sequence[float]]) -> Difference:
    """Compute the mean difference, tasks weighing the same, and its interval by resampling each task's pairs."""
    tasks = [pairs for pairs in by_task if pairs]
    count = sum(map(len, tasks))
    if not tasks:
        return Difference(0.0, None, None, 0)
    mean = sum(sum(pairs) / len(pairs) for pairs in tasks) / len(tasks)
    if count < FEWEST_PAIRS:
        return Difference(mean, None, None, count)
    rng = random.Random(0)
    means = sorted(
        sum(sum(rng.choices(pairs, k=len(pairs))) / len(pairs) for pairs in tasks) / len(tasks)
        for _ in range(_DRAWS)
    )
    return Difference(mean, means[int(0.025 * _DRAWS)], means[int(0.975 * _DRAWS)], count)


class ArmRow(Record):
    """One arm on one task, or pooled over all (then `task` is empty)."""

    arm: str
    task: str
    area: float
    final: float
    area_over_first: Difference
    final_over_first: Difference


def arm_rows(curves: Mapping[tuple[str, str, int], GainCurve], budget: float) -> list[ArmRow]:
    """Return rows for each arm, pooled first and then by task.

    `curves` are by arm, task and seed. Gains are shares of the largest gain that any arm found on that task.
    """
    arms = list(dict.fromkeys(arm for arm, _, _ in curves))
    tasks = list(dict.fromkeys(task for _, task, _ in curves))
    largest = {
        task: max((curve.final for (_, other, _), curve in curves.items() if other == task), default=0.0) or 1.0
        for task in tasks
    }
    areas = {key: curve.area(budget) / largest[key[1]] for key, curve in curves.items()}
    finals = {key: curve.final / largest[key[1]] for key, curve in curves.items()}

    def row(arm: str, task: str) -> ArmRow:
        chosen = [task] if task else tasks

        def pairs(values: Mapping[tuple[str, str, int], float]) -> list[list[float]]:
            return [
                [
                    value - values[arms[0], here, key[2]]
                    for key, value in values.items()
                    if key[0] == arm and key[1] == here and (arms[0], here, key[2]) in values
                ]
                for here in chosen
            ]

        def mean(values: Mapping[tuple[str, str, int], float]) -> float:
            own = [value for key, value in values.items() if key[0] == arm and key[1] in chosen]
            return sum(own) / len(own) if own else 0.0

        return ArmRow(
            arm, task, mean(areas), mean(finals), paired_difference(pairs(areas)), paired_difference(pairs(finals))
        )

    return [row(arm, "") for arm in arms] + [row(arm, task) for task in tasks for arm in arms if len(tasks) > 1]


_HEAD = ("arm", "area", "final", "area over the first", "final over the first")


def arms_text(head: str, rows: Sequence[ArmRow], columns: int = 80, terminal: Terminal | None = None) -> str:
    """Format the rows of a comparison below a line that says what was compared."""
    terminal = terminal or Terminal()
    lines = [terminal.paint(cut(head, columns), "strong")]
    for task in dict.fromkeys(row.task for row in rows):
        own = [row for row in rows if row.task == task]
        cells = [(task or _HEAD[0], *_HEAD[1:]), *(_cells(row, row is own[0]) for row in own)]
        widths = [max(map(width, column)) for column in zip(*cells, strict=True)]
        widths[0] = min(widths[0], max(columns - 2 - sum(one + 2 for one in widths[1:]), 8))
        table = [cut(_line(row, widths), columns) for row in cells]
        lines += ["", terminal.paint(table[0], "dim"), *table[1:]]
    lines += ["", "  shares of the largest gain on a task; [95 % interval] of paired differences,"]
    lines += [f"  from {FEWEST_PAIRS} pairs on; * excludes zero"]
    return terminal.render("\n".join(lines))


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    padded = (pad(cell, size, right=at > 0) for at, (cell, size) in enumerate(zip(cells, widths, strict=True)))
    return "  " + "  ".join(padded)


def _cells(row: ArmRow, is_first: bool) -> tuple[str, ...]:
    over = ("", "") if is_first else (_difference(row.area_over_first), _difference(row.final_over_first))
    return row.arm, f"{row.area:.3f}", f"{row.final:.3f}", *over


def _difference(found: Difference) -> str:
    if found.low is None or found.high is None:
        return f"{found.mean:+.3f} ({found.pairs})"
    return f"{found.mean:+.3f} [{found.low:+.2f}, {found.high:+.2f}]{'*' if found.is_sure else ''}"
