"""What models cost a run, by whom and for what, and what of it was in vain."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from loopty.domain.ids import NodeId
from loopty.domain.model import Role
from loopty.domain.task import Pools, Roles
from loopty.record.event import Recorded
from loopty.views.model_calls import ModelCall, calls_of_run

IsFree = Callable[[str], bool]
"""Whether nobody sends a bill for the model of this name."""


@dataclass(frozen=True, slots=True)
class SpendSum:
    """What some calls used. Where a call gave several nodes, each has its share of it."""

    calls: int = 0
    tokens: float = 0.0
    """As charged: of a call of which nobody said what it took, what was reserved."""
    input_tokens: float = 0.0
    output_tokens: float = 0.0
    cached_tokens: float = 0.0
    """Part of the input."""
    reasoning_tokens: float = 0.0
    """Part of the output."""
    money_usd: float = 0.0
    unpriced: int = 0
    """Calls whose price is not known; the money is that of the others."""


@dataclass(frozen=True, slots=True)
class SpendRow:
    name: str
    sum: SpendSum


@dataclass(frozen=True, slots=True)
class SpendCap:
    """What may be spent; None where there is no limit."""

    whose: str
    tokens: int | None
    money_usd: float | None


@dataclass(frozen=True, slots=True)
class SpendReport:
    """The rows of roles, models, operators and nodes add up to the total; the most expensive come first."""

    run: int
    total: SpendSum
    role: tuple[SpendRow, ...]
    model: tuple[SpendRow, ...]
    operator: tuple[SpendRow, ...]
    node: tuple[SpendRow, ...]
    """What was for no node is under an empty name."""
    in_flight: SpendSum
    """Reserved, and not settled yet: beside the total."""
    waste: tuple[SpendRow, ...]
    """Calls in vain, by what became of them."""
    untaken: int
    """Proposals that wait in replies of which others were taken."""
    given_again: int
    """Requests of the user role that were answered from memory."""
    kept: int
    """Nodes that calls were spent on, and that were kept."""
    caps: tuple[SpendCap, ...]


def spend(
    events: Iterable[Recorded], run: int, is_free: IsFree, pools: Pools | None = None, roles: Roles | None = None
) -> SpendReport:
    """One pass over the events; the caps are those of the budget, where that is known."""
    found = calls_of_run(events, run)
    settled = [call for call in found.calls.values() if call.settled]
    flying = [call for call in found.calls.values() if not call.settled]
    nodes = _rows_by_node(settled, is_free)
    return SpendReport(
        run,
        _sum(settled, is_free),
        _rows_by(settled, lambda call: call.reserved.role, is_free),
        _rows_by(settled, lambda call: call.reserved.model, is_free),
        _rows_by(settled, lambda call: call.reserved.operator, is_free),
        nodes,
        _sum_of_reservations(flying, is_free),
        _rows_by((call for call in settled if call.fruitless_reason), lambda call: call.fruitless_reason, is_free),
        sum(call.remaining for call in settled),
        found.given_again,
        sum(NodeId(row.name) in found.kept for row in nodes),
        _caps(pools, roles),
    )


def _rows_by_node(settled: Iterable[ModelCall], free: IsFree) -> tuple[SpendRow, ...]:
    shares: defaultdict[str, list[tuple[ModelCall, float]]] = defaultdict(list)
    for call in settled:
        names: list[str] = [*call.nodes] or [""]
        for node in names:
            shares[node].append((call, 1 / len(names)))
    return _by_cost(SpendRow(node, _sum_of_shares(parts, free)) for node, parts in shares.items())


def _rows_by(settled: Iterable[ModelCall], name: Callable[[ModelCall], str], free: IsFree) -> tuple[SpendRow, ...]:
    groups: defaultdict[str, list[ModelCall]] = defaultdict(list)
    for call in settled:
        groups[name(call)].append(call)
    return _by_cost(SpendRow(key, _sum(group, free)) for key, group in groups.items())


def _by_cost(rows: Iterable[SpendRow]) -> tuple[SpendRow, ...]:
    return tuple(sorted(rows, key=lambda row: (-row.sum.money_usd, -row.sum.tokens, row.name)))


def _sum(settled: Iterable[ModelCall], free: IsFree) -> SpendSum:
    return _sum_of_shares([(call, 1.0) for call in settled], free)


def _sum_of_shares(parts: Sequence[tuple[ModelCall, float]], free: IsFree) -> SpendSum:
    """The sum of parts of calls that are settled."""
    charged = [(call.settled, share, call.reserved.model) for call, share in parts if call.settled]
    used = [(event.usage, share) for event, share, _ in charged if event.usage]
    return SpendSum(
        len(parts),
        sum(event.tokens * share for event, share, _ in charged),
        sum(usage.input_tokens * share for usage, share in used),
        sum(usage.output_tokens * share for usage, share in used),
        sum(usage.cached_tokens * share for usage, share in used),
        sum(usage.reasoning_tokens * share for usage, share in used),
        sum(event.money_usd * share for event, share, _ in charged),
        sum(bool(event.tokens and not event.money_usd and not free(model)) for event, _, model in charged),
    )


def _sum_of_reservations(flying: Sequence[ModelCall], free: IsFree) -> SpendSum:
    events = [call.reserved for call in flying]
    return SpendSum(
        len(events),
        sum(event.tokens for event in events),
        money_usd=sum(event.money_usd for event in events),
        unpriced=sum(not event.money_usd and not free(event.model) for event in events),
    )


def _caps(pools: Pools | None, roles: Roles | None) -> tuple[SpendCap, ...]:
    caps = [SpendCap("run", pools.tokens, pools.money_usd)] if pools else []
    if roles:
        caps += [SpendCap(role, roles.of(role).tokens, roles.of(role).money_usd) for role in Role]
    return tuple(cap for cap in caps if cap.tokens is not None or cap.money_usd is not None)
