"""Models served by a provider: each request is sent once, bounded in time and size."""

from __future__ import annotations

import asyncio
import importlib.util
from typing import TYPE_CHECKING, Any

from loopty.domain.errors import Misuse
from loopty.domain.model import Model, ModelSpec, Prompt, Reply, Usage
from loopty.kit.own_installation import extra_command
from loopty.kit.token_count import byte_size, tokens, tokens_for_bytes
from loopty.models import client_prompts
from loopty.models.client_faults import BrokenReply, fault_of
from loopty.models.client_models import EXTRAS, library_model
from loopty.models.http import close_answers

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse
    from pydantic_ai.models import Model as LibraryModel

_BYTES_PER_TOKEN, _BYTES = 16, 4_096
"""A reply is refused when it is longer than its limit in tokens allows, and longer than this minimum."""
_WHOLE = (None, "stop", "tool_call")
_REASONING = ("reasoning_tokens", "thoughts_tokens", "thinking_tokens")
"""Each vendor has its own name for the count."""


def make_provider_model(name: str, spec: ModelSpec, key: str | None) -> Model:
    """The model that a provider serves. Raises Misuse when loopty cannot ask it."""
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

    async def reply(self, prompt: Prompt) -> Reply:
        exchange = _Exchange(self._spec, self._library, prompt)
        try:
            async with asyncio.timeout(self._spec.timeout_seconds), close_answers():
                return await (exchange.ask_streaming() if self._spec.stream else exchange.ask())
        except Exception as error:  # noqa: BLE001 - a server's answer can raise anything in its client
            fault = fault_of(error, self._spec, self._key, exchange.usage_so_far())
        # Raised outside the handler: the client's error may quote the key, and would stay attached as the context.
        raise fault


class _Exchange:
    """One request, and what has come back so far."""

    def __init__(self, spec: ModelSpec, library: LibraryModel, prompt: Prompt) -> None:
        self._library = library
        self._request: dict[str, Any] = {
            "messages": list(client_prompts.messages(prompt)),
            "model_settings": client_prompts.settings(spec, prompt),
            "model_request_parameters": client_prompts.parameters(library, prompt),
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

        async with model_request_stream(self._library, **self._request) as stream:
            async for event in stream:
                self._count(event)
            response = stream.get()
        # The clients take a connection that closed too early for the end of the stream.
        return self._read(response, ended=response.finish_reason == "content_filter")

    def usage_so_far(self) -> Usage:
        """An estimate of the request's usage so far, where the server reports none."""
        return Usage(self._input_tokens, tokens_for_bytes(self._bytes))

    def _read(self, response: ModelResponse, ended: bool) -> Reply:
        from pydantic_ai.messages import TextPart

        if not (ended or (response.provider_details or {}).get("finish_reason")):
            raise BrokenReply("the reply is missing, or ended too early")
        text = client_prompts.encodable_text(
            "".join(part.content for part in response.parts if isinstance(part, TextPart))
        )
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
