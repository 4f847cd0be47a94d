"""Work that clients hand over, and who works on what.

The work goes on whatever becomes of the client.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum

from loopty.domain.access import ObjectName
from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.space import Value
from loopty.domain.trial import Pool
from loopty.kit.records import Record, field, replace
from loopty.record.fold import Event, Family, FoldState
from loopty.record.nodes import DraftDropped, NodeAdded
from loopty.record.run_record import Run, RunPart
from loopty.record.trials import TrialCounts
from loopty.record.verdicts import NodeJudged, VerdictWithdrawn

_SHAPE = r"t([1-9][0-9]{0,8})\.([1-9][0-9]{0,8})"


class TicketMode(StrEnum):
    """What is done for a ticket."""

    ATTEMPT = "attempt"
    """The node runs to its verdict."""
    TUNE = "tune"
    """The benchmark runs once on a draft as it is; nothing is judged. The pool of tunes pays."""
    CHECK = "check"
    """The gates run on a draft as it is."""
    TRY = "try"
    """Any command runs on a draft as it is."""
    REMEASURE = "remeasure"
    """Nodes that lost only against a withdrawn one are judged again."""
    GATE = "gate"
    """A gate is added to a node, and checked on its kept descendants."""


class TicketOpened(Event):
    """A client hands work over. `commit` and `tree` are the files of the node at this moment."""

    run: int
    number: int
    node: NodeId
    mode: TicketMode
    client: str
    commit: ObjectName
    tree: ObjectName
    command: str = ""
    """The shell line to try; of a gate, its name and command as JSON."""
    params: Mapping[str, Value] | None = None
    """The values to measure a draft with; None: the node's own."""
    is_charged: bool = False
    """Whether the pool of tunes pays: a command that was tried runs the benchmark."""


class TicketEnded(Event):
    """The work is done, or cannot be done; `fault` says why in the latter case."""

    run: int
    number: int
    fault: str = ""


class OpenTicket(Record):
    """A ticket that has not ended."""

    node: NodeId
    mode: TicketMode
    client: str
    commit: ObjectName
    tree: ObjectName
    since: float
    command: str = ""
    params: Mapping[str, Value] | None = None
    is_charged: bool = False


class Tickets(RunPart):
    """The open tickets by number, oldest first, and the number of the newest."""

    open: Mapping[str, OpenTicket] = field(default_factory=dict)
    newest: int = 0


def ticket_name(run: int, number: int | str) -> str:
    return f"t{run}.{number}"


def ticket_parts(name: str) -> tuple[int, int]:
    """Parse the run and the number of a ticket. Raises Misuse for anything else."""
    found = re.fullmatch(_SHAPE, name)
    if not found:
        raise Misuse(f"{name[:40]!r} is not a ticket: tickets look like t1.17")
    return int(found[1]), int(found[2])


def _open(state: FoldState, event: TicketOpened, at: float) -> None:
    run = state.runs[event.run]
    ticket = OpenTicket(
        node=event.node,
        mode=event.mode,
        client=event.client,
        commit=event.commit,
        tree=event.tree,
        since=at,
        command=event.command,
        params=event.params,
        is_charged=event.is_charged or event.mode is TicketMode.TUNE,
    )
    still_open = {**Tickets.of(run).open, str(event.number): ticket}
    run = _charge(run, 1) if ticket.is_charged else run
    state.put_run(run.with_part(Tickets(still_open, event.number)))


def _end_ticket(state: FoldState, event: TicketEnded, _at: float) -> None:
    run = state.runs[event.run]
    tickets = Tickets.of(run)
    ended = tickets.open.get(str(event.number))
    if ended and ended.is_charged and event.fault:
        run = _charge(run, -1)  # nothing was measured
    still_open = {number: ticket for number, ticket in tickets.open.items() if number != str(event.number)}
    state.put_run(run.with_part(replace(tickets, open=still_open)))


def _charge(run: Run, tunes: int) -> Run:
    counts = TrialCounts.of(run, Pool.TUNE)
    return run.with_pool_part(Pool.TUNE, replace(counts, started=counts.started + tunes))


TICKETS = Family((TicketOpened, TicketEnded), {TicketOpened: _open, TicketEnded: _end_ticket})


# A client's draft is its claim until the node has its verdict.


_MOST_CLAIMS = 64
STALE_SECONDS = 2 * 3600.0
"""A claim that is older holds nobody up: its client has probably gone."""


class Claim(Record):
    """A client works on a node."""

    author: str
    surface: str
    summary: str
    since: float

    def is_fresh(self, now: float) -> bool:
        return now - self.since < STALE_SECONDS


class Claims(RunPart):
    """The claims on nodes without a verdict, oldest first."""

    by_node: Mapping[str, Claim] = field(default_factory=dict)


def _add(state: FoldState, event: NodeAdded, at: float) -> None:
    if not event.author:
        return
    run = state.runs[event.node.run]
    claim = Claim(event.author, event.surface, event.summary, at)
    kept = [*Claims.of(run).by_node.items(), (str(event.node), claim)][-_MOST_CLAIMS:]
    state.put_run(run.with_part(Claims(dict(kept))))


def _end_claim(state: FoldState, event: DraftDropped | NodeJudged | VerdictWithdrawn, _at: float) -> None:
    _remove(state, event.node)


def _remove(state: FoldState, node: NodeId) -> None:
    run = state.runs[node.run]
    by_node = Claims.of(run).by_node
    if node in by_node:
        state.put_run(run.with_part(Claims({key: claim for key, claim in by_node.items() if key != node})))


CLAIMS = Family(
    (), {NodeAdded: _add, DraftDropped: _end_claim, NodeJudged: _end_claim, VerdictWithdrawn: _end_claim}
)
