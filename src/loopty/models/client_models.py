"""What the task file states of a model, as a model of the client library."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any

from loopty.domain.errors import Misuse
from loopty.domain.model import ModelSpec
from loopty.kit.fence import one_line
from loopty.models.http import http_client
from loopty.models.provider_names import unknown_provider_message

if TYPE_CHECKING:
    from pydantic_ai.models import Model as LibraryModel

_NO_KEY = "no-key-needed"
_BYTES, _BYTES_PER_TOKEN = 4_000_000, 1_000
"""The longest answer. A stream wraps each token in a few hundred bytes."""
_WITH_OLDER_HTTPX = ("cohere", "groq")


def library_model(name: str, stated: ModelSpec, key: str | None) -> LibraryModel:
    """The library's model. Raises Misuse when the provider is not known, not installed, or not to be bounded."""
    from pydantic_ai.exceptions import UserError

    try:
        made = _MAKERS.get(stated.provider, _other_model)(name, stated, key)
    except ImportError:
        extra = stated.provider if stated.provider in ("anthropic", "google") else ""
        package = f"loopty[{extra}]" if extra else f"pydantic-ai-slim[{stated.provider}]"
        raise Misuse(f"model '{name}' needs the client of {stated.provider}: pip install '{package}'") from None
    except UserError as error:
        raise Misuse(f"model '{name}': {one_line(error.message, 300)}") from None
    if "max_retries" in made.unsupported_settings:
        # Retries are counted, paid and waited for in one layer: a client with a will of its own would hide some.
        raise Misuse(f"model '{name}': {_gateway_advice(stated)}")
    unknown = set(stated.settings) - set(known_settings(stated))
    if unknown and "extra_body" in made.unsupported_settings:
        raise Misuse(f"model '{name}': the client of {stated.provider} has no setting `{min(unknown)}`")
    return made


def known_settings(stated: ModelSpec) -> Mapping[str, Any]:
    """Those of the stated settings that the client library knows; the server itself is to know the others."""
    from pydantic_ai.settings import ModelSettings

    families = {stated.provider.split("-")[0], "openai"}
    return {
        key: value
        for key, value in stated.settings.items()
        if key in ModelSettings.__annotations__ or key.partition("_")[0] in families
    }


def _openai_model(_: str, stated: ModelSpec, key: str | None) -> LibraryModel:
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.profiles.openai import OpenAIModelProfile, openai_model_profile
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    if not stated.url:
        return OpenAIChatModel(stated.model, provider=OpenAIProvider(api_key=key, http_client=_client_for(stated)))
    # Other servers know the older name of the limit; OpenAI's reasoning models know only the newer one.
    reasons = bool(openai_model_profile(stated.model).get("supports_thinking"))
    profile = OpenAIModelProfile(
        supports_json_schema_output=True, openai_chat_supports_max_completion_tokens=reasons
    )
    provider = OpenAICompatibleProvider(
        "openai", base_url=stated.url, api_key=key or _NO_KEY, http_client=_client_for(stated), profile=profile
    )
    return OpenAIChatModel(stated.model, provider=provider)


def _anthropic_model(_: str, stated: ModelSpec, key: str | None) -> LibraryModel:
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    provider = AnthropicProvider(
        api_key=_key_or_placeholder(stated, key), base_url=stated.url or None, http_client=_client_for(stated)
    )
    return AnthropicModel(stated.model, provider=provider)


def _google_model(_: str, stated: ModelSpec, key: str | None) -> LibraryModel:
    from pydantic_ai.models.google import GoogleModel
    from pydantic_ai.providers.google import GoogleProvider

    provider = GoogleProvider(
        api_key=_key_or_placeholder(stated, key), base_url=stated.url or None, http_client=_client_for(stated)
    )
    return GoogleModel(stated.model, provider=provider)


def _other_model(name: str, stated: ModelSpec, key: str | None) -> LibraryModel:
    from pydantic_ai.models import infer_model
    from pydantic_ai.providers import infer_provider_class

    try:
        kind = infer_provider_class(stated.provider)
    except ValueError:
        raise Misuse(f"model '{name}': {unknown_provider_message(stated.provider)}") from None
    arguments = {
        "http_client": _client_for(stated),
        "api_key": _key_or_placeholder(stated, key),
        "base_url": stated.url,
    }
    given = {argument: value for argument, value in arguments.items() if value}
    if not set(given) <= set(inspect.signature(kind).parameters):
        raise Misuse(f"model '{name}': {_gateway_advice(stated)}")
    try:
        return infer_model(f"{stated.provider}:{stated.model}", lambda _: kind(**given))
    except ValueError:
        raise Misuse(f"model '{name}': {_gateway_advice(stated)}") from None


def _key_or_placeholder(stated: ModelSpec, key: str | None) -> str | None:
    """With a `url`, the library must not look for a key by itself: it may not be meant for that server."""
    return key or (_NO_KEY if stated.url else None)


def _client_for(stated: ModelSpec) -> Any:
    library = import_module("httpx" if stated.provider in _WITH_OLDER_HTTPX else "httpx2")
    limit = _BYTES + _BYTES_PER_TOKEN * stated.max_output_tokens
    return http_client(library, limit, stated.timeout_seconds)


def _gateway_advice(stated: ModelSpec) -> str:
    return (
        f"the client of {stated.provider} cannot be held to `url`, limits and retries from here: "
        'serve the model through a gateway that speaks OpenAI\'s chat API, with provider = "openai" and its `url`'
    )


_MAKERS: dict[str, Callable[[str, ModelSpec, str | None], LibraryModel]] = {
    "openai": _openai_model,
    "anthropic": _anthropic_model,
    "google": _google_model,
}
