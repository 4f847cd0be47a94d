"""Code without comments and without white space around lines, which make no difference."""

from __future__ import annotations

import re

from loopty.proposers.mutation.languages import language_of

_UNKNOWN = language_of("")
_DIRECTIVE = re.compile(r"[#/!*;%\-()|]++ *+(?:[^\w\s]|[\w.-]+:|pragma\b|EVOLVE)")
"""Comments that compilers and tools obey: `!$omp`, `# cython: …`, `//go:build`. Better too many than too few."""


def normalise(text: str, path: str) -> str:
    """The text in normal form: equal for two files that differ only in comments and white space."""
    text = text.replace("\r\n", "\n")
    language = language_of(path)
    if language is _UNKNOWN:
        return "\n".join(line.rstrip() for line in text.split("\n")).strip("\n")
    slashes = language.hidden.match("//") is not None
    # Where # begins a comment, indentation may be syntax.
    strip = str.strip if slashes else str.rstrip
    bare = language.hidden.sub(lambda hidden: " " if _is_comment(hidden, slashes) else hidden[0], text)
    return "\n".join(stripped for line in bare.split("\n") if (stripped := strip(line)))


def _is_comment(hidden: re.Match[str], slashes: bool) -> bool:
    # Where // begins a comment, # begins a preprocessor directive or a private name.
    if hidden.lastindex is None or (slashes and not hidden[0].startswith(("//", "/*"))):
        return False
    return not _DIRECTIVE.match(hidden[0])
