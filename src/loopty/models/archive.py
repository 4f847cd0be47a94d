"""The calls of models as they were: the exact prompt and the reply, a line each.

A process appends to a file of its own, named after the first call in it: a file for each call would cost three
times as much, and in the ledger prompts would be most of what is there.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.model import Prompt, Reply
from loopty.kit import codec
from loopty.kit.journal import Journal
from loopty.models.hiding import is_secret, without_key

_ENDING = ".jsonl"
_NAME = re.compile(rb'"call":"([^"]*)"')
"""The first of them in a line is that of its call."""


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One call. Without a reply it failed, and says why."""

    call: str
    at: float
    model: str
    role: str
    operator: str
    prompt: Prompt
    reply: Reply | None = None
    failure: str = ""
    node: NodeId | None = None


class Archive:
    """A folder of calls. What is kept is durable, and without the keys that it was told of."""

    def __init__(self, folder: Path, clock: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._clock = clock
        self._secrets: set[str] = set()
        self._journal: Journal | None = None
        self._offsets: dict[str, int] = {}
        """Where in the journal the calls of this process begin."""
        self._last: tuple[str, Reply] | None = None
        """The reply that was read last: of a batch it is asked for again and again."""

    def hide(self, key: str | None) -> None:
        """Take this out of every text from now on."""
        if key is not None and is_secret(key):
            self._secrets.add(key)

    def without_keys(self, text: str) -> str:
        """The text without keys."""
        for secret in sorted(self._secrets, key=len, reverse=True):
            text = without_key(text, secret)
        return text

    def keep(
        self,
        call: str,
        prompt: Prompt,
        reply: Reply | None,
        failure: str = "",
        *,
        model: str = "",
        role: str = "",
        operator: str = "",
        node: NodeId | None = None,
    ) -> None:
        """Write the call down: when this returns it outlasts a crash of the machine."""
        kept = CallRecord(call, self._clock(), model, role, operator, prompt, reply, failure, node)
        text = codec.text(self._value_without_keys(codec.plain(kept)) if self._secrets else kept)
        try:
            self._journal = self._journal or Journal(self._folder, _file_name(call))
            self._offsets[call] = self._journal.append(text.encode("utf-8", "surrogatepass"))
        except OSError as error:
            self._journal = None  # what comes next must not stand behind half a line
            self._offsets.clear()
            raise Misuse(
                f"cannot keep a model's reply in {self._folder}: {error.strerror} (is there space, is it yours?)"
            ) from error

    def reply(self, call: str) -> Reply:
        """The reply of a call; Misuse when it is not there any more."""
        if self._last and self._last[0] == call:
            return self._last[1]
        kept = self.record(call)
        if kept is None or kept.reply is None:
            raise Misuse(
                f"the reply of call {call} is not in {self._folder} any more: put the files back, or start anew "
                "with `loopty optimize --new-run`"
            )
        self._last = call, kept.reply
        return kept.reply

    def record(self, call: str) -> CallRecord | None:
        """Everything about a call; None where it is missing or damaged."""
        if self._journal and call in self._offsets:
            found = _parse_record(self._journal.line_at(self._offsets[call]))
            return found if found and found.call == call else None
        return self.records_of([call]).get(call)

    def records_of(self, calls: Iterable[str]) -> dict[str, CallRecord]:
        """Those of the calls that can be read, by name, in one pass."""
        missing, found = set(calls), dict[str, CallRecord]()
        for line in self._lines() if missing else ():
            name = _NAME.search(line)
            if name and name[1].decode(errors="replace") in missing and (kept := _parse_record(line)):
                found[kept.call] = kept
                missing.discard(kept.call)
                if not missing:
                    break
        return found

    def records(self) -> Iterator[CallRecord]:
        """All calls that can be read, oldest first."""
        found = map(_parse_record, self._lines())
        yield from sorted((kept for kept in found if kept), key=lambda kept: (kept.at, kept.call))

    def _lines(self) -> Iterator[bytes]:
        for path in self._folder.glob(f"*{_ENDING}"):
            with contextlib.suppress(OSError), path.open("rb") as file:
                yield from file

    def _value_without_keys(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.without_keys(value)
        if isinstance(value, Mapping):
            return {self.without_keys(key): self._value_without_keys(item) for key, item in value.items()}
        return [self._value_without_keys(item) for item in value] if isinstance(value, list) else value


def _file_name(call: str) -> str:
    if not call.isalnum():
        raise Misuse(f"{call!r} is no name of a call")
    return f"{call}{_ENDING}"


def _parse_record(line: bytes) -> CallRecord | None:
    try:
        data = json.loads(line.decode("utf-8", "surrogatepass"))
        return codec.build(CallRecord, data) if isinstance(data, dict) else None
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None
