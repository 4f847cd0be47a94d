"""The stream of a coding agent: its session, its words, its tools, its tokens and its end, whatever its format."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from enum import StrEnum
from typing import Any

from loopty.domain.model import Usage
from loopty.kit.records import Record

_LONGEST_LINE = 4 << 20
_LONGEST_TEXT = 1 << 16
_MAX_COUNT = 10**9
_SESSION = re.compile(r"(?!-)[!-~]{1,500}")
"""The name of a session is an argument, or a variable, of the program that resumes it."""


class AgentEnd(StrEnum):
    """How a session of an agent ended."""

    CLEAN = "clean"
    CRASHED = "crashed"
    REFUSED = "refused"
    """Its model declined the work."""
    LIMITED = "limited"
    """It reached a limit: time, turns, memory, a cap."""
    UNAVAILABLE = "unavailable"
    """Its model could not be asked: no login, no network, an outage, a used-up subscription."""
    STALLED = "stalled"
    """It hung, went in circles or lost its process: nothing is known about what it would have proposed."""


class AgentEvent(Record):
    """What one line of the stream says; every field may be empty."""

    session: str = ""
    """The name by which the agent can resume."""
    text: str = ""
    is_continued: bool = False
    """Whether the text continues the last one."""
    tool: str = ""
    """The name of a tool that is called."""
    tool_input: str = ""
    """What it is called with."""
    tool_call: str = ""
    """Names the call, or says which call ended."""
    has_tool_ended: bool = False
    has_tool_failed: bool = False
    tool_output: str = ""
    thought: str = ""
    """What its model thinks, or writes so far: a sign of life that is no part of its words."""
    step: str = ""
    """Names the step that `usage` is about: a later event about the same step replaces it."""
    usage: Usage | None = None
    cost_usd: float | None = None
    is_total: bool = False
    """Whether usage and cost are those of the whole session."""
    end: AgentEnd | None = None
    fault: str = ""


ReadLine = Callable[[str], Iterable[AgentEvent]]
OnEvent = Callable[[AgentEvent], None]


class AgentStream:
    """What an agent's stream has said so far. The stream is hostile: a line that cannot be read is skipped."""

    def __init__(self, read_line: ReadLine) -> None:
        self.session = ""
        self.text = ""
        self.tool_calls = 0
        self.end: AgentEnd | None = None
        self.fault = ""
        self.on_event: OnEvent = _ignore
        """Called with each event."""
        self._read_line = read_line
        self._rest = ""
        self._steps: dict[str, tuple[Usage, float]] = {}
        self._total: tuple[Usage | None, float | None] = (None, None)

    @property
    def usage(self) -> Usage:
        """Return the tokens so far."""
        if self._total[0] is not None:
            return self._total[0]
        return _sum(usage for usage, _ in self._steps.values())

    @property
    def cost_usd(self) -> float:
        """Return the cost that the agent states; 0 if it states none."""
        if self._total[1] is not None:
            return self._total[1]
        return sum(cost for _, cost in self._steps.values())

    def feed(self, text: str) -> None:
        """Read more of the stream; an unfinished line waits for its end."""
        *lines, self._rest = (self._rest + text).split("\n")
        if len(self._rest) > _LONGEST_LINE:
            self._rest = ""
        for line in lines:
            self._feed_line(line)

    def close(self) -> None:
        """Read what follows the last line break."""
        line, self._rest = self._rest, ""
        self._feed_line(line)

    def apply(self, event: AgentEvent) -> None:
        """Take in one event."""
        self.session = event.session if _SESSION.fullmatch(event.session) else self.session
        if event.text:
            before = self.text if event.is_continued else ""
            self.text = (before + event.text)[-_LONGEST_TEXT:]
        self.tool_calls += bool(event.tool)
        self.end = event.end or self.end
        self.fault = event.fault or self.fault
        if event.is_total:
            usage, cost = self._total
            self._total = (
                usage if event.usage is None else event.usage,
                cost if event.cost_usd is None else event.cost_usd,
            )
        elif event.usage is not None or event.cost_usd is not None:
            name = event.step or str(len(self._steps))
            self._steps[name] = event.usage or Usage(), event.cost_usd or 0.0
        self.on_event(event)

    def _feed_line(self, line: str) -> None:
        if not line.strip() or len(line) > _LONGEST_LINE:
            return
        for event in self._read_line(line):
            self.apply(event)


def json_fields(line: str) -> dict[str, Any]:
    """Return the object in a line of JSON; empty for any other line."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def table(fields: Any, name: str) -> dict[str, Any]:
    """Return the object under this name; empty if there is none."""
    found = fields.get(name) if isinstance(fields, dict) else None
    return found if isinstance(found, dict) else {}


def rows(fields: Any, name: str) -> list[dict[str, Any]]:
    """Return the objects in the list under this name."""
    found = fields.get(name) if isinstance(fields, dict) else None
    return [row for row in found if isinstance(row, dict)] if isinstance(found, list) else []


def words(fields: Any, name: str) -> str:
    """Return the text under this name; empty if there is none."""
    found = fields.get(name) if isinstance(fields, dict) else None
    return found if isinstance(found, str) else ""


def count(fields: Any, *names: str) -> int:
    """Add up the counts under these names; what is no credible count is 0."""
    found = [fields.get(name) if isinstance(fields, dict) else None for name in names]
    return sum(value for value in found if type(value) is int and 0 <= value <= _MAX_COUNT)


def money(fields: Any, name: str) -> float | None:
    """Return the amount under this name; None if there is no credible one."""
    found = fields.get(name) if isinstance(fields, dict) else None
    is_number = isinstance(found, int | float) and not isinstance(found, bool)
    return float(found) if is_number and 0 <= found < _MAX_COUNT else None  # type: ignore[operator, arg-type]


def input_text(fields: Any, name: str) -> str:
    """Return what a tool is called with, as text."""
    found = fields.get(name) if isinstance(fields, dict) else None
    return found if isinstance(found, str) else json.dumps(found, sort_keys=True)


def plain_text(line: str) -> Iterable[AgentEvent]:
    """Read a line of plain text: all lines together are the agent's words."""
    yield AgentEvent(text=f"{line}\n", is_continued=True)


def _ignore(_event: AgentEvent) -> None:
    pass


def _sum(usages: Iterable[Usage]) -> Usage:
    total = Usage()
    for usage in usages:
        total = Usage(
            total.input_tokens + usage.input_tokens,
            total.output_tokens + usage.output_tokens,
            total.cached_tokens + usage.cached_tokens,
            total.reasoning_tokens + usage.reasoning_tokens,
        )
    return total
