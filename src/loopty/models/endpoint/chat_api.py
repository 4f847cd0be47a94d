"""Chat completions of a model that is not spoken to over HTTP, as a script or a recording: text only."""

from __future__ import annotations

import json
import time
from typing import Any

from loopty.domain.model import Message, Prompt, Reply, Speaker
from loopty.models.endpoint.answer_source import Answered, Visit
from loopty.models.endpoint.apis import Api
from loopty.models.endpoint.forwarded_call import Call
from loopty.models.endpoint.http_exchange import Refused
from loopty.models.metered_model import MeteredModel

_JSON, _EVENTS = {"content-type": "application/json"}, {"content-type": "text/event-stream"}
_SYSTEM = ("system", "developer")


class Speaking:
    """Answers from a line."""

    def __init__(self, line: MeteredModel) -> None:
        self._line = line

    async def answer(self, call: Call, visit: Visit) -> None:
        prompt = _prompt(call, self._line.model)
        answer = await self._line.asked(prompt, visit.subject)
        named = {"id": f"chatcmpl-{answer.call}", "created": int(time.time()), "model": self._line.model}
        reply = _streamed(answer.reply, named, call) if call.stream else _whole(answer.reply, named)
        visit.keep(reply)
        await visit.exchange.answer(reply.status, reply.headers, reply.body)


def _prompt(call: Call, model: str) -> Prompt:
    if call.api is not Api.CHAT:
        raise _unspoken(f"{model}, the model of the user role, is asked at {Api.CHAT} alone")
    body: dict[str, Any] = json.loads(call.content)
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise _unspoken("`messages` is no list of messages")
    if body.get("tools"):
        raise _unspoken(f"{model} calls no tools")
    system: list[str] = []
    turns: list[Message] = []
    for message in messages:
        role = message.get("role") if isinstance(message, dict) else None
        if role in _SYSTEM:
            system.append(_text(message))
        elif role in ("user", "assistant"):
            turns.append(Message(Speaker.ASKER if role == "user" else Speaker.MODEL, _text(message)))
        else:
            raise _unspoken(f"{model} knows no messages of {role!r}")
    return Prompt("\n\n".join(system), tuple(turns), _schema(body), call.size.output)


def _text(message: dict[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    content = content if isinstance(content, list) else []
    texts = [part.get("text") if isinstance(part, dict) else None for part in content]
    if not texts or not all(isinstance(text, str) for text in texts):
        raise _unspoken("a message has content that is no text")
    return "".join(map(str, texts))


def _schema(body: dict[str, Any]) -> dict[str, Any] | None:
    match body.get("response_format"):
        case {"type": "json_schema", "json_schema": {"schema": dict(schema)}}:
            return schema
        case _:
            return None


def _whole(reply: Reply, named: dict[str, Any]) -> Answered:
    message = {"role": "assistant", "content": reply.text, "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _finish(reply)}
    said = {**named, "object": "chat.completion", "choices": [choice], "usage": _usage(reply)}
    return Answered(200, _JSON, json.dumps(said).encode())


def _streamed(reply: Reply, named: dict[str, Any], call: Call) -> Answered:
    def event(choices: list[dict[str, Any]], **more: Any) -> str:
        said = {**named, "object": "chat.completion.chunk", "choices": choices, **more}
        return f"data: {json.dumps(said)}\n\n"

    first = {"index": 0, "delta": {"role": "assistant", "content": reply.text}, "finish_reason": None}
    last = {"index": 0, "delta": {}, "finish_reason": _finish(reply)}
    events = [event([first]), event([last])]
    if call.shows_usage:
        events.append(event([], usage=_usage(reply)))
    return Answered(200, _EVENTS, "".join([*events, "data: [DONE]\n\n"]).encode())


def _finish(reply: Reply) -> str:
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


def _unspoken(message: str) -> Refused:
    return Refused(400, "invalid_request_error", message)
