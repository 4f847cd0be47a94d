"""A model that repeats recorded replies: a run can be repeated without paying for it again."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from loopty.domain.errors import Misuse
from loopty.domain.model import ModelFault, Prompt, Reply
from loopty.kit import codec
from loopty.kit.records import replace
from loopty.kit.safe_folder import SafeFolder
from loopty.models.archive import Archive

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
