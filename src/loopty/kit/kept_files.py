"""Kept in files between processes: what programs say about themselves, long answers, lines of a journal.

Without pathlib until somebody asks for a path: a verb looks here before it imports anything large.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
import subprocess
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from loopty.kit.contents import sha256, write_atomically, write_whole
from loopty.kit.safe_folder import SafeFile, SafeFolder

TYPE_CHECKING = False


if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH


def user_cache(name: str, environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the folder of this name in the user's cache, which may be missing; None for a user without a home."""
    folder = cache_folder(name, environ)
    return None if folder is None else Path(folder)


def cache_folder(name: str, environ: Mapping[str, str] = os.environ) -> str | None:
    """Return the folder of `user_cache` as text."""
    cache = environ.get("XDG_CACHE_HOME", "")
    # The XDG specification says to ignore a relative path.
    above = cache if os.path.isabs(cache) else f"{os.path.expanduser('~')}/.cache"  # noqa: PTH111, PTH117
    return f"{above}/loopty/{name}" if os.path.isabs(above) else None  # noqa: PTH117


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


# No repository can write there, and an answer counts only where no other user could have changed it.


_LARGEST = 1 << 20


class KeptAnswers:
    """The answers in one folder of the cache: as many as were kept last."""

    def __init__(self, folder: str, most: int) -> None:
        self._name = folder
        self._most = most

    def find(self, question: str) -> Any:
        """Find the answer to this question; None if it was not kept, or if another user could have changed it."""
        digest = _digest(question)
        try:
            with os.fdopen(open_own(self._folder(), digest), "rb") as file:
                kept = json.loads(file.read(_LARGEST + 1))
        except (OSError, ValueError, RecursionError):
            return None
        # The digest is in it, too: another file could have been given this name.
        return kept.get("data") if isinstance(kept, dict) and kept.get("digest") == digest else None

    def keep(self, question: str, answer: Any) -> None:
        """Keep the answer, unless JSON cannot hold it, or the cache cannot be written."""
        digest = _digest(question)
        with contextlib.suppress(OSError, TypeError, ValueError, RecursionError):
            content = json.dumps({"digest": digest, "data": answer})
            if len(content) > _LARGEST or repr(json.loads(content)["data"]) != repr(answer):
                return
            folder = self._folder()
            make_own_folder(folder)
            write_atomically(folder, digest, content.encode(), mode=0o600)
            keep_newest(folder, self._most, lambda name: len(name) == len(digest))

    def _folder(self) -> str:
        if (folder := cache_folder(self._name)) is None:
            raise FileNotFoundError("this user has no home")
        return folder


def _digest(question: str) -> str:
    return sha256(question.encode(errors="surrogatepass")).hexdigest()


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
