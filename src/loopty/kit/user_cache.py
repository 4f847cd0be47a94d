"""The user's cache: what can be made again, below a folder that belongs to the user alone."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


def user_cache(name: str, environ: Mapping[str, str] = os.environ) -> Path | None:
    """The folder of this name in the user's cache, which may be missing; None for a user without a home."""
    cache = environ.get("XDG_CACHE_HOME", "")
    try:
        # The XDG specification says to ignore a relative path.
        above = Path(cache) if os.path.isabs(cache) else Path.home() / ".cache"  # noqa: PTH117
    except RuntimeError:
        return None
    return above / "loopty" / name


def is_own(status: os.stat_result, kind: int) -> bool:
    """Whether this is of the kind, belongs to this user, and nobody else can change it."""
    mode = status.st_mode
    return stat.S_IFMT(mode) == kind and status.st_uid == os.geteuid() and not mode & _OTHERS_MAY_WRITE
