"""Calls of tools as files below `.loopty/mail`, for hosts whose shells may open no socket.

Whoever can write there may send a letter, so each is read with care: a plain name, a regular file, a bounded size.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import time
from pathlib import Path

from loopty.kit import untrusted_files
from loopty.kit.safe_folder import SafeFolder
from loopty.kit.untrusted_files import Unreadable
from loopty.tools.tool_calls import MOST_CALLS, Call, StartCall
from loopty.tools.tool_table import LARGEST_CALL
from loopty_sdk import agent_tool

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\.json")
_MOST_REPLIES = 200
"""Replies that nobody took: older ones are removed."""
_POLL_SECONDS = 0.1


class Mailbox:
    """The mailbox of a repository."""

    def __init__(self, folder: SafeFolder) -> None:
        """`folder` is loopty's folder in the working tree."""
        self.top, self._folder = folder.root, folder
        self._inbox, self._replies = self._folder.below("mail", "in"), self._folder.below("mail", "out")

    def open(self) -> None:
        """Make the folders, and put the program beside them that sends letters."""
        self._inbox.make()
        self._replies.make()
        self._folder.file("tool").write(Path(agent_tool.__file__).read_bytes())

    def serve(self, start_call: StartCall) -> None:
        """Answer letters until this process is interrupted."""
        calls: dict[Call, str] = {}
        while True:
            for name in self._letters()[: MOST_CALLS - len(calls)]:
                if (letter := self._take(name)) is not None:
                    calls[start_call(letter)] = name
            if not calls:
                time.sleep(_POLL_SECONDS)
                continue
            for call in select.select(list(calls), [], [], _POLL_SECONDS)[0]:
                if (reply := call.read()) is not None:
                    self._reply(calls.pop(call), reply)

    def _letters(self) -> list[str]:
        """The names of letters that wait."""
        try:
            return [name for name in self._inbox.names() if _NAME.fullmatch(name)]
        except OSError:
            return []  # something put a link in its place: then no letter is answered

    def _take(self, name: str) -> bytes | None:
        """Read and remove a letter; None if another process has just taken it. One that is unreadable is empty."""
        taken = f".{os.getpid()}-{name}"
        try:
            with self._inbox.handle() as folder:
                os.rename(name, taken, src_dir_fd=folder, dst_dir_fd=folder)  # one of several processes succeeds
                return untrusted_files.content(Path(taken), LARGEST_CALL, folder) or b""
        except FileNotFoundError:
            return None
        except (Unreadable, OSError):
            return b""
        finally:
            with contextlib.suppress(OSError):
                self._inbox.remove(taken)

    def _reply(self, name: str, reply: bytes) -> None:
        """Put the reply where its sender looks for it."""
        with contextlib.suppress(OSError):
            self._replies.file(name).write(reply)
            self._remove_old_replies()

    def _remove_old_replies(self) -> None:
        names = self._replies.names()
        if len(names) <= _MOST_REPLIES:
            return
        with self._replies.handle() as folder:
            ages = {name: os.stat(name, dir_fd=folder, follow_symlinks=False).st_mtime for name in names}
        for name in sorted(names, key=ages.__getitem__)[:-_MOST_REPLIES]:
            self._replies.remove(name)
