"""The programs that commands may call: their words, and those of the scripts and make files that they name."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from loopty.domain.access import is_clean_path

_WORD = re.compile(r"[A-Za-z0-9_.+/-]+")
_PYTHON = re.compile(r"(?:[^-][^\s]*/)?(?:python|pypy)[0-9.]*")
_LARGEST_SCRIPT = 256 << 10
_NAMED_BY_TOOL = {
    "make": ("Makefile", "makefile", "GNUmakefile"),
    "just": ("justfile", "Justfile"),
    "npm": ("package.json",),
    "yarn": ("package.json",),
    "pnpm": ("package.json",),
    "tox": ("tox.ini", "pyproject.toml"),
    "nox": ("noxfile.py",),
}
_FIRST_WORD_OF_TEXT = re.compile(r"[\"'`]([A-Za-z0-9_.+/-]+)")
_PROGRAM_ENDS = (".py", ".js", ".mjs", ".cjs", ".rb")
"""Languages in which a command is the beginning of a text; other words are names and comments."""
_SCRIPT_ENDS = (".sh", ".bash", ".mk", "Makefile", *_PROGRAM_ENDS)


def command_programs(commands: Iterable[str | tuple[str, ...]], top: Path | None) -> frozenset[str]:
    """Every word that may be a program, without its directory. Too many words do no harm: most are no programs."""
    words = {word for command in commands for word in _words(command)}
    if top is not None:
        for file in list(_files(words)):
            pattern = _FIRST_WORD_OF_TEXT if file.endswith(_PROGRAM_ENDS) else _WORD
            words |= set(pattern.findall(_text(top, file)))
    return frozenset(word.rpartition("/")[2] for word in words)


def python_of(command: str | tuple[str, ...]) -> str | None:
    """The interpreter that a command names first, as it names it; None where it names none."""
    return next((word for word in _words(command) if _PYTHON.fullmatch(word)), None)


def _words(command: str | tuple[str, ...]) -> list[str]:
    return _WORD.findall(command if isinstance(command, str) else " ".join(command))


def _files(words: set[str]) -> Iterator[str]:
    for word in sorted(words):
        yield from _NAMED_BY_TOOL.get(word, ())
        if word.endswith(_SCRIPT_ENDS):
            yield word.removeprefix("./")


def _text(top: Path, name: str) -> str:
    path = top / name
    try:
        if not is_clean_path(name) or path.resolve() != path or path.stat().st_size > _LARGEST_SCRIPT:
            return ""
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
