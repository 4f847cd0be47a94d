"""What every line must hold: subclass LineConformance and give it a `made` fixture."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from loopty.domain.errors import Exhausted, Misuse
from loopty.domain.ids import NodeId
from loopty.domain.model import Message, ModelFault, Outage, Prompt, Reply, RoleModel, Speaker, Usage
from loopty.domain.pool import Pool
from loopty.models.scripted_model import Script
from loopty.record.ledger import Ledger
from loopty.record.spend import CallReserved, CallSettled, Spend

PROMPT = Prompt("You are terse.", (Message(Speaker.ASKER, "What next?"),), max_output_tokens=600)

Made = Callable[[Script, int | None], tuple[RoleModel, Ledger]]
"""A line of the evolver to a model with this script, which may use so many tokens in run 1 of a ledger."""


class LineConformance:
    """The contract of the Line protocol, as tests."""

    async def test_a_reply_is_kept_under_its_call(self, made: Made) -> None:
        line, _ = made([Reply("this", Usage(7, 5))], None)
        answer = await line.ask(PROMPT, "guess")
        assert answer.reply == line.saved_reply(answer.call) == Reply("this", Usage(7, 5))

    async def test_the_ledger_says_who_asked_whom_about_what_and_what_it_cost(self, made: Made) -> None:
        line, ledger = made([Reply("this", Usage(7, 5))], None)
        answer = await line.ask(PROMPT, "guess", NodeId("1"), Pool.ATTEMPT)
        reserved, settled = reserves(ledger), settles(ledger)
        assert [(event.call, event.model, event.operator) for event in reserved] == [
            (answer.call, line.model, "guess")
        ]
        assert (reserved[0].role, reserved[0].node, reserved[0].pool) == ("evolver", "1", Pool.ATTEMPT)
        assert [(event.call, event.tokens, event.usage) for event in settled] == [(answer.call, 12, Usage(7, 5))]

    async def test_a_reply_to_be_read_waits_in_the_history_until_it_is_taken(self, made: Made) -> None:
        line, ledger = made(["this", "that"], None)
        answer = await line.ask(PROMPT, "guess", NodeId("1"), Pool.ATTEMPT)
        await line.ask(PROMPT, "chat")
        assert set(Spend.of(ledger.history().runs[1]).unread) == {answer.call}

    async def test_every_request_is_a_call_of_its_own(self, made: Made) -> None:
        fault = ModelFault("503: down", transient=True, usage=Usage(7, 0))
        line, ledger = made([fault, fault, "this"], None)
        answer = await line.ask(PROMPT, "guess")
        settled = settles(ledger)
        assert len({event.call for event in settled}) == 3
        assert [(event.failure, event.tokens) for event in settled[:2]] == [("503: down", 7)] * 2
        assert (settled[2].call, settled[2].failure) == (answer.call, "")

    async def test_a_lasting_fault_is_an_outage_and_paid_for(self, made: Made) -> None:
        line, ledger = made([ModelFault("400: no", transient=False, usage=Usage(3, 0))], None)
        assert "400: no" in await _raised(Outage, line.ask(PROMPT, "guess"))
        assert [event.tokens for event in settles(ledger)] == [3]

    async def test_nothing_is_sent_where_a_cap_leaves_no_room(self, made: Made) -> None:
        line, ledger = made(["this"], 100)
        await _raised(Exhausted, line.ask(PROMPT, "guess"))
        assert not reserves(ledger)

    async def test_a_call_that_is_broken_off_is_charged_as_reserved(self, made: Made) -> None:
        def broken_off(_: Prompt) -> str:
            raise asyncio.CancelledError

        line, ledger = made(broken_off, None)
        await _raised(asyncio.CancelledError, line.ask(PROMPT, "guess"))
        assert [event.tokens for event in settles(ledger)] == [event.tokens for event in reserves(ledger)]
        assert settles(ledger)[0].failure

    async def test_a_reply_that_is_not_there_any_more_is_misuse(self, made: Made) -> None:
        line, _ = made([], None)
        try:
            line.saved_reply("0" * 32)
        except Misuse:
            return
        raise AssertionError("it was there")


async def _raised(kind: type[BaseException], asking: Awaitable[object]) -> str:
    """What it raises, in words."""
    try:
        await asking
    except kind as raised:
        return str(raised)
    raise AssertionError(f"no {kind.__name__} was raised")


def reserves(ledger: Ledger) -> list[CallReserved]:
    return [recorded.event for recorded in ledger.read() if isinstance(recorded.event, CallReserved)]


def settles(ledger: Ledger) -> list[CallSettled]:
    return [recorded.event for recorded in ledger.read() if isinstance(recorded.event, CallSettled)]
