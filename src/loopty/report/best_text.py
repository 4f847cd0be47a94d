"""The best nodes, and the result of a session, as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loopty.domain.outcome import Verdict
from loopty.domain.pool import Pool
from loopty.domain.space import Value
from loopty.report.change_line import Change, ChangeLine
from loopty.report.columns import cut, pad, short_id, width, wrap
from loopty.report.figures import figure, plural
from loopty.report.score_text import ScoreText
from loopty.report.status_text import endings_text, integrity_text, time_text, usage_text
from loopty.report.tally_text import uplift_text
from loopty.report.terminal import Terminal
from loopty.report.tree_text import node_remark
from loopty.views.leaderboard import LeaderboardRow
from loopty.views.other_machines import Cohort
from loopty.views.run_status import RunStatus
from loopty.views.verdict_tally import Tally

_LONGEST_METRIC = 16


def leaderboard_text(
    rows: Sequence[LeaderboardRow], metric: str, columns: int = 80, terminal: Terminal | None = None
) -> str:
    terminal = terminal or Terminal()
    if not rows:
        return "no results yet"
    scores = ScoreText.of((row.score for row in rows), (row.over_baseline for row in rows), rows[0].noise)
    names = max(min(max(len(short_id(row.node.id)) for row in rows), columns // 3), 4)
    values = max(max(width(scores.score(row.score)) for row in rows), min(width(metric), _LONGEST_METRIC))
    head = f"{'':>3}  {'node':<{names}}  {pad(metric, values, right=True)}  {'better by':>9}"
    room = columns - width(head) - 2
    remarks = max(width(node_remark(row.node, _remark(row))) for row in rows)
    every_change = (Change(row.node, row.changed_params) for row in rows)
    changes = ChangeLine.of(every_change, room - remarks - 1 if remarks else room)
    lines = [terminal.paint(cut(f"{head}  {changes.head}", columns).rstrip(), "dim")]
    for row in rows:
        name = pad(short_id(row.node.id, names), names)
        better = scores.change(row.over_baseline) if row.over_baseline else ""
        line = f"{row.rank:>3}  {name}  {scores.score(row.score):>{values}}  {better:>9}"
        remark, change = node_remark(row.node, _remark(row)), changes.text(Change(row.node, row.changed_params))
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


def closing_text(
    status: RunStatus, reason: str, columns: int = 80, terminal: Terminal | None = None, tally: Tally | None = None
) -> str:
    """The closing lines of `loopty optimize`."""
    terminal = terminal or Terminal()
    improved = status.best is not None and status.best.over_baseline is not None
    style, scores = "best" if improved else "strong", ScoreText.of_run(status)
    lines = [terminal.paint(line, style) for line in wrap(_result(status, scores), columns)]
    if weak := integrity_text(status):
        lines += [terminal.paint(line, "warn") for line in wrap(f"integrity: {weak}", columns)]
    if status.control:
        lines += wrap(_control(status, scores), columns)
    if tally and tally.over_control:
        lines += wrap(f"uplift: {uplift_text(tally.over_control)}", columns)
    attempts = status.count(Pool.ATTEMPT)
    spent = plural(attempts.started, "attempt")
    spent += f" ({endings_text(attempts)})" if attempts.endings else ""
    lines += wrap(f"{spent} in {time_text(status)}; {reason}", columns)
    if status.tokens or status.money_usd:
        lines += wrap(f"models: {usage_text(status)}; details: loopty spend", columns)
    if status.best and improved and status.best.params:
        lines += wrap(f"best parameters: {_params_text(status.best.params)}", columns)
    if not (status.best and improved):
        lines.append(terminal.paint("see what was tried: loopty tree", "dim"))
    elif status.best.edited:
        lines.append(terminal.paint("see it: loopty diff best --baseline", "dim"))
        lines.append(terminal.paint("use it: loopty apply best", "dim"))
    else:
        lines.append(terminal.paint("see it: loopty show best", "dim"))
    return terminal.render("\n".join(lines))


def _params_text(params: Mapping[str, Value]) -> str:
    return ", ".join(
        f"{name} {figure(value) if isinstance(value, float) else value}" for name, value in params.items()
    )


def _result(status: RunStatus, scores: ScoreText) -> str:
    if status.baseline is None:
        return "the baseline gave no result"
    baseline = f"the baseline ({scores.score(status.baseline.score)})"
    if status.best is None or status.best.over_baseline is None:
        return f"nothing better than {baseline} was found"
    score = f"best {short_id(status.best.node)}: {status.metric} {scores.score(status.best.score)}"
    return f"{score}, {scores.change_words(status.best.over_baseline, baseline)}"


def _control(status: RunStatus, scores: ScoreText) -> str:
    assert status.control
    if status.control.over_baseline is None:
        return "control: nothing better than the baseline"
    text = f"control {short_id(status.control.node)}: {scores.score(status.control.score)}"
    text += f", {scores.change_words(status.control.over_baseline, 'the baseline')}"
    if status.uplift:
        text += f"; the best attempt is {scores.change_words(status.uplift, 'that')}"
    return text
