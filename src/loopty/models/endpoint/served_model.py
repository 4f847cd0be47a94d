"""The models behind one endpoint: each conversation is answered by one of them, drawn by weight."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from typing import Any

from loopty.domain.model import ModelSpec
from loopty.kit.records import Record
from loopty.models.endpoint.answer_source import AnswerSource
from loopty.models.endpoint.forwarded_call import ForwardedCall, make_call, read_body
from loopty.models.endpoint.http_exchange import Request

_TURNS = ("messages", "input", "contents")
_RULES = ("system", "instructions", "systemInstruction", "system_instruction")
_RULE_ROLES = ("system", "developer")


class EndpointModel(Record):
    """A model that answers requests of trials."""

    name: str
    """The name that the ledger shows."""
    spec: ModelSpec
    source: AnswerSource
    weight: float = 1.0

    @property
    def requested_name(self) -> str:
        """The name by which its provider knows it."""
        return self.spec.model or self.name

    @property
    def cache_name(self) -> str:
        """The name under which its replies are cached."""
        return f"{self.name} {self.spec.url}"


class ServedCall(Record):
    """A call, and the model that answers it."""

    model: EndpointModel
    call: ForwardedCall


def parse_served_call(request: Request, models: Sequence[EndpointModel]) -> ServedCall:
    """The call in a request, for the model that answers it. Raises RequestRefused."""
    body = read_body(request)
    model = draw_model(body, models)
    return ServedCall(model, make_call(request, body, model.spec, model.requested_name))


def draw_model(body: dict[str, Any], models: Sequence[EndpointModel]) -> EndpointModel:
    """The model for a conversation: the same for its later turns, for other candidates and after a restart."""
    if len(models) == 1:
        return models[0]
    rng = random.Random(json.dumps(_opening(body), sort_keys=True))
    return rng.choices(models, [model.weight for model in models])[0]


def _opening(body: dict[str, Any]) -> list[Any]:
    """What a conversation begins with: its rules, and its turns up to the first that is no rule."""
    turns = next((body[name] for name in _TURNS if body.get(name)), None)
    if isinstance(turns, list):
        first = next((at for at, turn in enumerate(turns) if not _is_rule(turn)), len(turns))
        turns = turns[: first + 1]
    return [*(body.get(name) for name in _RULES), turns]


def _is_rule(turn: Any) -> bool:
    return isinstance(turn, dict) and turn.get("role") in _RULE_ROLES
