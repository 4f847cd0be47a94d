"""What each operator, model and kind of change did in a run: credit, gains, cost and success, also over time."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from loopty.domain.outcome import Ending, Verdict
from loopty.domain.pool import Pool
from loopty.kit.records import Record, field
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.operator_credit import ArmCredit, OperatorCredit, arm_name
from loopty.record.reply_forms import FormCount, ReplyForms
from loopty.record.run_record import Run
from loopty.record.search_learning import SearchLearning
from loopty.views.over_parent import over_parent

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
        """Whether most of the newest changes do the same to the same place."""
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
    """What the arms of a pool did. Reads every node of the pool once."""
    nodes = [node for node in history.nodes(run.number, pool) if node.id.parent]
    periods = _periods(nodes)
    gains = {node.id: change.change.amount for node in nodes if (change := over_parent(history, node))}
    credit = OperatorCredit.of(run, pool)

    def row(operator: str, model: str, arm: ArmCredit, own: Sequence[Node]) -> OperatorRow:
        amounts = [gains[node.id] for node in own if node.id in gains]
        return OperatorRow(
            operator,
            model,
            arm.asked,
            arm.refused,
            len(own),
            sum(node.outcome is not None and node.outcome.ending is not Ending.FINISHED for node in own),
            sum(node.verdict is Verdict.KEPT for node in own),
            arm.trials,
            round(arm.reward, 6),
            round(arm.reward / max(arm.asked, 1), 6),
            tuple(_mean(_reward(node) for node in own if periods[node.id] == period) for period in range(PERIODS)),
            _mean(amounts),
            max(amounts, default=None),
            arm.tokens,
            arm.money_usd,
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
        run.number,
        pool.value,
        _by_credit(rows),
        _by_credit(tags),
        recent,
        forms,
        learning if learning.move else None,
    )


def diversity(nodes: Sequence[Node]) -> Diversity:
    """The entropy of changes: by operator, model, changed files and changed parameters."""
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
