"""The known models as text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loopty.models.model_list import ModelEntry
from loopty.models.prices import Rates
from loopty.report.columns import Fact, cut, fact_lines
from loopty.report.figures import dollars, figure
from loopty.report.terminal import Terminal


def models_text(models: Sequence[ModelEntry], columns: int = 80, terminal: Terminal | None = None) -> str:
    terminal = terminal or Terminal()
    blocks = []
    for model in models:
        head = cut(f"{model.name}  {model.model}", columns)
        name = head[: len(model.name)]
        blocks.append(
            "\n".join(
                [terminal.paint(name, "strong") + head[len(name) :], *fact_lines(_facts(model), columns, terminal)]
            )
        )
    return terminal.render("\n\n".join(blocks))


def price_text(rates: Rates | None) -> str:
    if rates is None:
        return "unknown: only tokens are counted; set input_usd and output_usd"
    if not (rates.input_usd or rates.cached_usd or rates.output_usd):
        return "free"
    text = f"{dollars(rates.input_usd)} in, {dollars(rates.cached_usd)} cached, {dollars(rates.output_usd)} out"
    more = ", more for long prompts" if rates.longer else ""
    return f"{text} per million tokens{more}"


def _facts(model: ModelEntry) -> Iterator[Fact]:
    if model.roles:
        yield Fact("roles", ", ".join(model.roles))
    if model.url:
        yield Fact("url", model.url)
    yield Fact("key", model.key, "" if model.key != "missing" else "warn")
    if model.problem:
        yield Fact("problem", model.problem, "warn")
    yield Fact("price", price_text(model.price), "" if model.price else "warn")
    limits = [
        *([f"{figure(model.requests_per_minute)} requests"] if model.requests_per_minute else []),
        *([f"{model.tokens_per_minute:,.0f} tokens"] if model.tokens_per_minute else []),
    ]
    if limits:
        yield Fact("limits", f"{' and '.join(limits)} per minute")
