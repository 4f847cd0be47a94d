"""Refuses globs of writable files that match nothing: most are misspelt."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePosixPath

from loopty.domain.errors import Misuse
from loopty.kit import globs

_MAX_NAMES = 3


def require_matches(patterns: Sequence[str], files: Sequence[str]) -> None:
    """Raise Misuse for the first pattern that matches no file, with the nearest that would."""
    for pattern in patterns:
        if not any(globs.matches(path, (pattern,)) for path in files):
            near = _near_matches(pattern, files)
            remedy = f"did you mean {' or '.join(near)}?" if near else "name files that exist, or a folder of them"
            raise Misuse(f"--write {pattern!r} matches no file of the repository: {remedy}")


def _near_matches(pattern: str, files: Sequence[str]) -> list[str]:
    folders = {str(parent) for path in files for parent in PurePosixPath(path).parents if str(parent) != "."}
    known = {*files, *folders, *(f"{folder}/**" for folder in folders)}
    import difflib

    near = difflib.get_close_matches(pattern, sorted(known), n=_MAX_NAMES, cutoff=0.6)
    name = PurePosixPath(pattern).name
    same_name = [path for path in files if PurePosixPath(path).name == name]
    return list(dict.fromkeys((*same_name, *near)))[:_MAX_NAMES]
