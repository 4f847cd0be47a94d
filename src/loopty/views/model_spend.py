"""What models cost a run, by role, model, operator and node, and which calls led to nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

from loopty.domain.model import Role
from loopty.domain.outcome import Verdict
from loopty.domain.role_spec import Roles
from loopty.domain.task import Pools
from loopty.kit.records import Record
from loopty.record.budgets import pools_in_force
from loopty.record.event import Recorded
from loopty.record.history import History
from loopty.record.role_shares import RoleShares
from loopty.views.model_calls import ModelCall, calls_of_run
from loopty.views.rated_nodes import rated_nodes

IsFree = Callable[[str], bool]
"""Whether the model of this name costs nothing."""


class SpendSum(Record):
    """What some calls used. If a call led to several nodes, each gets its share."""

    calls: int = 0
    tokens: float = 0.0
    """As charged; a call without reported usage is charged what was reserved."""
    input_tokens: float = 0.0
    output_tokens: float = 0.0
    cached_tokens: float = 0.0
    """Part of the input."""
    reasoning_tokens: float = 0.0
    """Part of the output."""
    money_usd: float = 0.0
    unpriced: int = 0
    """Calls whose price is unknown; `money_usd` is the cost of the others."""


class SpendRow(Record):
    """One row of a table: a role, model, operator or node, and what its calls used."""

    name: str
    sum: SpendSum


class SpendCap(Record):
    """A spending limit of the run or of a role; None means no limit."""

    whose: str
    tokens: int | None
    money_usd: float | None


class SpendReport(Record):
    """The rows of roles, models, operators and nodes each add up to the total; the most expensive come first."""

    run: int
    total: SpendSum
    role: tuple[SpendRow, ...]
    model: tuple[SpendRow, ...]
    operator: tuple[SpendRow, ...]
    node: tuple[SpendRow, ...]
    """Calls for no node have an empty name."""
    in_flight: SpendSum
    """Reserved but not settled yet; not part of the total."""
    waste: tuple[SpendRow, ...]
    """Calls that led to nothing, by reason."""
    untaken: int
    """Proposals still waiting in replies that were partly used."""
    given_again: int
    """Requests of the user role answered from memory."""
    kept: int
    """Kept nodes that calls were spent on."""
    caps: tuple[SpendCap, ...]
    shares: str = ""
    """How adaptive shares stand, with the evidence of the last decision; empty before the first."""


def spend(
    history: History,
    events: Iterable[Recorded],
    run: int,
    is_free: IsFree,
    pools: Pools | None = None,
    roles: Roles | None = None,
) -> SpendReport:
    """The spend of a run, in one pass over the events about calls; `pools` and `roles` are its budget."""
    pools = pools_in_force(history.runs[run], pools) if pools else None
    run_calls = calls_of_run(events, run)
    settled = [call for call in run_calls.calls.values() if call.settled]
    in_flight = [call for call in run_calls.calls.values() if not call.settled]
    nodes = _rows_by_node(settled, is_free)
    return SpendReport(
        run,
        _sum(settled, is_free),
        _rows_by(settled, lambda call: call.reserved.role, is_free),
        _rows_by(settled, lambda call: call.reserved.model, is_free),
        _rows_by(settled, lambda call: call.reserved.operator, is_free),
        nodes,
        _sum_of_reservations(in_flight, is_free),
        _rows_by((call for call in settled if call.fruitless_reason), lambda call: call.fruitless_reason, is_free),
        sum(call.remaining for call in settled),
        run_calls.given_again,
        _kept_count(history, run, frozenset(row.name for row in nodes if row.name)),
        _caps(pools, roles),
        _shares(RoleShares.of(history.runs[run])) if run in history.runs else "",
    )


def _shares(known: RoleShares) -> str:
    if not known.reason:
        return ""
    parts = ", ".join(f"{role} {100 * share:.0f} %" for role, share in known.shares.items())
    return f"{parts}; because {known.reason}"


def _kept_count(history: History, run: int, names: frozenset[str]) -> int:
    """How many of these nodes are kept, without the baseline."""
    if not names:
        return 0
    rated = rated_nodes(history, run)
    kept = [node for node in rated.nodes if node.kind.verdict == Verdict.KEPT and not node.kind.is_baseline]
    return sum(node in names for node in rated.ids(kept))


def _rows_by_node(settled: Iterable[ModelCall], is_free: IsFree) -> tuple[SpendRow, ...]:
    shares: defaultdict[str, list[tuple[ModelCall, float]]] = defaultdict(list)
    for call in settled:
        names: list[str] = [*call.nodes] or [""]
        for node in names:
            shares[node].append((call, 1 / len(names)))
    return _by_cost(SpendRow(node, _sum_of_shares(parts, is_free)) for node, parts in shares.items())


def _rows_by(
    settled: Iterable[ModelCall], name: Callable[[ModelCall], str], is_free: IsFree
) -> tuple[SpendRow, ...]:
    groups: defaultdict[str, list[ModelCall]] = defaultdict(list)
    for call in settled:
        groups[name(call)].append(call)
    return _by_cost(SpendRow(key, _sum(group, is_free)) for key, group in groups.items())


def _by_cost(rows: Iterable[SpendRow]) -> tuple[SpendRow, ...]:
    return tuple(sorted(rows, key=lambda row: (-row.sum.money_usd, -row.sum.tokens, row.name)))


def _sum(settled: Iterable[ModelCall], is_free: IsFree) -> SpendSum:
    return _sum_of_shares([(call, 1.0) for call in settled], is_free)


def _sum_of_shares(parts: Sequence[tuple[ModelCall, float]], is_free: IsFree) -> SpendSum:
    """The sum over settled calls, each weighted by its share."""
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
        sum(bool(event.tokens and not event.money_usd and not is_free(model)) for event, _, model in charged),
    )


def _sum_of_reservations(in_flight: Sequence[ModelCall], is_free: IsFree) -> SpendSum:
    events = [call.reserved for call in in_flight]
    return SpendSum(
        len(events),
        sum(event.tokens for event in events),
        money_usd=sum(event.money_usd for event in events),
        unpriced=sum(not event.money_usd and not is_free(event.model) for event in events),
    )


def _caps(pools: Pools | None, roles: Roles | None) -> tuple[SpendCap, ...]:
    caps = [SpendCap("run", pools.tokens, pools.money_usd)] if pools else []
    if roles:
        caps += [SpendCap(role, roles.of(role).tokens, roles.of(role).money_usd) for role in Role]
    return tuple(cap for cap in caps if cap.tokens is not None or cap.money_usd is not None)
