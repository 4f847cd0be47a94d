"""When the agents of a host were at work: that tells whose a change of a file is.

Hooks write this down, one line for each begin and end of a call. A call of a shell may change any file, so the
time of a change is compared with the times of calls.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterable, Mapping
from typing import Any

from loopty.domain.ids import NodeId
from loopty.hosts.hook_call import HookCall
from loopty.kit.records import Record, field
from loopty.kit.safe_folder import SafeFile

_MOST_BYTES = 1 << 19
_LONGEST_CALL_SECONDS = 900.0
"""Of a call whose end was never written, because its host was killed."""
_TICK_SECONDS = 0.012
"""Times of files come from a clock that is behind by a tick of the kernel, 10 ms at most, and never ahead."""
_OTHER_CLOCK_SECONDS = 0.1
"""Those of a network's file system come from another machine."""


class CallTime(Record):
    """From the begin of a call to its end."""

    begin: float
    end: float

    def has(self, moment: float) -> bool:
        return self.begin - _TICK_SECONDS <= moment <= self.end

    def is_near(self, moment: float) -> bool:
        return self.begin - _OTHER_CLOCK_SECONDS <= moment <= self.end + _OTHER_CLOCK_SECONDS


class HostWork(Record):
    """The calls of agents in their hosts, and the drafts that they opened while edits were for subagents."""

    by_subagents: tuple[CallTime, ...] = ()
    by_directors: tuple[CallTime, ...] = ()
    drafts: frozenset[NodeId] = frozenset()
    instructed: frozenset[NodeId] = frozenset()
    """Those whose session was told so by its environment."""
    edited: Mapping[NodeId, str] = field(default_factory=dict)
    """The drafts that a directing agent was seen to edit, with a file of each."""

    def is_subagents(self, moment: float) -> bool:
        """Whether one was at work, or just before or after while no directing agent was."""
        if any(call.has(moment) for call in self.by_subagents):
            return True
        is_near = any(call.is_near(moment) for call in self.by_subagents)
        return is_near and not any(call.has(moment) for call in self.by_directors)

    def is_directors(self, moment: float) -> bool:
        return any(call.is_near(moment) for call in self.by_directors) and not self.is_subagents(moment)


class HostCalls:
    """The file of calls, in the repository's state."""

    def __init__(self, file: SafeFile) -> None:
        self._file = file

    def begin(self, call: HookCall) -> None:
        self._append([time.time(), "begin", call.name_of_call, call.is_subagent])

    def end(self, call: HookCall, drafts: Iterable[NodeId] = (), is_instructed: bool = False) -> None:
        """`drafts` are those that it opened and whose edits are for subagents."""
        self._append([time.time(), "end", call.name_of_call, call.is_subagent, [*drafts], is_instructed])

    def note_edit(self, draft: NodeId, path: str) -> None:
        """A directing agent has edited this draft."""
        self._append([time.time(), "edited", draft, path])

    def read(self) -> HostWork:
        """What is written down. A line that cannot be read is passed over."""
        calls: dict[bool, list[CallTime]] = {True: [], False: []}
        begun: dict[str, tuple[float, bool]] = {}
        drafts, instructed, edited = set[NodeId](), set[NodeId](), dict[NodeId, str]()
        for row in self._rows():
            try:
                at, what, name, is_subagent = float(row[0]), row[1], str(row[2]), bool(row[3])
                if what == "edited":
                    edited[NodeId(name)] = str(row[3])
                    continue
                if what == "begin":
                    begun[name] = at, is_subagent
                    continue
                since, _ = begun.pop(name)  # a host that does not say when a call begins says nothing of subagents
                calls[is_subagent].append(CallTime(since, at))
                opened = [NodeId(node) for node in row[4]]
                drafts.update(opened)
                instructed.update(opened if row[5] else ())
            except (TypeError, ValueError, IndexError, KeyError):
                continue
        for since, is_subagent in begun.values():
            calls[is_subagent].append(CallTime(since, since + _LONGEST_CALL_SECONDS))
        return HostWork(tuple(calls[True]), tuple(calls[False]), frozenset(drafts), frozenset(instructed), edited)

    def _rows(self) -> Iterable[list[Any]]:
        try:
            lines = self._file.read(_MOST_BYTES, tail=True).splitlines()
        except FileNotFoundError:
            return
        for line in lines:
            try:
                row = json.loads(line)
            except ValueError:
                continue  # the first line may have lost its beginning
            if isinstance(row, list):
                yield row

    def _append(self, row: list[object]) -> None:
        """Add a line, and forget the oldest half where there are too many; hooks of several agents run at once."""
        descriptor = self._file.open(os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            size = os.fstat(descriptor).st_size
            if size > _MOST_BYTES:
                kept = os.pread(descriptor, _MOST_BYTES // 2, size - _MOST_BYTES // 2).partition(b"\n")[2]
                os.ftruncate(descriptor, 0)
                file.write(kept)
            file.write(json.dumps(row).encode() + b"\n")
