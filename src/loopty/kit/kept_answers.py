"""Answers that took long, kept from one process to the next in the user's cache, by the digest of their question.

No repository can write there, and an answer counts only where no other user could have changed it.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import Any

from loopty.kit.atomic_file import write_atomically
from loopty.kit.short_digest import sha256
from loopty.kit.user_cache import cache_folder, keep_newest, make_own_folder, open_own

_LARGEST = 1 << 20


class KeptAnswers:
    """The answers in one folder of the cache: as many as were kept last."""

    def __init__(self, folder: str, most: int) -> None:
        self._name = folder
        self._most = most

    def find(self, question: str) -> Any:
        """The answer to this question; None where it was not kept, or where another user could have changed it."""
        digest = _digest(question)
        try:
            with os.fdopen(open_own(self._folder(), digest), "rb") as file:
                kept = json.loads(file.read(_LARGEST + 1))
        except (OSError, ValueError, RecursionError):
            return None
        # The digest is in it, too: another file could have been given this name.
        return kept.get("data") if isinstance(kept, dict) and kept.get("digest") == digest else None

    def keep(self, question: str, answer: Any) -> None:
        """Keep the answer, unless JSON cannot hold it, or the cache cannot be written."""
        digest = _digest(question)
        with contextlib.suppress(OSError, TypeError, ValueError, RecursionError):
            content = json.dumps({"digest": digest, "data": answer})
            if len(content) > _LARGEST or repr(json.loads(content)["data"]) != repr(answer):
                return
            folder = self._folder()
            make_own_folder(folder)
            write_atomically(folder, digest, content.encode(), mode=0o600)
            keep_newest(folder, self._most, lambda name: len(name) == len(digest))

    def _folder(self) -> str:
        if (folder := cache_folder(self._name)) is None:
            raise FileNotFoundError("this user has no home")
        return folder


def _digest(question: str) -> str:
    return sha256(question.encode(errors="surrogatepass")).hexdigest()
