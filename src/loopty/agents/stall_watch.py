"""Notices within a minute that a session does not get on, from its stream, its CPU time and its requests."""

from __future__ import annotations

import re
from collections import Counter

from loopty.agents.agent_stream import AgentEvent
from loopty.agents.stall import Stall, StallKind
from loopty.kit.fence import one_line
from loopty.kit.records import Record

_CHARACTERS_PER_TOKEN = 4
_BUSY_SHARE = 0.05
"""Of a core. A program that only waits uses less, and so does an agent that hangs."""
_REPEATS_OF_SUCCESS = 3
"""A call that succeeds is repeated for good reasons, such as a test after each edit: it may be so often."""
_LONGEST_CALL = 80
_MOST_REMEMBERED = 4096
_OUR_COMMAND = re.compile(r"(?:^|[\s\"'&|;(])(?:[\w./-]*/)?loopty +(?:tool +)?(?:run|submit|wait|try|check)\b")


class StallLimits(Record):
    """When a session counts as stalled."""

    silence_seconds: float
    tool_seconds: float
    tokens_per_minute: float
    window_seconds: float
    repeats: int
    answer_seconds: float | None = None
    """How long its model may take to begin with an answer; None where it sends nothing before it is done."""


class Vitals(Record):
    """What is known about an agent at one moment, besides its stream."""

    now: float
    cpu_seconds: float | None = None
    """Of all its processes; None where it cannot be measured."""
    is_asking: bool = False
    """Whether loopty answers a request to its model."""
    unanswered_seconds: float = 0.0
    """For how long a request of its own to its model has had no answer at all."""


class StallWatch:
    """Watches one start of an agent. It reads no clock, so that a test needs no time."""

    def __init__(self, limits: StallLimits, now: float) -> None:
        self._limits = limits
        self._heard_at = now
        """When it last printed something, or waited for its model or for loopty."""
        self._busy_at = now
        """When its processes last used the CPU."""
        self._last = Vitals(now)
        self._tokens = 0
        self._characters = 0
        self._window_start = now
        self._window_tokens = 0
        self._tools: dict[str, tuple[str, str, float]] = {}
        """Calls that have not ended: name, input, start."""
        self._results: Counter[int] = Counter()
        self._loop = ""

    def hear(self, now: float, tokens: int) -> None:
        """The agent has printed something; `tokens` are those of the session so far."""
        self._heard_at = now
        self._tokens = max(self._tokens, tokens)

    def note(self, event: AgentEvent, now: float) -> None:
        """Take in one event of the stream."""
        self._characters += len(event.text) + len(event.thought) + len(event.tool_input)
        if event.tool and len(self._tools) < _MOST_REMEMBERED:
            self._tools[event.tool_call or event.tool] = event.tool, event.tool_input, now
        elif event.has_tool_ended and event.tool_call in self._tools:
            name, text, _ = self._tools.pop(event.tool_call)
            self._count(name, text, event)

    def stall(self, vitals: Vitals) -> Stall | None:
        """Why the session counts as stalled at this moment, or None. To be called about once a second."""
        is_busy = self._is_busy(vitals)
        waits_for_us = vitals.is_asking or any(_is_ours(name, text) for name, text, _ in self._tools.values())
        if waits_for_us:
            self._heard_at = vitals.now
        if is_busy:
            self._busy_at = vitals.now
        if waits_for_us or is_busy or self._tools:  # what it writes is measured while its model writes
            self._window_start += vitals.now - self._last.now
        self._last = vitals
        return self._loop_stall() or self._silence(vitals) or self._slowness(vitals.now)

    def _is_busy(self, vitals: Vitals) -> bool:
        before = self._last.cpu_seconds
        if vitals.cpu_seconds is None or before is None:
            return False
        return vitals.cpu_seconds - before > _BUSY_SHARE * max(vitals.now - self._last.now, 0.0)

    def _loop_stall(self) -> Stall | None:
        return Stall(StallKind.LOOP, self._loop) if self._loop else None

    def _silence(self, vitals: Vitals) -> Stall | None:
        limits, quiet = self._limits, vitals.now - self._heard_at
        if quiet >= limits.tool_seconds:
            return Stall(StallKind.TOOL, f"nothing printed for {quiet:.0f} s{self._open_tool()}", quiet)
        if limits.answer_seconds and min(vitals.unanswered_seconds, quiet) >= limits.answer_seconds:
            seconds = vitals.unanswered_seconds
            return Stall(StallKind.SILENT, f"its model has not begun to answer for {seconds:.0f} s", seconds)
        is_unknown = vitals.cpu_seconds is None and bool(self._tools)
        idle = vitals.now - max(self._heard_at, self._busy_at)
        if idle >= limits.silence_seconds and not is_unknown:
            return Stall(StallKind.SILENT, f"nothing printed for {quiet:.0f} s{self._open_tool()}", idle)
        return None

    def _slowness(self, now: float) -> Stall | None:
        limits, total = self._limits, self._tokens + self._characters // _CHARACTERS_PER_TOKEN
        elapsed = now - self._window_start
        if total - self._window_tokens >= limits.tokens_per_minute * limits.window_seconds / 60:
            self._window_start, self._window_tokens = now, total
        elif elapsed >= limits.window_seconds:
            written = total - self._window_tokens
            return Stall(StallKind.SLOW, f"{written} tokens in {elapsed:.0f} s", elapsed)
        return None

    def _open_tool(self) -> str:
        return next((f", in the call {_call_words(name, text)}" for name, text, _ in self._tools.values()), "")

    def _count(self, name: str, text: str, event: AgentEvent) -> None:
        key = hash((name, text, event.tool_output))
        if len(self._results) >= _MOST_REMEMBERED:
            self._results.clear()
        self._results[key] += 1
        limit = self._limits.repeats * (1 if event.has_tool_failed else _REPEATS_OF_SUCCESS)
        if self._results[key] >= limit:
            how = "failed in the same way" if event.has_tool_failed else "gave the same result"
            self._loop = f"the call {_call_words(name, text)} {how} {limit} times"


def _is_ours(name: str, text: str) -> bool:
    """Whether the agent waits for loopty itself, whose trials may have to wait for a slot."""
    return name.startswith(("loopty_", "mcp__loopty__")) or bool(_OUR_COMMAND.search(text))


def _call_words(name: str, text: str) -> str:
    return one_line(f"{name} {text}", _LONGEST_CALL)
