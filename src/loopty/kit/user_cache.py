"""The user's cache: what can be made again, below a folder that belongs to the user alone.

Without pathlib until somebody asks for a path: a verb looks here before it imports anything large.
"""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


def user_cache(name: str, environ: Mapping[str, str] = os.environ) -> Path | None:
    """The folder of this name in the user's cache, which may be missing; None for a user without a home."""
    from pathlib import Path

    folder = cache_folder(name, environ)
    return None if folder is None else Path(folder)


def cache_folder(name: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """The same as a text."""
    cache = environ.get("XDG_CACHE_HOME", "")
    # The XDG specification says to ignore a relative path.
    above = cache if os.path.isabs(cache) else f"{os.path.expanduser('~')}/.cache"  # noqa: PTH111, PTH117
    return f"{above}/loopty/{name}" if os.path.isabs(above) else None  # noqa: PTH117


def is_own(status: os.stat_result, kind: int) -> bool:
    """Whether this is of the kind, belongs to this user, and nobody else can change it."""
    mode = status.st_mode
    return stat.S_IFMT(mode) == kind and status.st_uid == os.geteuid() and not mode & _OTHERS_MAY_WRITE
