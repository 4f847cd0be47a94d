"""One addition to a settings file of the user's: to look for, to add, and to take away again."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class SettingsEntry(Protocol):
    """An addition to one file. Everything else in the file stays as it is.

    `text_with` and `text_without` raise Misuse where the file cannot be edited without damage.
    """

    @property
    def path(self) -> Path: ...

    def text_with(self, text: str) -> str:
        """The file's text with the entry, which replaces an older one of loopty's."""
        ...

    def text_without(self, text: str) -> str:
        """The file's text without the entry; the same text where there is none."""
        ...

    def snippet(self) -> str:
        """What a person would paste."""
        ...
