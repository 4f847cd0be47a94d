"""The change of a small text file as a patch, made in this process: git needs its objects on disk for that.

The form is that of `git diff`: three lines around each change, and beside its place the line that begins the
function. Where lines can be matched in several ways, git may choose another one; both apply.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loopty.kit.records import Record
from loopty.kit.same_ends import same_ends

_CONTEXT = 3
_MOST_LINES = 1_000
"""That have to be matched: git is faster with more."""
_HEAD = 8_000
"""How far git looks for a null byte, which text has not."""
_LONGEST_FUNCTION = 80
_NO_NEWLINE = b"\n\\ No newline at end of file\n"
_PLAIN = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/+=@-")
"""What the paths of most files consist of; git quotes some others."""


class FileVersion(Record):
    """A regular file, as git stores it."""

    mode: str
    blob: str
    content: bytes


class _Change(Record):
    """The lines from `start` to `end` become those from `new_start` to `new_end`."""

    start: int
    end: int
    new_start: int
    new_end: int


def file_patch(path: str, before: FileVersion | None, after: FileVersion | None) -> bytes | None:
    """The patch of a file that is new, changed or gone; None where git has to make it."""
    old, new = before.content if before else b"", after.content if after else b""
    if not set(path) <= _PLAIN or not _is_text(old) or not _is_text(new):
        return None
    if before and after and before.mode != after.mode:
        return None
    lines, new_lines = old.splitlines(keepends=True), new.splitlines(keepends=True)
    changes = _changes(lines, new_lines)
    if changes is None:
        return None
    head = [f"diff --git a/{path} b/{path}\n"]
    if before is None and after:
        head += [f"new file mode {after.mode}\n", f"index {'0' * len(after.blob)}..{after.blob}\n"]
    elif after is None and before:
        head += [f"deleted file mode {before.mode}\n", f"index {before.blob}..{'0' * len(before.blob)}\n"]
    elif before and after:
        head += [f"index {before.blob}..{after.blob} {before.mode}\n"]
    if changes:
        head += [
            f"--- a/{path}\n" if before else "--- /dev/null\n",
            f"+++ b/{path}\n" if after else "+++ /dev/null\n",
        ]
    return b"".join(("".join(head).encode(), *_hunks(lines, new_lines, changes)))


def _is_text(content: bytes) -> bool:
    # Git ends a line at a line feed only, and Python at a carriage return, too.
    return b"\0" not in content[:_HEAD] and b"\r" not in content


def _changes(lines: Sequence[bytes], new_lines: Sequence[bytes]) -> list[_Change] | None:
    """The changes in order; None where too many lines would have to be matched."""
    start, same_end = same_ends(lines, new_lines)
    end, new_end = len(lines) - same_end, len(new_lines) - same_end
    if start == end == new_end:
        return []
    old, new = lines[start:end], new_lines[start:new_end]
    if not set(old) & set(new):
        return [_Change(start, end, start, new_end)]
    if len(old) + len(new) > _MOST_LINES:
        return None
    from difflib import SequenceMatcher  # here: most changes need none

    codes = SequenceMatcher(None, old, new, autojunk=False).get_opcodes()
    return [_Change(start + i, start + j, start + k, start + m) for tag, i, j, k, m in codes if tag != "equal"]


def _hunks(lines: Sequence[bytes], new_lines: Sequence[bytes], changes: Sequence[_Change]) -> Iterator[bytes]:
    index = 0
    while index < len(changes):
        last = index
        while last + 1 < len(changes) and changes[last + 1].start - changes[last].end <= 2 * _CONTEXT:
            last += 1
        yield from _hunk(lines, new_lines, changes[index : last + 1])
        index = last + 1


def _hunk(lines: Sequence[bytes], new_lines: Sequence[bytes], changes: Sequence[_Change]) -> Iterator[bytes]:
    first, last = changes[0], changes[-1]
    before = min(_CONTEXT, first.start)
    after = min(_CONTEXT, len(lines) - last.end)
    start, end = first.start - before, last.end + after
    place = (
        _range(start, end - start),
        _range(first.new_start - before, last.new_end + after - first.new_start + before),
    )
    yield f"@@ -{place[0]} +{place[1]} @@".encode() + _function_before(lines, start) + b"\n"
    at = start
    for change in changes:
        yield from (_line(b" ", line) for line in lines[at : change.start])
        yield from (_line(b"-", line) for line in lines[change.start : change.end])
        yield from (_line(b"+", line) for line in new_lines[change.new_start : change.new_end])
        at = change.end
    yield from (_line(b" ", line) for line in lines[at:end])


def _range(start: int, count: int) -> str:
    """The place of some lines, counted from 1; where there are none, the line before them."""
    if count == 1:
        return str(start + 1)
    return f"{start + 1 if count else start},{count}"


def _line(mark: bytes, line: bytes) -> bytes:
    return mark + line if line.endswith(b"\n") else mark + line + _NO_NEWLINE


def _function_before(lines: Sequence[bytes], start: int) -> bytes:
    """The nearest line above that begins with a letter, `_` or `$`, as git shows it; empty where there is none."""
    for line in reversed(lines[:start]):
        if line[:1].isalpha() or line[:1] in (b"_", b"$"):
            return b" " + line[:_LONGEST_FUNCTION].rstrip()
    return b""
