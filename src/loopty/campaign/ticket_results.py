"""What came of a ticket, saved until it is asked for."""

from __future__ import annotations

import json
from collections.abc import Mapping

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.kit import codec
from loopty.kit.records import Record, field
from loopty.kit.safe_folder import SafeFile
from loopty.record.tickets import TicketMode, ticket_name
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
        """The result of a ticket that has ended. Raises Misuse where there is none."""
        try:
            return codec.build(TicketResult, json.loads(self._result(run, number).read()))
        except (FileNotFoundError, ValueError):
            name = ticket_name(run, number)
            raise Misuse(f"nothing is known about {name}: wait for its node, or submit that again") from None

    def _result(self, run: int, number: int | str) -> SafeFile:
        return self._folder.file(f"{ticket_name(run, number)}.json")
