"""Prices of models: from the spec, else from the price list of an installed package. Nothing is fetched."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

from loopty.domain.errors import Misuse
from loopty.domain.model import ModelSpec, Role, Usage
from loopty.kit.records import Record, field
from loopty.models.keys import is_on_loopback
from loopty.models.purse import Price

_MILLION = 1_000_000
FREE_PROVIDERS = ("scripted", "recorded")
"""Providers that send no bill."""


class Rates(Record):
    """Prices of a million tokens, in US dollars."""

    input_usd: float
    cached_usd: float
    output_usd: float
    longer: Mapping[int, Rates] = field(default_factory=dict)
    """The prices of longer requests, by the number of input tokens that they exceed."""

    def cost(self, usage: Usage) -> float:
        rates = self.tier(usage.input_tokens)
        cached = min(usage.cached_tokens, usage.input_tokens)
        fresh = usage.input_tokens - cached
        return (
            fresh * rates.input_usd + cached * rates.cached_usd + usage.output_tokens * rates.output_usd
        ) / _MILLION

    def tier(self, input_tokens: int) -> Rates:
        """Return the prices of a request of this length: all of its tokens have the price of its tier."""
        return next(
            (self.longer[start] for start in sorted(self.longer, reverse=True) if input_tokens > start), self
        )

    def affordable_output(self, input_tokens: int, money_usd: float) -> float:
        """Compute how many output tokens the money buys on top of this input."""
        rest, rates = money_usd - self.cost(Usage(input_tokens)), self.tier(input_tokens)
        if rates.output_usd == 0:
            return math.inf if rest >= 0 else 0.0
        return max(rest, 0.0) * _MILLION / rates.output_usd


FREE = Rates(0.0, 0.0, 0.0)


def rates_of(spec: ModelSpec) -> Rates | None:
    """Look up the model's prices, or return None when they are unknown."""
    return _rates_from_spec(spec) or _rates_from_list(spec)


def free_model_check(specs: Mapping[str, ModelSpec]) -> Callable[[str], bool]:
    """Make a function that says whether a model, by its name in the ledger, is free. Reads no price list."""
    known = {spec.display_name(name) for name, spec in specs.items() if _rates_from_spec(spec) == FREE}
    return lambda model: model.partition(":")[0] in FREE_PROVIDERS or model in known


def unknown_price(name: str, spec: ModelSpec) -> str | None:
    """Say that the model's price is unknown, with the remedy; return None when it is known."""
    if rates_of(spec) is not None:
        return None
    return (
        f"model {name} has no known price: only tokens are counted; "
        f"give input_usd and output_usd under [models.{_toml_name(name)}]"
    )


def require_cap(role: Role, name: str, spec: ModelSpec, remaining: Price, token_cap: str = "") -> None:
    """Raise Misuse where money is capped and the price is unknown, unless tokens are capped, too.

    `remaining` is what the role may still spend: infinite without a cap. `token_cap` names the cap to set.
    """
    if math.isinf(remaining.money_usd) or not math.isinf(remaining.tokens) or rates_of(spec) is not None:
        return
    raise Misuse(
        f"money is capped for the {role}, but model {name} has no known price: give input_usd and output_usd "
        f"under [models.{_toml_name(name)}], or cap {token_cap or f'tokens under [budget] or [roles.{role}]'}"
    )


def _toml_name(name: str) -> str:
    """Quote the name as part of a TOML table's name, if necessary."""
    return name if name.replace("-", "").replace("_", "").isalnum() else f'"{name}"'


def _rates_from_spec(spec: ModelSpec) -> Rates | None:
    if spec.input_usd is not None and spec.output_usd is not None:
        cached = spec.input_usd if spec.cached_usd is None else spec.cached_usd
        return Rates(spec.input_usd, cached, spec.output_usd)
    return FREE if spec.provider in FREE_PROVIDERS or is_on_loopback(spec.url) else None


def _rates_from_list(spec: ModelSpec) -> Rates | None:
    try:
        from genai_prices import Usage as Counted
        from genai_prices import calc_price
    except ImportError:
        return None
    where: dict[str, str] = {"provider_api_url": spec.url} if spec.url else {"provider_id": spec.provider}
    look_up: Callable[..., Any] = calc_price
    try:
        price = look_up(Counted(input_tokens=1, output_tokens=1), spec.model, **where).model_price
    except LookupError:
        return None
    return _rates_with_tiers(price.input_mtok, price.cache_read_mtok, price.output_mtok)


def _rates_with_tiers(fresh: Any, cached: Any, out: Any) -> Rates | None:
    """Rates from three prices of the list, each a number or a base with tiers."""
    if fresh is None or out is None:
        return None
    cached = fresh if cached is None else cached
    starts = sorted({tier.start for kind in (fresh, cached, out) for tier in getattr(kind, "tiers", ())})
    longer = {
        start: Rates(_price_above(fresh, start), _price_above(cached, start), _price_above(out, start))
        for start in starts
    }
    return Rates(_price_above(fresh, -1), _price_above(cached, -1), _price_above(out, -1), longer)


def _price_above(price: Any, start: int) -> float:
    """Return the price of requests just longer than `start` tokens."""
    tiers = [tier for tier in getattr(price, "tiers", ()) if tier.start <= start]
    return float(tiers[-1].price if tiers else getattr(price, "base", price))
