"""Kept in files between processes: what programs say about themselves, and lines of a journal."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path

from loopty.kit.contents import write_whole
from loopty.kit.safe_folder import SafeFile, SafeFolder

_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


def user_cache(name: str, environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the folder of this name in the user's cache, which may be missing; None for a user without a home."""
    cache = environ.get("XDG_CACHE_HOME", "")
    # The XDG specification says to ignore a relative path.
    above = cache if os.path.isabs(cache) else f"{os.path.expanduser('~')}/.cache"  # noqa: PTH111, PTH117
    return Path(above, "loopty", name) if os.path.isabs(above) else None  # noqa: PTH117


def is_own(status: os.stat_result, kind: int) -> bool:
    """Say whether this is of the kind, belongs to this user, and no other user can change it."""
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


# Only where we know what an answer depends on: a compiled program and the file beside it that makes it part of an
# environment, or a shim of pyenv with what pyenv reads to choose a version. Other programs are asked each time.


_SECONDS = 60
"""A busy machine may take long to start a program, and without its answer it would look like another machine."""
_MOST_KEPT = 64
_HEAD_BYTES = 4096
_PYENV_ROOT = re.compile(rb'^export PYENV_ROOT="(/[^"\n]+)"$', re.MULTILINE)


class ProgramAnswers:
    """The answers that are known, in a file of ours or in this process alone."""

    def __init__(self, file: SafeFile | None = None) -> None:
        self._file = file
        self._known: dict[str, str] | None = None

    def output(self, *argv: str, folder: str | None = None) -> str:
        """Return what a program prints in a folder, by default here; empty if it fails, or cannot be started."""
        state = _state(argv[0])
        key = None if state is None else json.dumps([argv, folder, state])
        if key is not None and (known := self._all().get(key)) is not None:
            return known
        answer = _ask(argv, folder)
        if key is not None and answer:
            self._keep(key, answer)
        return answer

    def first_line(self, *argv: str) -> str:
        """Return the first line that a program prints outside all repositories: it could read files of theirs."""
        return self.output(*argv, folder="/").strip().partition("\n")[0]

    def _all(self) -> dict[str, str]:
        if self._known is None:
            try:
                found = json.loads(self._file.read()) if self._file else {}
            except (OSError, ValueError):
                found = {}
            is_sound = isinstance(found, dict) and all(isinstance(answer, str) for answer in found.values())
            self._known = found if is_sound else {}
        return self._known

    def _keep(self, key: str, answer: str) -> None:
        known = self._all()
        known[key] = answer
        while len(known) > _MOST_KEPT:
            del known[next(iter(known))]
        if self._file:
            try:
                self._file.write(json.dumps(known).encode())
            except OSError:
                return  # it is asked again


def _ask(argv: tuple[str, ...], folder: str | None) -> str:
    try:
        result = subprocess.run(
            argv, capture_output=True, text=True, errors="replace", timeout=_SECONDS, cwd=folder
        )
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return ""
    return result.stdout if result.returncode == 0 else ""


def _state(program: str) -> list[object] | None:
    """List all that the answers of a program depend on; None if we cannot know it."""
    real = os.path.realpath(program)
    try:
        with Path(real).open("rb") as file:
            head = file.read(_HEAD_BYTES)
    except OSError:
        return None
    if head.startswith(b"\x7fELF"):
        folder = Path(program).absolute().parent
        return [_identity(path) for path in (real, f"{folder}/pyvenv.cfg", f"{folder}/../pyvenv.cfg")]
    if (root := _PYENV_ROOT.search(head)) and b"/libexec/pyenv" in head:
        return [_identity(real), *_pyenv_choice(os.fsdecode(root[1]))]
    return None


def _pyenv_choice(root: str) -> Iterator[object]:
    """Yield what pyenv reads to choose a version."""
    yield sorted(item for item in os.environ.items() if item[0].startswith(("PYENV", "VIRTUAL_ENV")))
    yield [_identity(f"{root}/{name}") for name in ("version", "versions", "libexec/pyenv")]
    here = Path.cwd()
    yield [_identity(str(folder / ".python-version")) for folder in (here, *here.parents)]


def _identity(path: str) -> list[object]:
    """Tell which file there is, and when it was last changed."""
    try:
        found = os.stat(path)  # noqa: PTH116 - paths as text, for a few hundred nanoseconds each
    except OSError:
        return [path]
    return [path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns]


class Journal:
    """A new file of this process; creates its folder if it is missing."""

    def __init__(self, folder: SafeFolder, name: str) -> None:
        self._place = folder.file(name)
        self._file = self._place.open(os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL)
        weakref.finalize(self, os.close, self._file)
        self._size = 0
        with folder.handle() as descriptor:
            os.fsync(descriptor)

    def append(self, line: bytes) -> int:
        """Append a line, which contains no line break, and return where it begins.

        After an OSError half of the line may be in the file.
        """
        start = self._size
        write_whole(self._file, line + b"\n")
        os.fdatasync(self._file)
        self._size += len(line) + 1
        return start

    def line_at(self, start: int) -> bytes:
        """Return the line that begins at this position; empty if the file is gone."""
        try:
            with os.fdopen(self._place.open(os.O_RDONLY), "rb") as file:
                file.seek(start)
                return file.readline()
        except OSError:
            return b""
