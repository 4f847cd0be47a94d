"""A run in a form to share: what changed, by how much, how it was verified, what it cost, what failed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from loopty.domain.ids import NodeId
from loopty.domain.objective import Direction
from loopty.domain.space import Value
from loopty.domain.trial import Pool, Verdict
from loopty.kit.foreign_text import one_line
from loopty.kit.records import Record
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.show.audits import AuditRow
from loopty.show.comparisons import OverParent, over_parent
from loopty.show.figures import plural, value_text
from loopty.show.goodput import Goodput
from loopty.show.node import NodeDetail
from loopty.show.rated_nodes import ScorePoints
from loopty.show.run_status import RunStatus
from loopty.show.score_text import ScoreText
from loopty.show.status_text import endings_text, time_text, usage_text
from loopty.show.tally import Tally, false_keeps_text, review_text, uplift_text

_MOST_STEPS = 40


class SummaryStep(Record):
    """One change on the way from the baseline to the winner."""

    node: Node
    over_parent: OverParent | None


class WholeChange(Record):
    """What the winner changes in the baseline."""

    patch: str
    params: Mapping[str, tuple[Value | None, Value | None]]
    """Parameters that differ: the baseline's value and the winner's."""


class RunSummary(Record):
    """What a reader needs who was not there."""

    statement: str
    """What the task file says the goal is; empty where it cannot be read."""
    status: RunStatus
    tally: Tally
    goodput: Goodput
    points: ScorePoints
    winner: NodeDetail | None
    """The node that the summary is about; None where nothing is better than the baseline."""
    change: WholeChange | None
    """None without a winner, and where the winner's files were removed."""
    steps: tuple[SummaryStep, ...]
    """The nodes from the baseline to the winner, without the baseline."""
    hidden_steps: int
    failed: tuple[Node, ...]
    """What was tried and did not help, newest first."""
    audits: tuple[AuditRow, ...]
    """Looks at the held-out split that concern the winner."""


def summary_steps(history: History, winner: NodeId) -> tuple[tuple[SummaryStep, ...], int]:
    """Return the first and the last steps from the baseline to the winner, and how many lie between them."""
    path = winner.lineage[1:]
    shown = [*path[:1], *path[1:][-(_MOST_STEPS - 1) :]]
    steps = (SummaryStep(history[step], over_parent(history, history[step])) for step in shown)
    return tuple(steps), len(path) - len(shown)


# The sections know nothing of Markdown or HTML. Every text in them may come from a candidate or a model.


_LINE = 200
_MOST_DIFF_LINES = 600


class Paragraph(Record):
    text: str


class Bullets(Record):
    items: tuple[str, ...]


class Table(Record):
    """A table; its first column is a name, the others are figures."""

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


class CodeBlock(Record):
    """Text to show letter by letter, behind a title to open it."""

    title: str
    language: str
    text: str


Part = Paragraph | Bullets | Table | CodeBlock


class Section(Record):
    title: str
    parts: tuple[Part, ...]


class SummaryDocument(Record):
    title: str
    sections: tuple[Section, ...]


def summary_document(summary: RunSummary) -> SummaryDocument:
    """Make the document about a run."""
    sections = [Section(title, tuple(parts)) for title, parts in _sections(summary)]
    return SummaryDocument(_title(summary), tuple(section for section in sections if section.parts))


def _title(summary: RunSummary) -> str:
    status, winner = summary.status, summary.winner
    scores = ScoreText.of_run(status)
    if winner is None or not winner.metrics:
        return f"Run {status.run}: nothing better than the baseline was found"
    first = winner.metrics[0]
    if first.baseline is None:
        return f"Change {first.name} to {scores.score(first.value)}"
    gain = f" ({scores.change(first.over_baseline)})" if first.over_baseline else ""
    return f"Improve {first.name} from {scores.score(first.baseline)} to {scores.score(first.value)}{gain}"


def _sections(summary: RunSummary) -> Iterator[tuple[str, Iterator[Part]]]:
    yield "What changed", _what_changed(summary)
    yield "By how much", _by_how_much(summary)
    yield "How it was verified", _verification(summary)
    yield "What it cost", _cost(summary)
    yield "What was tried and did not help", _failures(summary)
    yield "How to measure it again", _reproduction(summary)


def _what_changed(summary: RunSummary) -> Iterator[Part]:
    if summary.statement:
        yield Paragraph(f"The goal: {one_line(summary.statement, 4 * _LINE)}")
    if summary.winner is None:
        yield Paragraph("No attempt was kept, so there is no change to take over.")
        return
    scores = ScoreText.of_run(summary.status)
    steps = [_step_line(step, scores) for step in summary.steps]
    if summary.hidden_steps:
        steps.insert(1, f"… {plural(summary.hidden_steps, 'more step')} …")
    yield Bullets(tuple(steps))
    if summary.change is None:
        yield Paragraph("Its files were removed by `loopty system gc`.")
        return
    if params := summary.change.params:
        changes = ((name, value_text(before), value_text(after)) for name, (before, after) in params.items())
        yield Table(("parameter", "before", "after"), tuple(changes))
    if summary.change.patch:
        yield _diff_block(summary.change.patch)


def _diff_block(patch: str) -> CodeBlock:
    lines = patch.splitlines()
    added = sum(line.startswith("+") and not line.startswith("+++") for line in lines)
    removed = sum(line.startswith("-") and not line.startswith("---") for line in lines)
    title = f"The whole change: {plural(added, 'line')} added, {removed:,} removed"
    if len(lines) > _MOST_DIFF_LINES:
        title += f" (the first {_MOST_DIFF_LINES} lines of the diff)"
    return CodeBlock(title, "diff", "\n".join(lines[:_MOST_DIFF_LINES]))


def _step_line(step: SummaryStep, scores: ScoreText) -> str:
    gain = f" ({scores.change(step.over_parent.change)} over its parent)" if step.over_parent else ""
    return f"{_name(step.node)}: {one_line(step.node.summary, _LINE)}{gain}"


def _by_how_much(summary: RunSummary) -> Iterator[Part]:
    status, winner = summary.status, summary.winner
    if winner is None:
        if status.baseline:
            yield Paragraph(
                f"The baseline has {status.metric} {ScoreText.of_run(status).score(status.baseline.score)}."
            )
        return
    yield Table(("metric", "baseline", "now", "change"), tuple(_metric_rows(winner)))
    first = winner.metrics[0].over_baseline if winner.metrics else None
    if first and first.by_clock:
        yield Paragraph(
            f"{_direction(status.direction)} In words: "
            f"{ScoreText.of_run(status).change_words(first, 'the baseline')}."
        )
    elif first and first.is_confirmed:
        yield Paragraph(
            f"{_direction(status.direction)} The gain has a {ScoreText.of_run(status).interval(first)}."
        )
    elif first and first.is_confirmed is False:
        yield Paragraph(
            f"{_direction(status.direction)} The gain is not confirmed yet: `loopty report --confirm` measures "
            "the baseline and this node in fresh pairs."
        )
    else:
        yield Paragraph(_direction(status.direction))


def _metric_rows(winner: NodeDetail) -> Iterator[tuple[str, ...]]:
    for metric in winner.metrics:
        scores = ScoreText.of(
            [metric.value, *([] if metric.baseline is None else [metric.baseline])],
            [metric.over_baseline],
            metric.noise,
        )
        before = "" if metric.baseline is None else scores.score(metric.baseline)
        change = scores.change(metric.over_baseline) if metric.over_baseline else ""
        yield metric.name, before, scores.score(metric.value), change


def _direction(direction: Direction) -> str:
    """Say which way is better: a sign before a change means better or worse, whichever way the metric goes."""
    better = "Higher" if direction is Direction.MAX else "Lower"
    return f"{better} values of the first metric are better; in the last column, + means better."


def _verification(summary: RunSummary) -> Iterator[Part]:
    status, tally, winner = summary.status, summary.tally, summary.winner
    facts = []
    if winner:
        node = winner.node
        if node.reason:
            facts.append(f"verdict on the last step: {node.verdict}, {one_line(node.reason, _LINE)}")
        if winner.gates:
            facts.append(f"gates that it passed: {one_line(', '.join(gate.name for gate in winner.gates), _LINE)}")
        if node.outcome and node.outcome.weakness:
            facts.append(f"integrity is weak: {node.outcome.weakness}; read the diff")
        if node.withdrawn:
            facts.append(f"its verdict was withdrawn: {one_line(node.withdrawn.why, _LINE)}")
        if node.review:
            facts.append(f"verifier: {one_line(review_text(node.review), _LINE)}")
    if status.noise:
        facts.append(f"the noise is that of the newest {status.noise.measurements} results of {status.noise.node}")
    if tally.over_control:
        facts.append(f"against the random baseline: {uplift_text(tally.over_control)}")
    if kept := false_keeps_text(tally.false_keeps):
        facts.append(f"kept nodes: {kept}")
    facts += [_audit_line(row) for row in summary.audits[-1:]]
    if facts:
        yield Bullets(tuple(facts))


def _audit_line(row: AuditRow) -> str:
    if row.survives is None:
        return f"the look at the held-out split gave no comparison: {one_line(row.ended, _LINE) or 'no gain'}"
    share = f"{100 * row.survives:.0f} %" if row.survives else "no part"
    return f"on a held-out split that the search never sees, {share} of the gain survives"


def _cost(summary: RunSummary) -> Iterator[Part]:
    status = summary.status
    attempts = status.count(Pool.ATTEMPT)
    endings = f" ({endings_text(attempts)})" if attempts.endings else ""
    facts = [f"{plural(attempts.started, 'attempt')}{endings} in {time_text(status)}"]
    if status.tokens or status.money_usd:
        facts.append(f"models: {usage_text(status)}")
    waste = summary.goodput.waste
    if waste and summary.goodput.busy_seconds:
        lost = 100 * sum(cost.seconds for cost in waste) / summary.goodput.busy_seconds
        facts.append(f"{lost:.0f} % of the time of trials gave no result, most of it: {waste[0].cause}")
    yield Bullets(tuple(facts))


def _failures(summary: RunSummary) -> Iterator[Part]:
    verdicts = summary.tally.verdicts
    if verdicts:
        counts = ", ".join(f"{count:,} {verdict}" for verdict, count in verdicts.items())
        yield Paragraph(f"All attempts: {counts}.")
    if summary.failed:
        yield Bullets(tuple(map(_failed_line, summary.failed)))


def _failed_line(node: Node) -> str:
    cause = "" if node.verdict is Verdict.DISCARDED and not node.reason else f" — {one_line(node.reason, _LINE)}"
    return f"{_name(node)} {node.verdict}: {one_line(node.summary, _LINE)}{cause}"


def _reproduction(summary: RunSummary) -> Iterator[Part]:
    if summary.winner is None:
        return
    name = summary.winner.node.name
    yield Bullets(
        (
            f"`loopty measure replay {name}` measures it again from nothing",
            f"`loopty show {name}` shows everything that is recorded about it",
            f"`loopty export node {name}` packs it for another machine",
        )
    )


def _name(node: Node) -> str:
    return f"`{node.name}`"
