"""Everything about one node, in one answer; files, diffs and calls are parts of their own."""

from __future__ import annotations

from typing import Any

from msgspec.structs import asdict

from loopty.domain.evidence import paired_estimate
from loopty.domain.ids import NodeId
from loopty.domain.objective import score_metric
from loopty.domain.trial import Pool, Verdict
from loopty.record.history import History
from loopty.record.node_record import Node, Pairing
from loopty.record.search_summary import FrozenPool
from loopty.record.trials import Cohorts
from loopty.record.verdicts import Confirmation, Incumbents
from loopty.session.reader import CampaignReader
from loopty.show.audits import AuditRow
from loopty.show.comparisons import machine_description, score_change
from loopty.show.node import NodeDetail
from loopty.web.answers import change_name, combination_answer, node_name, node_names
from loopty.web.columns import MARKS
from loopty.web.node_files import log_names, trace_names
from loopty.web.record import CallFold, RunFold

_MOST_CHILDREN = 200


def node_answer(
    reader: CampaignReader, fold: RunFold, node: NodeId, audits: list[AuditRow] | None
) -> dict[str, Any]:
    """Return all that is known about the node: its record, and what explains it."""
    history, detail = reader.history, reader.detail(node)
    found, outcome, run = detail.node, detail.node.outcome, history.runs[node.run]
    explanation = reader.explanation(node) if outcome and not outcome.is_finished else None
    logs = log_names(reader, node)
    return {
        **asdict(found),
        **_relatives(history, fold, found),
        "run": node.run,
        "mark": MARKS[fold.columns.marks[found.order - 1]],
        "against": node_name(history, found.against),
        "summary": change_name(history, found),
        "changed_params": detail.changed_params,
        "edited": found.tree != history[run.root].tree,
        "replays": _replays(history, fold, found),
        "combines": combination_answer(history, FrozenPool.of(run)) if found.id.parent is None else None,
        "is_best": detail.is_best,
        "set_aside": detail.set_aside,
        "explanation": explanation.cause.sentence if explanation and explanation.cause else "",
        "metrics": _metrics(history, detail),
        "over_parent": detail.over_parent,
        "effect_percent": detail.effect_percent,
        "pairs": _pairs(history, found.pairing, found),
        "confirmation": _pairs(history, _confirmation(history, found), found),
        "gates": _gates(detail),
        "machine": machine_description(run, outcome.fingerprint) if outcome and outcome.fingerprint else "",
        "other_machine": detail.other_machine,
        "audit": [row for row in audits or () if row.node == node],
        "cost": _cost(reader, fold.calls, found),
        "logs": logs,
        "traces": trace_names(reader, node),
        "has_curve": any(log["name"] == "metrics.csv" for log in logs),
        "actions": node_actions(found),
    }


def _relatives(history: History, fold: RunFold, found: Node) -> dict[str, Any]:
    columns, place = fold.columns, found.order - 1
    path, above = [found.id], found.id.parent
    while above:
        path.append(above)
        above = above.parent
    children = [each for each, parent in enumerate(columns.parents) if parent == place]
    kept = [each for each in children if MARKS[columns.marks[each]] == "kept"][-_MOST_CHILDREN:]
    kept_places = fold.kept_places()
    later = next((each for each in kept_places if each > place), None)
    earlier = next((each for each in reversed(kept_places) if each < place), None)

    def id_at(each: int | None) -> str | None:
        if each is None or not 0 <= each < len(columns):
            return None
        return history.node_of_handle(columns.handles[each])

    return {
        "path": node_names(history, reversed(path[-60:] if len(path) > 60 else path)),
        "parent": node_name(history, found.id.parent),
        "merged": node_names(history, found.merged),
        "inspirations": node_names(history, found.inspirations),
        "children": {"kept": node_names(history, map(id_at, kept)), "count": len(children)},
        "next": id_at(place + 1),
        "previous": id_at(place - 1),
        "next_kept": id_at(later),
        "previous_kept": id_at(earlier),
    }


def _replays(history: History, fold: RunFold, node: Node) -> list[dict[str, Any]]:
    """List what the node gave when it was measured again; no score where it gave none."""
    metrics = history.metrics(node)
    name = score_metric(metrics).name if metrics else ""
    found = fold.replays.get(node.id, [])
    return [{"at": at, "ending": end.ending, "score": end.metrics.get(name)} for at, end in found]


def node_actions(node: Node) -> list[str]:
    """List the actions that make sense for a node now."""
    if node.id.parent is None:
        return []
    actions = []
    if node.verdict is Verdict.HELD:
        actions.append("accept")
    if node.verdict not in (Verdict.DISCARDED, Verdict.REJECTED) and not node.draft:
        actions.append("discard")
    if not node.is_invalidated:
        actions.append("invalidate")
    if node.withdrawn and node.withdrawn.by_hand:
        actions.append("restore")
    if node.reopened_for and node.verdict is None:
        actions.append("remeasure")
    if node.outcome and node.outcome.is_finished and not node.files_removed:
        if node.verdict in (Verdict.DISCARDED, Verdict.INCONCLUSIVE):
            actions.append("replay")
        actions.append("apply")
    return actions


def _metrics(history: History, detail: NodeDetail) -> list[dict[str, Any]]:
    node, parent = detail.node, detail.parent
    run = history.runs[node.id.run]
    best_id = Incumbents.of(run, Pool.ATTEMPT).best
    fingerprint = node.outcome.fingerprint if node.outcome else ""
    best = history[best_id].result(fingerprint) if best_id and best_id != node.id else None
    above = parent.result(fingerprint) if parent else None
    counting = {metric.name: metric.direction for metric in history.metrics(node)}
    directions = {**(node.outcome.directions if node.outcome else {}), **counting}
    rows = []
    for metric in detail.metrics:
        direction = directions.get(metric.name)
        others = [
            result.outcome.metrics.get(metric.name) if result and result.outcome.is_finished else None
            for result in (above, best)
        ]
        changes = [
            score_change(metric.value, other, direction, metric.noise) if other is not None and direction else None
            for other in others
        ]
        # The pairs of the most important metric say more than two scores of different times.
        if detail.over_parent and counting and metric.name == score_metric(history.metrics(node)).name:
            changes[0] = detail.over_parent.change
        rows.append(
            {
                **asdict(metric),
                "direction": direction,
                "counts": metric.name in counting,
                "parent": others[0],
                "over_parent": changes[0],
                "over_best": changes[1],
            }
        )
    return rows


def _confirmation(history: History, node: Node) -> Pairing | None:
    run = history.runs[node.id.run]
    return Confirmation.of(run).pairing_of(node.id, Cohorts.of(run).fingerprint)


def _pairs(history: History, pairing: Pairing | None, node: Node) -> dict[str, Any] | None:
    metrics = history.metrics(node)
    if pairing is None or not metrics or not pairing.pairs_so_far:
        return None
    metric = score_metric(metrics)
    name, sign = metric.name, metric.direction.sign
    pairs = [
        (mine[name], theirs[name]) for mine, theirs in pairing.pairs_so_far if name in mine and name in theirs
    ]
    gains = [100 * sign * (mine - theirs) / abs(theirs) if theirs else 0.0 for mine, theirs in pairs]
    running = []
    for count in range(1, len(gains) + 1):
        found = paired_estimate(gains[:count])
        ordered = sorted(gains[:count])
        amount = found.amount if found else ordered[count // 2]
        ends = (found.low, found.high) if found else (None, None)
        running.append({"amount": amount, "low": ends[0], "high": ends[1]})
    return {
        "incumbent": node_name(history, pairing.incumbent),
        "metric": name,
        "rows": [{"mine": mine, "theirs": theirs} for mine, theirs in pairs],
        "running": running,
        "faults": pairing.faults,
    }


def _gates(detail: NodeDetail) -> list[dict[str, Any]]:
    node, rows = detail.node, []
    values = node.outcome.metrics if node.outcome else {}
    for gate in detail.gates:
        text = " ".join(gate.argv) if gate.command else f"{gate.metric}: {gate.minimum} to {gate.maximum}"
        has_failed = node.verdict is Verdict.REJECTED and gate.name in node.reason
        passed = (
            None if node.outcome is None else not has_failed if has_failed or node.outcome.is_finished else None
        )
        shown = f"{values[gate.metric]:.6g}" if gate.metric and gate.metric in values else ""
        rows.append({"name": gate.name, "text": text, "passed": passed, "detail": shown})
    return rows


def _cost(reader: CampaignReader, calls: CallFold, node: Node) -> dict[str, Any]:
    if not node.calls:
        return {"calls": 0, "tokens": 0, "money_usd": 0.0}
    found = reader.calls(node.id) if calls.times else ()
    return {
        "calls": len(found),
        "tokens": sum(call.tokens for call in found),
        "money_usd": sum(call.money_usd for call in found),
    }
