"""Two nodes, or two runs, side by side."""

from __future__ import annotations

from typing import Any

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.trial import Verdict
from loopty.record.calls import Spend
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.trials import Cohorts
from loopty.session.reader import CampaignReader
from loopty.show.comparisons import (
    SIGMAS,
    ScoreChange,
    machine_description,
    percent_of,
    run_metric,
    score_change,
    sigma,
)
from loopty.web.answers import change_name, node_name
from loopty.web.charts import metric_answer
from loopty.web.columns import MARKS
from loopty.web.node_files import param_differences, patch_answer, patch_between
from loopty.web.record import RecordFeed, RunFold

_MOST_STEPS = 300


def compare_nodes(feed: RecordFeed, reader: CampaignReader, one: NodeId, other: NodeId) -> dict[str, Any]:
    """Tell what differs between two nodes, in metrics, parameters and files."""
    history = reader.history
    first, second = history[one], history[other]
    is_same_run = one.run == other.run
    here = first.outcome.fingerprint if first.outcome else ""
    is_comparable = is_same_run and bool(here) and second.result(here) is not None
    why_not = "" if is_comparable else _why_not(first, second, is_same_run)
    metrics = _metric_rows(history, first, second, is_comparable)
    patch = ""
    try:
        patch = patch_between(reader, one, other)
    except Misuse as fault:
        why_not = why_not or str(fault)
    changes = param_differences(reader, one, other)
    return {
        "a": _side(feed, history, first),
        "b": _side(feed, history, second),
        "ancestor": node_name(history, _common_ancestor(one, other)),
        "comparable": is_comparable,
        "why_not": why_not,
        "sentence": _sentence(metrics, why_not),
        "metrics": metrics,
        "params": changes,
        **patch_answer(patch),
    }


def _why_not(first: Node, second: Node, is_same_run: bool) -> str:
    if not is_same_run:
        return "they are of two runs, which may have other criteria"
    without = next(
        (node for node in (first, second) if node.outcome is None or not node.outcome.is_finished), None
    )
    return f"{without.name} has no result" if without else "they were measured on two machines"


def _side(feed: RecordFeed, history: History, node: Node) -> dict[str, Any]:
    run, fold = history.runs[node.id.run], feed.fold(node.id.run)
    metric = run_metric(history, run)
    fingerprint = node.outcome.fingerprint if node.outcome else ""
    result = node.result(fingerprint)
    values = [sample[metric.name] for sample in node.samples if metric.name in sample]
    noise = sigma(run, fingerprint, metric.name)
    spent = fold.calls.by_operator.get(node.operator)
    share = len(node.calls) / spent.calls if spent and spent.calls else 0.0
    return {
        "id": node.id,
        "handle": node.handle,
        "summary": change_name(history, node),
        "run": node.id.run,
        "score": result.outcome.metrics.get(metric.name) if result else None,
        "half": 2 * noise / max(len(values), 1) ** 0.5 if noise else None,
        "measurements": len(values),
        "operator": node.operator,
        "mark": MARKS[fold.columns.marks[node.order - 1]],
        "fingerprint": fingerprint,
        "cost_usd": spent.money_usd * share if spent else 0.0,
        "cost_tokens": round(spent.tokens * share) if spent else 0,
        "at": node.added_at,
    }


def _metric_rows(history: History, first: Node, second: Node, is_comparable: bool) -> list[dict[str, Any]]:
    run = history.runs[first.id.run]
    here = first.outcome.fingerprint if first.outcome else ""
    results = first.result(here), second.result(here) if is_comparable else None
    values = [dict(result.outcome.metrics) if result else {} for result in results]
    if not values[1] and second.outcome:
        values[1] = dict(second.outcome.metrics)
    counting = {metric.name: metric.direction for metric in history.metrics(first)}
    reported = {**(first.outcome.directions if first.outcome else {}), **counting}
    rows = []
    for name in dict.fromkeys([*counting, *values[0], *values[1]]):
        mine, theirs, direction = values[0].get(name), values[1].get(name), reported.get(name)
        noise = sigma(run, here, name)
        change, is_paired = None, False
        if is_comparable and mine is not None and theirs is not None and direction:
            change, is_paired = _change(
                first=first, second=second, name=name, mine=mine, theirs=theirs, direction=direction, noise=noise
            )
        rows.append(
            {
                "name": name,
                "direction": direction.value if direction else None,
                "a": mine,
                "b": theirs,
                "change": change,
                "paired": is_paired,
                "verdict": _verdict(change, noise, is_paired),
                "exact": noise == 0,
            }
        )
    return rows


def _change(
    first: Node, second: Node, name: str, mine: float, theirs: float, direction: Any, noise: float
) -> tuple[ScoreChange, bool]:
    """Say how much better B is than A: from their pairs if the judge made some, else from two results."""
    effect = second.effect
    if effect and second.against == first.id and effect.metric == name:
        percent = percent_of(effect.amount, mine, noise)
        return ScoreChange(
            effect.amount, percent, pairs=effect.pairs, is_confirmed=second.verdict is Verdict.KEPT
        ), True
    found = score_change(theirs, mine, direction, noise)
    if not noise:
        return found, False
    half = 2 * noise * (1 / max(len(first.samples), 1) + 1 / max(len(second.samples), 1)) ** 0.5
    return ScoreChange(found.amount, found.percent, found.amount - half, found.amount + half), False


def _verdict(change: ScoreChange | None, noise: float, is_paired: bool) -> str:
    if change is None:
        return "unknown"
    least = 0.0 if is_paired else SIGMAS * noise
    if is_paired and not change.is_confirmed and change.amount > 0:
        return "same"  # the judge could not tell
    return "same" if abs(change.amount) <= least else "better" if change.amount > 0 else "worse"


def _sentence(metrics: list[dict[str, Any]], why_not: str) -> str:
    first = metrics[0] if metrics else None
    if why_not and (first is None or first["change"] is None):
        return f"A and B cannot be compared: {why_not}."
    if first is None or first["change"] is None:
        return "There is no result to compare."
    percent = first["change"].percent
    amount = f"{abs(percent):.1f} %" if percent is not None else f"{abs(first['change'].amount):.4g}"
    words = {"better": f"B is {amount} better than A", "worse": f"B is {amount} worse than A"}
    sentence = words.get(first["verdict"], f"A and B do not differ beyond noise ({amount})")
    worse = [row["name"] for row in metrics[1:] if row["verdict"] == "worse"]
    return f"{sentence} in {first['name']}" + (f", and worse in {', '.join(worse[:3])}." if worse else ".")


def _common_ancestor(one: NodeId, other: NodeId) -> NodeId | None:
    found: NodeId | None = one
    while found and not other.is_within(found):
        found = found.parent
    return found


def compare_runs(feed: RecordFeed, reader: CampaignReader, one: int, other: int) -> dict[str, Any]:
    """Set two runs side by side: what they found, what it cost, and whether their scores mean the same."""
    sides = [_run_side(feed, reader, run) for run in (one, other)]
    first, second = (feed.run(run) for run in (one, other))
    names = {**first.criteria_parts, **second.criteria_parts}
    differs = [name for name in names if first.criteria_parts.get(name) != second.criteria_parts.get(name)]
    is_same_machine = Cohorts.of(first).fingerprint == Cohorts.of(second).fingerprint
    if not is_same_machine:
        differs.append("machine")
    return {
        "a": sides[0],
        "b": sides[1],
        "comparable": not differs,
        "differs": differs,
        "sentence": _runs_sentence(feed, one, other, sides, differs),
    }


def _runs_sentence(feed: RecordFeed, one: int, other: int, sides: list[dict[str, Any]], differs: list[str]) -> str:
    best = [side["best"].score if side["best"] else None for side in sides]
    if best[0] is None or best[1] is None:
        return "One of the runs has no result yet."
    direction = run_metric(feed.history, feed.run(one)).direction
    change = score_change(best[1], best[0], direction)
    amount = f"{abs(change.percent):.1f} %" if change.percent is not None else f"{abs(change.amount):.4g}"
    found = f"better by {amount}" if change.amount > 0 else f"worse by {amount}" if change.amount else "as good"
    caution = f"; they differ in {', '.join(differs)}, so the scores may not mean the same" if differs else ""
    return f"The best of run {other} is {found} than that of run {one}{caution}."


def _run_side(feed: RecordFeed, reader: CampaignReader, number: int) -> dict[str, Any]:
    fold, history = feed.whole_fold(number), reader.history
    run, status = history.runs[number], reader.status(number)
    spend, columns = Spend.of(run), fold.columns
    ended = sum(columns.counts.values())
    hours = status.work_seconds / 3600
    return {
        "run": number,
        "state": status.word,
        "why": run.why,
        "started_at": run.started_at,
        "elapsed_seconds": status.elapsed_seconds,
        "metric": metric_answer(history, fold),
        "baseline": status.baseline.score if status.baseline else None,
        "best": status.best,
        "counts": fold.counts(),
        "nodes": len(columns),
        "tokens": spend.total_tokens,
        "money_usd": spend.total_money_usd,
        "per_hour": ended / hours if hours > 0 else None,
        "uplift": str(status.uplift.words) if status.uplift else "",
        "machine": machine_description(run, Cohorts.of(run).fingerprint),
        "proposers": [name for name in columns.operator_names if name != "baseline"],
        "curve": _curve(fold, run.started_at),
    }


def _curve(fold: RunFold, started_at: float) -> list[dict[str, Any]]:
    columns, rows = fold.columns, []
    for place in fold.kept_places():
        if columns.is_attempt(place) and (score := columns.score(place)) is not None:
            at = columns.times[place]
            rows.append(
                {"order": place + 1, "at": at - started_at, "cost": fold.calls.cost_at(at), "score": score}
            )
    return rows[-_MOST_STEPS:]
