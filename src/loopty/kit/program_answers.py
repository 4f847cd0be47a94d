"""What programs say about themselves, kept until one changes: an interpreter's start costs more than a trial.

Only where we know what an answer depends on: a compiled program and the file beside it that makes it part of an
environment, or a shim of pyenv with what pyenv reads to choose a version. Other programs are asked each time.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from loopty.kit.safe_folder import SafeFile

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
        """What a program prints in a folder, by default here; empty where it fails, or cannot be started."""
        state = _state(argv[0])
        key = None if state is None else json.dumps([argv, folder, state])
        if key is not None and (known := self._all().get(key)) is not None:
            return known
        answer = _ask(argv, folder)
        if key is not None and answer:
            self._keep(key, answer)
        return answer

    def first_line(self, *argv: str) -> str:
        """The first line of what a program prints outside all repositories, whose files could be read by it."""
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
    """All that the answers of a program depend on; None where we cannot know it."""
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
    """What pyenv reads to choose a version."""
    yield sorted(item for item in os.environ.items() if item[0].startswith(("PYENV", "VIRTUAL_ENV")))
    yield [_identity(f"{root}/{name}") for name in ("version", "versions", "libexec/pyenv")]
    here = Path.cwd()
    yield [_identity(str(folder / ".python-version")) for folder in (here, *here.parents)]


def _identity(path: str) -> list[object]:
    """Which file there is, and when it was last changed."""
    try:
        found = os.stat(path)  # noqa: PTH116 - paths as text, for a few hundred nanoseconds each
    except OSError:
        return [path]
    return [path, found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns]
