"""The models that a task can name: the table of providers, each model made once per process, and a list of them
without asking any.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from loopty.domain.errors import Misuse
from loopty.domain.model import Model, ModelSpec, Role, Roles
from loopty.kit.records import Record
from loopty.models import prices
from loopty.models.archive import Archive, make_recorded_model
from loopty.models.keys import key_of
from loopty.models.meter import Meter, MeteredModel, Settlements
from loopty.models.prices import FREE_PROVIDERS, Rates, rates_of
from loopty.models.purse import RunPurse
from loopty.models.retry import Clock, Retry, Sleep, Throttle
from loopty.models.scripted_model import make_scripted_model

KeyRefusal = Callable[[str, ModelSpec], str | None]
"""Why the key of a model may not be sent to its server, or None."""


class _ModelParts(Record):
    """What all role models of one model share."""

    spec: ModelSpec
    rates: prices.Rates | None
    throttle: Throttle
    retry: Retry


class Catalogue:
    """Makes models by name: a key of `[models]`, or `provider:model`."""

    def __init__(
        self,
        specs: Mapping[str, ModelSpec],
        environ: Mapping[str, str],
        top: Path,
        clock: Clock = time.monotonic,
        sleep: Sleep = asyncio.sleep,
        rng: random.Random | None = None,
        key_refusal: KeyRefusal = lambda *_: None,
    ) -> None:
        self._specs = specs
        self._environ = environ
        self._top = top
        self._clock = clock
        self._sleep = sleep
        self._rng = rng or random.Random()
        self._key_refusal = key_refusal
        self._keys: dict[str, str | None] = {}
        self._models: dict[str, Model] = {}
        self._parts_by_name: dict[str, _ModelParts] = {}
        self._settlements = Settlements()

    def spec(self, name: str) -> ModelSpec:
        """Return the spec of the model. Raises Misuse for an unknown name."""
        return spec_of(self._specs, name)

    def key(self, name: str) -> str | None:
        """Return the key to the model. Raises Misuse when it is missing, or may not go to the model's server."""
        if name not in self._keys:
            spec = self.spec(name)
            key = None if spec.provider in prices.FREE_PROVIDERS else key_of(name, spec, self._environ)
            if key is not None and (reason := self._key_refusal(name, spec)):
                raise Misuse(reason)
            self._keys[name] = key
        return self._keys[name]

    def model(self, name: str) -> Model:
        if name not in self._models:
            self._models[name] = make_model(name, self.spec(name), self._top, lambda: self.key(name))
        return self._models[name]

    def prompt_tokens(self, name: str) -> int:
        """Return the longest prompt, in tokens, that fits the model's context with room for a reply."""
        return self.spec(name).prompt_tokens

    def role_model(self, role: Role, name: str, purse: RunPurse, archive: Archive) -> MeteredModel:
        """Make the model as this role calls it. The archive learns which key it must never record."""
        model, parts = self.model(name), self._parts(name)
        archive.hide(self.key(name))
        return MeteredModel(role, model, parts.spec, self.meter(role, name, purse), archive, parts.retry)

    def meter(self, role: Role, name: str, purse: RunPurse) -> Meter:
        """Make the meter of this role and model. Raises Misuse if money is capped but the price is unknown."""
        parts = self._parts(name)
        if parts.rates is None:
            prices.require_cap(role, name, parts.spec, purse.remaining(role))
        throttle, settlements = parts.throttle, self._settlements
        model = parts.spec.display_name(name)
        return Meter(
            role=role,
            model=model,
            spec=parts.spec,
            rates=parts.rates,
            purse=purse,
            throttle=throttle,
            settlements=settlements,
            clock=self._clock,
        )

    def retry(self, name: str) -> Retry:
        """Return the retry layer that all callers of the model share."""
        return self._parts(name).retry

    def _parts(self, name: str) -> _ModelParts:
        if name not in self._parts_by_name:
            spec = self.spec(name)
            self._parts_by_name[name] = _ModelParts(
                spec,
                prices.rates_of(spec),
                Throttle(spec.requests_per_minute, spec.tokens_per_minute, self._clock, self._sleep),
                self._make_retry(name, spec),
            )
        return self._parts_by_name[name]

    def _make_retry(self, name: str, spec: ModelSpec) -> Retry:
        model, retries, seconds = spec.display_name(name), spec.retries, spec.outage_seconds
        return Retry(model, retries, seconds, self._rng, self._clock, self._sleep)


# No request is sent.


FILE_PROVIDERS = ("scripted", "recorded")
"""Providers that read a file and need no client."""
_PLACEHOLDER_KEY = "not-looked-for-here"


def make_model(name: str, spec: ModelSpec, top: Path, key: Callable[[], str | None]) -> Model:
    """Make the model. Raises Misuse when loopty cannot ask it."""
    file = top / Path(spec.file).expanduser()
    match spec.provider:
        case "scripted":
            return make_scripted_model(name, file)
        case "recorded":
            return make_recorded_model(name, file)
        case _:
            from loopty.models.provider_model import make_provider_model

            return make_provider_model(name, spec, key())


def client_problem(name: str, spec: ModelSpec, top: Path) -> str | None:
    """Say why the model's client is missing, with the remedy, or return None. Does not check its key."""
    try:
        make_model(name, spec, top, lambda: _PLACEHOLDER_KEY)
    except Misuse as error:
        return str(error)
    return None


_NOT_NEEDED = "not needed"


def spec_of(specs: Mapping[str, ModelSpec], name: str) -> ModelSpec:
    """Return the spec of a model by its name, or by provider:model. Raises Misuse for an unknown name."""
    if name in specs:
        return specs[name]
    provider, _, model = name.partition(":")
    if provider and model:
        return ModelSpec(provider, model)
    known = f"known models: {', '.join(specs)}" if specs else "no model is defined"
    raise Misuse(f"there is no model {name!r}: {known}; add [models.{name}], or write provider:model")


class ModelEntry(Record):
    """One model. It never includes the key itself."""

    name: str
    model: str
    """The name that the ledger shows."""
    roles: tuple[str, ...]
    """The roles that ask it."""
    url: str
    """Where it is served; empty for the provider's own address and for replies from a file."""
    key: str
    """`there`, `missing` or `not needed`."""
    address: str
    """Whether the key may be sent to the server: `allowed` or `refused`; empty when no key is sent."""
    problem: str
    """Why it cannot be asked, with the remedy; empty when no problem is known."""
    price: Rates | None
    """None when the price is unknown."""
    requests_per_minute: float | None
    tokens_per_minute: float | None


def model_entries(
    specs: Mapping[str, ModelSpec],
    roles: Roles,
    environ: Mapping[str, str],
    top: Path,
    key_refusal: KeyRefusal = lambda *_: None,
) -> Iterator[ModelEntry]:
    """Yield the models of `specs`, and those that roles name as `provider:model`."""
    catalogue = Catalogue(specs, environ, top)
    users_by_name: dict[str, list[str]] = {name: [] for name in specs}
    for role in Role:
        for name in roles.of(role).names:
            users_by_name.setdefault(name, []).append(role)
    for name, users in users_by_name.items():
        spec = catalogue.spec(name)
        key, key_problem = _key_status(name, spec, environ)
        refusal = key_refusal(name, spec) if key != _NOT_NEEDED else None
        yield ModelEntry(
            name=name,
            model=spec.display_name(name),
            roles=tuple(users),
            url=spec.url,
            key=key,
            address="" if key == _NOT_NEEDED else "refused" if refusal else "allowed",
            problem="; ".join(filter(None, (key_problem, refusal))),
            price=rates_of(spec),
            requests_per_minute=spec.requests_per_minute,
            tokens_per_minute=spec.tokens_per_minute,
        )


def _key_status(name: str, spec: ModelSpec, environ: Mapping[str, str]) -> tuple[str, str]:
    """Return the state of the key, and the problem with it or an empty text."""
    if spec.provider in FREE_PROVIDERS:
        return _NOT_NEEDED, ""
    try:
        return "there" if key_of(name, spec, environ) else _NOT_NEEDED, ""
    except Misuse as error:
        return "missing", str(error)
