"""Language models as data and protocols: who asks, prompt, reply, faults; and what each role may spend."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import PurePath
from typing import Any, Protocol

from loopty.domain.errors import LooptyError
from loopty.domain.ids import NodeId
from loopty.domain.trial import Pool
from loopty.kit.records import Record
from loopty.kit.tables import Table, option


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


class ModelSpec(Table):
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
        """Return the longest prompt, in estimated tokens, that the model can read with room left to answer."""
        reply = min(self.max_output_tokens, self.context_tokens // 4)
        return (self.context_tokens - reply) * 3 // 4  # code has more tokens than the estimate says

    def display_name(self, name: str) -> str:
        """Return the ledger's name for the model that the task calls `name`."""
        return f"{self.provider}:{self.model or PurePath(self.file).stem or name}"

    @property
    def identity(self) -> tuple[Any, ...]:
        """Return everything that its replies depend on: two specs with the same identity are one model."""
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
        """Return the longest reply in tokens, given the model's own limit."""
        return limit if self.max_output_tokens is None else min(self.max_output_tokens, limit)

    def with_reply(self, reply: str, objection: str) -> Prompt:
        """Continue the conversation with the model's reply and an objection to it."""
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
        """Write one sentence for the user who waits."""
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
        """Ask for the model's reply. `node` is what the call is about; `pool` is set if a proposal is wanted.

        Raises Exhausted when a cap forbids the call, Outage when the model is unavailable.
        """
        ...

    def reply_of(self, call: str) -> Reply:
        """Return the saved reply of an earlier call. Raises Misuse when it is gone."""
        ...


class RoleBudget(Table):
    """A role's model, and what it may spend."""

    model: str = option("A name under `[models]`, or `provider:model`.", "")
    models: Mapping[str, float] = option(
        "Further models with their weights; that of `model` is 1. `llm-code` chooses among the evolver's by"
        " its policy; other roles draw by weight.",
        {},
    )
    tokens: int | None = option("Tokens that the role may use.", None, minimum=0)
    money_usd: float | None = option("Money that the role may spend.", None, minimum=0)
    trial_tokens: int | None = option(
        "User role: tokens that all calls of one trial may use; a candidate that needs more fails.",
        None,
        above=0,
    )
    trial_money_usd: float | None = option("User role: money that all calls of one trial may cost.", None, above=0)
    cache: str = option(
        "User role: replies reused for equal requests, free. `auto`: at temperature 0 or with a seed; "
        "`always`; `never`.",
        "auto",
        choices=("auto", "always", "never"),
    )

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of all its models; empty if it has none."""
        return tuple(dict.fromkeys(filter(None, (self.model, *self.models))))

    def weight(self, name: str) -> float:
        """Return the weight of one of its models."""
        return self.models.get(name, 1.0)

    @property
    def allowance(self) -> tuple[int | None, float | None]:
        """Return the tokens and money that one trial may spend; None for no limit."""
        return self.trial_tokens, self.trial_money_usd


class Roles(Table):
    """The roles that use models, one table each: `[roles.evolver]`, `[roles.user]`, `[roles.verifier]`."""

    evolver: RoleBudget = option("Proposes changes.", RoleBudget())
    user: RoleBudget = option(
        "Works inside the benchmark, through an endpoint that loopty provides.", RoleBudget()
    )
    verifier: RoleBudget = option("Judges proposals and winners, as set under `[verifier]`.", RoleBudget())
    shares: Mapping[str, float] = option(
        "Share of `tokens` and `money_usd` of `[budget]` for each role: `{ evolver = 0.6, user = 0.3, "
        "verifier = 0.1 }`.",
        {},
    )
    allocation: str = option(
        "`static`: shares stay. `adaptive`: they move every eight nodes by what each role brought "
        "(`docs/models.md`).",
        "static",
        choices=("static", "adaptive"),
    )

    def of(self, role: str) -> RoleBudget:
        return {Role.EVOLVER: self.evolver, Role.USER: self.user, Role.VERIFIER: self.verifier}[Role(role)]


class JudgedMetric(Table):
    """A metric from the verifier: how often it prefers a node's artifact to the baseline's."""

    name: str = option("Name of the metric; list it under [[objective.metrics]] to make it count.")
    artifact: str = option(
        "The file in $EVO_TRACES_DIR to compare, named `task_NAME.json`: no other file is kept."
    )
    question: str = option("The criterion: what makes one result better than the other.")
    comparisons: int = option("Number of comparisons; half of them are in swapped order.", 4, minimum=2)


class VerifierSpec(Table):
    """What the verifier does. It can only reject: it never keeps a node that the metric would not keep."""

    review: str = option(
        "What happens to a winner that breaks the rules: `off` does not review, `flag` keeps it with a "
        "note, `reject` rejects it.",
        "off",
        choices=("off", "flag", "reject"),
    )
    rules: str = option("Rules of this task in words, in addition to the usual ones.", "")
    judged: tuple[JudgedMetric, ...] = option(
        "Metrics that come from the verifier, one `[[verifier.judged]]` table each.", ()
    )


class WorkerOutage(Outage):
    """No worker is left to run trials."""

    @property
    def message(self) -> str:
        """Write one sentence for the user who waits."""
        return str(self)


class TrialLosesWorkers(WorkerOutage):
    """One trial lost several workers in a row: perhaps it kills them."""
