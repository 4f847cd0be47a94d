"""Differences between two commits as patches that `git apply` takes; those of small text files are made in this
process.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import IO

from loopty.git.command import END_OF_OPTIONS, GitCommand, GitError, read_line
from loopty.git.objects import REGULAR_FILES, GitObjects, ObjectStore, TreeEntry
from loopty.kit.markers import same_ends
from loopty.kit.records import Record
from loopty.kit.temporary_folder import temporary_folder

_NO_PROGRAMS = ("--no-ext-diff", "--no-textconv")
_PATCH = (
    *("--patch", *_NO_PROGRAMS, "--no-color", "--binary", "--full-index", "--no-renames", "--src-prefix=a/"),
    *("--dst-prefix=b/", "--diff-algorithm=myers", "--unified=3", "--inter-hunk-context=0", "--indent-heuristic"),
)
_END_OF_PATCH = b"= end of patch ="
"""Git echoes a line that names no object at once, and no line of a patch begins like this."""
_MOST_FILES = 20
_LARGEST = 1 << 20
"""Of the files together, in bytes: git makes the patch of more."""
_PATCH_CONFIG = ("core.compression=6", "diff.suppressBlankEmpty=false")


class GitPatches:
    """Makes patches and applies them to trees."""

    def __init__(self, git: GitCommand, objects: GitObjects, store: ObjectStore) -> None:
        self._git = git
        self._objects = objects
        self._store = store
        self._session = git.open_session("diff-tree", "--stdin", *_PATCH, config=_PATCH_CONFIG)

    def between(self, before: str, after: str) -> bytes:
        """Return the difference between two commits for `git apply`."""
        old, new = self._objects.tree_of(before), self._objects.tree_of(after)
        own = self._small_patch(old, new)
        return self._patch_by_git(old, new) if own is None else own

    def _small_patch(self, before: str, after: str) -> bytes | None:
        """Return the difference between two trees, if that is one of a few small text files; else None."""
        changes = list(islice(self._objects.tree_changes(before, after), _MOST_FILES + 1))
        entries = {entry for change in changes for entry in (change.before, change.after) if entry}
        if len(changes) > _MOST_FILES or any(entry.mode not in REGULAR_FILES for entry in entries):
            return None
        if sum(self._store.sizes(entry.blob for entry in entries).values()) > _LARGEST:
            return None
        versions: dict[TreeEntry | None, FileVersion | None] = {
            entry: FileVersion(entry.mode, entry.blob, self._store.read(entry.blob)) for entry in entries
        }
        changes.sort(key=lambda change: os.fsencode(change.path))
        parts = [
            file_patch(change.path, versions.get(change.before), versions.get(change.after)) for change in changes
        ]
        return None if None in parts else b"".join(filter(None, parts))

    def _patch_by_git(self, before: str, after: str) -> bytes:
        pair = f"{before} {after}\n".encode()

        def read_answer(stream: IO[bytes]) -> bytes:
            lines = []
            while (next_line := read_line(stream)) != _END_OF_PATCH:
                lines.append(next_line + b"\n")
            return b"".join(lines[1:])  # the first names the two trees

        try:
            return self._session.ask(pair + _END_OF_PATCH + b"\n", read_answer)
        except EOFError:
            raise GitError(
                "diff-tree", f"ended before it returned the difference between {before} and {after}"
            ) from None

    def paths_in(self, patch: bytes) -> list[str] | None:
        """List the paths that a patch leaves changed, whatever it is applied to; None if it is no patch."""
        try:
            lines = self._git.run("apply", "--numstat", "-z", "-", stdin=patch).split("\0")
        except GitError:
            return None
        return [line.split("\t", 2)[2] for line in lines if line]

    def apply_to_files(self, files: Mapping[str, TreeEntry], patch: bytes) -> tuple[str, str] | None:
        """Make a tree of these files alone, and the same with this patch; None if the patch does not apply to it.

        A patch may name any file as its source (`copy from`), so what it must not read must not be there.
        """
        lines = b"".join(
            f"{entry.mode} {entry.blob}\t{path}\0".encode(errors="surrogateescape")
            for path, entry in files.items()
        )
        with self._index() as env:
            self._git.run("update-index", "-z", "--index-info", stdin=lines, env=env)
            before = self._git.run("write-tree", env=env).strip()
            return None if (after := self._apply(patch, env)) is None else (before, after)

    def apply_to_tree(self, tree: str, patch: bytes) -> str | None:
        """Return the tree with this patch applied, or None if the patch does not apply."""
        if not patch:
            return tree
        with self._index() as env:
            self._git.run("read-tree", END_OF_OPTIONS, tree, env=env)
            return self._apply(patch, env)

    @contextmanager
    def _index(self) -> Iterator[dict[str, str]]:
        with temporary_folder("index") as folder:
            yield {"GIT_INDEX_FILE": str(Path(folder, "index"))}

    def _apply(self, patch: bytes, env: Mapping[str, str]) -> str | None:
        try:
            self._git.run("apply", "--cached", "--binary", "--whitespace=nowarn", "-", stdin=patch, env=env)
        except GitError:
            return None
        return self._git.run("write-tree", env=env).strip()


# The form is that of `git diff`: three lines around each change, and beside its place the line that begins the
# function. Where lines can be matched in several ways, git may choose another one; both apply.


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
    """Write the patch of a file that is new, changed or gone; None if git has to make it."""
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
    """List the changes in order; None if too many lines would have to be matched."""
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
    """Write the place of some lines, counted from 1; if there are none, the line before them."""
    if count == 1:
        return str(start + 1)
    return f"{start + 1 if count else start},{count}"


def _line(mark: bytes, line: bytes) -> bytes:
    return mark + line if line.endswith(b"\n") else mark + line + _NO_NEWLINE


def _function_before(lines: Sequence[bytes], start: int) -> bytes:
    """Find the nearest line above that begins with a letter, `_` or `$`, as git shows it; empty without one."""
    for line in reversed(lines[:start]):
        if line[:1].isalpha() or line[:1] in (b"_", b"$"):
            return b" " + line[:_LONGEST_FUNCTION].rstrip()
    return b""
