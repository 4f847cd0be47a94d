"""Everything that is known about one node."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from loopty.domain.benchmark import Gate
from loopty.domain.evidence import median
from loopty.domain.ids import NodeId
from loopty.domain.objective import WEIGHTED_SUM, Direction, Metric, is_weighted
from loopty.domain.space import Value
from loopty.domain.trial import Effect, Outcome, Pool
from loopty.kit.records import Record
from loopty.record.directives import AuditAnchors, exclusion
from loopty.record.history import History
from loopty.record.node_record import RECENT_SAMPLES, Node
from loopty.record.nodes import NodeGates
from loopty.record.run_record import Run
from loopty.record.trials import Cohorts, was_busy
from loopty.record.verdicts import Incumbents
from loopty.show.comparisons import (
    OverParent,
    ScoreChange,
    comparable_result,
    has_baseline,
    machine_description,
    over_baseline,
    over_parent,
    percent_of,
    score,
    score_change,
    sigma,
)
from loopty.show.explanation import Explanation
from loopty.show.explanation_text import explanation_facts
from loopty.show.figures import (
    dollars,
    duration,
    figure,
    node_name,
    percent,
    plural,
    three_digits,
    value_text,
)
from loopty.show.score_text import ScoreText
from loopty.show.stages import climb_text, tuned_text
from loopty.show.tally import review_text
from loopty.show.terminal import NAME_COLUMNS, Fact, Terminal, cut, fact_lines, pad, printable_line, width
from loopty.show.tree_rows import param_changes
from loopty.show.tree_text import node_glyph


class MetricDetail(Record):
    """One metric that the benchmark reported, beside the baseline's value."""

    name: str
    value: float
    low: float
    high: float
    """The smallest and the largest of all measurements."""
    baseline: float | None
    """Measured on the same machine; otherwise None."""
    over_baseline: ScoreChange | None
    """The change over the baseline; None without a baseline value or without a direction of the metric."""
    noise: float
    """Of one measurement; 0 where results do not vary or that is unknown."""


class OtherResult(Record):
    """A result of the node under another fingerprint than that of its verdict."""

    machine: str
    score: float
    measurements: int


class NodeDetail(Record):
    """A node, its parent, its results and what applies to it."""

    node: Node
    parent: Node | None
    metrics: tuple[MetricDetail, ...]
    """Metrics of the objective first."""
    effect_percent: float | None
    """The effect in percent of the incumbent's score in the same pairs; None if that has no meaning."""
    over_parent: OverParent | None
    """The change over the parent; None without one, and where the two were not measured on the same machine."""
    changed_params: Mapping[str, Value | None]
    """Parameters that differ from the parent's, with the parent's value; None if it had none."""
    is_best: bool
    gates: tuple[Gate, ...]
    """Gates of the task first, then those added to the node or to its ancestors."""
    was_busy: bool
    """Whether others used the machine during its first trial."""
    other_machine: str
    """How the node's machine differs from the run's present one; empty if it is the same."""
    other_results: tuple[OtherResult, ...]
    merged: tuple[str, ...]
    """The names of its further parents."""
    set_aside: str
    """Why no change starts from it: an audit, the directive or a person said so; empty if one may."""
    against_handle: int
    """The handle of the incumbent that the node was compared with; 0 where there was none."""


def detail(history: History, node: NodeId, gates: tuple[Gate, ...] = ()) -> NodeDetail:
    """Collect what is known about the node; `gates` are the gates of the task."""
    record = history[node]
    run = history.runs[node.run]
    parent = history[node.parent] if node.parent else None
    return NodeDetail(
        node=record,
        parent=parent,
        metrics=_metric_details(history, run, record),
        effect_percent=_effect_percent(record),
        over_parent=over_parent(history, record),
        changed_params=param_changes(record, parent),
        is_best=Incumbents.of(run, Pool.ATTEMPT).best == node,
        gates=(*gates, *NodeGates.of(run).gates_of(node)),
        was_busy=record.outcome is not None and was_busy(run, record.outcome),
        other_machine=_other_machine(run, record),
        other_results=tuple(_other_results(history, run, record)),
        merged=tuple(map(history.name, record.merged)),
        set_aside=exclusion(history, node, AuditAnchors.of(run).steers),
        against_handle=history.handle(record.against) if record.against else 0,
    )


def _metric_details(history: History, run: Run, node: Node) -> tuple[MetricDetail, ...]:
    if node.outcome is None:
        return ()
    judged = {metric.name: metric.direction for metric in history.metrics(node)}
    directions: dict[str, Direction] = {**node.outcome.directions, **judged}
    reported = node.outcome.metrics
    names = [name for name in judged if name in reported]
    if is_weighted(history.metrics(node)) and WEIGHTED_SUM in reported:
        judged[WEIGHTED_SUM] = directions[WEIGHTED_SUM] = Direction.MAX
        names.insert(0, WEIGHTED_SUM)
    names += [name for name in reported if name not in judged]
    fingerprint = node.outcome.fingerprint
    root = history[run.root].result(fingerprint) if node.id != run.root else None
    rows = []
    for name in names:
        value = reported[name]
        samples = [sample[name] for sample in node.samples if name in sample] or [value]
        baseline, change = root.outcome.metrics.get(name) if root else None, None
        noise = sigma(run, fingerprint, name)
        if baseline is not None and name in judged and comparable_result(node, fingerprint):
            change = over_baseline(history, node.id, fingerprint, Metric(name, directions[name]))
        elif baseline is not None and name in directions:
            change = score_change(value, baseline, directions[name], noise)
        rows.append(
            MetricDetail(
                name=name,
                value=value,
                low=min(samples),
                high=max(samples),
                baseline=baseline,
                over_baseline=change,
                noise=noise,
            )
        )
    return tuple(rows)


def _effect_percent(node: Node) -> float | None:
    effect, pairing = node.effect, node.pairing
    if effect is None or pairing is None:
        return None
    theirs = [sample[effect.metric] for sample in pairing.theirs if effect.metric in sample]
    return percent_of(effect.amount, median(theirs), pairing.noise.get(effect.metric, 0.0)) if theirs else None


def _other_machine(run: Run, node: Node) -> str:
    if node.outcome is None or node.outcome.fingerprint == Cohorts.of(run).fingerprint or not has_baseline(run):
        return ""
    return machine_description(run, node.outcome.fingerprint)


def _other_results(history: History, run: Run, node: Node) -> Iterator[OtherResult]:
    for fingerprint, result in node.other_fingerprints.items():
        if (value := score(history, node, fingerprint)) is not None:
            yield OtherResult(machine_description(run, fingerprint), value, len(result.samples))


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
    """Format the page of a node; `folder` has its logs and results."""
    terminal = terminal or Terminal()
    node = detail.node
    glyph, style = node_glyph(node)
    waiting = "measured, no verdict yet" if node.outcome else "waiting for its trial"
    waiting = f"unjudged again: loopty node recheck {node.name}" if node.reopened_for else waiting
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
    if detail.set_aside:
        yield Fact("set aside", detail.set_aside, "warn")
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
        if detail.was_busy:
            yield Fact("load", f"for {outcome.stalled:.0%} of the time something waited for a CPU: others used it")
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
        yield Fact("files", "removed by loopty system gc: commit, folder and logs", "warn")
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
    """Name the node that this one was compared with; empty if there was none."""
    return node_name(detail.node.against, detail.against_handle) if detail.node.against else ""


def _effect(effect: Effect, share: float | None, incumbent: str) -> str:
    """`score better than 1 by 0.21 (12 %) in 6 pairs; error rate 5 %`."""
    name, unit = (effect.metric, "") if effect.metric else ("all metrics", " times the noise")
    amount = three_digits(abs(effect.amount)) + unit + ("" if share is None else f" ({percent(share)} %)")
    word = "better" if effect.amount > 0 else "worse" if effect.amount < 0 else "no better"
    than = f" than {incumbent}" if incumbent else ""
    by = f" by {amount}" if effect.amount else ""
    pairs, error_rate = plural(effect.pairs, "pair"), figure(100 * effect.error_rate)
    return f"{name} {word}{than}{by} in {pairs}; error rate {error_rate} %"


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
    """Return the change over the baseline in fresh pairs."""
    change = detail.metrics[0].over_baseline if detail.metrics else None
    return change if change and (change.is_confirmed or change.by_clock) else None


def _spread(detail: NodeDetail) -> str:
    first, count = detail.metrics[0], len(detail.node.samples)
    scores = _scores(first)
    low, high, value = scores.score(first.low), scores.score(first.high), scores.score(first.value)
    if first.low == first.high:
        return f"{count} times, always {first.name} {value}"
    newest = f" of the newest {RECENT_SAMPLES}" if count > RECENT_SAMPLES else ""
    return f"{count} times: {first.name} {low} to {high}, median{newest}: {value}"


def _scores(metric: MetricDetail, *changes: ScoreChange) -> ScoreText:
    """Return the text for the values of one metric."""
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
