"""Rules for a request: its model, its longest answer, that a stream reports its usage, and its size in tokens."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from loopty.domain.model import ModelSpec
from loopty.kit.token_count import byte_size, tokens
from loopty.models.endpoint.apis import Api
from loopty.models.endpoint.http_exchange import RequestRefused
from loopty.models.meter import RequestSize

Body = dict[str, Any]

_MAX_ANSWERS = 16
_NAMES = (
    "model",
    "models",
    "stream",
    "stream_options",
    "n",
    "max_tokens",
    "max_completion_tokens",
    "max_output_tokens",
    "temperature",
    "seed",
    "tools",
    "background",
    "generationConfig",
    "generation_config",
)
_NAME_BY_LOWER_CASE = {name.casefold(): name for name in _NAMES}
_MEDIA_TOKENS = 4096
_MEDIA = re.compile(r"(data:[^,]*,)?[A-Za-z0-9+/=_-]{4096,}")
"""An encoded picture, sound or document: its cost has little to do with its length."""


def refuse_misspelt(body: Body) -> None:
    """Raise RequestRefused when a setting differs only in case: a server that ignores case would accept it."""
    for name in body:
        if (known := _NAME_BY_LOWER_CASE.get(name.casefold())) and name not in _NAMES:
            raise RequestRefused(400, "invalid_request_error", f"`{name}` must be spelt `{known}`")


def apply_rules(api: Api, body: Body, spec: ModelSpec, model: str) -> int:
    """Write loopty's settings into a request; returns the most tokens of its answer. Raises RequestRefused."""
    if api is not Api.GENERATE:  # there the path names the model
        body["model"] = model
    if api is Api.CHAT and body.get("stream") is True:
        body["stream_options"] = {**stream_options(body), "include_usage": True}
    return _RULES[api](body, spec)


def stream_options(body: Body) -> Body:
    options = body.get("stream_options")
    return options if isinstance(options, dict) else {}


def is_repeatable(api: Api, body: Body) -> bool:
    """Whether the same request would get the same answer again."""
    settings = body.get("generationConfig", {}) if api is Api.GENERATE else body
    return settings.get("temperature") == 0 or settings.get("seed") is not None or api is Api.EMBEDDINGS


def request_size(body: Body, output_tokens: int) -> RequestSize:
    """The size of a request with an answer of at most `output_tokens`."""
    expected = maximum = 0
    pending: list[Any] = [body]
    while pending:
        part = pending.pop()
        if isinstance(part, dict):
            pending += [*part, *part.values()]
        elif isinstance(part, list):
            pending += part
        elif isinstance(part, str) and _MEDIA.fullmatch(part):
            # A text may look like media: it counts as a picture in the estimate, and as a text in the maximum.
            expected, maximum = expected + _MEDIA_TOKENS, maximum + max(_MEDIA_TOKENS, byte_size(part))
        else:
            text = str(part)
            expected, maximum = expected + tokens(text), maximum + byte_size(text)
    return RequestSize(expected, maximum, output_tokens)


def _apply_to_chat(body: Body, spec: ModelSpec) -> int:
    _set_temperature(body, spec)
    # OpenAI-compatible servers may not know the newer name, and OpenAI's newer models not the older one.
    default = "max_tokens" if spec.url or spec.provider != "openai" else "max_completion_tokens"
    names = [name for name in ("max_completion_tokens", "max_tokens") if body.get(name) is not None] or [default]
    return max(_cap_output(body, name, spec) for name in names) * _answer_count(body, "n")


def _apply_to_responses(body: Body, spec: ModelSpec) -> int:
    if body.get("background"):
        raise RequestRefused(
            400, "invalid_request_error", "`background` is not allowed: its tokens would not be counted"
        )
    _set_temperature(body, spec)
    return _cap_output(body, "max_output_tokens", spec)


def _apply_to_messages(body: Body, spec: ModelSpec) -> int:
    _set_temperature(body, spec)
    return _cap_output(body, "max_tokens", spec)


def _apply_to_generate(body: Body, spec: ModelSpec) -> int:
    # One spelling of loopty's settings: the API knows two, and would accept either.
    settings = body.pop("generation_config", None)
    settings = body.get("generationConfig", settings)
    settings = dict(settings) if isinstance(settings, dict) else {}
    for other, name in (("max_output_tokens", "maxOutputTokens"), ("candidate_count", "candidateCount")):
        if other in settings:
            value = settings.pop(other)
            settings.setdefault(name, value)
    body["generationConfig"] = settings
    _set_temperature(settings, spec)
    return _cap_output(settings, "maxOutputTokens", spec) * _answer_count(settings, "candidateCount")


_RULES: dict[Api, Callable[[Body, ModelSpec], int]] = {
    Api.CHAT: _apply_to_chat,
    Api.RESPONSES: _apply_to_responses,
    Api.MESSAGES: _apply_to_messages,
    Api.GENERATE: _apply_to_generate,
    Api.EMBEDDINGS: lambda _body, _spec: 0,
}


def _cap_output(settings: Body, name: str, spec: ModelSpec) -> int:
    wanted, limit = settings.get(name), spec.max_output_tokens
    valid = isinstance(wanted, int) and not isinstance(wanted, bool) and wanted > 0
    settings[name] = allowed = min(int(wanted or limit), limit) if valid else limit
    return allowed


def _answer_count(settings: Body, name: str) -> int:
    """The number of answers that a request asks for. Raises RequestRefused."""
    wanted = settings.get(name)
    if wanted is None:
        return 1
    if not isinstance(wanted, int) or not 1 <= wanted <= _MAX_ANSWERS:
        raise RequestRefused(
            400, "invalid_request_error", f"`{name}` must be a whole number from 1 to {_MAX_ANSWERS}"
        )
    return wanted


def _set_temperature(settings: Body, spec: ModelSpec) -> None:
    if spec.temperature is not None:
        settings.setdefault("temperature", spec.temperature)
