"""A model as one role calls it: every request is paid for, and every reply is kept."""

from __future__ import annotations

from dataclasses import replace

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.model import Answer, Message, Model, ModelFault, ModelSpec, Prompt, Reply, Role, Usage
from loopty.domain.pool import Pool
from loopty.kit.token_count import tokens
from loopty.models.archive import Archive
from loopty.models.meter import CANCELLED, Meter, RequestSize, ReservedCall, Subject
from loopty.models.retry import Retry


class MeteredModel:
    """Throttled, capped, paid, kept, and repeated when a request fails for no fault of its own."""

    def __init__(
        self, role: Role, model: Model, stated: ModelSpec, meter: Meter, archive: Archive, retry: Retry
    ) -> None:
        self.model = model.name
        self._role = role
        self._model = model
        self._stated = stated
        self._meter = meter
        self._archive = archive
        self._retry = retry

    async def ask(
        self, prompt: Prompt, operator: str, node: NodeId | None = None, pool: Pool | None = None
    ) -> Answer:
        return await self.ask_about(prompt, Subject(operator, node, pool))

    async def ask_about(self, prompt: Prompt, subject: Subject) -> Answer:
        """The model's reply. Raises as `ask`, and Overspent where an allowance forbids it."""
        return await self._retry.ask(lambda: self._request(prompt, subject))

    def saved_reply(self, call: str) -> Reply:
        return self._archive.reply(call)

    async def _request(self, prompt: Prompt, subject: Subject) -> Answer:
        """One request, reserved and settled on its own."""
        reservation = await self._meter.reserve(RequestSize.of_prompt(prompt, self._stated), subject)
        sent = self._outgoing_prompt(prompt, reservation)
        # What is broken off may have been answered in full all the same: it is charged as reserved.
        used: Usage | None = None
        failure = CANCELLED
        try:
            reply = await self._model.reply(sent)
            used = _usage_of(reservation, reply)
            # A server that quotes the key would get it into proposals, and so into the ledger and into commits.
            reply = replace(reply, text=self._archive.without_keys(reply.text))
            self._keep(reservation.call, sent, subject, reply, "")
            failure = ""
        except ModelFault as fault:
            used, failure = fault.usage, self._archive.without_keys(str(fault))
            self._keep(reservation.call, sent, subject, None, failure)
            raise _with_reason(fault, failure) from None
        except Misuse as misuse:
            failure = str(misuse)
            raise
        finally:
            reservation.settle(used, failure)
        return Answer(reservation.call, reply)

    def _outgoing_prompt(self, prompt: Prompt, reservation: ReservedCall) -> Prompt:
        """The prompt as it goes out: a key that got into a log or a file goes to nobody."""
        clean = self._archive.without_keys
        turns = tuple(Message(turn.speaker, clean(turn.text)) for turn in prompt.messages)
        return Prompt(clean(prompt.system), turns, prompt.schema, reservation.expected.output_tokens)

    def _keep(self, call: str, sent: Prompt, subject: Subject, reply: Reply | None, failure: str) -> None:
        self._archive.keep(
            call,
            sent,
            reply,
            failure,
            model=self.model,
            role=self._role,
            operator=subject.operator,
            node=subject.node,
        )


def _usage_of(reservation: ReservedCall, reply: Reply) -> Usage:
    """What a reply says that it used; an estimate where a server does not count."""
    return reply.usage if reply.usage.tokens else Usage(reservation.expected.input_tokens, tokens(reply.text))


def _with_reason(fault: ModelFault, reason: str) -> ModelFault:
    """The fault in words without keys."""
    return ModelFault(
        reason, transient=fault.transient, retry_after_seconds=fault.retry_after_seconds, usage=fault.usage
    )
