"""A model that answers as another did before: a run is repeated, and nobody pays for it again."""

from __future__ import annotations

import hashlib
import re
from dataclasses import replace
from pathlib import Path

from loopty.domain.errors import Misuse
from loopty.domain.model import ModelFault, Prompt, Reply
from loopty.kit import codec
from loopty.models.archive import Archive

_FENCE = re.compile(r"(?<=data-)[0-9a-f]+")
_FIGURE = re.compile(r"\d[\d.]*(?:e[-+]?\d+)?")


class RecordedModel:
    """Answers from an archive of calls. What was asked more than once gets its replies in their order."""

    def __init__(self, folder: Path, name: str = "recorded:calls") -> None:
        self.name = name
        self._folder = folder
        self._replies: dict[str, list[tuple[str, Reply]]] = {}
        self._used_calls: set[str] = set()
        for kept in Archive(folder).records():
            if kept.reply is not None:
                for key in (digest(kept.prompt), loose_digest(kept.prompt)):
                    self._replies.setdefault(key, []).append((kept.call, kept.reply))

    async def reply(self, prompt: Prompt) -> Reply:
        replies = self._replies.get(digest(prompt)) or self._replies.get(loose_digest(prompt))
        if not replies:
            raise ModelFault(
                f"this prompt is not among the calls recorded in {self._folder}: what it is made of has changed, "
                "name a model that can be asked",
                transient=False,
            )
        call, reply = next((known for known in replies if known[0] not in self._used_calls), replies[-1])
        self._used_calls.add(call)
        return reply


def make_recorded_model(name: str, folder: Path) -> RecordedModel:
    if not folder.is_dir():
        raise Misuse(
            f"model {name}: there is no folder {folder}: name one with recorded calls, as `.loopty/calls`"
        )
    return RecordedModel(folder, f"recorded:{folder.name}")


def digest(prompt: Prompt) -> str:
    """What makes two prompts the same; how long the reply may be depends on what is left of a budget."""
    return _hash(codec.text(replace(prompt, max_output_tokens=None)))


def loose_digest(prompt: Prompt) -> str:
    """What a prompt has in common with that of another run: all but figures, as ids and times are never the same.

    A longer history has more lines, so that prompts of one run are seldom alike.
    """
    text = codec.text(replace(prompt, max_output_tokens=None))
    return _hash("alike " + _FIGURE.sub("0", _FENCE.sub("", text)))


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
