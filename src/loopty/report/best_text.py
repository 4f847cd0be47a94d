"""The best nodes, and what a session came to, as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from loopty.domain.pool import Pool
from loopty.domain.space import Value
from loopty.report.columns import cut, padded, short, wrapped
from loopty.report.figures import compared, figure, plural, signed
from loopty.report.status_text import endings_text, integrity_text, spent_text, time_text
from loopty.report.tally_text import uplift_text
from loopty.report.terminal import Look
from loopty.report.tree_text import note
from loopty.views.leaderboard import Place
from loopty.views.other_machines import Cohort
from loopty.views.run_status import Status
from loopty.views.verdict_tally import Tally


def leaderboard_text(places: Sequence[Place], metric: str, columns: int = 80, look: Look | None = None) -> str:
    look = look or Look()
    if not places:
        return "no results yet"
    names = max(min(max(len(short(place.node.id)) for place in places), columns // 3), 4)
    scores = max(10, min(len(metric), 16))
    head = f"{'':>3}  {'node':<{names}}  {padded(metric, scores, right=True)}  {'better by':>9}"
    if any(place.varying for place in places):
        head += "  (kept first, then by score)"
    lines = [look.paint(cut(head, columns), "dim")]
    for place in places:
        name = padded(short(place.node.id, names), names)
        better = signed(place.over_baseline) if place.over_baseline else ""
        line = f"{place.rank:>3}  {name}  {figure(place.score):>{scores}}  {better:>9}"
        left = columns - len(line) - 2
        text = cut(note(place.node, "measured once" if place.once else ""), left) if left > 3 else ""
        lines.append((look.paint(line, "best" if place.rank == 1 else "") + "  " + text).rstrip())
    return look.finished("\n".join(lines))


def elsewhere_text(cohorts: Sequence[Cohort], metric: str, columns: int = 80, look: Look | None = None) -> str:
    """The leaderboards of other machines, each under its own heading."""
    look = look or Look()
    parts = []
    for cohort in cohorts:
        heading = wrapped(f"elsewhere, not comparable with the above: {cohort.machine}", columns)
        places = leaderboard_text(cohort.places, metric, columns, look)
        parts.append("\n".join([*(look.paint(line, "strong") for line in heading), places]))
    return look.finished("\n\n".join(parts))


def closing_text(
    status: Status, reason: str, columns: int = 80, look: Look | None = None, tally: Tally | None = None
) -> str:
    """What `loopty optimize` says last."""
    look = look or Look()
    improved = status.best is not None and status.best.over_baseline is not None
    style = "best" if improved else "strong"
    lines = [look.paint(line, style) for line in wrapped(_result(status), columns)]
    if weak := integrity_text(status):
        lines += [look.paint(line, "warn") for line in wrapped(f"integrity: {weak}", columns)]
    if status.control:
        lines += wrapped(_control(status), columns)
    if tally and tally.over_control:
        lines += wrapped(f"uplift: {uplift_text(tally.over_control)}", columns)
    attempts = status.count(Pool.ATTEMPT)
    spent = plural(attempts.started, "attempt")
    spent += f" ({endings_text(attempts)})" if attempts.endings else ""
    lines += wrapped(f"{spent} in {time_text(status)}; {reason}", columns)
    if status.tokens or status.money_usd:
        lines += wrapped(f"models: {spent_text(status)}; `loopty spend` says for what", columns)
    if status.best and improved and status.best.params:
        lines += wrapped(f"its parameters: {_listed(status.best.params)}", columns)
    if not (status.best and improved):
        lines.append(look.paint("see what was tried: loopty tree", "dim"))
    elif status.best.edited:
        lines.append(look.paint("see it: loopty diff best --baseline", "dim"))
        lines.append(look.paint("use it: loopty apply best", "dim"))
    else:
        lines.append(look.paint("see it: loopty show best", "dim"))
    return look.finished("\n".join(lines))


def _listed(params: Mapping[str, Value]) -> str:
    return ", ".join(
        f"{name} {figure(value) if isinstance(value, float) else value}" for name, value in params.items()
    )


def _result(status: Status) -> str:
    if status.baseline is None:
        return "the baseline gave no result"
    baseline = f"the baseline {figure(status.baseline.score)}"
    if status.best is None or status.best.over_baseline is None:
        return f"nothing better than {baseline} was found"
    score = f"best {short(status.best.node)}: {status.metric} {figure(status.best.score)}"
    return f"{score}, {compared(status.best.over_baseline, baseline)}"


def _control(status: Status) -> str:
    assert status.control
    if status.control.over_baseline is None:
        return "control: nothing better than the baseline"
    text = f"control {short(status.control.node)}: {figure(status.control.score)}"
    text += f", {compared(status.control.over_baseline, 'the baseline')}"
    if status.uplift:
        text += f"; the best attempt is {compared(status.uplift, 'that')}"
    return text
