"""Reads files that others have written: bounded, regular files only, no link followed.

What it finds is the reason of a trial's outcome (`Unreadable`). Files of loopty's own are opened through
`safe_folder.py`, where a link or a foreign owner stops the verb (`UnsafePath`).
"""

from __future__ import annotations

import json
import os
import re
import stat
from pathlib import Path
from typing import Any

_DEEPEST = 64
_TOO_DEEP = f"is nested deeper than {_DEEPEST} levels"
_LONGEST_NAME = 200


class Unreadable(Exception):  # noqa: N818 - it is a finding about a file, reported as the trial's reason
    """Why a file cannot be trusted, in one line."""


def content(path: Path, limit_bytes: int, folder: int | None = None) -> bytes | None:
    """Read the bytes of a file, or None if there is none. `folder` is the descriptor of an open folder.

    Raises Unreadable.
    """
    try:
        # Non-blocking, so that a FIFO without a writer cannot block us.
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError:
        raise Unreadable("is a link or cannot be opened") from None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable("is not a regular file")
        if status.st_mode & (stat.S_ISUID | stat.S_ISGID):
            raise Unreadable("has a set-id bit")
        if status.st_nlink != 1:
            raise Unreadable("has a second name (a hard link)")
        if status.st_size > limit_bytes:
            raise Unreadable(f"holds {status.st_size} bytes, more than the {limit_bytes} allowed")
        return _read(descriptor, limit_bytes, status.st_size)
    finally:
        os.close(descriptor)


def json_object(raw: bytes) -> dict[str, Any]:
    """Parse a JSON object: finite numbers, no duplicate keys, no deep nesting, text that can be stored.

    Raises Unreadable.
    """
    if not raw.strip():
        raise Unreadable("is empty: it was created and never written")
    if _may_nest_deeply(raw):
        raise Unreadable(_TOO_DEEP)
    try:
        text = raw.decode("utf-8-sig")  # the parser would take UTF-16 and UTF-32, too
        value = json.loads(text, object_pairs_hook=_object_with_unique_keys, parse_constant=_refuse_constant)
        json.dumps(
            value, ensure_ascii=False
        ).encode()  # a lone surrogate is legal JSON, but no ledger can store it
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"is not valid JSON ({str(error)[:120]})") from None
    if not isinstance(value, dict):
        raise Unreadable("is not a JSON object")
    if _is_deeper_than(value, _DEEPEST):
        raise Unreadable(_TOO_DEEP)
    return value


def is_printable_name(name: str) -> bool:
    """Say whether a name is short and printable, so that it fits into a table or a one-line reason."""
    return name.isprintable() and 0 < len(name) <= _LONGEST_NAME


def _read(descriptor: int, limit_bytes: int, size: int) -> bytes:
    chunks, total = [], 0
    # Not always the largest chunk: Python asks for as much memory before it reads.
    while chunk := os.read(descriptor, min(size + 1, 1 << 20)):
        chunks.append(chunk)
        total += len(chunk)
        if total > limit_bytes:  # it grew after we looked
            raise Unreadable(f"holds more than the {limit_bytes} bytes allowed")
    return b"".join(chunks)


def _may_nest_deeply(raw: bytes) -> bool:
    """Say whether the parser would recurse far below the deepest level that is accepted.

    At the interpreter's limit even the garbage collector fails: a finalizer that it calls there cannot run.
    """
    if raw.count(b"[") + raw.count(b"{") <= _DEEPEST:
        return False
    brackets = re.sub(rb'"(?:[^"\\]+|\\.)*"?|[^][{}"]+', b"", raw, flags=re.DOTALL)
    for _ in range(_DEEPEST):
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    return len(brackets) > _DEEPEST


def _is_deeper_than(value: Any, levels: int) -> bool:
    """Say whether containers are nested more than this many levels deep."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return inside is not None and (levels == 0 or any(_is_deeper_than(item, levels - 1) for item in inside))


def _object_with_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("a key appears twice")
    return dict(pairs)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a finite number")


_LARGEST_FILE = 1 << 20


def source_text(path: Path) -> str:
    """Read the text of a file; empty if it is missing, large or no regular file."""
    try:
        if not path.is_file() or path.stat().st_size > _LARGEST_FILE:
            return ""
        return path.read_text(errors="replace")
    except OSError:
        return ""
