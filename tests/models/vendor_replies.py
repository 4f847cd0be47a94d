"""Answers of the vendors' servers, as their reference pages show them: whole, and as a stream of events."""

from dataclasses import dataclass
from typing import Any

ANSWER = "Forty-two."
PIECES = ("Forty", "-two", ".")


@dataclass(frozen=True)
class Counts:
    """Tokens as a server reports them; cached ones are part of the input, reasoning is part of the output."""

    input: int = 20
    output: int = 12
    cached: int = 8
    reasoning: int = 5


COUNTS = Counts()


def openai_reply(text: str = ANSWER, finish: str = "stop", counts: Counts | None = COUNTS) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": finish}
    return _openai("chat.completion", [choice], counts)


def openai_events(
    pieces: tuple[str, ...] = PIECES, finish: str | None = "stop", counts: Counts | None = COUNTS
) -> list[str | dict]:
    events: list[str | dict] = [_openai("chat.completion.chunk", [_delta({"role": "assistant", "content": ""})])]
    events += [_openai("chat.completion.chunk", [_delta({"content": piece})]) for piece in pieces]
    if finish:
        events.append(_openai("chat.completion.chunk", [_delta({}, finish)]))
    if counts:
        events.append(_openai("chat.completion.chunk", [], counts))
    return [*events, "data: [DONE]\n\n"]


def _delta(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
    return {"index": 0, "delta": delta, "finish_reason": finish}


def _openai(kind: str, choices: list[Any], counts: Counts | None = None) -> dict[str, Any]:
    body = {"id": "chatcmpl-1", "object": kind, "created": 1_700_000_000, "model": "m-1", "choices": choices}
    if counts:
        body["usage"] = {
            "prompt_tokens": counts.input,
            "completion_tokens": counts.output,
            "total_tokens": counts.input + counts.output,
            "prompt_tokens_details": {"cached_tokens": counts.cached},
            "completion_tokens_details": {"reasoning_tokens": counts.reasoning},
        }
    return body


def anthropic_reply(text: str = ANSWER, finish: str = "end_turn", counts: Counts = COUNTS) -> dict[str, Any]:
    usage = {**_anthropic_input(counts), "output_tokens": counts.output, **_anthropic_thinking(counts)}
    content = [{"type": "text", "text": text}]
    return {**_anthropic_message(), "content": content, "stop_reason": finish, "usage": usage}


def anthropic_events(
    pieces: tuple[str, ...] = PIECES, finish: str | None = "end_turn", counts: Counts = COUNTS
) -> list[str | dict]:
    start = {**_anthropic_message(), "content": [], "usage": {**_anthropic_input(counts), "output_tokens": 1}}
    deltas = [{"type": "text_delta", "text": piece} for piece in pieces]
    events: list[dict] = [
        {"type": "message_start", "message": start},
        {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
        {"type": "ping"},
        *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
    ]
    if finish:
        usage = {"output_tokens": counts.output, **_anthropic_thinking(counts)}
        events += [
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "delta": {"stop_reason": finish, "stop_sequence": None}, "usage": usage},
            {"type": "message_stop"},
        ]
    return [anthropic_event(event) for event in events]


def anthropic_event(event: dict[str, Any]) -> str:
    import json

    return f"event: {event['type']}\ndata: {json.dumps(event)}\n\n"


def _anthropic_message() -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude-1",
        "stop_reason": None,
        "stop_sequence": None,
    }


def _anthropic_input(counts: Counts) -> dict[str, Any]:
    """Here, cached tokens are counted beside the input."""
    return {
        "input_tokens": counts.input - counts.cached,
        "cache_read_input_tokens": counts.cached,
        "cache_creation_input_tokens": 0,
    }


def _anthropic_thinking(counts: Counts) -> dict[str, Any]:
    return {"output_tokens_details": {"thinking_tokens": counts.reasoning}}


def google_reply(
    text: str = ANSWER, finish: str | None = "STOP", counts: Counts | None = COUNTS
) -> dict[str, Any]:
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": [{"text": text}]}, "index": 0}
    if finish:
        candidate["finishReason"] = finish
    body: dict[str, Any] = {"candidates": [candidate], "modelVersion": "gemini-1", "responseId": "r-1"}
    if counts:
        # Here, reasoning is counted beside the output.
        body["usageMetadata"] = {
            "promptTokenCount": counts.input,
            "candidatesTokenCount": counts.output - counts.reasoning,
            "thoughtsTokenCount": counts.reasoning,
            "cachedContentTokenCount": counts.cached,
            "totalTokenCount": counts.input + counts.output,
        }
    return body


def google_events(
    pieces: tuple[str, ...] = PIECES, finish: str | None = "STOP", counts: Counts = COUNTS
) -> list[str | dict]:
    *early, last = pieces
    return [*(google_reply(piece, None, None) for piece in early), google_reply(last, finish, counts)]
