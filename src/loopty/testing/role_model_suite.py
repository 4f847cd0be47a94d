"""What every line must hold: subclass LineConformance and give it a `made` fixture."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from loopty.domain.errors import Exhausted, Misuse
from loopty.domain.ids import NodeId
from loopty.domain.model import Message, ModelFault, Outage, Prompt, Reply, RoleModel, Speaker, Usage
from loopty.domain.pool import Pool
from loopty.models.scripted_model import Script
from loopty.record.calls import CallReserved, CallSettled, Spend
from loopty.record.ledger import Ledger

PROMPT = Prompt("You are terse.", (Message(Speaker.ASKER, "What next?"),), max_output_tokens=600)

MakeRoleModel = Callable[[Script, int | None], tuple[RoleModel, Ledger]]
"""A line of the evolver to a model with this script, which may use so many tokens in run 1 of a ledger."""


class RoleModelConformance:
    """The contract of the Line protocol, as tests."""

    async def test_a_reply_is_kept_under_its_call(self, make_role_model: MakeRoleModel) -> None:
        line, _ = make_role_model([Reply("this", Usage(7, 5))], None)
        answer = await line.ask(PROMPT, "guess")
        assert answer.reply == line.reply_of(answer.call) == Reply("this", Usage(7, 5))

    async def test_the_ledger_says_who_asked_whom_about_what_and_what_it_cost(
        self, make_role_model: MakeRoleModel
    ) -> None:
        line, ledger = make_role_model([Reply("this", Usage(7, 5))], None)
        answer = await line.ask(PROMPT, "guess", NodeId("1"), Pool.ATTEMPT)
        reserved, settled = reservations(ledger), settlements(ledger)
        assert [(event.call, event.model, event.operator) for event in reserved] == [
            (answer.call, line.model, "guess")
        ]
        assert (reserved[0].role, reserved[0].node, reserved[0].pool) == ("evolver", "1", Pool.ATTEMPT)
        assert [(event.call, event.tokens, event.usage) for event in settled] == [(answer.call, 12, Usage(7, 5))]

    async def test_a_reply_to_be_read_waits_in_the_history_until_it_is_taken(
        self, make_role_model: MakeRoleModel
    ) -> None:
        line, ledger = make_role_model(["this", "that"], None)
        answer = await line.ask(PROMPT, "guess", NodeId("1"), Pool.ATTEMPT)
        await line.ask(PROMPT, "chat")
        assert set(Spend.of(ledger.history().runs[1]).unread) == {answer.call}

    async def test_every_request_is_a_call_of_its_own(self, make_role_model: MakeRoleModel) -> None:
        fault = ModelFault("503: down", transient=True, usage=Usage(7, 0))
        line, ledger = make_role_model([fault, fault, "this"], None)
        answer = await line.ask(PROMPT, "guess")
        settled = settlements(ledger)
        assert len({event.call for event in settled}) == 3
        assert [(event.failure, event.tokens) for event in settled[:2]] == [("503: down", 7)] * 2
        assert (settled[2].call, settled[2].failure) == (answer.call, "")

    async def test_a_lasting_fault_is_an_outage_and_paid_for(self, make_role_model: MakeRoleModel) -> None:
        line, ledger = make_role_model([ModelFault("400: no", transient=False, usage=Usage(3, 0))], None)
        assert "400: no" in await _error_message(Outage, line.ask(PROMPT, "guess"))
        assert [event.tokens for event in settlements(ledger)] == [3]

    async def test_nothing_is_sent_where_a_cap_leaves_no_room(self, make_role_model: MakeRoleModel) -> None:
        line, ledger = make_role_model(["this"], 100)
        await _error_message(Exhausted, line.ask(PROMPT, "guess"))
        assert not reservations(ledger)

    async def test_a_call_that_is_broken_off_is_charged_as_reserved(self, make_role_model: MakeRoleModel) -> None:
        def cancel_call(_: Prompt) -> str:
            raise asyncio.CancelledError

        line, ledger = make_role_model(cancel_call, None)
        await _error_message(asyncio.CancelledError, line.ask(PROMPT, "guess"))
        assert [event.tokens for event in settlements(ledger)] == [event.tokens for event in reservations(ledger)]
        assert settlements(ledger)[0].failure

    async def test_a_reply_that_is_not_there_any_more_is_misuse(self, make_role_model: MakeRoleModel) -> None:
        line, _ = make_role_model([], None)
        try:
            line.reply_of("0" * 32)
        except Misuse:
            return
        raise AssertionError("it was there")


async def _error_message(kind: type[BaseException], asking: Awaitable[object]) -> str:
    """What it raises, in words."""
    try:
        await asking
    except kind as raised:
        return str(raised)
    raise AssertionError(f"no {kind.__name__} was raised")


def reservations(ledger: Ledger) -> list[CallReserved]:
    return [recorded.event for recorded in ledger.read() if isinstance(recorded.event, CallReserved)]


def settlements(ledger: Ledger) -> list[CallSettled]:
    return [recorded.event for recorded in ledger.read() if isinstance(recorded.event, CallSettled)]
