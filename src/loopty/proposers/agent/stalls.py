"""A stall: a session that does not get on. When it counts as one, and how it is noticed within a minute.

It says nothing about the change that the agent would have made.
"""

from __future__ import annotations

import re
from collections import Counter
from enum import StrEnum

from loopty.kit.foreign_text import one_line
from loopty.kit.records import Record
from loopty.kit.tables import Table, option
from loopty.proposers.agent.driver import SIGN_OF_LIFE, AgentDriver
from loopty.proposers.agent.stream import AgentEvent, plain_text


class StallKind(StrEnum):
    """Why a session, or a configuration's search, does not get on."""

    SILENT = "silent"
    """It prints nothing, and neither its tools nor its model's requests are at work."""
    SLOW = "slow"
    """It prints, but its model writes less than the floor of tokens per minute."""
    TOOL = "tool"
    """One of its tools has been running for too long."""
    LOOP = "loop"
    """It makes the same call again and again, with the same result."""
    CRASH = "crash"
    """Its process ended before its work did."""
    START = "start"
    """Its process ended before it had asked its model or changed a file."""
    LIMIT = "limit"
    """It worked until its limit, and changed nothing."""
    OUTAGE = "outage"
    """Its model could not be asked."""
    SAME_FAILURE = "same failure"
    """Its last changes failed in the same way."""
    SAME_CHANGE = "same change"
    """Its last changes were there before."""
    IDLE = "idle"
    """Its last sessions changed nothing."""
    BELOW_NOISE = "below noise"
    """The effects of its last changes are smaller than the noise."""

    @property
    def goes_on(self) -> bool:
        """Say whether the session goes on after it, with a hint."""
        return self in _WORDS


class Stall(Record):
    """What was seen, and for how long it had lasted when it was seen."""

    kind: StallKind
    reason: str
    seconds: float = 0.0

    @property
    def hint(self) -> str:
        """Tell a resumed agent what it should know."""
        return f"You were stopped, because you {_WORDS[self.kind]}: {self.reason}. {_ADVICE[self.kind]}"


_WORDS = {
    StallKind.SILENT: "gave no sign of life",
    StallKind.SLOW: "made almost no progress",
    StallKind.TOOL: "waited too long for a tool",
    StallKind.LOOP: "repeated yourself",
    StallKind.CRASH: "ended early",
}
_ADVICE = {
    StallKind.SILENT: "Go on with a smaller step, and start no program that waits for something.",
    StallKind.SLOW: "Decide on one small change now, and make it.",
    StallKind.TOOL: "Do not start that again; use a quicker check, with a time limit.",
    StallKind.LOOP: "Do not make that call again: its result will be the same. Try another way.",
    StallKind.CRASH: "Go on from what is in the files.",
}


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
    is_plain: bool = False
    """Whether it prints plain text, which says nothing about its model: chatter is not tokens."""


class Vitals(Record):
    """What is known about an agent at one moment, besides its stream."""

    now: float
    cpu_seconds: float | None = None
    """Of all its processes; None where it cannot be measured."""
    is_asking: bool = False
    """Whether loopty answers a request to its model."""
    unanswered_seconds: float = 0.0
    """For how long a request of its own to its model has had no answer at all."""
    served_tokens: int | None = None
    """Tokens of the model that loopty serves it; None where it has a login of its own."""
    traffic: int | None = None
    """Bytes on its connections; 0 where it has none, None where they cannot be seen."""


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
        self._asked_at = now
        """When its model was last seen at work."""

    def hear(self, now: float, tokens: int) -> None:
        """Note that the agent has printed something; `tokens` are the session's so far."""
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
        """Say why the session counts as stalled now, or None. To be called about once a second."""
        is_busy = self._is_busy(vitals)
        waits_for_us = vitals.is_asking or any(_is_ours(name, text) for name, text, _ in self._tools.values())
        if waits_for_us:
            self._heard_at = vitals.now
        if is_busy:
            self._busy_at = vitals.now
        has_asked = self._has_asked(vitals)
        if waits_for_us or has_asked:
            self._asked_at = vitals.now
        if waits_for_us or is_busy or self._tools:  # what it writes is measured while its model writes
            self._window_start += vitals.now - self._last.now
        elif has_asked and self._limits.is_plain and vitals.served_tokens is None:
            self._window_start = vitals.now  # its tokens are unknown
        self._last = vitals
        return self._loop_stall() or self._silence(vitals) or self._chatter(vitals.now) or self._slowness(vitals)

    def _has_asked(self, vitals: Vitals) -> bool:
        """Say whether its model was at work since the last look, as far as that is seen."""
        if vitals.served_tokens is not None:
            return vitals.served_tokens != self._last.served_tokens
        return vitals.traffic is None or vitals.traffic != (self._last.traffic or 0)

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

    def _chatter(self, now: float) -> Stall | None:
        """Notice a plain command that computes and prints, but asks no model."""
        quiet = now - self._asked_at
        if not self._limits.is_plain or quiet < self._limits.tool_seconds:
            return None
        return Stall(StallKind.TOOL, f"it asked its model nothing for {quiet:.0f} s", quiet)

    def _slowness(self, vitals: Vitals) -> Stall | None:
        limits, now, total = self._limits, vitals.now, vitals.served_tokens
        if total is None:
            total = 0 if limits.is_plain else self._tokens + self._characters // _CHARACTERS_PER_TOKEN
        elapsed, window = now - self._window_start, limits.window_seconds
        if vitals.traffic == 0:  # whatever it prints, no model writes it
            window = min(window, _SHORTEST_WINDOW)
        if total - self._window_tokens >= limits.tokens_per_minute * window / 60:
            self._window_start, self._window_tokens = now, total
        elif elapsed >= window:
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
    """Say whether the agent waits for loopty itself, whose trials may have to wait for a slot."""
    return name.startswith(("loopty_", "mcp__loopty__")) or bool(_OUR_COMMAND.search(text))


def _call_words(name: str, text: str) -> str:
    return one_line(f"{name} {text}", _LONGEST_CALL)


_SHORTEST_WINDOW = 50.0


class StallOptions(Table):
    """When a session of a coding agent counts as stalled."""

    watch: bool = option("Stop stalled sessions before their time limit, and resume each once.", True)
    silence_seconds: float | None = option(
        "How long an agent may print nothing while its tools use no CPU and no model request is open. "
        "Default: 45, or 240 for agents that print nothing while their model thinks (`docs/agents.md`).",
        None,
        above=0,
    )
    tool_seconds: float = option("How long an agent may print nothing while a tool is at work.", 300.0, above=0)
    tokens_per_minute: float = option(
        "Least that an agent's model writes while no tool is at work.", 10.0, minimum=0
    )
    repeats: int = option(
        "How often a call may fail with the same result; successful calls may repeat three times as often.",
        5,
        minimum=2,
    )
    bench_after: int = option(
        "After this many stalled sessions in a row, suspend the configuration.",
        3,
        minimum=1,
    )
    bench_minutes: float = option("For how long; each time twice as long.", 30.0, above=0)

    def limits(self, driver: AgentDriver, is_served: bool) -> StallLimits:
        """Return the limits of one session; `is_served`: loopty sees the requests to its model."""
        silence = self.silence_seconds or (SIGN_OF_LIFE if is_served else driver.silence_seconds)
        window = silence if self.silence_seconds else max(_SHORTEST_WINDOW, silence)
        answer = None if is_served or not driver.streams else self.silence_seconds or SIGN_OF_LIFE
        return StallLimits(
            silence_seconds=silence,
            tool_seconds=self.tool_seconds,
            tokens_per_minute=self.tokens_per_minute,
            window_seconds=window,
            repeats=self.repeats,
            answer_seconds=answer,
            is_plain=driver.read_line is plain_text,
        )
