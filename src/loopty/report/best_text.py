"""The best nodes, as text."""

from __future__ import annotations

from collections.abc import Sequence

from loopty.domain.outcome import Verdict
from loopty.report.change_line import ChangeLine
from loopty.report.columns import cut, pad, width, wrap
from loopty.report.node_name import name_within, node_name
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
    names = max(min(max(width(node_name(row.node.id, row.node.handle)) for row in rows), columns // 3), 4)
    values = max(max(width(scores.score(row.score)) for row in rows), min(width(metric), _LONGEST_METRIC))
    head = f"{'':>3}  {'node':<{names}}  {pad(metric, values, right=True)}  {'better by':>9}"
    room = columns - width(head) - 2
    remarks = max(width(node_remark(row.node, _remark(row))) for row in rows)
    changes = ChangeLine.of(rows, room - remarks - 1 if remarks else room)
    lines = [terminal.paint(cut(f"{head}  {changes.head}", columns).rstrip(), "dim")]
    for row in rows:
        name = pad(name_within(row.node.id, row.node.handle, names), names)
        better = scores.change(row.over_baseline) if row.over_baseline else ""
        line = f"{row.rank:>3}  {name}  {scores.score(row.score):>{values}}  {better:>9}"
        remark, change = node_remark(row.node, _remark(row)), changes.text(row)
        note = " ".join(filter(None, (change, remark) if changes.table else (remark, change)))
        text = cut(note, room) if room > 3 else ""
        lines.append((terminal.paint(line, "best" if row.rank == 1 else "") + "  " + text).rstrip())
    return terminal.render("\n".join(lines))


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
