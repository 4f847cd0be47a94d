"""Sends what waits to the shared store, in a thread; the list of it lies beside the ledger, so that a kill or an
outage loses nothing.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

from loopty.domain.errors import LooptyError
from loopty.domain.shared_store import SharedStore
from loopty.git.bundles import make_bundle
from loopty.git.command import GitCommand, GitError
from loopty.kit.process import at_work_end
from loopty.kit.records import Record
from loopty.kit.safe_folder import SafeFolder

COMMITS = "commits"
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
_LONGEST_END_SECONDS = 60.0
"""How long the end of the work waits for a store that works; what is left is sent by the next process."""


class StoreSender:
    """Sends the things that wait, oldest kinds first, and again and again while the store is away."""

    def __init__(self, store: SharedStore, unsent: UnsentObjects, git: GitCommand) -> None:
        self._store = store
        self._unsent = unsent
        self._git = git
        self._thread: threading.Thread | None = None
        self._wake = threading.Event()
        self._ends = threading.Event()
        self._lock = threading.Lock()

    def start(self) -> None:
        """Send in the background from now on, until the work ends."""
        with self._lock:
            self._wake.set()
            if self._thread is None or not self._thread.is_alive():
                self._ends.clear()
                # A slow store must not hold up the search.
                self._thread = threading.Thread(target=self._run, name="store sender", daemon=True)
                self._thread.start()
                at_work_end(self.finish)

    def finish(self) -> None:
        """Send what is left, unless the store is away, and end the thread."""
        self._ends.set()
        self._wake.set()
        if self._thread:
            self._thread.join(_LONGEST_END_SECONDS)

    def send_all(self, on_fault: Callable[[str], None] = lambda _: None) -> bool:
        """Send everything that waits now; false where the store took not all of it."""
        is_complete = True
        for item in self._unsent.items():
            try:
                self._send(item)
            except LooptyError as error:
                is_complete = False
                self._unsent.note_fault(str(error))
                on_fault(str(error))
                if not isinstance(error, GitError):  # the next one would meet the same
                    return False
        if is_complete:
            self._unsent.note_fault("")
        return is_complete

    def _run(self) -> None:
        pause = _FIRST_PAUSE
        while True:
            self._wake.clear()
            is_last = self._ends.is_set()
            is_complete = self.send_all()
            if is_last:
                return
            if is_complete:
                pause = _FIRST_PAUSE
                self._wake.wait()
            elif self._ends.wait(pause):
                return
            else:
                pause = min(2 * pause, _LONGEST_PAUSE)

    def _send(self, item: Unsent) -> None:
        if item.kind == CONTENT:
            content, name = self._unsent.read(item), item.name.replace(".", "/")
            if content is not None:
                self._store.put(name, content)
        else:
            self._send_commit(item)
        self._unsent.remove(item)

    def _send_commit(self, item: Unsent) -> None:
        name, bases = f"{COMMITS}/{item.name}", list[str]()
        if item.kind == COMMIT:
            bases = self._git.run("rev-list", "--parents", "-n1", item.name).split()[1:]
        elif self._store.has(name) or self._is_shallow():
            return
        # A history that is too large, or not all here, has to come from the user's remote: who misses it says so.
        if bundle := make_bundle(self._git, item.name, bases):
            self._store.put(name, bundle)

    def _is_shallow(self) -> bool:
        return self._git.run("rev-parse", "--is-shallow-repository").strip() == "true"


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
        """List all that waits; what others build on comes first."""
        found = [
            Unsent(*name.split(".", 1)) for name in self._folder.names() if name.count(".") and name != _FAULT
        ]
        order = {HISTORY: 0, COMMIT: 1, CONTENT: 2}
        return sorted((item for item in found if item.kind in order), key=lambda item: order[item.kind])

    def read(self, item: Unsent) -> bytes | None:
        """Read the content of an item; None if another process has just sent it."""
        try:
            return self._folder.file(item.file).read()
        except FileNotFoundError:
            return None

    def remove(self, item: Unsent) -> None:
        """Forget an item that was sent."""
        self._folder.file(item.file).remove()

    @property
    def size(self) -> int:
        """Compute the size of what waits, in bytes."""
        return sum(self._folder.file(item.file).size for item in self.items())

    @property
    def fault(self) -> str:
        """Say why the last attempt to send failed; empty if it did not."""
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
