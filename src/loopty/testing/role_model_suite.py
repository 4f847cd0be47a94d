"""Tests that every role model must pass: subclass RoleModelConformance, give it a `make_role_model` fixture."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from loopty.domain.errors import Exhausted, Misuse
from loopty.domain.ids import NodeId
from loopty.domain.model import Message, ModelFault, Outage, Prompt, Reply, RoleModel, Speaker, Usage
from loopty.domain.trial import Pool
from loopty.models.scripted_model import Script
from loopty.record.calls import CallReserved, CallSettled, Spend
from loopty.record.ledger import Ledger

PROMPT = Prompt("You are terse.", (Message(Speaker.ASKER, "What next?"),), max_output_tokens=600)

MakeRoleModel = Callable[[Script, int | None], tuple[RoleModel, Ledger]]
"""Takes the script of the model and the evolver's cap in tokens; gives its role model in run 1 of a ledger."""


class RoleModelConformance:
    """The contract of the RoleModel protocol, as tests."""

    async def test_a_reply_is_saved_under_its_call(self, make_role_model: MakeRoleModel) -> None:
        role_model, _ = make_role_model([Reply("this", Usage(7, 5))], None)
        answer = await role_model.ask(PROMPT, "guess")
        assert answer.reply == role_model.reply_of(answer.call) == Reply("this", Usage(7, 5))

    async def test_the_ledger_records_caller_model_node_and_cost(self, make_role_model: MakeRoleModel) -> None:
        role_model, ledger = make_role_model([Reply("this", Usage(7, 5))], None)
        answer = await role_model.ask(PROMPT, "guess", NodeId("1"), Pool.ATTEMPT)
        reserved, settled = reservations(ledger), settlements(ledger)
        assert [(event.call, event.model, event.operator) for event in reserved] == [
            (answer.call, role_model.model, "guess")
        ]
        assert (reserved[0].role, reserved[0].node, reserved[0].pool) == ("evolver", "1", Pool.ATTEMPT)
        assert [(event.call, event.tokens, event.usage) for event in settled] == [(answer.call, 12, Usage(7, 5))]

    async def test_a_reply_with_proposals_stays_unread_until_they_are_taken(
        self, make_role_model: MakeRoleModel
    ) -> None:
        role_model, ledger = make_role_model(["this", "that"], None)
        answer = await role_model.ask(PROMPT, "guess", NodeId("1"), Pool.ATTEMPT)
        await role_model.ask(PROMPT, "chat")
        assert set(Spend.of(ledger.history().runs[1]).unread) == {answer.call}

    async def test_every_request_is_a_separate_call(self, make_role_model: MakeRoleModel) -> None:
        fault = ModelFault("503: down", transient=True, usage=Usage(7, 0))
        role_model, ledger = make_role_model([fault, fault, "this"], None)
        answer = await role_model.ask(PROMPT, "guess")
        settled = settlements(ledger)
        assert len({event.call for event in settled}) == 3
        assert [(event.failure, event.tokens) for event in settled[:2]] == [("503: down", 7)] * 2
        assert (settled[2].call, settled[2].failure) == (answer.call, "")

    async def test_a_permanent_fault_is_an_outage_and_is_paid_for(self, make_role_model: MakeRoleModel) -> None:
        role_model, ledger = make_role_model([ModelFault("400: no", transient=False, usage=Usage(3, 0))], None)
        assert "400: no" in await _error_message(Outage, role_model.ask(PROMPT, "guess"))
        assert [event.tokens for event in settlements(ledger)] == [3]

    async def test_nothing_is_sent_when_a_cap_leaves_no_room(self, make_role_model: MakeRoleModel) -> None:
        role_model, ledger = make_role_model(["this"], 100)
        await _error_message(Exhausted, role_model.ask(PROMPT, "guess"))
        assert not reservations(ledger)

    async def test_a_cancelled_call_is_charged_as_reserved(self, make_role_model: MakeRoleModel) -> None:
        def cancel_call(_: Prompt) -> str:
            raise asyncio.CancelledError

        role_model, ledger = make_role_model(cancel_call, None)
        await _error_message(asyncio.CancelledError, role_model.ask(PROMPT, "guess"))
        assert [event.tokens for event in settlements(ledger)] == [event.tokens for event in reservations(ledger)]
        assert settlements(ledger)[0].failure

    async def test_a_reply_that_no_longer_exists_is_misuse(self, make_role_model: MakeRoleModel) -> None:
        role_model, _ = make_role_model([], None)
        try:
            role_model.reply_of("0" * 32)
        except Misuse:
            return
        raise AssertionError("no Misuse was raised")


async def _error_message(kind: type[BaseException], call: Awaitable[object]) -> str:
    """Return the message of the error that the call raises."""
    try:
        await call
    except kind as error:
        return str(error)
    raise AssertionError(f"no {kind.__name__} was raised")


def reservations(ledger: Ledger) -> list[CallReserved]:
    """List the reservations in the ledger, oldest first."""
    return [recorded.event for recorded in ledger.read() if isinstance(recorded.event, CallReserved)]


def settlements(ledger: Ledger) -> list[CallSettled]:
    """List the settlements in the ledger, oldest first."""
    return [recorded.event for recorded in ledger.read() if isinstance(recorded.event, CallSettled)]
