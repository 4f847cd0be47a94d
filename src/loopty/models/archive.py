"""The calls of models as they were: the exact prompt and the reply, a file each."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loopty.core.errors import Misuse
from loopty.core.ids import NodeId
from loopty.core.model import Prompt, Reply
from loopty.kit import codec
from loopty.kit.whole import put
from loopty.models.hiding import is_secret, without_key


@dataclass(frozen=True, slots=True)
class Kept:
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
        self._last: tuple[str, Reply] | None = None
        """The reply that was read last: of a batch it is asked for again and again."""

    def hide(self, key: str | None) -> None:
        """Take this out of every text from now on."""
        if key is not None and is_secret(key):
            self._secrets.add(key)

    def clean(self, text: str) -> str:
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
        kept = Kept(call, self._clock(), model, role, operator, prompt, reply, failure, node)
        text = json.dumps(self._cleaned(codec.plain(kept)), ensure_ascii=False, allow_nan=False)
        try:
            path = self._path(call)
            put(path.parent, path.name, text.encode("utf-8", "surrogatepass"), durable=True)
        except OSError as error:
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
                f"the reply of call {call} is not in {self._folder} any more: put the file back, or start anew "
                "with `loopty optimize --new-run`"
            )
        self._last = call, kept.reply
        return kept.reply

    def record(self, call: str) -> Kept | None:
        """Everything about a call; None where the file is missing or damaged."""
        return _read(self._path(call))

    def records(self) -> Iterator[Kept]:
        """All calls that can be read, oldest first."""
        found = (_read(path) for path in self._folder.glob("*.json"))
        yield from sorted((kept for kept in found if kept), key=lambda kept: (kept.at, kept.call))

    def _path(self, call: str) -> Path:
        # Names come from the ledger; one that was tampered with must not lead out of the folder.
        if not call.isalnum():
            raise Misuse(f"{call!r} is no name of a call")
        return self._folder / f"{call}.json"

    def _cleaned(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.clean(value)
        if isinstance(value, Mapping):
            return {self.clean(key): self._cleaned(item) for key, item in value.items()}
        return [self._cleaned(item) for item in value] if isinstance(value, list) else value


def _read(path: Path) -> Kept | None:
    try:
        data = json.loads(path.read_bytes().decode("utf-8", "surrogatepass"))
        return codec.build(Kept, data) if isinstance(data, dict) else None
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        return None
