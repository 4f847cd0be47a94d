"""What is done for a ticket: a node to its verdict, one free measurement, the gates, or any command."""

from __future__ import annotations

import asyncio
import fcntl
import json
import os
import time

from loopty.campaign.by_hand import check_trial, check_trial_result, run_node, run_to_verdict
from loopty.campaign.context import CampaignContext
from loopty.campaign.remeasurement import remeasure
from loopty.campaign.stoppable import run_until_stopped
from loopty.campaign.ticket_results import LOG_BYTES, TicketFiles, TicketResult
from loopty.campaign.verdict_changes import add_gate
from loopty.domain.errors import Misuse, Taken
from loopty.domain.gate_spec import Gate
from loopty.domain.ids import NodeId
from loopty.domain.outcome import Ending
from loopty.engine.protocols import Trial
from loopty.evaluators.gates import GateResult
from loopty.evaluators.tree_command import TreeCommand, TreeCommandEnd
from loopty.kit.records import replace
from loopty.record.node_record import Node
from loopty.record.tickets import OpenTicket, TicketMode

_POLL_SECONDS = 0.2


class TicketWork:
    """Does the work of tickets, one after the other."""

    def __init__(self, context: CampaignContext, files: TicketFiles) -> None:
        self._context = context
        self._files = files

    def run(self, run: int, number: int, ticket: OpenTicket) -> TicketResult | None:
        """The result; None where this process was asked to stop. Raises LooptyError where it cannot be done."""
        if ticket.mode is TicketMode.ATTEMPT:
            return self._attempt(ticket)
        if ticket.mode in (TicketMode.REMEASURE, TicketMode.GATE):
            return self._manage(ticket)
        node = replace(self._context.history[ticket.node], commit=ticket.commit, tree=ticket.tree)
        if ticket.params is not None:
            node = replace(node, params=ticket.params)
        trial, began = check_trial(self._context, node), time.monotonic()
        if ticket.mode is TicketMode.TUNE:
            return self._tune(ticket, trial)
        result = TicketResult(ticket.node, ticket.mode)
        if ticket.mode is TicketMode.CHECK:
            gates = self._gates(trial)
            if gates is None:
                return None
            failed = next((gate for gate in gates if gate.refusal), None)
            if failed:
                result = replace(result, problem=failed.refusal or "", lines=failed.printed.lines)
        else:
            end = self._command(run, number, ticket, trial)
            if end is None:
                return None
            result = replace(result, problem=end.stopped, code=end.code)
        return replace(result, seconds=round(time.monotonic() - began, 3))

    def _attempt(self, ticket: OpenTicket) -> TicketResult | None:
        context, node = self._context, ticket.node
        self._measure_baseline(node.run)
        while not self._node(node).verdict:
            try:
                judged = run_node(context, self._node(node), unsafe=False)
            except Taken:
                if not self._node(node).running:
                    raise
                time.sleep(_POLL_SECONDS)  # a person runs it by hand
                continue
            if judged.verdict is None:
                return None
        return TicketResult(node, ticket.mode)

    def _measure_baseline(self, run: int) -> None:
        """Measure the baseline if nobody did, once for all workers."""
        context, root = self._context, self._context.history.runs[run].root
        if self._node(root).verdict:
            return
        descriptor = self._files.baseline_lock(run).open(os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            while not self._node(root).verdict:
                if self._node(root).running:
                    time.sleep(_POLL_SECONDS)  # `loopty optimize` measures it
                    continue
                runner = context.trial_runner(run, context.executor(unsafe=False, run=run))
                if run_to_verdict(runner, self._node(root)).verdict is None:
                    raise Misuse("stopped while the baseline was measured: submit it again")
        finally:
            os.close(descriptor)

    def _node(self, node: NodeId) -> Node:
        return self._context.recorder.refresh()[node]

    def _tune(self, ticket: OpenTicket, trial: Trial) -> TicketResult | None:
        trial = replace(trial, slice=self._context.task.tune.slice)
        found = check_trial_result(self._context, trial, unsafe=False)
        outcome = found.outcome
        if outcome.ending is Ending.CANCELLED and outcome.reason.startswith("stopped "):
            return None
        return TicketResult(
            ticket.node,
            ticket.mode,
            problem=found.problem or "",
            metrics=outcome.metrics,
            lines=outcome.error_lines,
            seconds=outcome.seconds,
        )

    def _manage(self, ticket: OpenTicket) -> TicketResult:
        if ticket.mode is TicketMode.REMEASURE:
            judged = remeasure(self._context, ticket.node.run, ticket.node, unsafe=False)
            lines = tuple(f"{node.name} {node.verdict or 'still open'}" for node in judged)
        else:
            gate = Gate(**json.loads(ticket.command))
            change = add_gate(self._context, ticket.node, gate, unsafe=False)
            lines = (
                f"gate {gate.name} added",
                *(f"{self._context.history.name(node)} withdrawn" for node in change.withdrawn),
            )
        return TicketResult(ticket.node, ticket.mode, lines=lines)

    def _gates(self, trial: Trial) -> list[GateResult] | None:
        run_gates = self._context.run_gates(unsafe=False)

        async def run(cancel: asyncio.Event) -> list[GateResult] | None:
            async with self._context.hold_place(cancel) as refusal:
                return None if refusal else await run_gates(trial, cancel)

        results = run_until_stopped(run)
        return None if results is None or any(result.stopped for result in results) else results

    def _command(self, run: int, number: int, ticket: OpenTicket, trial: Trial) -> TreeCommandEnd | None:
        run_in_tree, log = self._context.run_in_tree(unsafe=False), self._files.log(run, number)
        log.write(b"")
        room, is_stopped = LOG_BYTES, False

        def keep(text: str) -> None:
            nonlocal room
            raw = text.encode(errors="replace")[:room]
            room -= len(raw)
            if raw:
                log.append(raw)

        command = TreeCommand(("/bin/sh", "-c", ticket.command), keep, keep)

        async def run_it(cancel: asyncio.Event) -> TreeCommandEnd | None:
            nonlocal is_stopped
            async with self._context.hold_place(cancel) as refusal:
                end = None if refusal else await run_in_tree(trial, command, cancel)
            is_stopped = cancel.is_set()
            return end

        end = run_until_stopped(run_it)
        return None if is_stopped else end
