"""Chat completions, text only, from a model without an HTTP server, such as a script or a recording."""

from __future__ import annotations

import json
import time
from typing import Any

from loopty.domain.model import Message, Prompt, Reply, Speaker
from loopty.features.endpoint.answers import HttpResponse, TrialRequest
from loopty.features.endpoint.http_exchange import RequestRefused
from loopty.features.endpoint.requests import Api, ForwardedCall
from loopty.models.meter import MeteredModel

_JSON, _EVENTS = {"content-type": "application/json"}, {"content-type": "text/event-stream"}
_SYSTEM = ("system", "developer")


class RoleModelSource:
    """Answers with a role model."""

    def __init__(self, role_model: MeteredModel) -> None:
        self._role_model = role_model

    async def answer(self, call: ForwardedCall, trial_request: TrialRequest) -> None:
        prompt = _prompt(call, self._role_model.model)
        answer = await self._role_model.ask_about(prompt, trial_request.subject)
        identity = {"id": f"chatcmpl-{answer.call}", "created": int(time.time()), "model": self._role_model.model}
        reply = (
            _stream_response(answer.reply, identity, call)
            if call.stream
            else _whole_response(answer.reply, identity)
        )
        trial_request.keep(reply)
        await trial_request.exchange.answer(reply.status, reply.headers, reply.body)


def _prompt(call: ForwardedCall, model: str) -> Prompt:
    if call.api is not Api.CHAT:
        raise _invalid_request(f"{model}, the model of the user role, answers only at {Api.CHAT}")
    body: dict[str, Any] = json.loads(call.content)
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise _invalid_request("`messages` must be a list of messages")
    if body.get("tools"):
        raise _invalid_request(f"{model} cannot call tools")
    system: list[str] = []
    conversation: list[Message] = []
    for message in messages:
        role = message.get("role") if isinstance(message, dict) else None
        if role in _SYSTEM:
            system.append(_text(message))
        elif role in ("user", "assistant"):
            conversation.append(Message(Speaker.ASKER if role == "user" else Speaker.MODEL, _text(message)))
        else:
            raise _invalid_request(f"{model} cannot read messages of the role {role!r}")
    return Prompt("\n\n".join(system), tuple(conversation), _schema(body), call.size.output)


def _text(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    content = content if isinstance(content, list) else []
    texts = [part.get("text") if isinstance(part, dict) else None for part in content]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise _invalid_request("a message has content that is not text")
    return "".join(map(str, texts))


def _schema(body: dict[str, Any]) -> dict[str, Any] | None:
    match body.get("response_format"):
        case {"type": "json_schema", "json_schema": {"schema": dict(schema)}}:
            return schema
        case _:
            return None


def _whole_response(reply: Reply, identity: dict[str, Any]) -> HttpResponse:
    message = {"role": "assistant", "content": reply.text, "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish_reason(reply)}
    body = {**identity, "object": "chat.completion", "choices": [choice], "usage": _usage(reply)}
    return HttpResponse(200, _JSON, json.dumps(body).encode())


def _stream_response(reply: Reply, identity: dict[str, Any], call: ForwardedCall) -> HttpResponse:
    def event(choices: list[dict[str, Any]], **extra: Any) -> str:
        body = {**identity, "object": "chat.completion.chunk", "choices": choices, **extra}
        return f"data: {json.dumps(body)}\n\n"

    first = {"index": 0, "delta": {"role": "assistant", "content": reply.text}, "finish_reason": None}
    last = {"index": 0, "delta": {}, "finish_reason": _finish_reason(reply)}
    events = [event([first]), event([last])]
    if call.shows_usage:
        events.append(event([], usage=_usage(reply)))
    return HttpResponse(200, _EVENTS, "".join([*events, "data: [DONE]\n\n"]).encode())


def _finish_reason(reply: Reply) -> str:
    return "stop" if reply.whole else "length"


def _usage(reply: Reply) -> dict[str, Any]:
    used = reply.usage
    return {
        "prompt_tokens": used.input_tokens,
        "completion_tokens": used.output_tokens,
        "total_tokens": used.tokens,
        "prompt_tokens_details": {"cached_tokens": used.cached_tokens},
        "completion_tokens_details": {"reasoning_tokens": used.reasoning_tokens},
    }


def _invalid_request(message: str) -> RequestRefused:
    return RequestRefused(400, "invalid_request_error", message)
