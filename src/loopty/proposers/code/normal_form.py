"""Code without what makes no difference: comments, and white space around lines."""

from __future__ import annotations

import re

from loopty.proposers.mutation.languages import language_of

_UNKNOWN = language_of("")
_DIRECTIVE = re.compile(r"[#/!*;%\-()|]++ *+(?:[^\w\s]|[\w.-]+:|pragma\b|EVOLVE)")
"""Comments that compilers and tools obey: `!$omp`, `# cython: …`, `//go:build`. Better too many."""


def normalise(text: str, path: str) -> str:
    """The same for two files that differ only in how they look."""
    text = text.replace("\r\n", "\n")
    language = language_of(path)
    if language is _UNKNOWN:
        return "\n".join(line.rstrip() for line in text.split("\n")).strip("\n")
    slashes = language.hidden.match("//") is not None
    # Where # begins a comment, indentation may be syntax.
    seen = str.strip if slashes else str.rstrip
    bare = language.hidden.sub(lambda hidden: " " if _is_comment(hidden[1], slashes) else hidden[0], text)
    return "\n".join(kept for line in bare.split("\n") if (kept := seen(line)))


def _is_comment(text: str | None, slashes: bool) -> bool:
    # Where // begins a comment, # is the preprocessor's or a private name's.
    if text is None or (slashes and not text.startswith(("//", "/*"))):
        return False
    return not _DIRECTIVE.match(text)
