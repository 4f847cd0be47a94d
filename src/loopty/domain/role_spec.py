"""The models of each role, what they may spend, and what the verifier does."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from loopty.domain.model import Role
from loopty.kit.option import option


@dataclass(frozen=True, slots=True)
class RoleBudget:
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
        """The names of all its models; empty where it has none."""
        return tuple(dict.fromkeys(filter(None, (self.model, *self.models))))

    def weight(self, name: str) -> float:
        """The weight of one of its models."""
        return self.models.get(name, 1.0)

    @property
    def allowance(self) -> tuple[int | None, float | None]:
        """Tokens and money that one trial may spend; None for no limit."""
        return self.trial_tokens, self.trial_money_usd


@dataclass(frozen=True, slots=True)
class Roles:
    """The roles that use models, one table each: `[roles.evolver]`, `[roles.user]`, `[roles.verifier]`."""

    evolver: RoleBudget = option("Proposes changes.", RoleBudget())
    user: RoleBudget = option(
        "Works inside the benchmark, through an endpoint that loopty provides.", RoleBudget()
    )
    verifier: RoleBudget = option("Judges proposals and winners, as set under `[verifier]`.", RoleBudget())
    shares: Mapping[str, float] = option(
        "Share of `tokens` and `money_usd` of `[pools]` for each role: `{ evolver = 0.6, user = 0.3, "
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


@dataclass(frozen=True, slots=True)
class JudgedMetric:
    """A metric from the verifier: how often it prefers a node's artifact to the baseline's."""

    name: str = option("Name of the metric; list it under [[objective.metrics]] to make it count.")
    artifact: str = option(
        "The file in $EVO_TRACES_DIR to compare, named `task_NAME.json`: no other file is kept."
    )
    question: str = option("The criterion: what makes one result better than the other.")
    comparisons: int = option("Number of comparisons; half of them are in swapped order.", 4, minimum=2)


@dataclass(frozen=True, slots=True)
class VerifierSpec:
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
