"""How much better a node is than the baseline, as far as it is known: one answer for every view.

Two scores that were measured hours apart differ by what the machine did in between. So where measurements vary,
the change is that of pairs: fresh ones of the node and the baseline, made to confirm it, or else, unconfirmed, the
sum of the effects by which it and its predecessors were kept.
"""

from __future__ import annotations

from loopty.domain.evidence import median
from loopty.domain.ids import NodeId
from loopty.domain.objective import Metric
from loopty.domain.outcome import Verdict
from loopty.domain.paired_estimate import paired_estimate
from loopty.judge.confirmation import is_varying
from loopty.record.confirmations import Confirmation
from loopty.record.history import History
from loopty.views.comparable import comparable_result, sigma
from loopty.views.score_change import ScoreChange, is_far_from_zero, percent_of, score_change


def over_baseline(history: History, node: NodeId, fingerprint: str, metric: Metric) -> ScoreChange | None:
    """The node's change over the baseline under this fingerprint; None for the baseline, and without results."""
    run = history.runs[node.run]
    result, baseline = (comparable_result(history[other], fingerprint) for other in (node, run.root))
    if node == run.root or result is None or baseline is None:
        return None
    noise = sigma(run, fingerprint, metric.name)
    older = baseline.outcome.metrics[metric.name]
    if not is_varying(history, node, fingerprint, metric.name):
        return score_change(result.outcome.metrics[metric.name], older, metric.direction, noise)
    if confirmed := _change_in_fresh_pairs(history, node, fingerprint, metric):
        return confirmed
    amount = _sum_of_effects(history, node, metric)
    if amount is None:
        amount = score_change(result.outcome.metrics[metric.name], older, metric.direction).amount
    return ScoreChange(amount, percent_of(amount, older, noise), is_confirmed=False)


def _change_in_fresh_pairs(history: History, node: NodeId, fingerprint: str, metric: Metric) -> ScoreChange | None:
    run = history.runs[node.run]
    pairing = Confirmation.of(run).pairing_of(node, fingerprint)
    if pairing is None:
        return None
    pairs = [(mine[metric.name], theirs[metric.name]) for mine, theirs in pairing.pairs_so_far]
    # In units of each pair's own baseline: on a machine that changes its speed, 20 % is many amounts.
    has_scale = all(is_far_from_zero(theirs, sigma(run, fingerprint, metric.name)) for _, theirs in pairs)
    sign, units = metric.direction.sign, [abs(theirs) if has_scale else 1.0 for _, theirs in pairs]
    gains = [sign * (mine - theirs) / unit for (mine, theirs), unit in zip(pairs, units, strict=True)]
    found = paired_estimate(gains)
    if found is None:
        return None
    unit, percent = median(units), 100 * found.amount if has_scale else None
    low, high = found.low * unit, found.high * unit
    return ScoreChange(found.amount * unit, percent, low, high, found.pairs, is_confirmed=True)


def _sum_of_effects(history: History, node: NodeId, metric: Metric) -> float | None:
    """The sum of the effects from the baseline to the node; None where one of them is not in this metric."""
    root, total, place = history.runs[node.run].root, 0.0, history[node]
    while place.id != root:
        if place.effect is None or place.effect.metric != metric.name or place.against is None:
            return None
        total, place = total + place.effect.amount, history[place.against]
        if place.verdict is not Verdict.KEPT:
            return None
    return total
