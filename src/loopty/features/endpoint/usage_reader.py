"""Reads the usage of an answer from its JSON or from the events of its stream."""

from __future__ import annotations

import json
import re
from typing import Any

from loopty.domain.model import Usage
from loopty.features.endpoint.requests import Api
from loopty.models.http import UnacceptableAnswer

LARGEST_EVENT = 4 << 20
_LAST_EVENTS = ("message_stop", "response.completed", "response.incomplete")
_EVENT_END = re.compile(rb"\n\n|\r\n\r\n")
_LONGEST_END = 4
_MAX_PARTS = 500_000
"""The number of brackets in JSON to parse: a few megabytes of them would take hundreds in memory."""


class EventSplitter:
    """Splits a stream of server-sent events into whole events."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """Add data; returns the events that are now whole. Raises UnacceptableAnswer when one does not end."""
        # Data that was searched before is not searched again: an event may come in many pieces.
        start, begin = max(len(self._rest) - _LONGEST_END + 1, 0), 0
        self._rest += data
        whole: list[bytes] = []
        for end in [match.end() for match in _EVENT_END.finditer(self._rest, start)]:
            whole.append(bytes(self._rest[begin:end]))
            begin = end
        del self._rest[:begin]
        if len(self._rest) > LARGEST_EVENT:
            raise UnacceptableAnswer(
                f"an event of the stream is longer than {LARGEST_EVENT:,} bytes", transient=True
            )
        return whole

    @property
    def rest(self) -> bytes:
        return bytes(self._rest)


class UsageReader:
    """Reads the usage and the end of one stream from its events."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._parts: dict[str, Any] = {}
        self.whole = False
        """Whether the last event of an answer came."""
        self.failed = False
        """Whether the provider reported an error in the middle of the stream."""

    @property
    def usage(self) -> Usage | None:
        return _usage(self._api, self._parts) if self._parts else None

    @property
    def has_ended(self) -> bool:
        """Say whether a stream that stops here is complete; most servers report the usage of a chat last."""
        reported = self._api in (Api.CHAT, Api.GENERATE) and bool(self._parts)
        return not self.failed and (self.whole or reported)

    def read(self, event: bytes) -> bool:
        """Read an event; returns whether it only reports the usage of a chat."""
        lines = [line.removeprefix(b"data:").strip() for line in event.splitlines() if line.startswith(b"data:")]
        data = b"\n".join(lines)
        if data == b"[DONE]":
            self.whole = True
            return False
        content = _parse_object(data)
        kind, usage_part = content.get("type"), _usage_part(self._api, content)
        self._parts |= {name: value for name, value in usage_part.items() if value is not None}
        self.failed |= kind in ("error", "response.failed") or bool(content.get("error"))
        self.whole |= kind in _LAST_EVENTS or (self._api is Api.GENERATE and _is_last(content))
        return self._api is Api.CHAT and content.get("choices") == [] and bool(usage_part)


def usage_of(api: Api, body: bytes) -> Usage | None:
    """Read the usage of a whole answer, or None when it reports none."""
    content = _parse_json(body)
    if isinstance(content, list):  # Google streams a list to clients that do not ask for events
        content = next(
            (part for part in reversed(content) if isinstance(part, dict) and "usageMetadata" in part), None
        )
    usage_part = _usage_part(api, content) if isinstance(content, dict) else {}
    return _usage(api, usage_part) if usage_part else None


def is_reply(body: bytes) -> bool:
    """Say whether a whole answer is a real reply, which can be cached: OpenAI also answers that it failed."""
    return _parse_object(body).get("status") not in ("failed", "cancelled", "in_progress", "queued")


def _parse_object(data: bytes) -> dict[str, Any]:
    content = _parse_json(data)
    return content if isinstance(content, dict) else {}


def _parse_json(data: bytes) -> Any:
    """Parse the JSON of an answer; None when it is not JSON or would take too much memory."""
    if data.count(b"[") + data.count(b"{") > _MAX_PARTS:
        return None
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _usage_part(api: Api, content: dict[str, Any]) -> dict[str, Any]:
    """Find the part of an answer or an event that reports its usage."""
    if api is Api.GENERATE:
        usage_part = content.get("usageMetadata")
    else:
        inner = content.get("message") if api is Api.MESSAGES else content.get("response")
        usage_part = content.get("usage") or (inner.get("usage") if isinstance(inner, dict) else None)
    return usage_part if isinstance(usage_part, dict) else {}


def _usage(api: Api, usage_part: dict[str, Any]) -> Usage:
    def count(name: str, within: str = "") -> int:
        part = usage_part.get(within) if within else usage_part
        value = part.get(name) if isinstance(part, dict) else 0
        return value if isinstance(value, int) and value > 0 else 0

    match api:
        case Api.CHAT | Api.EMBEDDINGS:
            return Usage(
                count("prompt_tokens"),
                count("completion_tokens"),
                count("cached_tokens", "prompt_tokens_details"),
                count("reasoning_tokens", "completion_tokens_details"),
            )
        case Api.RESPONSES:
            return Usage(
                count("input_tokens"),
                count("output_tokens"),
                count("cached_tokens", "input_tokens_details"),
                count("reasoning_tokens", "output_tokens_details"),
            )
        case Api.MESSAGES:
            cached = count("cache_read_input_tokens")
            input_tokens = count("input_tokens") + count("cache_creation_input_tokens") + cached
            reasoning = count("thinking_tokens", "output_tokens_details")
            return Usage(input_tokens, count("output_tokens"), cached, reasoning)
        case Api.GENERATE:
            reasoning = count("thoughtsTokenCount")
            return Usage(
                count("promptTokenCount") + count("toolUsePromptTokenCount"),
                count("candidatesTokenCount") + reasoning,
                count("cachedContentTokenCount"),
                reasoning,
            )


def _is_last(content: dict[str, Any]) -> bool:
    candidates = content.get("candidates")
    return isinstance(candidates, list) and any(
        isinstance(candidate, dict) and candidate.get("finishReason") for candidate in candidates
    )
