"""An archive of model calls, one JSON line each, and a model that repeats the replies of one.

Each process appends to its own file, named after the first call in it. A file for each call would cost three times
as much, and in the ledger prompts would be most of the content.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.model import ModelFault, Prompt, Reply
from loopty.kit import codec
from loopty.kit.kept_files import Journal
from loopty.kit.records import Record, replace
from loopty.kit.safe_folder import SafeFolder
from loopty.models.keys import is_secret, without_key

_SUFFIX = ".jsonl"
_CALL_NAME = re.compile(rb'"call":"([^"]*)"')
"""The first match in a line is the name of its call."""


class CallRecord(Record):
    """One call. A call without a reply failed; `failure` says why."""

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
    """A folder of calls. Records are durable, and free of the keys passed to `hide`."""

    def __init__(self, folder: SafeFolder, clock: Callable[[], float] = time.time) -> None:
        self._folder = folder
        self._clock = clock
        self._secrets: set[str] = set()
        self._journal: Journal | None = None
        self._offsets: dict[str, int] = {}
        """Where in the journal the calls of this process begin, by name."""
        self._last: tuple[str, Reply] | None = None
        """The reply that was read last: the proposals of one batch ask for it again and again."""

    def hide(self, key: str | None) -> None:
        """Remove this key from every text from now on."""
        if key is not None and is_secret(key):
            self._secrets.add(key)

    def without_keys(self, text: str) -> str:
        """Return the text without keys."""
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
        """Record the call: once this returns, the record survives a crash of the machine."""
        record = CallRecord(
            call=call,
            at=self._clock(),
            model=model,
            role=role,
            operator=operator,
            prompt=prompt,
            reply=reply,
            failure=failure,
            node=node,
        )
        text = codec.text(self._value_without_keys(codec.plain(record)) if self._secrets else record)
        try:
            self._journal = self._journal or Journal(self._folder, _file_name(call))
            self._offsets[call] = self._journal.append(text.encode("utf-8", "surrogatepass"))
        except OSError as error:
            self._journal = None  # the next record must not follow half a line
            self._offsets.clear()
            raise Misuse(
                f"cannot save a model's reply in {self._folder.shown_path}: {error.strerror} "
                "(check space and permissions)"
            ) from error

    def reply(self, call: str) -> Reply:
        """Return the reply of a call. Raises Misuse when it is gone."""
        if self._last and self._last[0] == call:
            return self._last[1]
        record = self.record(call)
        if record is None or record.reply is None:
            raise Misuse(
                f"the reply of call {call} is no longer in {self._folder.shown_path}: restore the files, or start "
                "a new run with `loopty run --new-run`"
            )
        self._last = call, record.reply
        return record.reply

    def record(self, call: str) -> CallRecord | None:
        """Return the record of a call, or None when it is missing or damaged."""
        if self._journal and call in self._offsets:
            record = _parse_record(self._journal.line_at(self._offsets[call]))
            return record if record and record.call == call else None
        return self.records_of([call]).get(call)

    def records_of(self, calls: Iterable[str]) -> dict[str, CallRecord]:
        """Return the records of these calls by name, read in one pass, without missing and damaged ones."""
        missing, records = set(calls), dict[str, CallRecord]()
        for line in self._lines() if missing else ():
            name = _CALL_NAME.search(line)
            if name and name[1].decode(errors="replace") in missing and (record := _parse_record(line)):
                records[record.call] = record
                missing.discard(record.call)
                if not missing:
                    break
        return records

    def records(self) -> Iterator[CallRecord]:
        """Yield all readable records, oldest first."""
        records = map(_parse_record, self._lines())
        yield from sorted((record for record in records if record), key=lambda record: (record.at, record.call))

    def _lines(self) -> Iterator[bytes]:
        for name in self._folder.names():
            if name.endswith(_SUFFIX):
                with (
                    contextlib.suppress(OSError),
                    os.fdopen(self._folder.file(name).open(os.O_RDONLY), "rb") as file,
                ):
                    yield from file

    def _value_without_keys(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.without_keys(value)
        if isinstance(value, Mapping):
            return {self.without_keys(key): self._value_without_keys(item) for key, item in value.items()}
        return [self._value_without_keys(item) for item in value] if isinstance(value, list) else value


def _file_name(call: str) -> str:
    if not call.isalnum():
        raise Misuse(f"{call!r} is not the name of a call")
    return f"{call}{_SUFFIX}"


def _parse_record(line: bytes) -> CallRecord | None:
    try:
        data = json.loads(line.decode("utf-8", "surrogatepass"))
        return codec.build(CallRecord, data) if isinstance(data, dict) else None
    except (ValueError, TypeError, AttributeError, RecursionError):
        return None


_FENCE = re.compile(r"(?<=data-)[0-9a-f]+")
_NUMBER = re.compile(r"\d[\d.]*(?:e[-+]?\d+)?")


class RecordedModel:
    """Answers from an archive of calls. A prompt that was sent several times gets its replies in order."""

    def __init__(self, folder: Path, name: str = "recorded:calls") -> None:
        self.name = name
        self._folder = folder
        self._replies: dict[str, list[tuple[str, Reply]]] = {}
        self._used_calls: set[str] = set()
        for record in Archive(SafeFolder(folder)).records():
            if record.reply is not None:
                for key in (digest(record.prompt), loose_digest(record.prompt)):
                    self._replies.setdefault(key, []).append((record.call, record.reply))

    async def reply(self, prompt: Prompt) -> Reply:
        replies = self._replies.get(digest(prompt)) or self._replies.get(loose_digest(prompt))
        if not replies:
            raise ModelFault(
                f"this prompt is not among the calls recorded in {self._folder}: its contents have changed "
                "since the recording; name a model that can be asked",
                transient=False,
            )
        call, reply = next((known for known in replies if known[0] not in self._used_calls), replies[-1])
        self._used_calls.add(call)
        return reply


def make_recorded_model(name: str, folder: Path) -> RecordedModel:
    if not folder.is_dir():
        raise Misuse(
            f"model {name}: there is no folder {folder}: name one with recorded calls, such as `.git/loopty/calls`"
        )
    return RecordedModel(folder, f"recorded:{folder.name}")


def digest(prompt: Prompt) -> str:
    """Equal for equal prompts. Ignores the longest reply, which depends on the remaining budget."""
    return _hash(codec.text(replace(prompt, max_output_tokens=None)))


def loose_digest(prompt: Prompt) -> str:
    """Equal for prompts of two runs that differ only in numbers, as ids and times always do.

    A longer history has more lines, so that prompts of one run rarely have the same loose digest.
    """
    text = codec.text(replace(prompt, max_output_tokens=None))
    return _hash("alike " + _NUMBER.sub("0", _FENCE.sub("", text)))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
