"""A model that answers from a script: for tests, examples and dry runs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from loopty.domain.declared_types import misfit
from loopty.domain.errors import Misuse
from loopty.domain.model import ModelFault, Prompt, Reply, Usage
from loopty.kit import codec
from loopty.kit.model_text import tokens
from loopty.kit.records import Record

ScriptLine = str | Reply | ModelFault
"""One line of a script: a reply, or a fault to raise."""


class DelayedLine(Record):
    """A line of a script that takes this long to answer."""

    line: ScriptLine
    seconds: float


Script = Sequence[ScriptLine | DelayedLine] | Callable[[Prompt], ScriptLine]


class ScriptedModel:
    """Answers from a list, one reply after the other, or with a function of the prompt."""

    def __init__(self, replies: Script, usage: Usage | None = None, name: str = "scripted:script") -> None:
        self.name = name
        self.prompts: list[Prompt] = []
        """All prompts so far."""
        self._replies = replies
        self._usage = usage

    async def reply(self, prompt: Prompt) -> Reply:
        self.prompts.append(prompt)
        line = self._next_reply(prompt)
        if isinstance(line, DelayedLine):
            await asyncio.sleep(line.seconds)
            line = line.line
        if isinstance(line, ModelFault):
            raise line
        return line if isinstance(line, Reply) else Reply(line, self._usage or _estimate_usage(prompt, line))

    def _next_reply(self, prompt: Prompt) -> ScriptLine | DelayedLine:
        if callable(self._replies):
            return self._replies(prompt)
        if len(self.prompts) > len(self._replies):
            reason = f"the script is used up: it has {len(self._replies)} replies; add more"
            return ModelFault(reason, transient=False)
        return self._replies[len(self.prompts) - 1]


def make_scripted_model(name: str, file: Path) -> ScriptedModel:
    """Make the model with the script in this file of JSON lines.

    A line is `{"text": …}`, with `usage` and `whole` where they matter, or `{"fault": …, "transient": true}`, with
    `retry_after_seconds` where it matters; `seconds` says how long the model takes to answer.
    """
    try:
        lines = file.read_text().splitlines()
    except (OSError, UnicodeDecodeError):
        raise Misuse(
            f"model {name}: there is no script at {file}: write one, with a JSON object on each line"
        ) from None
    script = [_parse_line(line, name, f"{file}:{number}") for number, line in enumerate(lines, 1) if line.strip()]
    return ScriptedModel(script, name=f"scripted:{file.stem}")


def _parse_line(line: str, name: str, where: str) -> ScriptLine | DelayedLine:
    try:
        data: dict[str, Any] = json.loads(line)
        seconds = float(data.pop("seconds", 0))
        reply = _parse_reply(data)
        return DelayedLine(reply, seconds) if seconds > 0 else reply
    except (ValueError, TypeError, KeyError, AttributeError):
        raise Misuse(
            f"model {name}: {where} is not a line of a script: "
            'write {"text": "…"} or {"fault": "…", "transient": true}'
        ) from None


def _parse_reply(data: dict[str, Any]) -> ScriptLine:
    if "fault" in data:
        return ModelFault(
            str(data["fault"]),
            transient=bool(data.get("transient", False)),
            retry_after_seconds=data.get("retry_after_seconds"),
            usage=_sound(codec.build(Usage, data.get("usage", {}))),
        )
    if "usage" in data:
        reply = codec.build(Reply, {**data, "text": str(data["text"])})
        _sound(reply.usage)
        return reply
    return str(data["text"])


def _sound(usage: Usage) -> Usage:
    """Return the usage, if it could be recorded. Raises ValueError."""
    if fault := misfit(usage):
        raise ValueError(fault)
    return usage


def _estimate_usage(prompt: Prompt, text: str) -> Usage:
    return Usage(sum(map(tokens, prompt.texts)), tokens(text))
