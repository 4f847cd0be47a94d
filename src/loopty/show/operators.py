"""What each operator, model and kind of change did in a run: credit, gains, cost and success."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from loopty.domain.trial import Ending, Pool, Verdict
from loopty.kit.records import Record, field
from loopty.record.calls import FormCount, ReplyForms
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.run_record import Run
from loopty.record.search_learning import ArmCredit, OperatorCredit, SearchLearning, arm_name
from loopty.show.comparisons import over_parent
from loopty.show.figures import dollars, plural, rough_figure
from loopty.show.terminal import Fact, Terminal, cut, fact_lines, pad, width

PERIODS = 4
"""Parts of a run, each with the same number of nodes, by which the credit is shown over time."""
_RECENT = 64
"""Changes whose diversity is watched."""


class OperatorRow(Record):
    """One arm: an operator with a model. Or a kind of change: an operator with its tag."""

    operator: str
    model: str
    asked: int
    refused: int
    nodes: int
    failed: int
    kept: int
    trials: int
    reward: float
    """The sum of 1/place of its nodes among the best when they were judged."""
    credit: float
    """Its reward for each proposal."""
    by_period: tuple[float | None, ...]
    """The reward for each node in each period of the run; None where it had none."""
    mean_gain: float | None
    """Over the parents of its nodes, in the most important metric: positive is better."""
    best_gain: float | None
    tokens: float
    money_usd: float


class Diversity(Record):
    """How different the newest changes are: the entropy of what they change and how."""

    changes: int
    bits: float
    most_bits: float
    """If no two changes were alike."""

    @property
    def is_low(self) -> bool:
        """Say whether most of the newest changes do the same to the same place."""
        return self.changes >= _RECENT // 2 and self.bits < self.most_bits / 4


class OperatorReport(Record):
    """The arms of one pool of a run, the most credit first."""

    run: int
    pool: str
    rows: tuple[OperatorRow, ...]
    kinds: tuple[OperatorRow, ...]
    """By tag, as `mutate:number`; what is refused has no tag."""
    diversity: Diversity
    forms: Mapping[str, Mapping[str, FormCount]] = field(default_factory=dict)
    """How often replies were usable, by model and form of answer."""
    learning: SearchLearning | None = None
    """How the search moves its own values; None where they are fixed."""


def operator_report(history: History, run: Run, pool: Pool = Pool.ATTEMPT) -> OperatorReport:
    """Report what the arms of a pool did. Reads every node of the pool once."""
    nodes = [node for node in history.nodes(run.number, pool) if node.id.parent]
    periods = _periods(nodes)
    gains = {node.id: change.change.amount for node in nodes if (change := over_parent(history, node))}
    credit = OperatorCredit.of(run, pool)

    def row(operator: str, model: str, arm: ArmCredit, own: Sequence[Node]) -> OperatorRow:
        amounts = [gains[node.id] for node in own if node.id in gains]
        return OperatorRow(
            operator=operator,
            model=model,
            asked=arm.asked,
            refused=arm.refused,
            nodes=len(own),
            failed=sum(node.outcome is not None and node.outcome.ending is not Ending.FINISHED for node in own),
            kept=sum(node.verdict is Verdict.KEPT for node in own),
            trials=arm.trials,
            reward=round(arm.reward, 6),
            credit=round(arm.reward / max(arm.asked, 1), 6),
            by_period=tuple(
                _mean(_reward(node) for node in own if periods[node.id] == period) for period in range(PERIODS)
            ),
            mean_gain=_mean(amounts),
            best_gain=max(amounts, default=None),
            tokens=arm.tokens,
            money_usd=arm.money_usd,
        )

    by_arm: dict[str, list[Node]] = {}
    by_tag: dict[str, list[Node]] = {}
    for node in nodes:
        by_arm.setdefault(arm_name(node.operator, node.model), []).append(node)
        if ":" in node.operator:
            by_tag.setdefault(node.operator, []).append(node)
    rows = [row(*_names(name), arm, by_arm.get(name, [])) for name, arm in credit.arms.items()]
    tags = [
        row(
            tag,
            "",
            ArmCredit(len(own), reward=sum(map(_reward, own)), trials=sum(node.trials for node in own)),
            own,
        )
        for tag, own in by_tag.items()
    ]
    recent, forms = diversity(nodes[-_RECENT:]), ReplyForms.of(run).models
    learning = SearchLearning.of(run, pool)
    return OperatorReport(
        run=run.number,
        pool=pool.value,
        rows=_by_credit(rows),
        kinds=_by_credit(tags),
        diversity=recent,
        forms=forms,
        learning=learning if learning.move else None,
    )


def diversity(nodes: Sequence[Node]) -> Diversity:
    """Compute the entropy of changes: by operator, model, changed files and changed parameters."""
    kinds = Counter((node.operator, node.model, node.edits, node.surface, tuple(node.params)) for node in nodes)
    total = len(nodes)
    bits = sum(count / total * math.log2(total / count) for count in kinds.values())
    return Diversity(total, round(bits, 3), round(math.log2(total), 3) if total else 0.0)


def _names(arm: str) -> tuple[str, str]:
    operator, _, model = arm.partition("|")
    return operator, model


def _periods(nodes: Sequence[Node]) -> dict[str, int]:
    return {node.id: index * PERIODS // max(len(nodes), 1) for index, node in enumerate(nodes)}


def _reward(node: Node) -> float:
    return 1 / node.place if node.place else 0.0


def _mean(values: Iterable[float]) -> float | None:
    found = list(values)
    return round(sum(found) / len(found), 9) if found else None


def _by_credit(rows: Iterable[OperatorRow]) -> tuple[OperatorRow, ...]:
    return tuple(sorted(rows, key=lambda row: (-row.credit, -row.asked, row.operator, row.model)))


_HEAD = ("asked", "ref", "fail", "kept", "credit", "gain", "cost", "credit over time")
_DROPPED_FIRST = (2, 3, 6, 7)
"""Columns that a narrow terminal drops, in this order."""
_NARROWEST_NAME = 16
_MAX_ROWS = 24


def operators_text(report: OperatorReport, columns: int = 80, terminal: Terminal | None = None) -> str:
    """Format the arms of a run, the kinds of changes by their tags, and how different the newest changes are."""
    terminal = terminal or Terminal()
    if not report.rows:
        return terminal.render(f"run {report.run} has no proposal yet: start with `loopty run`")
    lines = [terminal.paint(f"run {report.run}, {report.pool}s", "strong")]
    lines += _table("operator, model", report.rows, columns, terminal)
    lines += _table("kind", report.kinds, columns, terminal)
    lines += ["", *fact_lines(_facts(report), columns, terminal)]
    return terminal.render("\n".join(lines))


def _facts(report: OperatorReport) -> Iterator[Fact]:
    found = report.diversity
    text = f"{found.bits:.1f} of {found.most_bits:.1f} bits in the newest {plural(found.changes, 'change')}"
    if found.is_low:
        text += ": most change the same place in the same way; try other `parents`, or `loopty model direct`"
    yield Fact("diversity", text, "warn" if found.is_low else "")
    for model, forms in report.forms.items():
        counts = (f"{name} {count.usable} of {count.asked}" for name, count in sorted(forms.items()))
        yield Fact("replies", f"{model}: usable in the form {'; '.join(counts)}")
    if report.learning:
        yield from _learning_facts(report.learning)
    yield Fact("credit", "1/place among the best 8 when judged, for each proposal; 0 below the baseline")
    yield Fact("gain", "mean over the parents, positive is better")


def _learning_facts(learning: SearchLearning) -> Iterator[Fact]:
    config = learning.config
    yield Fact(
        "search",
        f"move {learning.number}: exploration from {100 * config.exploration:.0f} % on, drafts "
        f"{100 * config.drafts:.0f} %, restart after {config.restart}, batch {config.batch}; signal of "
        f"improvement {learning.signal:.2f} after {plural(learning.dry, 'verdict')} without a new best node",
    )
    yield Fact("why", learning.move.reason if learning.move else "")


def _table(name: str, rows: Sequence[OperatorRow], columns: int, terminal: Terminal) -> list[str]:
    """Format the rows as a table with an empty line before it; empty without rows."""
    if not rows:
        return []
    cells = [(name, *_HEAD), *((_name(row), *_cells(row)) for row in rows[:_MAX_ROWS])]
    widths = [max(map(width, column)) for column in zip(*cells, strict=True)]
    shown = list(range(1, len(widths)))
    for spare in _DROPPED_FIRST:
        if _NARROWEST_NAME + sum(widths[index] + 2 for index in shown) > columns - 2:
            shown.remove(spare)
    first = min(widths[0], max(columns - 2 - sum(widths[index] + 2 for index in shown), _NARROWEST_NAME))
    lines = [
        cut(f"  {pad(row[0], first)}" + "".join("  " + pad(row[i], widths[i], right=True) for i in shown), columns)
        for row in cells
    ]
    if (more := len(rows) - _MAX_ROWS) > 0:
        lines.append(cut(f"  and {more:,} more: --json prints all", columns))
    return ["", terminal.paint(lines[0], "dim"), *lines[1:]]


def _name(row: OperatorRow) -> str:
    return f"{row.operator} {row.model}".rstrip()


def _cells(row: OperatorRow) -> tuple[str, ...]:
    counts = (row.asked, row.refused, row.failed, row.kept)
    gain = "" if row.mean_gain is None else rough_figure(row.mean_gain)
    over_time = " ".join("  · " if part is None else f"{part:.2f}" for part in row.by_period[:PERIODS])
    return (*(f"{count:,}" for count in counts), f"{row.credit:.3f}", gain, _cost(row), over_time)


def _cost(row: OperatorRow) -> str:
    if row.money_usd:
        return dollars(row.money_usd)
    return f"{row.tokens / 1000:,.1f}k" if row.tokens else "0"
