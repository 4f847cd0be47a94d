"""Everything known about one node, as text."""

from __future__ import annotations

import re
from collections.abc import Iterator

from loopty.causes.explanation import Explanation
from loopty.domain.outcome import Effect, Outcome
from loopty.domain.pool import Pool
from loopty.record.node_record import RECENT_SAMPLES
from loopty.report.cascade_text import climb_text
from loopty.report.columns import NAME_COLUMNS, Fact, cut, fact_lines, pad, printable_line, width
from loopty.report.explanation_text import explanation_facts
from loopty.report.figures import (
    dollars,
    duration,
    figure,
    percent,
    plural,
    rough_figure,
    three_digits,
    value_text,
)
from loopty.report.node_name import node_name
from loopty.report.score_text import ScoreText
from loopty.report.tally_text import review_text
from loopty.report.terminal import Terminal
from loopty.report.tree_text import node_glyph
from loopty.report.tune_text import tuned_text
from loopty.views.node_detail import MetricDetail, NodeDetail
from loopty.views.score_change import ScoreChange

_STRONG = "strong: the candidate ran apart from the code that scored it"
_NOTABLE_CPU = 0.1
"""Seconds between calls from which they are shown; stopping a candidate takes some."""
_WITH_BASELINE = 50
"""Columns from which the baseline's metrics are shown, too."""


def node_text(
    detail: NodeDetail,
    folder: str,
    columns: int = 80,
    terminal: Terminal | None = None,
    explanation: Explanation | None = None,
) -> str:
    """The page of a node; `folder` has its logs and results."""
    terminal = terminal or Terminal()
    node = detail.node
    glyph, style = node_glyph(node)
    waiting = "measured, no verdict yet" if node.outcome else "waiting for its trial"
    waiting = f"unjudged again: loopty remeasure {node.name}" if node.reopened_for else waiting
    state = node.verdict or (
        "dropped" if node.dropped else "draft" if node.draft else "running" if node.running else waiting
    )
    name = terminal.paint(node.name, "strong")
    head = f"{name}  {terminal.paint(f'{glyph} {state}'.strip(), style)}"
    if detail.is_best:
        head += terminal.paint(", best of its run", "best")
    lines = [head, "", *fact_lines(_facts(detail, folder, explanation), columns, terminal)]
    if detail.metrics:
        lines += ["", *_metrics(detail.metrics, columns, terminal)]
    if node.params:
        lines += ["", *_params(detail, columns, terminal)]
    return terminal.render("\n".join(lines))


def _facts(detail: NodeDetail, folder: str, explanation: Explanation | None) -> Iterator[Fact]:
    node = detail.node
    yield Fact("path", str(node.id))
    if node.reason:
        # The rest of such a reason repeats the effect in fewer words.
        repeats_effect = node.effect and not node.withdrawn
        reason = re.split(r" by | \(", node.reason)[0] if repeats_effect else node.reason
        yield Fact("because", reason)
    if node.withdrawn and node.withdrawn.verdict:
        yield Fact("withdrawn", f"was {node.withdrawn.verdict}: {node.withdrawn.reason}", "warn")
    if node.effect:
        yield Fact("effect", _effect(node.effect, detail.effect_percent, _incumbent(detail)))
    if change := _change_in_fresh_pairs(detail):
        yield Fact("confirmed", _scores(detail.metrics[0]).change_words(change, "the baseline"))
    if node.review:
        yield Fact("review", review_text(node.review), "" if node.review.passed else "warn")
    by_model = f" by {node.model}" if node.model else ""
    yield Fact("made by", node.operator + by_model + ("" if node.pool is Pool.ATTEMPT else f" ({node.pool})"))
    if node.arm_reason:
        yield Fact("why so", node.arm_reason)
    if node.calls:
        calls, cost = plural(len(node.calls), "model call"), plural(round(node.tokens), "token")
        cost += f" and {dollars(node.money_usd)}" if node.money_usd else ""
        yield Fact("calls", f"made with {calls}: loopty show {node.name} --prompt")
        yield Fact("cost", cost)
    if node.summary:
        yield Fact("change", node.summary)
    if detail.parent:
        why = f" ({node.parent_reason})" if node.parent_reason else ""
        yield Fact("parent", f"{detail.parent.name}{_over_parent(detail)}{why}")
    if detail.merged:
        yield Fact("merges", ", ".join(detail.merged))
    if node.author:
        yield Fact("author", f"{node.author}, on {node.surface}" if node.surface else node.author)
    if node.tuned:
        yield Fact("tuned", tuned_text(node.tuned))
    if node.children:
        yield Fact("children", f"{node.children:,}")
    if outcome := node.outcome:
        reason = f": {outcome.reason}" if outcome.reason else ""
        yield Fact("trial", f"{outcome.ending} after {duration(outcome.seconds)}{reason}")
        if outcome.cascade:
            yield Fact("cascade", climb_text(outcome))
        if explanation:
            yield from explanation_facts(explanation)
        if len(node.samples) > 1:
            yield Fact("measured", _spread(detail))
        if detail.other_machine:
            yield Fact("machine", f"{detail.other_machine}: not comparable with the present machine")
        if outcome.artifacts or outcome.artifacts_left_out:
            yield Fact("artifacts", _artifacts(outcome))
        if outcome.integrity:
            yield Fact("integrity", f"weak: {outcome.weakness}" if outcome.weakness else _STRONG)
        if outcome.rows_left_out:
            yield Fact("curve", f"{plural(outcome.rows_left_out, 'row')} left out; metrics.csv has them all")
        if outcome.outside_cpu_seconds >= _NOTABLE_CPU:
            used = duration(outcome.outside_cpu_seconds)
            yield Fact(
                "outside", f"the candidate used {used} of CPU between calls, while it should stand still", "warn"
            )
        if outcome.unenforced:
            yield Fact("unenforced", ", ".join(outcome.unenforced))
    for other in detail.other_results:
        measured = plural(other.measurements, "measurement")
        yield Fact("elsewhere", f"{figure(other.score)} in {measured} ({other.machine})")
    if detail.gates:
        yield Fact("gates", ", ".join(gate.name for gate in detail.gates))
    if node.trials > 1:
        lost = f", {node.losses} lost when their process died" if node.losses else ""
        yield Fact("trials", f"{plural(node.trials, 'trial')}{lost}")
    if node.files_removed:
        yield Fact("files", "removed by loopty gc: commit, folder and logs", "warn")
        return
    if not node.draft:
        yield Fact("commit", node.commit)
    yield Fact("folder", folder, is_whole=True)


def _artifacts(outcome: Outcome) -> str:
    """`model.json, predictions.json; 2 files were not kept`."""
    names = ", ".join(outcome.artifacts) or "none"
    return (
        f"{names}; {plural(outcome.artifacts_left_out, 'file')} not kept" if outcome.artifacts_left_out else names
    )


def _incumbent(detail: NodeDetail) -> str:
    """The node that this one was compared with; empty where there was none."""
    return node_name(detail.node.against, detail.against_handle) if detail.node.against else ""


def _effect(effect: Effect, share: float | None, incumbent: str) -> str:
    """`score better than 1 by 0.21 (12 %) in 6 pairs; 90 % interval of the gain +0.05 to +0.4; error rate 5 %`."""
    name, unit = (effect.metric, "") if effect.metric else ("all metrics", " times the noise")
    amount = three_digits(abs(effect.amount)) + unit + ("" if share is None else f" ({percent(share)} %)")
    word = "better" if effect.amount > 0 else "worse" if effect.amount < 0 else "no better"
    than = f" than {incumbent}" if incumbent else ""
    by = f" by {amount}" if effect.amount else ""
    pairs, error_rate = plural(effect.pairs, "pair"), figure(100 * effect.error_rate)
    return f"{name} {word}{than}{by} in {pairs}{_interval(effect)}; error rate {error_rate} %"


def _interval(effect: Effect) -> str:
    if effect.low is None and effect.high is None:
        return ", too few for an interval"
    low = "…" if effect.low is None else rough_figure(effect.low)
    high = "…" if effect.high is None else rough_figure(effect.high)
    # Each side of the interval may be wrong with this error rate.
    return f"; {figure(100 * (1 - 2 * effect.error_rate))} % interval of the gain {low} to {high}"


def _over_parent(detail: NodeDetail) -> str:
    """`, 1.2 % better than it`, with the noise where the two were not compared in pairs."""
    found = detail.over_parent
    if found is None or not detail.metrics:
        return ""
    words = f", {_scores(detail.metrics[0], found.change).change_words(found.change, 'it')}"
    return (
        words if found.is_paired or not found.noise else f"{words} (unpaired, noise ± {three_digits(found.noise)})"
    )


def _change_in_fresh_pairs(detail: NodeDetail) -> ScoreChange | None:
    """The change over the baseline in fresh pairs."""
    change = detail.metrics[0].over_baseline if detail.metrics else None
    return change if change and change.is_confirmed else None


def _spread(detail: NodeDetail) -> str:
    first, count = detail.metrics[0], len(detail.node.samples)
    scores = _scores(first)
    low, high, value = scores.score(first.low), scores.score(first.high), scores.score(first.value)
    if first.low == first.high:
        return f"{count} times, always {first.name} {value}"
    newest = f" of the newest {RECENT_SAMPLES}" if count > RECENT_SAMPLES else ""
    return f"{count} times: {first.name} {low} to {high}, median{newest}: {value}"


def _scores(metric: MetricDetail, *changes: ScoreChange) -> ScoreText:
    """The text for the values of one metric."""
    values = [metric.value] if metric.baseline is None else [metric.value, metric.baseline]
    return ScoreText.of(values, [metric.over_baseline, *changes], metric.noise)


def _metrics(metrics: tuple[MetricDetail, ...], columns: int, terminal: Terminal) -> list[str]:
    has_baseline = any(metric.baseline is not None for metric in metrics)
    longest = max(width(printable_line(metric.name)) for metric in metrics)
    names = max(min(longest, columns - 40), NAME_COLUMNS)
    shows_baseline = has_baseline and columns >= _WITH_BASELINE
    head = (
        f"  {'metric':<{names}}  {'value':>10}"
        + f"  {'baseline':>10}" * shows_baseline
        + f"  {'better by':>10}" * has_baseline
    )
    lines = [terminal.paint(head, "dim")]
    for metric in metrics:
        scores = _scores(metric)
        line = f"  {pad(metric.name, names)}  {scores.score(metric.value):>10}"
        if shows_baseline:
            line += f"  {'' if metric.baseline is None else scores.score(metric.baseline):>10}"
        if metric.over_baseline is not None:
            style = "good" if metric.over_baseline.amount > 0 else "bad" if metric.over_baseline.amount < 0 else ""
            line += "  " + terminal.paint(f"{scores.change(metric.over_baseline):>10}", style)
        lines.append(line.rstrip())
    return lines


def _params(detail: NodeDetail, columns: int, terminal: Terminal) -> list[str]:
    names = min(max(width(printable_line(name)) for name in detail.node.params), columns // 2)
    lines = [terminal.paint("  parameters", "dim")]
    for name, value in detail.node.params.items():
        text = value_text(value)
        if one := detail.node.declared.get(name):
            text += f" (declared in {printable_line(one.path)})"
        if name in detail.changed_params:
            before = detail.changed_params[name]
            text += " (new)" if before is None else f" (was {value_text(before)})"
        line = f"  {pad(name, names)}  {cut(text, columns - names - 4)}"
        lines.append(terminal.paint(line, "strong") if name in detail.changed_params else line)
    return lines
