"""The best nodes, as text."""

from __future__ import annotations

from collections.abc import Sequence

from loopty.domain.outcome import Verdict
from loopty.report.change_line import ChangeLine
from loopty.report.columns import cut, pad, width, wrap
from loopty.report.score_text import ScoreText
from loopty.report.terminal import Terminal
from loopty.report.tree_text import node_remark
from loopty.views.leaderboard import LeaderboardRow
from loopty.views.other_machines import Cohort

_LONGEST_METRIC = 16


def leaderboard_text(
    rows: Sequence[LeaderboardRow], metric: str, columns: int = 80, terminal: Terminal | None = None
) -> str:
    terminal = terminal or Terminal()
    if not rows:
        return "no results yet"
    scores = ScoreText.of((row.score for row in rows), (row.over_baseline for row in rows), rows[0].noise)
    names = max(4, *(len(row.node.name) for row in rows))
    values = max(max(width(scores.score(row.score)) for row in rows), min(width(metric), _LONGEST_METRIC))
    head = f"{'':>3}  {'node':<{names}}  {pad(metric, values, right=True)}  {'better by':>9}"
    room = columns - width(head) - 2
    remarks = max(width(node_remark(row.node, row.merged, _remark(row))) for row in rows)
    changes = ChangeLine.of(rows, room - remarks - 1 if remarks else room)
    lines = [terminal.paint(cut(f"{head}  {changes.head}", columns).rstrip(), "dim")]
    for row in rows:
        name = row.node.name.ljust(names)
        better = scores.change(row.over_baseline) if row.over_baseline else ""
        line = f"{row.rank:>3}  {name}  {scores.score(row.score):>{values}}  {better:>9}"
        remark, change = node_remark(row.node, row.merged, _remark(row)), changes.text(row)
        note = " ".join(filter(None, (change, remark) if changes.table else (remark, change)))
        text = cut(note, room) if room > 3 else ""
        lines.append((terminal.paint(line, "best" if row.rank == 1 else "") + "  " + text).rstrip())
    for why, listed in _behind(rows).items():
        have = "has a better" if len(listed) == 1 else "have a better"
        text = f"{', '.join(listed)} {have} {metric}, but {why}"
        lines += [terminal.paint(line, "dim") for line in wrap(text, columns)]
    return terminal.render("\n".join(lines))


def _behind(rows: Sequence[LeaderboardRow]) -> dict[str, list[str]]:
    """The nodes that are not the best although their scores are better, by the reason."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row.why_behind:
            found.setdefault(row.why_behind, []).append(row.node.name)
    return found


def _remark(row: LeaderboardRow) -> str:
    is_claimed = row.over_baseline is not None and row.node.verdict is Verdict.KEPT
    return "unconfirmed" if is_claimed and row.over_baseline and row.over_baseline.is_confirmed is False else ""


def other_cohorts_text(
    cohorts: Sequence[Cohort], metric: str, columns: int = 80, terminal: Terminal | None = None
) -> str:
    """The leaderboards of other machines, each under its own heading."""
    terminal = terminal or Terminal()
    parts = []
    for cohort in cohorts:
        heading = wrap(f"on another machine, not comparable with the above: {cohort.machine}", columns)
        rows = leaderboard_text(cohort.places, metric, columns, terminal)
        parts.append("\n".join([*(terminal.paint(line, "strong") for line in heading), rows]))
    return terminal.render("\n\n".join(parts))
