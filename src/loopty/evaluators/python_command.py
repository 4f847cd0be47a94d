"""A benchmark's command as a call of a Python interpreter, where it is one."""

from __future__ import annotations

import re
import shlex

from loopty.kit.records import Record

_SHELL = ("/bin/sh", "-c")
# A line that the shell only splits into words.
_PLAIN_LINE = re.compile(r"[A-Za-z0-9_./:,+@%= -]+")
_PYTHON = re.compile(r"(?:[^-][^\s]*/)?python[0-9.]*")
_OPTIONS = {"-B", "-E", "-I", "-O", "-OO", "-P", "-S", "-s", "-u"}


class PythonCommand(Record):
    """An interpreter with its options, and what it runs: a script, or `-m` and a module, with its arguments."""

    python: tuple[str, ...]
    arguments: tuple[str, ...]

    @classmethod
    def parse(cls, argv: tuple[str, ...]) -> PythonCommand | None:
        """The command as such a call; None when it is another one, or when only a shell can read it."""
        words = list(argv)
        if argv[:2] == _SHELL and len(argv) == 1 + len(_SHELL):
            if not _PLAIN_LINE.fullmatch(argv[2]):
                return None
            words = shlex.split(argv[2])
        if not words or not _PYTHON.fullmatch(words[0]):
            return None
        start = next((place for place, word in enumerate(words[1:], 1) if word not in _OPTIONS), len(words))
        rest = words[start:]
        has_script = bool(rest) and not rest[0].startswith("-")
        has_module = len(rest) > 1 and rest[0] == "-m"
        return cls(tuple(words[:start]), tuple(rest)) if has_script or has_module else None
