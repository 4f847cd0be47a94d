"""A model as one role calls it: every request is paid for, and every reply is archived."""

from __future__ import annotations

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.model import Answer, Message, Model, ModelFault, ModelSpec, Prompt, Reply, Role, Usage
from loopty.domain.pool import Pool
from loopty.kit.records import replace
from loopty.kit.token_count import tokens
from loopty.models.archive import Archive
from loopty.models.meter import CANCELLED, Meter, RequestSize, ReservedCall, Subject
from loopty.models.retry import Retry


class MeteredModel:
    """A model that is throttled, capped, paid for, archived, and retried after transient faults."""

    def __init__(
        self, role: Role, model: Model, spec: ModelSpec, meter: Meter, archive: Archive, retry: Retry
    ) -> None:
        self.model = model.name
        self._role = role
        self._model = model
        self._spec = spec
        self._meter = meter
        self._archive = archive
        self._retry = retry

    async def ask(
        self, prompt: Prompt, operator: str, node: NodeId | None = None, pool: Pool | None = None
    ) -> Answer:
        return await self.ask_about(prompt, Subject(operator, node, pool, form=prompt.form))

    async def ask_about(self, prompt: Prompt, subject: Subject) -> Answer:
        """The model's reply. Raises as `ask` does, and AllowanceExceeded when an allowance forbids it."""
        return await self._retry.ask(lambda: self._request(prompt, subject))

    def reply_of(self, call: str) -> Reply:
        return self._archive.reply(call)

    async def _request(self, prompt: Prompt, subject: Subject) -> Answer:
        """Send one request, reserved and settled on its own."""
        reservation = await self._meter.reserve(RequestSize.of_prompt(prompt, self._spec), subject)
        sent = self._outgoing_prompt(prompt, reservation)
        # The server may still answer a cancelled request in full, so the reserved amount is charged.
        usage: Usage | None = None
        failure = CANCELLED
        try:
            reply = await self._model.reply(sent)
            usage = _usage_of(reservation, reply)
            # A server that quotes the key would put it into proposals, and so into the ledger and into commits.
            reply = replace(reply, text=self._archive.without_keys(reply.text))
            self._keep(reservation.call, sent, subject, reply, "")
            failure = ""
        except ModelFault as fault:
            usage, failure = fault.usage, self._archive.without_keys(str(fault))
            self._keep(reservation.call, sent, subject, None, failure)
            raise _with_reason(fault, failure) from None
        except Misuse as misuse:
            failure = str(misuse)
            raise
        finally:
            await reservation.close(usage, failure)
        return Answer(reservation.call, reply)

    def _outgoing_prompt(self, prompt: Prompt, reservation: ReservedCall) -> Prompt:
        """The prompt to send, without keys: a key in a log or a file must not reach the server."""
        without_keys = self._archive.without_keys
        messages = tuple(Message(message.speaker, without_keys(message.text)) for message in prompt.messages)
        longest = reservation.expected.output_tokens
        return Prompt(without_keys(prompt.system), messages, prompt.schema, longest, prompt.form)

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
    """The usage that the reply reports, or an estimate when the server does not count."""
    return reply.usage if reply.usage.tokens else Usage(reservation.expected.input_tokens, tokens(reply.text))


def _with_reason(fault: ModelFault, reason: str) -> ModelFault:
    """The same fault with this reason, which holds no keys."""
    return ModelFault(
        reason, transient=fault.transient, retry_after_seconds=fault.retry_after_seconds, usage=fault.usage
    )
