"""Models served by a provider, through the client library: each request is sent once, bounded in time and size."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from loopty.domain.errors import Misuse
from loopty.domain.model import Model, ModelSpec, Prompt, Reply, Speaker, Usage
from loopty.kit.foreign_text import one_line
from loopty.kit.installation import extra_command, package_command
from loopty.kit.model_text import byte_size, tokens, tokens_for_bytes
from loopty.models.http import (
    EXPECTS_STREAM,
    BrokenReply,
    close_answers,
    fault_of,
    http_client,
    is_without_stream,
)
from loopty.models.keys import unknown_provider_message

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model as LibraryModel
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.settings import ModelSettings


_BYTES_PER_TOKEN, _BYTES = 16, 4_096
"""A reply is refused when it is longer than its limit in tokens allows, and longer than this minimum."""
_WHOLE = (None, "stop", "tool_call")
_REASONING = ("reasoning_tokens", "thoughts_tokens", "thinking_tokens")
"""Each vendor has its own name for the count."""


def make_provider_model(name: str, spec: ModelSpec, key: str | None) -> Model:
    """Make the model that a provider serves. Raises Misuse when loopty cannot ask it."""
    if not spec.model:
        raise Misuse(f"model '{name}' has no `model`: give the name that {spec.provider} uses")
    if importlib.util.find_spec("pydantic_ai") is None:
        extra = spec.provider if spec.provider in EXTRAS else "models"  # the former have all of the latter
        raise Misuse(f"model '{name}' needs the client library: run {extra_command(extra)}")
    return ProviderModel(spec, key, library_model(name, spec, key))


class ProviderModel:
    """A model behind the client library. Ask it from one event loop only."""

    def __init__(self, spec: ModelSpec, key: str | None, library: LibraryModel) -> None:
        self.name = f"{spec.provider}:{spec.model}"
        self._spec = spec
        self._key = key
        self._library = library
        self._streams = spec.stream

    async def reply(self, prompt: Prompt) -> Reply:
        exchange = _Exchange(self._spec, self._library, prompt)
        try:
            async with asyncio.timeout(self._spec.timeout_seconds), close_answers():
                return await self._ask(exchange)
        except Exception as error:  # noqa: BLE001 - a server's answer can raise anything in its client
            fault = fault_of(error, self._spec, self._key, exchange.usage_so_far())
        # Raised outside the handler: the client's error may quote the key, and would stay attached as the context.
        raise fault

    async def _ask(self, exchange: _Exchange) -> Reply:
        """Ask for a stream. A server that answers in one piece all the same is not asked for one again."""
        if self._streams:
            try:
                return await exchange.ask_streaming()
            except Exception as error:
                if not is_without_stream(error):
                    raise
            self._streams = False
            print(f"loopty: {self.name} does not stream: asked for whole replies from now on", file=sys.stderr)
        return await exchange.ask()


class _Exchange:
    """One request, and what has come back so far."""

    def __init__(self, spec: ModelSpec, library: LibraryModel, prompt: Prompt) -> None:
        self._library = library
        self._request: dict[str, Any] = {
            "messages": list(messages(prompt)),
            "model_settings": settings(spec, prompt),
            "model_request_parameters": parameters(library, prompt),
        }
        self._input_tokens = sum(map(tokens, prompt.texts))
        self._longest = max(_BYTES_PER_TOKEN * prompt.longest_reply(spec.max_output_tokens), _BYTES)
        self._bytes = 0

    async def ask(self) -> Reply:
        from pydantic_ai.direct import model_request

        response = await model_request(self._library, **self._request)
        return self._read(response, ended=response.finish_reason is not None)

    async def ask_streaming(self) -> Reply:
        from pydantic_ai.direct import model_request_stream

        token = EXPECTS_STREAM.set(True)
        try:
            async with model_request_stream(self._library, **self._request) as stream:
                async for event in stream:
                    self._count(event)
                response = stream.get()
        finally:
            EXPECTS_STREAM.reset(token)
        # The clients take a connection that closed too early for the end of the stream.
        return self._read(response, ended=response.finish_reason == "content_filter")

    def usage_so_far(self) -> Usage:
        """Estimate the request's usage so far, for servers that report none."""
        return Usage(self._input_tokens, tokens_for_bytes(self._bytes))

    def _read(self, response: ModelResponse, ended: bool) -> Reply:
        from pydantic_ai.messages import TextPart

        if not (ended or (response.provider_details or {}).get("finish_reason")):
            raise BrokenReply("the reply is missing, or ended too early")
        text = encodable_text("".join(part.content for part in response.parts if isinstance(part, TextPart)))
        self._bytes = max(self._bytes, byte_size(text))
        self._check_length()
        used = response.usage
        reasoning = next((used.details[word] for word in _REASONING if used.details.get(word)), 0)
        usage = Usage(used.input_tokens, used.output_tokens, used.cache_read_tokens, reasoning)
        # Without reported usage loopty counts itself, so that caps hold.
        return Reply(text, usage if usage.tokens else self.usage_so_far(), response.finish_reason in _WHOLE)

    def _count(self, event: Any) -> None:
        from pydantic_ai.messages import PartDeltaEvent, PartStartEvent

        if isinstance(event, PartStartEvent):
            self._bytes += byte_size(getattr(event.part, "content", None) or "")
        elif isinstance(event, PartDeltaEvent):
            self._bytes += byte_size(getattr(event.delta, "content_delta", None) or "")
        self._check_length()

    def _check_length(self) -> None:
        if self._bytes > self._longest:
            raise BrokenReply(f"the reply is longer than {self._longest:,} bytes and was discarded")


_NO_KEY = "no-key-needed"
_ANSWER_BYTES, _ANSWER_BYTES_PER_TOKEN = 4_000_000, 1_000
"""Together the longest answer. A stream wraps each token in a few hundred bytes."""
_WITH_OLDER_HTTPX = ("cohere", "groq")
EXTRAS = ("anthropic", "google")
"""The providers whose clients are extras of loopty."""


def library_model(name: str, spec: ModelSpec, key: str | None) -> LibraryModel:
    """Make the library's model. Raises Misuse when its client is unknown, missing, or cannot be bounded."""
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
    """Select the settings that the client library knows; the others are for the server."""
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
    """Return the key, or a placeholder with a `url`: the library must not look up another server's key."""
    return key or (_NO_KEY if spec.url else None)


def _client_for(spec: ModelSpec) -> Any:
    library = import_module("httpx" if spec.provider in _WITH_OLDER_HTTPX else "httpx2")
    limit = _ANSWER_BYTES + _ANSWER_BYTES_PER_TOKEN * spec.max_output_tokens
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


_NOTHING = "(no text)"


def encodable_text(text: str) -> str:
    """Remove lone surrogates from the text: JSON can carry them, a request cannot."""
    return text.encode("utf-8", "replace").decode()


def messages(prompt: Prompt) -> Iterator[ModelMessage]:
    from pydantic_ai.messages import ModelRequest, ModelResponse, SystemPromptPart, TextPart, UserPromptPart

    if prompt.system:
        yield ModelRequest(parts=[SystemPromptPart(encodable_text(prompt.system))])
    for message in prompt.messages:
        # Some servers refuse a message without text, and a model's reply may be empty.
        text = encodable_text(message.text) if message.text.strip() else _NOTHING
        if message.speaker is Speaker.ASKER:
            yield ModelRequest(parts=[UserPromptPart(text)])
        else:
            yield ModelResponse(parts=[TextPart(text)])


def parameters(library: LibraryModel, prompt: Prompt) -> ModelRequestParameters:
    """Make the request parameters: a schema goes as structured output, else into the instructions."""
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.output import OutputObjectDefinition

    if prompt.schema is None:
        return ModelRequestParameters()
    native = library.profile.get("supports_json_schema_output", False)
    return ModelRequestParameters(
        output_mode="native" if native else "prompted",
        output_object=OutputObjectDefinition(deepcopy(dict(prompt.schema)), name="reply"),
    )


def settings(spec: ModelSpec, prompt: Prompt) -> ModelSettings:
    """Make the settings, with the client's retries off: another layer counts, pays and waits for them."""
    known = known_settings(spec)
    others = {key: value for key, value in spec.settings.items() if key not in known}
    # Two layers that retry would multiply the requests.
    chosen: dict[str, Any] = {**known, "max_retries": 0}
    chosen["max_tokens"] = prompt.longest_reply(spec.max_output_tokens)
    if spec.temperature is not None:
        chosen["temperature"] = spec.temperature
    if others:
        chosen["extra_body"] = others
    return cast("ModelSettings", chosen)
