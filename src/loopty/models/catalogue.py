"""The models that a task can name, each made once in a process."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from loopty.domain.errors import Misuse
from loopty.domain.model import Model, ModelSpec, Role
from loopty.models import prices
from loopty.models.archive import Archive
from loopty.models.keys import key_of
from loopty.models.meter import Meter, Settlements
from loopty.models.metered_model import MeteredModel
from loopty.models.model_factory import FILE_PROVIDERS, make_model, with_file_below
from loopty.models.purse import RunPurse
from loopty.models.retry import Retry
from loopty.models.throttle import Clock, Sleep, Throttle

if TYPE_CHECKING:
    from loopty.models.embedding import Embedder

KeyRefusal = Callable[[str, ModelSpec], str | None]
"""Why the key of a model may not be sent where it is served, or None."""


_VECTOR_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class _ModelParts:
    """What all lines to one model share."""

    spec: ModelSpec
    rates: prices.Rates | None
    throttle: Throttle
    retry: Retry


class Catalogue:
    """Names to models: keys of `[models]`, or `provider:model`."""

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
        self._shared: dict[str, _ModelParts] = {}
        self._settlements = Settlements()

    def spec(self, name: str) -> ModelSpec:
        """What is said of the model. Raises Misuse for an unknown name."""
        if name in self._specs:
            return self._specs[name]
        provider, _, model = name.partition(":")
        if provider and model:
            return ModelSpec(provider, model)
        known = f"known are {', '.join(self._specs)}" if self._specs else "none is stated"
        raise Misuse(f"there is no model {name!r}: {known}; add [models.{name}], or say provider:model")

    def key(self, name: str) -> str | None:
        """The key that the model is asked with. Raises Misuse when it is not there, or may not be sent there."""
        if name not in self._keys:
            stated = self.spec(name)
            key = None if stated.provider in prices.FREE_PROVIDERS else key_of(name, stated, self._environ)
            if key is not None and (reason := self._key_refusal(name, stated)):
                raise Misuse(reason)
            self._keys[name] = key
        return self._keys[name]

    def model(self, name: str) -> Model:
        if name not in self._models:
            self._models[name] = make_model(name, self.spec(name), self._top, lambda: self.key(name))
        return self._models[name]

    def prompt_tokens(self, name: str) -> int:
        """The longest prompt that the model sees whole and has room to reply to."""
        stated = self.spec(name)
        if stated.provider == "local":
            from loopty.models.local_model import context_of, gguf_file

            file = gguf_file(name, with_file_below(stated, self._top), self._environ)
            stated = replace(stated, context_tokens=context_of(file, stated))
        return stated.prompt_tokens

    def role_model(self, role: Role, name: str, purse: RunPurse, archive: Archive) -> MeteredModel:
        """The model as this role calls it; the archive learns what key must never be written down."""
        model, shared = self.model(name), self._parts(name)
        archive.hide(self.key(name))
        return MeteredModel(role, model, shared.spec, self.meter(role, name, purse), archive, shared.retry)

    def embedding_model(self, name: str) -> Model:
        """The model as one that is asked for vectors. Raises Misuse where it cannot be."""
        stated = self.spec(name)
        if stated.provider in FILE_PROVIDERS:
            return self.model(name)
        return make_model(name, stated, self._top, lambda: self.key(name), embeds=True)

    def embedder(self, name: str, purse: RunPurse, archive: Archive) -> Embedder:
        """Texts as vectors, paid by the evolver. Raises Misuse where the model cannot be asked for them."""
        from loopty.models.embedding import Embedder

        model, shared, role = self.embedding_model(name), self._parts(name), Role.EVOLVER
        archive.hide(self.key(name))
        meter = self.meter(role, name, purse, embeds=True)
        # Its own, because a server may answer and not embed: that is no outage of those who ask it for text. And
        # nobody waits long for vectors, as there are others.
        patience = min(shared.spec.outage_seconds, _VECTOR_SECONDS)
        retry = self._make_retry(name, replace(shared.spec, outage_seconds=patience))
        line = MeteredModel(role, model, shared.spec, meter, archive, retry)
        return Embedder(line, shared.spec)

    def meter(self, role: Role, name: str, purse: RunPurse, *, embeds: bool = False) -> Meter:
        """What the role spends on the model. Raises Misuse where money is capped and cannot be counted."""
        shared = self._parts(name)
        rates = prices.rates_of(shared.spec, embeds=True) if embeds else shared.rates
        if rates is None:
            prices.require_cap(role, name, shared.spec, purse.remaining(role))
        throttle, settlements = shared.throttle, self._settlements
        model = shared.spec.display_name(name)
        return Meter(role, model, shared.spec, rates, purse, throttle, settlements, self._clock)

    def retry(self, name: str) -> Retry:
        """What repeats the requests to the model, for all who ask it."""
        return self._parts(name).retry

    def _parts(self, name: str) -> _ModelParts:
        if name not in self._shared:
            stated = self.spec(name)
            self._shared[name] = _ModelParts(
                stated,
                prices.rates_of(stated),
                Throttle(stated.requests_per_minute, stated.tokens_per_minute, self._clock, self._sleep),
                self._make_retry(name, stated),
            )
        return self._shared[name]

    def _make_retry(self, name: str, stated: ModelSpec) -> Retry:
        model, retries, seconds = stated.display_name(name), stated.retries, stated.outage_seconds
        return Retry(model, retries, seconds, self._rng, self._clock, self._sleep)
