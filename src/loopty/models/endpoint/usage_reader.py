"""Reads what an answer used, from its JSON or from the events of its stream."""

from __future__ import annotations

import json
import re
from typing import Any

from loopty.domain.model import Usage
from loopty.models.endpoint.apis import Api
from loopty.models.http import UnacceptableAnswer

LARGEST_EVENT = 4 << 20
_ENDS = ("message_stop", "response.completed", "response.incomplete")
_EVENT_END = re.compile(rb"\n\n|\r\n\r\n")
_LONGEST_END = 4
_MOST_PARTS = 500_000
"""Of brackets in what is looked through: a few megabytes of them would be hundreds in memory."""


class EventSplitter:
    """Cuts a stream of server-sent events into whole events."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[bytes]:
        """The events that are whole by now, each as it came. Raises Unacceptable when one does not end."""
        # What was looked through before is not looked through again: an event may come in many pieces.
        start, begin = max(len(self._rest) - _LONGEST_END + 1, 0), 0
        self._rest += data
        whole: list[bytes] = []
        for end in [found.end() for found in _EVENT_END.finditer(self._rest, start)]:
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
    """What the events of one stream say of its usage and its end."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._parts: dict[str, Any] = {}
        self.whole = False
        """Whether the event came that ends an answer."""
        self.failed = False
        """Whether the provider said, in the middle of it, that it cannot go on."""

    @property
    def usage(self) -> Usage | None:
        return _usage(self._api, self._parts) if self._parts else None

    @property
    def has_ended(self) -> bool:
        """Whether a stream that stops here came to its end; a chat that tells its usage has, for most servers."""
        told = self._api in (Api.CHAT, Api.GENERATE) and bool(self._parts)
        return not self.failed and (self.whole or told)

    def read(self, event: bytes) -> bool:
        """Take in an event; whether it tells the usage of a chat and nothing else."""
        lines = [line.removeprefix(b"data:").strip() for line in event.splitlines() if line.startswith(b"data:")]
        data = b"\n".join(lines)
        if data == b"[DONE]":
            self.whole = True
            return False
        said = _parse_object(data)
        kind, found = said.get("type"), _usage_part(self._api, said)
        self._parts |= {name: value for name, value in found.items() if value is not None}
        self.failed |= kind in ("error", "response.failed") or bool(said.get("error"))
        self.whole |= kind in _ENDS or (self._api is Api.GENERATE and _is_last(said))
        return self._api is Api.CHAT and said.get("choices") == [] and bool(found)


def usage_of(api: Api, body: bytes) -> Usage | None:
    """The usage of a whole answer; None where it does not say."""
    said = _parse_json(body)
    if isinstance(said, list):  # Google streams so to those who do not ask for events
        said = next((part for part in reversed(said) if isinstance(part, dict) and "usageMetadata" in part), None)
    found = _usage_part(api, said) if isinstance(said, dict) else {}
    return _usage(api, found) if found else None


def is_reply(body: bytes) -> bool:
    """Whether a whole answer is one that would be given again: OpenAI also answers that it failed."""
    return _parse_object(body).get("status") not in ("failed", "cancelled", "in_progress", "queued")


def _parse_object(data: bytes) -> dict[str, Any]:
    said = _parse_json(data)
    return said if isinstance(said, dict) else {}


def _parse_json(data: bytes) -> Any:
    """The JSON of an answer; None where it is none, or not worth its memory."""
    if data.count(b"[") + data.count(b"{") > _MOST_PARTS:
        return None
    try:
        return json.loads(data)
    except (ValueError, RecursionError):
        return None


def _usage_part(api: Api, said: dict[str, Any]) -> dict[str, Any]:
    """The part of an answer or an event that tells its usage."""
    if api is Api.GENERATE:
        found = said.get("usageMetadata")
    else:
        inner = said.get("message") if api is Api.MESSAGES else said.get("response")
        found = said.get("usage") or (inner.get("usage") if isinstance(inner, dict) else None)
    return found if isinstance(found, dict) else {}


def _usage(api: Api, found: dict[str, Any]) -> Usage:
    def count(name: str, within: str = "") -> int:
        part = found.get(within) if within else found
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
            told = count("input_tokens") + count("cache_creation_input_tokens") + cached
            thoughts = count("thinking_tokens", "output_tokens_details")
            return Usage(told, count("output_tokens"), cached, thoughts)
        case Api.GENERATE:
            thoughts = count("thoughtsTokenCount")
            return Usage(
                count("promptTokenCount") + count("toolUsePromptTokenCount"),
                count("candidatesTokenCount") + thoughts,
                count("cachedContentTokenCount"),
                thoughts,
            )


def _is_last(said: dict[str, Any]) -> bool:
    candidates = said.get("candidates")
    return isinstance(candidates, list) and any(
        isinstance(candidate, dict) and candidate.get("finishReason") for candidate in candidates
    )
