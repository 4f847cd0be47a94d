"""Translates a prompt into the terms of the client library."""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from typing import TYPE_CHECKING, Any, cast

from loopty.domain.model import ModelSpec, Prompt, Speaker
from loopty.models.client_models import known_settings

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelMessage
    from pydantic_ai.models import Model as LibraryModel
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.settings import ModelSettings

_NOTHING = "(no text)"


def encodable_text(text: str) -> str:
    """The text without lone surrogates: JSON can carry them, a request cannot."""
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
    """The request parameters: a schema goes as the provider's structured output, else into the instructions."""
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
    """The spec's settings, with the client's retries off: another layer counts, pays and waits for them."""
    known = known_settings(spec)
    others = {key: value for key, value in spec.settings.items() if key not in known}
    chosen: dict[str, Any] = {**known, "max_retries": 0}
    chosen["max_tokens"] = prompt.longest_reply(spec.max_output_tokens)
    if spec.temperature is not None:
        chosen["temperature"] = spec.temperature
    if others:
        chosen["extra_body"] = others
    return cast("ModelSettings", chosen)
