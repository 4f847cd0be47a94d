"""Language models as data and protocols: who asks, the prompt, the reply, the faults."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import PurePath
from typing import Any, Protocol

from loopty.domain.errors import LooptyError
from loopty.domain.ids import NodeId
from loopty.domain.pool import Pool
from loopty.kit.option import option
from loopty.kit.records import Record


class Role(StrEnum):
    """Who spends tokens."""

    EVOLVER = "evolver"
    """Proposes changes."""
    USER = "user"
    """Works inside the benchmark."""
    VERIFIER = "verifier"
    """Judges proposals and winners."""


CACHED_CALL = "cached"
"""The operator of a call that was answered from the cache, at no cost."""


@dataclass(frozen=True, slots=True)
class ModelSpec:
    """One model: where it is served, what it costs, how often it may be called."""

    provider: str = option(
        "`openai` (or any server with its chat API, with `url`, also on this machine), `anthropic`, `google`, "
        "`scripted`, `recorded`, or another that the client library knows."
    )
    model: str = option("The provider's name for the model.", "")
    url: str = option("Address of the server. Default: the provider's own.", "")
    key_env: str = option("Environment variable that holds the API key. Default: the provider's usual one.", "")
    keyring: str = option(
        "`service/user` of the API key in the system's keyring, used when no variable holds it.", ""
    )
    file: str = option("The script of replies, or the folder of recorded calls.", "")
    stream: bool = option("Stream replies.", True)
    temperature: float | None = option("Sampling temperature. Default: the provider's.", None, minimum=0)
    max_output_tokens: int = option("Maximum length of a reply in tokens, reasoning included.", 8192, above=0)
    context_tokens: int = option(
        "Context window, prompt and reply together. A server on this machine often has far less.",
        128_000,
        above=0,
    )
    timeout_seconds: float = option("Time limit of one request.", 300.0, above=0)
    retries: int = option("Repeats after a transient failure.", 5, minimum=0)
    outage_seconds: float = option(
        "Wait this long for an unavailable model, then end the session.", 600.0, minimum=0
    )
    requests_per_minute: float | None = option("Most requests started in any minute.", None, above=0)
    tokens_per_minute: float | None = option("Most tokens used in any minute.", None, above=0)
    input_usd: float | None = option(
        "Price of a million input tokens, if loopty does not know it.", None, minimum=0
    )
    cached_usd: float | None = option("Price of a million cached input tokens.", None, minimum=0)
    output_usd: float | None = option("Price of a million output tokens.", None, minimum=0)
    settings: Mapping[str, str | int | float | bool] = option(
        "More settings, passed to the client library unchanged: `reasoning_effort`, `seed`, …", {}
    )

    @property
    def prompt_tokens(self) -> int:
        """The longest prompt, by loopty's estimate, that the model can read and still has room to answer."""
        reply = min(self.max_output_tokens, self.context_tokens // 4)
        return (self.context_tokens - reply) * 3 // 4  # code has more tokens than the estimate says

    def display_name(self, name: str) -> str:
        """The model's name in the ledger, where the task calls it `name`."""
        return f"{self.provider}:{self.model or PurePath(self.file).stem or name}"

    @property
    def identity(self) -> tuple[Any, ...]:
        """Everything that its replies depend on: two specs with the same identity are one model."""
        served = (self.provider, self.model, self.url, self.file)
        return (*served, self.temperature, self.max_output_tokens, dict(self.settings))


class Usage(Record):
    """Tokens of one call. Cached tokens are part of the input, reasoning is part of the output."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def tokens(self) -> int:
        return self.input_tokens + self.output_tokens


class Speaker(StrEnum):
    ASKER = "asker"
    MODEL = "model"


class Message(Record):
    """One message of a conversation."""

    speaker: Speaker
    text: str


class Prompt(Record):
    """Exactly what a model is sent."""

    system: str
    messages: tuple[Message, ...]
    schema: Mapping[str, Any] | None = None
    """JSON schema of the reply; the asker still checks the reply."""
    max_output_tokens: int | None = None
    """A limit below the model's own; None for the model's own limit."""
    form: str = ""
    """The form of answer that it asks for, by name, where there are several; not sent."""

    @property
    def texts(self) -> tuple[str, ...]:
        return self.system, *(turn.text for turn in self.messages)

    def longest_reply(self, limit: int) -> int:
        """The longest reply in tokens, given the model's own limit."""
        return limit if self.max_output_tokens is None else min(self.max_output_tokens, limit)

    def with_reply(self, reply: str, objection: str) -> Prompt:
        """The conversation continued with the model's reply and an objection to it."""
        more = (Message(Speaker.MODEL, reply), Message(Speaker.ASKER, objection))
        return Prompt(self.system, (*self.messages, *more), self.schema, self.max_output_tokens, self.form)


class Reply(Record):
    """What a model answered."""

    text: str
    usage: Usage
    whole: bool = True
    """False when the reply was cut off at its limit."""


class ModelFault(LooptyError):  # noqa: N818
    """One request gave no reply. `usage` is what it may have cost nevertheless."""

    def __init__(
        self,
        reason: str,
        *,
        transient: bool,
        retry_after_seconds: float | None = None,
        usage: Usage | None = None,
    ) -> None:
        super().__init__(reason)
        self.transient = transient
        self.retry_after_seconds = retry_after_seconds
        self.usage = usage or Usage()


class Outage(LooptyError):  # noqa: N818
    """A model is unavailable: infrastructure, never the fault of a proposal or a candidate."""

    @property
    def message(self) -> str:
        """One sentence for the user who waits."""
        return f"a model is unavailable: {self}"


class Model(Protocol):
    """Anything that replies to prompts."""

    name: str
    """Its name in the ledger: `provider:model`."""

    async def reply(self, prompt: Prompt) -> Reply:
        """Ask once. Raises ModelFault when there is no reply; it does not retry."""
        ...


class Answer(Record):
    """A paid reply, with the name of the call under which prompt and reply are saved."""

    call: str
    reply: Reply


class ModelOption(Record):
    """A model that may be asked."""

    name: str
    """As the ledger names it."""
    weight: float = 1.0
    price: float = 1.0
    """What a call costs by the price list, relative to the cheapest model; 1 where prices are unknown."""


class RoleModel(Protocol):
    """A model as one role calls it: metered, capped, throttled, retried, saved."""

    model: str

    async def ask(
        self, prompt: Prompt, operator: str, node: NodeId | None = None, pool: Pool | None = None
    ) -> Answer:
        """The model's reply. `node` is the node that the call is about; `pool` is set where a proposal is wanted.

        Raises Exhausted when a cap forbids the call, Outage when the model is unavailable.
        """
        ...

    def reply_of(self, call: str) -> Reply:
        """The saved reply of an earlier call. Raises Misuse when it is gone."""
        ...
