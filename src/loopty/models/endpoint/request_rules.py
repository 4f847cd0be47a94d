"""What of a request is loopty's to say: who answers, how long at the most, and that a stream tells its usage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from loopty.domain.model import ModelSpec
from loopty.models.endpoint.apis import Api
from loopty.models.endpoint.http_exchange import RequestRefused

Body = dict[str, Any]

_MOST_AT_ONCE = 16
_SPELT = (
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
_FOLDED = {name.casefold(): name for name in _SPELT}


def refuse_misspelt(body: Body) -> None:
    """Raise Refused where a term is spelt otherwise: a server that does not look at the case would take it."""
    for name in body:
        if (known := _FOLDED.get(name.casefold())) and name not in _SPELT:
            raise RequestRefused(400, "invalid_request_error", f"`{name}` is spelt `{known}`")


def apply_rules(api: Api, body: Body, stated: ModelSpec, model: str) -> int:
    """Write the terms into a request; the most tokens that its answer may have. Raises Refused."""
    if api is not Api.GENERATE:  # there the path says it
        body["model"] = model
    if api is Api.CHAT and body.get("stream") is True:
        body["stream_options"] = {**stream_options(body), "include_usage": True}
    return _RULES[api](body, stated)


def stream_options(body: Body) -> Body:
    options = body.get("stream_options")
    return options if isinstance(options, dict) else {}


def is_repeatable(api: Api, body: Body) -> bool:
    """Whether the same request would get the same answer again."""
    settings = body.get("generationConfig", {}) if api is Api.GENERATE else body
    return settings.get("temperature") == 0 or settings.get("seed") is not None or api is Api.EMBEDDINGS


def _apply_to_chat(body: Body, stated: ModelSpec) -> int:
    _set_temperature(body, stated)
    # Servers that only speak like OpenAI may not know the newer name, and OpenAI's newer models not the older.
    usual = "max_tokens" if stated.url or stated.provider != "openai" else "max_completion_tokens"
    names = [name for name in ("max_completion_tokens", "max_tokens") if body.get(name) is not None] or [usual]
    return max(_cap_output(body, name, stated) for name in names) * _answer_count(body, "n")


def _apply_to_responses(body: Body, stated: ModelSpec) -> int:
    if body.get("background"):
        raise RequestRefused(
            400, "invalid_request_error", "`background` is not served: nobody would count its tokens"
        )
    _set_temperature(body, stated)
    return _cap_output(body, "max_output_tokens", stated)


def _apply_to_messages(body: Body, stated: ModelSpec) -> int:
    _set_temperature(body, stated)
    return _cap_output(body, "max_tokens", stated)


def _apply_to_generate(body: Body, stated: ModelSpec) -> int:
    # One spelling of what is ours to say: the API knows two, and would take either.
    settings = body.pop("generation_config", None)
    settings = body.get("generationConfig", settings)
    settings = dict(settings) if isinstance(settings, dict) else {}
    for other, name in (("max_output_tokens", "maxOutputTokens"), ("candidate_count", "candidateCount")):
        if other in settings:
            spelled = settings.pop(other)
            settings.setdefault(name, spelled)
    body["generationConfig"] = settings
    _set_temperature(settings, stated)
    return _cap_output(settings, "maxOutputTokens", stated) * _answer_count(settings, "candidateCount")


_RULES: dict[Api, Callable[[Body, ModelSpec], int]] = {
    Api.CHAT: _apply_to_chat,
    Api.RESPONSES: _apply_to_responses,
    Api.MESSAGES: _apply_to_messages,
    Api.GENERATE: _apply_to_generate,
    Api.EMBEDDINGS: lambda _body, _stated: 0,
}


def _cap_output(settings: Body, name: str, stated: ModelSpec) -> int:
    asked, limit = settings.get(name), stated.max_output_tokens
    sound = isinstance(asked, int) and not isinstance(asked, bool) and asked > 0
    settings[name] = tokens = min(int(asked or limit), limit) if sound else limit
    return tokens


def _answer_count(settings: Body, name: str) -> int:
    """How many answers are asked for at once. Raises Refused."""
    asked = settings.get(name)
    if asked is None:
        return 1
    if not isinstance(asked, int) or not 1 <= asked <= _MOST_AT_ONCE:
        raise RequestRefused(
            400, "invalid_request_error", f"`{name}` is a whole number from 1 to {_MOST_AT_ONCE} here"
        )
    return asked


def _set_temperature(settings: Body, stated: ModelSpec) -> None:
    if stated.temperature is not None:
        settings.setdefault("temperature", stated.temperature)
