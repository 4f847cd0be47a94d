"""The data of task files that were read before: importing the TOML parser takes longer than a verb's own work.

They are kept by the digest of the text in the user's cache, where no repository can write, and only as this user.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

from loopty.kit.atomic_file import write_atomically
from loopty.kit.short_digest import sha256
from loopty.kit.user_cache import is_own, user_cache

_LARGEST = 1 << 20
_MOST_KEPT = 32


def known_data(text: str) -> dict[str, Any] | None:
    """The data of this text; None where it was not kept, or where another user could have changed it."""
    digest = _digest(text)
    try:
        kept = json.loads(_own_content(_folder() / digest))
    except (OSError, ValueError, RecursionError):
        return None
    # The digest is in it, too: another file could have been given this name.
    is_sound = isinstance(kept, dict) and kept.get("digest") == digest and isinstance(kept.get("data"), dict)
    return kept["data"] if is_sound else None


def keep_data(text: str, data: dict[str, Any]) -> None:
    """Keep the data of this text, unless JSON cannot hold them, or the cache cannot be written."""
    digest = _digest(text)
    with contextlib.suppress(OSError, TypeError, ValueError, RecursionError):
        content = json.dumps({"digest": digest, "data": data})
        if len(content) > _LARGEST or repr(json.loads(content)["data"]) != repr(data):
            return
        folder = _folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_atomically(folder, digest, content.encode(), mode=0o600)
        _remove_old(folder)


def _folder() -> Path:
    if (folder := user_cache("tasks")) is None:
        raise FileNotFoundError("this user has no home")
    return folder


def _own_content(path: Path) -> bytes:
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(descriptor, "rb") as file:
        if not is_own(os.fstat(descriptor), stat.S_IFREG):
            raise PermissionError("another user could have written it")
        return file.read(_LARGEST + 1)


def _remove_old(folder: Path) -> None:
    files = [path for path in folder.iterdir() if path.is_file()]
    for path in sorted(files, key=lambda path: path.stat().st_mtime)[:-_MOST_KEPT]:
        path.unlink(missing_ok=True)


def _digest(text: str) -> str:
    """Also of the parser: another version may read the same text differently."""
    return sha256(f"{sys.hexversion}\n{text}".encode(errors="surrogatepass")).hexdigest()
