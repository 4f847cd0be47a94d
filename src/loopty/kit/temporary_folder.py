"""Folders in the temporary directory that name their process: the next loopty removes those of a killed one."""

from __future__ import annotations

import contextlib
import functools
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from loopty.kit.owned_names import fresh_name, is_abandoned
from loopty.kit.safe_folder import SafeFolder
from loopty.kit.temporary_top import temporary_top


@contextlib.contextmanager
def temporary_folder(purpose: str) -> Iterator[Path]:
    """A new folder for this user alone, gone when the block ends. The purpose is one word of its name."""
    folder = make_temporary_folder(purpose)
    try:
        yield folder
    finally:
        SafeFolder(folder.parent, (folder.name,)).remove_all()


def make_temporary_folder(purpose: str) -> Path:
    """The same, where the caller removes it."""
    top = Path(temporary_top())
    _remove_abandoned(top)
    folder = top / fresh_name(purpose)
    folder.mkdir(mode=0o700)
    return folder


@functools.cache
def _remove_abandoned(top: Path) -> None:
    """Remove the folders of this user whose processes are gone; once in each process."""
    with contextlib.suppress(OSError):
        for name in os.listdir(top):  # noqa: PTH208 - names, not paths
            if is_abandoned(name) and _is_own_folder(top / name):
                with contextlib.suppress(OSError):
                    SafeFolder(top).remove(name)


def _is_own_folder(path: Path) -> bool:
    try:
        status = path.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
