"""Builds a model of the client library from a model's spec."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from loopty.domain.errors import Misuse
from loopty.domain.model import ModelSpec
from loopty.kit.fence import one_line
from loopty.kit.own_installation import extra_command, package_command
from loopty.models.http import http_client
from loopty.models.provider_names import unknown_provider_message

if TYPE_CHECKING:
    from pydantic_ai.models import Model as LibraryModel

_NO_KEY = "no-key-needed"
_BYTES, _BYTES_PER_TOKEN = 4_000_000, 1_000
"""Together the longest answer. A stream wraps each token in a few hundred bytes."""
_WITH_OLDER_HTTPX = ("cohere", "groq")
EXTRAS = ("anthropic", "google")
"""The providers whose clients are extras of loopty."""


def library_model(name: str, spec: ModelSpec, key: str | None) -> LibraryModel:
    """The library's model. Raises Misuse when its client is unknown, not installed, or cannot be bounded."""
    from pydantic_ai.exceptions import UserError

    try:
        model = _MAKERS.get(spec.provider, _other_model)(name, spec, key)
    except ImportError:
        package = f"pydantic-ai-slim[{spec.provider}]"
        command = extra_command(spec.provider) if spec.provider in EXTRAS else package_command(package)
        raise Misuse(f"model '{name}' needs the client of {spec.provider}: run {command}") from None
    except UserError as error:
        raise Misuse(f"model '{name}': {one_line(error.message, 300)}") from None
    if "max_retries" in model.unsupported_settings:
        # One layer counts, pays and waits for retries: a client with retries of its own would hide some.
        raise Misuse(f"model '{name}': {_gateway_advice(spec)}")
    unknown = set(spec.settings) - set(known_settings(spec))
    if unknown and "extra_body" in model.unsupported_settings:
        raise Misuse(f"model '{name}': the client of {spec.provider} has no setting `{min(unknown)}`")
    return model


def known_settings(spec: ModelSpec) -> Mapping[str, Any]:
    """The settings that the client library knows; the others are for the server."""
    from pydantic_ai.settings import ModelSettings

    families = {spec.provider.split("-")[0], "openai"}
    return {
        key: value
        for key, value in spec.settings.items()
        if key in ModelSettings.__annotations__ or key.partition("_")[0] in families
    }


def _openai_model(_: str, spec: ModelSpec, key: str | None) -> LibraryModel:
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile, openai_model_profile
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    if not spec.url:
        return OpenAIChatModel(spec.model, provider=OpenAIProvider(api_key=key, http_client=_client_for(spec)))
    # Other servers know the older name of the limit; OpenAI's reasoning models know only the newer one.
    reasons = bool(openai_model_profile(spec.model).get("supports_thinking"))
    profile = OpenAIModelProfile(
        supports_json_schema_output=True, openai_chat_supports_max_completion_tokens=reasons
    )
    provider = OpenAICompatibleProvider(
        "openai", base_url=spec.url, api_key=key or _NO_KEY, http_client=_client_for(spec), profile=profile
    )
    return OpenAIChatModel(spec.model, provider=provider)


def _anthropic_model(_: str, spec: ModelSpec, key: str | None) -> LibraryModel:
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    provider = AnthropicProvider(
        api_key=_key_or_placeholder(spec, key), base_url=spec.url or None, http_client=_client_for(spec)
    )
    return AnthropicModel(spec.model, provider=provider)


def _google_model(_: str, spec: ModelSpec, key: str | None) -> LibraryModel:
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    provider = GoogleProvider(
        api_key=_key_or_placeholder(spec, key), base_url=spec.url or None, http_client=_client_for(spec)
    )
    return GoogleModel(spec.model, provider=provider)


def _other_model(name: str, spec: ModelSpec, key: str | None) -> LibraryModel:
    from pydantic_ai.models import infer_model
    from pydantic_ai.providers import infer_provider_class

    try:
        kind = infer_provider_class(spec.provider)
    except ValueError:
        raise Misuse(f"model '{name}': {unknown_provider_message(spec.provider)}") from None
    arguments = {
        "http_client": _client_for(spec),
        "api_key": _key_or_placeholder(spec, key),
        "base_url": spec.url,
    }
    present = {argument: value for argument, value in arguments.items() if value}
    if not set(present) <= set(inspect.signature(kind).parameters):
        raise Misuse(f"model '{name}': {_gateway_advice(spec)}")
    try:
        return infer_model(f"{spec.provider}:{spec.model}", lambda _: kind(**present))
    except ValueError:
        raise Misuse(f"model '{name}': {_gateway_advice(spec)}") from None


def _key_or_placeholder(spec: ModelSpec, key: str | None) -> str | None:
    """With a `url`, the library must not look up a key itself: that key may not be meant for this server."""
    return key or (_NO_KEY if spec.url else None)


def _client_for(spec: ModelSpec) -> Any:
    library = import_module("httpx" if spec.provider in _WITH_OLDER_HTTPX else "httpx2")
    limit = _BYTES + _BYTES_PER_TOKEN * spec.max_output_tokens
    return http_client(library, limit, spec.timeout_seconds)


def _gateway_advice(spec: ModelSpec) -> str:
    return (
        f"loopty cannot control `url`, limits and retries of the client for {spec.provider}: "
        'serve the model through a gateway that speaks OpenAI\'s chat API, with provider = "openai" and its `url`'
    )


_MAKERS: dict[str, Callable[[str, ModelSpec, str | None], LibraryModel]] = {
    "openai": _openai_model,
    "anthropic": _anthropic_model,
    "google": _google_model,
}
