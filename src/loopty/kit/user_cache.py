"""The user's cache: what can be made again, below a folder that belongs to the user alone.

Without pathlib until somebody asks for a path: a verb looks here before it imports anything large.
"""

from __future__ import annotations

import os
import stat

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
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


def require_own_way(folder: str) -> None:
    """Raise PermissionError where another user can change a part of the way there, or where one is a link.

    Parts may be missing. Links of the system's own are no danger: on some machines /home is one.
    """
    parts = folder.split("/")[1:]
    for count in range(1, len(parts) + 1):
        try:
            status = os.lstat("/" + "/".join(parts[:count]))
        except (FileNotFoundError, NotADirectoryError):
            return  # whoever opens it finds out
        if stat.S_ISLNK(status.st_mode):
            if status.st_uid != 0:
                raise PermissionError("a link leads there")
        elif status.st_uid not in (0, os.geteuid()):
            raise PermissionError("it is in a folder of another user")
        elif status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
            raise PermissionError("it is in a folder that everybody may change")


def open_own(folder: str, name: str) -> int:
    """Open a file to read that nobody else can have written. Raises OSError where that is not so."""
    require_own_way(folder)
    if not is_own(os.lstat(folder), stat.S_IFDIR):
        raise PermissionError("others could have written there")
    descriptor = os.open(f"{folder}/{name}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    if is_own(os.fstat(descriptor), stat.S_IFREG):
        return descriptor
    os.close(descriptor)
    raise PermissionError("another user could have written it")


def make_own_folder(folder: str) -> None:
    """Make it below a folder of this user. Raises OSError where it is another user's, or behind a link."""
    require_own_way(folder)
    above = folder
    while not os.path.lexists(above):
        above = os.path.dirname(above)  # noqa: PTH120
    if os.stat(above).st_uid != os.geteuid():  # noqa: PTH116
        raise PermissionError("it is in the home of another user")
    os.makedirs(folder, mode=0o700, exist_ok=True)  # noqa: PTH103
    if not is_own(os.lstat(folder), stat.S_IFDIR):
        raise PermissionError("others could have written there")


def keep_newest(folder: str, most: int, is_ours: Callable[[str], bool]) -> None:
    """Remove our files but the newest, and what is left of some that were not written to their end."""
    with os.scandir(folder) as entries:
        ours = [each for each in entries if each.is_file() and (is_ours(each.name) or _is_unfinished(each.name))]
        files = sorted((each.stat(follow_symlinks=False).st_mtime, each.path) for each in ours)
    for _, path in files[:-most]:
        os.unlink(path)  # noqa: PTH108


def _is_unfinished(name: str) -> bool:
    return name.startswith("tmp_obj_")
