"""A cache of replies that were paid for: an equal request gets the same bytes again."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import weakref
from collections.abc import AsyncIterator

from loopty.kit.safe_folder import SafeFile, SafeFolder
from loopty.models.endpoint.answer_source import HttpResponse
from loopty.models.endpoint.forwarded_call import ForwardedCall

LARGEST_REPLY = 4 << 20
_ALL_REPLIES = 1 << 30


class Cache:
    """A folder of replies, shared by all trials; `when` is `auto`, `always` or `never`."""

    def __init__(self, folder: SafeFolder, when: str) -> None:
        self._folder = folder
        self._when = when
        self._locks: weakref.WeakValueDictionary[str, asyncio.Lock] = weakref.WeakValueDictionary()
        self._bytes: int | None = None

    def key(self, call: ForwardedCall, model: str) -> str | None:
        """The key of this model's reply to a call, or None when the reply is not cached."""
        if self._when == "never" or (self._when == "auto" and not call.repeatable):
            return None
        return hashlib.sha256(f"{model} {call.digest}".encode()).hexdigest()

    @contextlib.asynccontextmanager
    async def lock(self, key: str) -> AsyncIterator[None]:
        """Hold equal requests back until the first of them is answered; the others then find its reply."""
        lock = self._locks.setdefault(key, asyncio.Lock())
        async with lock:
            yield

    def find(self, key: str) -> HttpResponse | None:
        try:
            head, _, body = self._file(key).read().partition(b"\n")
            fields = json.loads(head)
            headers = {"content-type": fields["content_type"], "x-loopty-cached": "true"}
            reply = HttpResponse(200, headers, body)
            # A file that a full disk cut short, or somebody edited, counts as missing.
            return reply if fields["sha256"] == hashlib.sha256(body).hexdigest() else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def keep(self, key: str, reply: HttpResponse) -> None:
        """Keep a reply, whole or not at all. A full or read-only folder does not fail a trial."""
        head = {
            "content_type": reply.headers.get("content-type", ""),
            "sha256": hashlib.sha256(reply.body).hexdigest(),
        }
        content = json.dumps(head).encode() + b"\n" + reply.body
        with contextlib.suppress(OSError):
            if self._bytes is None:
                self._bytes = sum(self._folder.file(name).size for name in self._folder.names())
            if len(reply.body) > LARGEST_REPLY or self._bytes + len(content) > _ALL_REPLIES:
                return
            self._bytes += len(content)
            self._file(key).write(content)

    def _file(self, key: str) -> SafeFile:
        return self._folder.file(f"{key}.reply")
