"""A prompt in the terms of the client library."""

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
    """The text without halves of letters: JSON can carry them, and no request can."""
    return text.encode("utf-8", "replace").decode()


def messages(prompt: Prompt) -> Iterator[ModelMessage]:
    from pydantic_ai.messages import ModelRequest, ModelResponse, SystemPromptPart, TextPart, UserPromptPart

    if prompt.system:
        yield ModelRequest(parts=[SystemPromptPart(encodable_text(prompt.system))])
    for turn in prompt.messages:
        # Some servers refuse a turn without text, and a model may have said nothing.
        text = encodable_text(turn.text) if turn.text.strip() else _NOTHING
        if turn.speaker is Speaker.ASKER:
            yield ModelRequest(parts=[UserPromptPart(text)])
        else:
            yield ModelResponse(parts=[TextPart(text)])


def parameters(library: LibraryModel, prompt: Prompt) -> ModelRequestParameters:
    """The schema goes as the provider's own structured output; where it has none, into the instructions."""
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.output import OutputObjectDefinition

    if prompt.schema is None:
        return ModelRequestParameters()
    native = library.profile.get("supports_json_schema_output", False)
    return ModelRequestParameters(
        output_mode="native" if native else "prompted",
        output_object=OutputObjectDefinition(deepcopy(dict(prompt.schema)), name="reply"),
    )


def settings(stated: ModelSpec, prompt: Prompt) -> ModelSettings:
    """What is stated, with retries off: they are counted, paid and waited for elsewhere."""
    known = known_settings(stated)
    others = {key: value for key, value in stated.settings.items() if key not in known}
    made: dict[str, Any] = {**known, "max_retries": 0}
    made["max_tokens"] = prompt.longest_reply(stated.max_output_tokens)
    if stated.temperature is not None:
        made["temperature"] = stated.temperature
    if others:
        made["extra_body"] = others
    return cast("ModelSettings", made)
