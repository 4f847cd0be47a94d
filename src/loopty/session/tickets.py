"""Tickets: work that is handed over, and goes on whatever becomes of the client, until it is asked for."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from loopty.domain.declared_types import cut_words
from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.proposal import BY_AGENT, join_space
from loopty.domain.space import Params, Space, Value
from loopty.domain.trial import Pool
from loopty.engine.budget import trial_refusal
from loopty.engine.protocols import CommittedFiles
from loopty.kit import codec
from loopty.kit.records import Record, field
from loopty.kit.safe_folder import SafeFile
from loopty.record.fold import Event
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.tickets import TicketEnded, TicketMode, TicketOpened, Tickets, ticket_name
from loopty.session import hand_decisions
from loopty.session.combination import context_of_run
from loopty.session.context import CampaignContext
from loopty.session.drafts import node_as_edited, point_with, sealable_files
from loopty.session.runs import require_same_criteria
from loopty.workspaces.state_folder import StateFolder

LOG_BYTES = 1 << 20
"""The most that is kept of the output of a command that was tried."""


class TicketResult(Record):
    """The result of a ticket; that of an attempt is the node's own record."""

    node: NodeId
    mode: TicketMode
    fault: str = ""
    """Why the work could not be done; empty where it was."""
    problem: str = ""
    """What is wrong with the candidate; empty where nothing is."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    lines: tuple[str, ...] = ()
    """What was printed about the problem."""
    code: int = 0
    """The exit status of the command that was tried."""
    seconds: float = 0.0


class TicketFiles:
    """The files of tickets: a lock, a result and a log each."""

    def __init__(self, state: StateFolder) -> None:
        self._folder = state.tickets

    def lock(self, run: int, number: int | str) -> SafeFile:
        return self._folder.file(f"{ticket_name(run, number)}.lock")

    def log(self, run: int, number: int | str) -> SafeFile:
        return self._folder.file(f"{ticket_name(run, number)}.log")

    def worker_lock(self, number: int) -> SafeFile:
        return self._folder.file(f"worker-{number}.lock")

    def baseline_lock(self, run: int) -> SafeFile:
        return self._folder.file(f"baseline-{run}.lock")

    def save(self, run: int, number: int, result: TicketResult) -> None:
        self._result(run, number).write(codec.text(result).encode(), durable=True)

    def read(self, run: int, number: int) -> TicketResult:
        """Read the result of a ticket that has ended. Raises Misuse if there is none."""
        try:
            return codec.build(TicketResult, json.loads(self._result(run, number).read()))
        except (FileNotFoundError, ValueError):
            name = ticket_name(run, number)
            raise Misuse(f"nothing is known about {name}: wait for its node, or submit that again") from None

    def _result(self, run: int, number: int | str) -> SafeFile:
        return self._folder.file(f"{ticket_name(run, number)}.json")


_MOST_OPEN = 64
_MOST_OF_CLIENT = 16


class _Subject(Record):
    """What is measured: files, and the values of parameters where they are not the node's own."""

    files: CommittedFiles
    params: Params | None = None


def open_ticket(
    context: CampaignContext,
    node: Node,
    mode: TicketMode,
    client: str,
    command: str = "",
    values: Mapping[str, Value | str] | None = None,
) -> str:
    """Record that this is to be done, and return the ticket's name. For an attempt, the draft is sealed with it.

    `values` are those of a draft's parameters, where they are not to be its own. A node that is waiting for its
    verdict already has a ticket: that one is returned. Raises Misuse.
    """
    run = node.id.run
    context = context_of_run(context, run)
    if mode is TicketMode.ATTEMPT:
        require_same_criteria(context, node)
        if known := attempt_of(context.history, node):
            return known
    subject = _subject(context, node, mode, values or {})
    files = subject.files

    def decide(history: History) -> Iterator[Event]:
        tickets = Tickets.of(history.runs[run])
        if mode is TicketMode.ATTEMPT:
            if attempt_of(history, node):
                return  # another client was faster
            _require_budget(context, history, node)
            yield from hand_decisions.seal_node(history, node.id, files, subject.params, BY_AGENT)
        elif mode is TicketMode.TUNE:
            require_limit(trial_refusal(history.runs[run], context.task.pools, Pool.TUNE))
        _refuse_flood(tickets, client)
        yield TicketOpened(
            run=run,
            number=tickets.newest + 1,
            node=node.id,
            mode=mode,
            client=client,
            commit=files.commit,
            tree=files.tree,
            command=command,
            params=subject.params,
        )

    recorded = [item.event for item in context.recorder.record(decide)]
    opened = next((event for event in recorded if isinstance(event, TicketOpened)), None)
    name = ticket_name(run, opened.number) if opened else attempt_of(context.history, node)
    assert name
    return name


def attempt_of(history: History, node: Node) -> str | None:
    """Return the open ticket for this node's verdict, or None."""
    for number, ticket in Tickets.of(history.runs[node.id.run]).open.items():
        if ticket.node == node.id and ticket.mode is TicketMode.ATTEMPT:
            return ticket_name(node.id.run, number)
    return None


def end_ticket(context: CampaignContext, run: int, number: int, fault: str = "") -> bool:
    """Record the end of a ticket; False where it had ended already."""

    def decide(history: History) -> list[Event]:
        is_open = str(number) in Tickets.of(history.runs[run]).open
        return [TicketEnded(run, number, cut_words(fault, 1_000))] if is_open else []

    return bool(context.recorder.record(decide))


def _subject(
    context: CampaignContext, node: Node, mode: TicketMode, values: Mapping[str, Value | str]
) -> _Subject:
    """Say what to measure: what the draft holds now, or the node itself."""
    if node.dropped:
        raise Misuse(f"{node.name} was dropped: open a new one")
    if not node.draft:
        if values:
            raise Misuse(f"{node.name} is no draft any more, and its values stay: open a draft with params")
        return _Subject(CommittedFiles(node.commit, node.tree, node.declared))
    edited = node_as_edited(context, node)
    params = point_of(context.task.space, edited, values)
    if mode is TicketMode.ATTEMPT:
        files = sealable_files(context, node, lambda _: None, params)
    else:
        files = CommittedFiles(edited.commit, edited.tree, edited.declared)
    return _Subject(files, params if params != node.params else None)


def point_of(space: Space, node: Node, values: Mapping[str, Value | str]) -> Params:
    """Return the node's parameters with these values, for the task's parameters and those its program declares."""
    return point_with(values, node.params, join_space(space, node.declared)) or node.params


def _require_budget(context: CampaignContext, history: History, node: Node) -> None:
    """Refuse what the budget cannot pay for, counting the attempts that wait already."""
    run = history.runs[node.id.run]
    waiting = sum(
        ticket.mode is TicketMode.ATTEMPT and history[ticket.node].trials == 0
        for ticket in Tickets.of(run).open.values()
    )
    if node.trials == 0:
        require_limit(trial_refusal(run, context.task.pools, Pool.ATTEMPT, waiting))


def require_limit(reason: str | None) -> None:
    """Raise Misuse where a pool pays for no more."""
    if reason:
        raise Misuse(f"{reason}: raise the limit under [budget] in loopty.toml")


def _refuse_flood(tickets: Tickets, client: str) -> None:
    own = sum(ticket.client == client for ticket in tickets.open.values())
    if own >= _MOST_OF_CLIENT:
        raise Misuse(f"{client} has {own} open tickets already: wait for one of them")
    if len(tickets.open) >= _MOST_OPEN:
        raise Misuse(f"{len(tickets.open)} tickets are open already: wait until one has ended")
