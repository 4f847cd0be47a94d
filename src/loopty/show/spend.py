"""What models cost a run, by role, model, operator and node, and which models there are."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from loopty.domain.model import Role, Roles
from loopty.domain.task import Pools
from loopty.domain.trial import Verdict
from loopty.kit.records import Record, replace
from loopty.models.prices import Rates
from loopty.record.calls import RoleShares
from loopty.record.fold import Recorded
from loopty.record.history import History
from loopty.record.sessions import pools_in_force
from loopty.show.calls import ModelCall, calls_of_run
from loopty.show.figures import dollars, figure, plural
from loopty.show.rated_nodes import rated_nodes
from loopty.show.terminal import Fact, Terminal, cut, fact_lines, pad, width

if TYPE_CHECKING:
    from loopty.models.catalogue import ModelEntry

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
    """Compute the spend of a run, in one pass over the call events; `pools` and `roles` are its budget."""
    pools = pools_in_force(history.runs[run], pools) if pools else None
    run_calls = calls_of_run(events, run)
    settled = [call for call in run_calls.calls.values() if call.settled]
    in_flight = [call for call in run_calls.calls.values() if not call.settled]
    nodes = _rows_by_node(settled, is_free)
    return SpendReport(
        run=run,
        total=_sum(settled, is_free),
        role=_rows_by(settled, lambda call: call.reserved.role, is_free),
        model=_rows_by(settled, lambda call: call.reserved.model, is_free),
        operator=_rows_by(settled, lambda call: call.reserved.operator, is_free),
        node=nodes,
        in_flight=_sum_of_reservations(in_flight, is_free),
        waste=_rows_by(
            (call for call in settled if call.fruitless_reason), lambda call: call.fruitless_reason, is_free
        ),
        untaken=sum(call.remaining for call in settled),
        given_again=run_calls.given_again,
        kept=_kept_count(history, run, frozenset(row.name for row in nodes if row.name)),
        caps=_caps(pools, roles),
        shares=_shares(RoleShares.of(history.runs[run])) if run in history.runs else "",
    )


def _shares(known: RoleShares) -> str:
    if not known.reason:
        return ""
    parts = ", ".join(f"{role} {100 * share:.0f} %" for role, share in known.shares.items())
    return f"{parts}; because {known.reason}"


def _kept_count(history: History, run: int, names: frozenset[str]) -> int:
    """Count how many of these nodes are kept, without the baseline."""
    if not names:
        return 0
    rated = rated_nodes(history, run)
    kept = [node for node in rated.nodes if node.verdict == Verdict.KEPT and not node.is_baseline]
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
    """Add up settled calls, each weighted by its share."""
    charged = [(call.settled, share, call.reserved.model) for call, share in parts if call.settled]
    used = [(event.usage, share) for event, share, _ in charged if event.usage]
    return SpendSum(
        calls=len(parts),
        tokens=sum(event.tokens * share for event, share, _ in charged),
        input_tokens=sum(usage.input_tokens * share for usage, share in used),
        output_tokens=sum(usage.output_tokens * share for usage, share in used),
        cached_tokens=sum(usage.cached_tokens * share for usage, share in used),
        reasoning_tokens=sum(usage.reasoning_tokens * share for usage, share in used),
        money_usd=sum(event.money_usd * share for event, share, _ in charged),
        unpriced=sum(
            bool(event.tokens and not event.money_usd and not is_free(model)) for event, _, model in charged
        ),
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


TABLES = ("role", "model", "operator", "node")
_DEFAULT_TABLES = ("role", "model", "operator")
_HEAD = ("calls", "input", "cached", "output", "reasoning", "tokens", "money")
_OFTEN_EMPTY = (5, 3)
"""Columns that are left out if they are empty."""
_DROPPED_FIRST = (5, 3, 4, 2)
"""Columns that a narrow terminal drops, in this order."""
_NARROWEST_NAME = 12
_MAX_ROWS = 20


def spend_text(
    spend: SpendReport,
    by: str | None = None,
    columns: int = 80,
    terminal: Terminal | None = None,
    name_of: Callable[[str], str] = str,
) -> str:
    """Format the spend of a run; `by` names the only table to show."""
    terminal = terminal or Terminal()
    if not (spend.total.calls or spend.in_flight.calls or spend.given_again):
        return terminal.render(f"no model was called in run {spend.run}")
    head = f"run {spend.run}"
    lines = [f"{terminal.paint(head, 'strong')}  {cut(_sum_text(spend.total), columns - len(head) - 2)}"]
    tables = {
        "role": spend.role,
        "model": spend.model,
        "operator": spend.operator,
        "node": [replace(row, name=name_of(row.name)) if row.name else row for row in spend.node],
    }
    for name in [by] if by else _DEFAULT_TABLES:
        lines += _table(name, tables[name], columns, terminal)
    lines += _table("no result", spend.waste, columns, terminal)
    if facts := list(_spend_facts(spend)):
        lines += ["", *fact_lines(facts, columns, terminal)]
    return terminal.render("\n".join(lines))


def money_text(spent: SpendSum) -> str:
    """Format the cost; `unknown` instead of `$0` if the price is unknown."""
    if not spent.unpriced:
        return dollars(spent.money_usd)
    return f"over {dollars(spent.money_usd)}" if spent.money_usd else "unknown"


def _sum_text(spent: SpendSum) -> str:
    return f"{plural(spent.calls, 'call')}, {plural(round(spent.tokens), 'token')}, {money_text(spent)}"


def _table(name: str, rows: Sequence[SpendRow], columns: int, terminal: Terminal) -> list[str]:
    """Format the rows as a table with an empty line before it; empty without rows."""
    if not rows:
        return []
    no_name = "no node" if name == "node" else "unnamed"
    cells = [[name, *_HEAD], *([row.name or no_name, *_cells(row.sum)] for row in rows[:_MAX_ROWS])]
    widths = [max(map(width, column)) for column in zip(*cells, strict=True)]
    shown = [i for i in range(len(widths)) if i not in _OFTEN_EMPTY or any(row[i] != "0" for row in cells[1:])]
    for spare in _DROPPED_FIRST:
        if spare in shown and _NARROWEST_NAME + sum(widths[i] + 2 for i in shown[1:]) > columns - 2:
            shown.remove(spare)
    room = max(columns - 2 - sum(widths[i] + 2 for i in shown[1:]), _NARROWEST_NAME)
    first = min(widths[0], room)
    lines = []
    for row in cells:
        figures = "".join("  " + pad(row[i], widths[i], right=True) for i in shown[1:])
        lines.append(cut(f"  {pad(row[0], first)}{figures}", columns))
    if (more := len(rows) - _MAX_ROWS) > 0:
        lines.append(cut(f"  and {more:,} more: --json prints all", columns))
    return ["", terminal.paint(lines[0], "dim"), *lines[1:]]


def _cells(spent: SpendSum) -> tuple[str, ...]:
    counts = (
        spent.input_tokens,
        spent.cached_tokens,
        spent.output_tokens,
        spent.reasoning_tokens,
        spent.tokens,
    )
    return (f"{spent.calls:,}", *(f"{round(count):,}" for count in counts), money_text(spent))


def _spend_facts(spend: SpendReport) -> Iterator[Fact]:
    if spend.in_flight.calls:
        yield Fact("in flight", f"{_sum_text(spend.in_flight)} reserved")
    total = spend.total
    if (unreported := round(total.tokens - total.input_tokens - total.output_tokens)) > 0:
        yield Fact("reserved", f"{plural(unreported, 'token')} estimated: the server reported no usage")
    if spend.untaken:
        yield Fact("untaken", f"{plural(spend.untaken, 'proposal')} waiting in replies that were partly used")
    if spend.given_again:
        yield Fact("cached", f"{plural(spend.given_again, 'request')} answered from memory, at no cost")
    if unpriced := ", ".join(row.name for row in spend.model if row.sum.unpriced):
        yield Fact(
            "price", f"unknown for {unpriced}: only tokens are counted; set input_usd and output_usd", "warn"
        )
    for cap in spend.caps:
        yield Fact("limit", _cap(cap, spend))
    if spend.shares:
        yield Fact("shares", spend.shares)
    if spend.kept and spend.total.calls:
        yield Fact("per kept", _per_kept(spend))


def _cap(cap: SpendCap, spend: SpendReport) -> str:
    roles = {row.name: row.sum for row in spend.role}
    spent = spend.total if cap.whose == "run" else roles.get(cap.whose, SpendSum())
    parts = []
    if cap.tokens is not None:
        parts.append(f"{round(spent.tokens):,} of {plural(cap.tokens, 'token')}")
    if cap.money_usd is not None:
        parts.append(f"{money_text(spent)} of {dollars(cap.money_usd)}")
    return f"{cap.whose}: {', '.join(parts)}"


def _per_kept(spend: SpendReport) -> str:
    """Say the cost of a kept node, with all calls that led nowhere."""
    each = SpendSum(
        tokens=spend.total.tokens / spend.kept,
        money_usd=spend.total.money_usd / spend.kept,
        unpriced=spend.total.unpriced,
    )
    tokens = plural(round(each.tokens), "token")
    return f"{plural(spend.kept, 'kept node')}: {tokens} and {money_text(each)} each, all calls counted"


def models_text(models: Sequence[ModelEntry], columns: int = 80, terminal: Terminal | None = None) -> str:
    terminal = terminal or Terminal()
    blocks = []
    for model in models:
        head = cut(f"{model.name}  {model.model}", columns)
        name = head[: len(model.name)]
        blocks.append(
            "\n".join(
                [
                    terminal.paint(name, "strong") + head[len(name) :],
                    *fact_lines(_model_facts(model), columns, terminal),
                ]
            )
        )
    return terminal.render("\n\n".join(blocks))


def price_text(rates: Rates | None) -> str:
    if rates is None:
        return "unknown: only tokens are counted; set input_usd and output_usd"
    if not (rates.input_usd or rates.cached_usd or rates.output_usd):
        return "free"
    text = f"{dollars(rates.input_usd)} in, {dollars(rates.cached_usd)} cached, {dollars(rates.output_usd)} out"
    more = ", more for long prompts" if rates.longer else ""
    return f"{text} per million tokens{more}"


def _model_facts(model: ModelEntry) -> Iterator[Fact]:
    if model.roles:
        yield Fact("roles", ", ".join(model.roles))
    if model.url:
        yield Fact("url", model.url)
    yield Fact("key", model.key, "" if model.key != "missing" else "warn")
    if model.problem:
        yield Fact("problem", model.problem, "warn")
    yield Fact("price", price_text(model.price), "" if model.price else "warn")
    limits = [
        *([f"{figure(model.requests_per_minute)} requests"] if model.requests_per_minute else []),
        *([f"{model.tokens_per_minute:,.0f} tokens"] if model.tokens_per_minute else []),
    ]
    if limits:
        yield Fact("limits", f"{' and '.join(limits)} per minute")
