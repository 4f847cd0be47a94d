"""Temporary folders whose names tell their process: the next loopty removes those of a killed one."""

# Without pathlib: tempfile works with texts, too.
# ruff: noqa: PTH100, PTH109, PTH112

from __future__ import annotations

import contextlib
import functools
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

from loopty.kit.safe_folder import SafeFolder

_VARIABLES = ("TMPDIR", "TEMP", "TMP")
_USUAL = ("/tmp", "/var/tmp", "/usr/tmp")


def temporary_top() -> str:
    """Return the directory that Python's `tempfile` would choose.

    That writes a file to each candidate to try it, and a kill at this instant would leave the file there.
    """
    for name in (*map(os.environ.get, _VARIABLES), *_USUAL):
        if name and os.path.isdir(path := os.path.abspath(name)) and os.access(path, os.W_OK | os.X_OK):
            return path
    return os.getcwd()


_PREFIX = "loopty"


def fresh_name(purpose: str = "") -> str:
    """Make a new name for something that this process creates; its purpose is one word, for people."""
    ours = prefix_of(os.getpid()).removeprefix(_PREFIX)
    return f"{_PREFIX}{f'-{purpose}' if purpose else ''}{ours}-{os.urandom(8).hex()}"


def prefix_of(pid: int) -> str:
    """Return the prefix of all names that a process owns. Raises OSError when the process is gone."""
    # With the start time, because pids are reused: field 20 after the name, which may contain anything.
    started = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()[19]
    return f"{common_prefix()}-{pid}-{started}"


@functools.cache
def common_prefix() -> str:
    """Return the prefix of all names owned by processes that see each other."""
    # Containers that share their host's engine have pids of their own.
    return f"{_PREFIX}-{Path('/proc/self/ns/pid').stat().st_ino}"


def is_abandoned(name: str) -> bool:
    """Say whether the owner of a name is gone; false also for names that are not loopty's."""
    if not name.startswith(_PREFIX):
        return False
    if (match := _owned_name().fullmatch(name)) is None:
        return False
    pid = int(match[2])
    try:
        with contextlib.suppress(PermissionError):
            os.kill(pid, 0)
        return match[1] != prefix_of(pid).removeprefix(_PREFIX)
    except (ProcessLookupError, OverflowError):
        return True
    except OSError:
        # A process of another user, on a machine that hides users from each other.
        return False


@functools.cache
def _owned_name() -> re.Pattern[str]:
    """Return the pattern of names as `fresh_name` makes them here; its groups are the owner and its pid."""
    ours = common_prefix().removeprefix(_PREFIX)
    return re.compile(rf"{_PREFIX}(?:-[a-z]+)?({ours}-(\d+)-\d+)-[0-9a-f]+", re.ASCII)


@contextlib.contextmanager
def temporary_folder(purpose: str) -> Iterator[Path]:
    """Hold a new folder for this user alone until the block ends. The purpose is one word of its name."""
    folder = make_temporary_folder(purpose)
    try:
        yield folder
    finally:
        SafeFolder(folder.parent, (folder.name,)).remove_all()


def make_temporary_folder(purpose: str) -> Path:
    """Make such a folder, which the caller removes."""
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
