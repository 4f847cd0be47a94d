"""Everything known of one node, as text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from loopty.domain.ids import NodeId
from loopty.domain.outcome import Effect, Integrity
from loopty.domain.pool import Pool
from loopty.report.columns import cut, pad, printable_line, short_id, width
from loopty.report.facts import NAME_COLUMNS, Fact, fact_lines
from loopty.report.figures import change_figure, duration, figure, percent, plural, rough_figure, three_digits
from loopty.report.terminal import Terminal
from loopty.report.tree_text import node_glyph
from loopty.report.verification import review_text
from loopty.views.node_detail import MetricDetail, NodeDetail

_INTEGRITY = {
    Integrity.STRONG: "strong: the candidate ran apart from what scored it",
    Integrity.WEAK: "weak: the candidate ran in the benchmark's own sandbox",
}
_WITH_BASELINE = 50
"""Columns from which on the metrics of the baseline have their place."""


def node_text(detail: NodeDetail, folder: str, columns: int = 80, look: Terminal | None = None) -> str:
    """`folder` is where the node's logs and results lie."""
    look = look or Terminal()
    node = detail.node
    glyph, style = node_glyph(node)
    waiting = "measured, without a verdict yet" if node.outcome else "waiting for its trial"
    state = node.verdict or ("draft" if node.draft else "running" if node.running else waiting)
    head = look.paint(short_id(node.id), "strong") + "  " + look.paint(f"{glyph} {state}".strip(), style)
    if detail.is_best:
        head += look.paint(", the best of its run", "best")
    lines = [head, "", *fact_lines(_facts(detail, folder), columns, look)]
    if detail.metrics:
        lines += ["", *_metrics(detail.metrics, columns, look)]
    if node.params:
        lines += ["", *_params(detail, columns, look)]
    return look.render("\n".join(lines))


def _facts(detail: NodeDetail, folder: str) -> Iterator[Fact]:
    node = detail.node
    if short_id(node.id) != node.id:
        yield Fact("id", str(node.id))
    if node.reason:
        # The rest of such a reason is the effect in fewer words.
        yield Fact("because", re.split(r" by | \(", node.reason)[0] if node.effect else node.reason)
    if node.effect:
        yield Fact("effect", _effect(node.effect, detail.effect_percent, node.against))
    if node.review:
        yield Fact("review", review_text(node.review), "" if node.review.passed else "warn")
    yield Fact("made by", node.operator + ("" if node.pool is Pool.ATTEMPT else f" ({node.pool})"))
    if node.calls:
        made = f"{plural(len(node.calls), 'call')} of a model made it"
        yield Fact("calls", f"{made}: loopty show {short_id(node.id)} --prompt")
    if node.summary:
        yield Fact("change", node.summary)
    if detail.parent:
        why = f" ({node.parent_reason})" if node.parent_reason else ""
        yield Fact("parent", f"{short_id(detail.parent.id)}{why}")
    if node.children:
        yield Fact("children", f"{node.children:,}")
    if outcome := node.outcome:
        reason = f": {outcome.reason}" if outcome.reason else ""
        yield Fact("trial", f"{outcome.ending} after {duration(outcome.seconds)}{reason}")
        if len(node.samples) > 1:
            yield Fact("measured", _spread(detail))
        if detail.other_machine:
            yield Fact("machine", f"{detail.other_machine}: not comparable with the present one")
        if outcome.integrity:
            yield Fact("integrity", _INTEGRITY[outcome.integrity])
        if outcome.unenforced:
            yield Fact("unenforced", ", ".join(outcome.unenforced))
    for other in detail.other_results:
        measured = plural(other.measurements, "measurement")
        yield Fact("elsewhere", f"{figure(other.score)} in {measured} ({other.machine})")
    if detail.gates:
        yield Fact("gates", ", ".join(gate.name for gate in detail.gates))
    if node.trials > 1:
        lost = f", {node.losses} lost with their process" if node.losses else ""
        yield Fact("trials", f"{plural(node.trials, 'trial')}{lost}")
    if not node.draft:
        yield Fact("commit", node.commit)
        yield Fact("branch", node.id.branch)
    yield Fact("folder", folder)


def _effect(effect: Effect, share: float | None, rival: NodeId | None) -> str:
    """`score better by 0.21 (12 %) than 1 in 6 pairs; 90 % interval of the gain +0.05 to +0.4; error rate 5 %`."""
    name, unit = (effect.metric, "") if effect.metric else ("all metrics", " times the noise")
    much = three_digits(abs(effect.amount)) + unit + ("" if share is None else f" ({percent(share)} %)")
    word = f"better by {much}" if effect.amount > 0 else f"worse by {much}" if effect.amount < 0 else "no better"
    than, pairs = f" than {short_id(rival)}" if rival else "", plural(effect.pairs, "pair")
    return f"{name} {word}{than} in {pairs}{_interval(effect)}; error rate {figure(100 * effect.error_rate)} %"


def _interval(effect: Effect) -> str:
    if effect.low is None and effect.high is None:
        return ", too few for an interval"
    low = "…" if effect.low is None else rough_figure(effect.low)
    high = "…" if effect.high is None else rough_figure(effect.high)
    # The bet is made on either side of the interval, each with its own chance to be wrong.
    return f"; {figure(100 * (1 - 2 * effect.error_rate))} % interval of the gain {low} to {high}"


def _spread(detail: NodeDetail) -> str:
    first, count = detail.metrics[0], len(detail.node.samples)
    if first.low == first.high:
        return f"{count} times, always {first.name} {figure(first.value)}"
    return f"{count} times: {first.name} {figure(first.low)} to {figure(first.high)}, median {figure(first.value)}"


def _metrics(metrics: tuple[MetricDetail, ...], columns: int, look: Terminal) -> list[str]:
    compared = any(metric.baseline is not None for metric in metrics)
    longest = max(width(printable_line(metric.name)) for metric in metrics)
    names = max(min(longest, columns - 40), NAME_COLUMNS)
    beside = compared and columns >= _WITH_BASELINE
    head = (
        f"  {'metric':<{names}}  {'value':>10}"
        + f"  {'baseline':>10}" * beside
        + f"  {'better by':>10}" * compared
    )
    lines = [look.paint(head, "dim")]
    for metric in metrics:
        line = f"  {pad(metric.name, names)}  {figure(metric.value):>10}"
        if beside:
            line += f"  {'' if metric.baseline is None else figure(metric.baseline):>10}"
        if metric.over_baseline is not None:
            style = "good" if metric.over_baseline.amount > 0 else "bad" if metric.over_baseline.amount < 0 else ""
            line += "  " + look.paint(f"{change_figure(metric.over_baseline):>10}", style)
        lines.append(line.rstrip())
    return lines


def _params(detail: NodeDetail, columns: int, look: Terminal) -> list[str]:
    names = min(max(width(printable_line(name)) for name in detail.node.params), columns // 2)
    lines = [look.paint("  parameters", "dim")]
    for name, value in detail.node.params.items():
        text = _value(value)
        if name in detail.changed_params:
            was = detail.changed_params[name]
            text += " (new)" if was is None else f" (was {_value(was)})"
        line = f"  {pad(name, names)}  {cut(text, columns - names - 4)}"
        lines.append(look.paint(line, "strong") if name in detail.changed_params else line)
    return lines


def _value(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
