"""What the shared store has not got yet: files beside the ledger, so that a kill or an outage loses nothing."""

from __future__ import annotations

import contextlib

from loopty.kit.records import Record
from loopty.kit.safe_folder import SafeFolder

COMMIT, HISTORY, CONTENT = "commit", "history", "content"
_FAULT = "fault.txt"
_LONGEST_FAULT = 2_000


class Unsent(Record):
    """One thing that waits for the store."""

    kind: str
    """`commit`, `history` (of the user, below a baseline), or `content`."""
    name: str
    """Of the commit, or in the store with dots for slashes."""

    @property
    def file(self) -> str:
        return f"{self.kind}.{self.name}"


class UnsentObjects:
    """The things that wait. Any number of processes may add, send and remove them."""

    def __init__(self, folder: SafeFolder) -> None:
        self._folder = folder

    def add(self, item: Unsent, content: bytes = b"") -> None:
        """Let the item wait; of a commit, git has the content."""
        self._folder.file(item.file).write(content)

    def items(self) -> list[Unsent]:
        """All of them; what others build on comes first."""
        found = [
            Unsent(*name.split(".", 1)) for name in self._folder.names() if name.count(".") and name != _FAULT
        ]
        order = {HISTORY: 0, COMMIT: 1, CONTENT: 2}
        return sorted((item for item in found if item.kind in order), key=lambda item: order[item.kind])

    def read(self, item: Unsent) -> bytes | None:
        """Its content; None where another process has just sent it."""
        try:
            return self._folder.file(item.file).read()
        except FileNotFoundError:
            return None

    def remove(self, item: Unsent) -> None:
        """Forget an item that was sent."""
        self._folder.file(item.file).remove()

    @property
    def size(self) -> int:
        """In bytes."""
        return sum(self._folder.file(item.file).size for item in self.items())

    @property
    def fault(self) -> str:
        """Why the last attempt to send failed; empty where it did not."""
        with contextlib.suppress(OSError):
            return self._folder.file(_FAULT).read(_LONGEST_FAULT).decode(errors="replace")
        return ""

    def note_fault(self, text: str) -> None:
        """Say why things wait; an empty text: they do not any more."""
        with contextlib.suppress(OSError):
            if text:
                self._folder.file(_FAULT).write(text.encode()[:_LONGEST_FAULT])
            elif self.fault:
                self._folder.file(_FAULT).remove()
