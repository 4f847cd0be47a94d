"""The fold of what models cost, and of their replies that wait to be taken."""

from __future__ import annotations

from collections.abc import Sequence

from loopty.kit.replace import replace
from loopty.record.events import CallReserved, CallSettled
from loopty.record.records import Reservation, Run, UnreadReply

MOST_UNREAD = 64
"""Replies that wait; older ones are forgotten."""


def folded(run: Run, event: CallReserved | CallSettled) -> Run:
    return _reserved(run, event) if isinstance(event, CallReserved) else _settled(run, event)


def _reserved(run: Run, event: CallReserved) -> Run:
    hold = Reservation(
        event.role,
        event.tokens,
        event.money_usd,
        event.owner,
        event.operator,
        event.node,
        event.pool,
        max(event.tokens, event.max_tokens),
        max(event.money_usd, event.max_money_usd),
    )
    return replace(run, holds={**run.holds, event.call: hold})


def _settled(run: Run, event: CallSettled) -> Run:
    if event.call not in run.holds:
        return run  # its process was taken for dead, and the call was charged as reserved
    holds = dict(run.holds)
    hold = holds.pop(event.call)
    unread = run.unread
    if hold.pool and not event.failure and not event.lost:
        unread = {**unread, event.call: UnreadReply(hold.pool, hold.operator, hold.node)}
        unread = dict(list(unread.items())[-MOST_UNREAD:])
    role = hold.role
    return replace(
        run,
        holds=holds,
        tokens={**run.tokens, role: run.tokens.get(role, 0) + event.tokens},
        money_usd={**run.money_usd, role: run.money_usd.get(role, 0.0) + event.money_usd},
        unread=unread,
    )


def taken(run: Run, calls: Sequence[str], item: int, left: int) -> Run:
    """The run after a proposal was made of these calls: of the last one this item, which so many come after."""
    if not calls:
        return run
    unread = {call: waiting for call, waiting in run.unread.items() if call not in calls[:-1]}
    waiting = unread.pop(calls[-1], None)
    gone = {item, *waiting.taken} if waiting else set()
    if waiting and len(gone) < (size := item + left + 1):
        unread[calls[-1]] = replace(waiting, taken=tuple(sorted(gone)), size=size)
    return replace(run, unread=unread)
