"""The compiled launcher: built once for each user where there is a compiler, and used by later launchers."""

from __future__ import annotations

import contextlib
import os
import platform
import stat
import subprocess
import threading
import time
from pathlib import Path

_SOURCES = Path(__file__).with_name("compiled_launcher")
# Not by the search path, which may name folders of a repository.
_COMPILERS = ("/usr/bin/cc", "/usr/bin/gcc", "/usr/bin/clang", "/usr/local/bin/cc")
# Static: in the launcher's root there are no libraries.
_OPTIONS = ("-O2", "-static", "-w")
_BUILD_SECONDS = 120
_BUILD = "build-"
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


def open_program() -> int | None:
    """The compiled launcher, opened; None where it has not been built, or where others could have changed it."""
    if (folder := _folder()) is None:
        return None
    try:
        if not _is_own(folder.stat(follow_symlinks=False), stat.S_IFDIR):
            return None
        descriptor = os.open(folder / _name(), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    if _is_own(os.fstat(descriptor), stat.S_IFREG):
        return descriptor
    os.close(descriptor)
    return None


def build_program() -> bool:
    """Build the program, unless it is there; whether it is there now. Without a compiler nothing happens."""
    import tempfile  # only the few processes that build it need it

    compiler = next((path for path in _COMPILERS if os.access(path, os.X_OK)), None)
    if (folder := _folder()) is None or compiler is None:
        return False
    if (descriptor := open_program()) is not None:
        os.close(descriptor)
        return True
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not _is_own(folder.stat(follow_symlinks=False), stat.S_IFDIR):
            return False
        _remove_leftovers(folder)
        with tempfile.TemporaryDirectory(prefix=_BUILD, dir=folder) as scratch:
            made = Path(scratch, "launcher")
            subprocess.run(
                ("/usr/bin/nice", compiler, *_OPTIONS, "-o", str(made), *map(str, _parts())),
                check=True,
                timeout=_BUILD_SECONDS,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                cwd=scratch,
                env={"PATH": "/usr/bin:/bin", "TMPDIR": scratch, "LC_ALL": "C"},
            )
            # The user of trials executes it.
            made.chmod(0o755)
            made.rename(folder / _name())
        return True
    return False


def _remove_leftovers(folder: Path) -> None:
    """Remove what builds left behind that were killed."""
    import shutil

    for left in folder.glob(f"{_BUILD}*"):
        with contextlib.suppress(OSError):
            if time.time() - left.stat().st_mtime > 2 * _BUILD_SECONDS:
                shutil.rmtree(left)


class BuildOnce:
    """Builds the program beside the trials of a process that starts many: the others never wait for it."""

    def __init__(self, trials: int) -> None:
        self._left = trials

    def count_trial(self) -> None:
        """Start to build at the last of the trials to wait for."""
        self._left -= 1
        if self._left == 0:
            threading.Thread(target=build_program, daemon=True).start()


def _folder() -> Path | None:
    try:
        cache = Path(os.environ.get("XDG_CACHE_HOME", "") or Path.home() / ".cache")
    except RuntimeError:
        return None
    return cache / "loopty" / "launcher" if cache.is_absolute() else None


def _name() -> str:
    """By the content of all that it is made from."""
    import hashlib

    texts = b"\0".join(part.read_bytes() for part in (*_parts(), _SOURCES / "launcher.h"))
    words = "\0".join((platform.machine(), *_OPTIONS))
    return hashlib.sha256(texts + words.encode()).hexdigest()[:32]


def _parts() -> list[Path]:
    return sorted(_SOURCES.glob("*.c"))


def _is_own(status: os.stat_result, kind: int) -> bool:
    """Whether only this user could have written it."""
    is_kind = stat.S_IFMT(status.st_mode) == kind
    return is_kind and status.st_uid == os.geteuid() and not status.st_mode & _OTHERS_MAY_WRITE
