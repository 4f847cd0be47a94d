"""Copies of what a trial published: hostile data, kept by content and never interpreted."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from pathlib import Path

from loopty.kit import untrusted_files
from loopty.kit.safe_folder import SafeFolder, UnsafePath
from loopty.kit.untrusted_files import Unreadable

ARTIFACTS = "artifacts"
MOST_FILES = 32
LARGEST_FILE = 8 << 20
LARGEST_TOTAL = 32 << 20
_MOST_LISTED = 1_000
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def has_artifacts(source: SafeFolder) -> bool:
    """Whether a trial has put anything there that could be kept."""
    try:
        with source.handle() as folder, os.scandir(folder) as entries:
            return next(entries, None) is not None
    except (FileNotFoundError, PermissionError, UnsafePath):
        return False


def keep_artifacts(source: SafeFolder, target: SafeFolder) -> tuple[dict[str, str], int]:
    """Keep the artifacts of a trial, each under the SHA-256 of its content; their digests by name.

    Only regular files with plain names within the limits are kept; the second value counts the others. No link is
    followed.
    """
    with contextlib.ExitStack() as resources:
        try:
            folder = resources.enter_context(source.handle())
        except (FileNotFoundError, PermissionError, UnsafePath):
            return {}, 0
        return _keep(folder, target)


def _keep(folder: int, target: SafeFolder) -> tuple[dict[str, str], int]:
    kept: dict[str, str] = {}
    left_out, room = 0, LARGEST_TOTAL
    for name in _names(folder):
        content = None
        if len(kept) < MOST_FILES and _NAME.fullmatch(name):
            with contextlib.suppress(Unreadable):
                content = untrusted_files.content(Path(name), min(LARGEST_FILE, room), folder)
        if content is None:
            left_out += 1
            continue
        room -= len(content)
        kept[name] = hashlib.sha256(content).hexdigest()
        target.make().file(kept[name]).write(content)
    return kept, left_out


def _names(folder: int) -> list[str]:
    with os.scandir(folder) as entries:
        return sorted(entry.name for entry, _ in zip(entries, range(_MOST_LISTED), strict=False))
