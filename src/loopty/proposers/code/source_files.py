"""The files that a model sees, within a token budget, and the texts of nodes, read once for all that
share a file.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import PurePath

from loopty.domain.errors import LooptyError, Misuse
from loopty.kit.markers import Span, editable_spans
from loopty.kit.model_text import tokens
from loopty.kit.records import Record
from loopty.proposers.mutation.languages import is_code
from loopty.record.history import History
from loopty.record.node_record import Node

_MAX_FILES = 200
_MIN_TOKENS = 64
_LINES_BEFORE_BLOCK = 20
_MAX_CACHED = 64
_MAX_SCANNED = 20_000
"""Characters of a file in which names of other files are looked for."""
_WORD = re.compile(r"\w+")

ListPaths = Callable[[str], Sequence[str]]


class ShownFile(Record):
    """A file in a prompt, whole or as an excerpt."""

    path: str
    text: str
    writable: bool
    marked: bool = False
    line_range: str = ""
    """Which lines an excerpt has; empty for a whole file."""


class FileView(Record):
    """The files of one node as a model sees them."""

    writable: frozenset[str]
    known: frozenset[str]
    shown: tuple[ShownFile, ...]
    may_add: bool = True
    """Whether new files are allowed: not where each editable file is named."""

    @property
    def only_writable(self) -> str | None:
        """Return the only writable file, which a reply means if it names none; None unless there is just one."""
        return next(iter(self.writable)) if len(self.writable) == 1 else None

    @property
    def not_fully_shown(self) -> frozenset[str]:
        """Return the files that are not shown, or only as an excerpt."""
        return self.known - {file.path for file in self.shown if not file.line_range}

    @property
    def not_shown(self) -> list[str]:
        """Return the paths of the files that are not shown, sorted."""
        return sorted(self.known - {file.path for file in self.shown})


class FileViews:
    """The file views of nodes, each built once."""

    def __init__(
        self,
        writable: ListPaths,
        readable: ListPaths,
        texts: TextCache,
        limit_tokens: int,
        may_add: bool = True,
    ) -> None:
        self._may_add = may_add
        self._writable = writable
        self._readable = readable
        self._texts = texts
        self._limit_tokens = limit_tokens
        self._views: dict[str, FileView] = {}

    def of(self, history: History, node: Node) -> FileView:
        if node.commit not in self._views:
            if len(self._views) >= _MAX_CACHED:
                del self._views[next(iter(self._views))]
            self._views[node.commit] = self._build(history, node)
        return self._views[node.commit]

    def different_files(self, history: History, node: Node, other: Node) -> list[ShownFile]:
        """List the files of a node that differ in another node, to read only."""
        mine, theirs = origin_of(history, node), origin_of(history, other)
        paths = (path for path in {**mine.changed, **theirs.changed} if mine.commit(path) != theirs.commit(path))
        texts = ((path, self._texts.text(mine.commit(path), path)) for path in paths if path.isprintable())
        existing = ((path, text) for path, text in texts if text is not None)
        return list(_shown_files(existing, frozenset(), self._limit_tokens // 2, ()))

    def _build(self, history: History, node: Node) -> FileView:
        writable = _printable_paths(self._writable(node.commit))
        readable = _printable_paths(self._readable(node.commit))
        origin = origin_of(history, node)
        near = frozenset(map(_folder, writable))
        order = [
            *(path for path in origin.changed if path in writable),
            *sorted(writable - origin.changed.keys(), key=_by_depth),
            *sorted(
                filter(is_code, readable - writable),
                key=lambda path: (_folder(path) not in near, _by_depth(path)),
            ),
        ]
        texts = ((path, self._texts.text(origin.commit(path), path)) for path in order[:_MAX_FILES])
        existing = [(path, text) for path, text in texts if text is not None]
        shown = _shown_files(_related_first(existing, writable), writable, self._limit_tokens, origin.changed)
        return FileView(writable, writable | readable, tuple(shown), self._may_add)


def _printable_paths(paths: Iterable[str]) -> frozenset[str]:
    """Return the paths that fit on one line: a reply cannot name the others."""
    return frozenset(path for path in paths if path.isprintable())


def _related_first(texts: Sequence[tuple[str, str]], writable: frozenset[str]) -> list[tuple[str, str]]:
    """Put the writable files first, then those that name one of them or are named by one, then the others."""
    stems = {PurePath(path).stem for path in writable}
    named = frozenset[str]().union(*(_words(text) for path, text in texts if path in writable))

    def place(file: tuple[str, str]) -> int:
        path, text = file
        if path in writable:
            return 0
        return 1 if PurePath(path).stem in named or not stems.isdisjoint(_words(text)) else 2

    return sorted(texts, key=place)


@functools.lru_cache(256)  # most files are the same in node after node
def _words(text: str) -> frozenset[str]:
    return frozenset(_WORD.findall(text[:_MAX_SCANNED]))


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _by_depth(path: str) -> tuple[int, str]:
    return path.count("/"), path


def _shown_files(
    texts: Iterable[tuple[str, str]], writable: frozenset[str], limit_tokens: int, changed: Iterable[str]
) -> Iterable[ShownFile]:
    remaining = limit_tokens
    for path, text in texts:
        if remaining < _MIN_TOKENS:
            return
        marked = _has_marked_blocks(path, text, path in changed) if path in writable else False
        file = ShownFile(path, text, path in writable, marked)
        needed = tokens(text)
        if needed > remaining:
            file = _excerpt(file, len(text) * (remaining // 2) // needed)
            needed = tokens(file.text)
        remaining -= needed
        yield file


def _has_marked_blocks(path: str, text: str, changed: bool) -> bool:
    """Say whether only marked blocks of the file may change. Raises Misuse if the user's markers do not pair."""
    try:
        return editable_spans(text) != (Span(0, len(text)),)
    except ValueError as error:
        if changed:
            return False
        raise Misuse(f"{path}, {error}: fix the markers") from None


def _excerpt(file: ShownFile, limit_chars: int) -> ShownFile:
    """Return as many lines as fit, from shortly before the first marked block, or from the top."""
    lines = file.text.split("\n")
    first = 0
    if file.marked:
        block = editable_spans(file.text)[0].start
        first = max(file.text.count("\n", 0, block) - _LINES_BEFORE_BLOCK, 0)
    last, remaining = first, limit_chars
    while last < len(lines) and len(lines[last]) < remaining:
        remaining -= len(lines[last]) + 1
        last += 1
    shown = "\n".join(lines[first:last])
    return ShownFile(file.path, shown, file.writable, file.marked, f"lines {first + 1} to {last} of {len(lines)}")


_MAX_CACHED_TEXTS = 512


class Origin(Record):
    """Where the files of a node come from."""

    base: str
    """The commit with every other file."""
    changed: dict[str, str]
    """The last commit that changed a file, by path, the newest first."""

    def commit(self, path: str) -> str:
        return self.changed.get(path, self.base)


def origin_of(history: History, node: Node) -> Origin:
    """Return the files' origin, back to the baseline or to a node by a person, whose edits are unknown."""
    changed: dict[str, str] = {}
    for ancestor in map(history.__getitem__, reversed(node.id.lineage)):
        parent = ancestor.id.parent
        if parent is None or (not ancestor.edits and ancestor.commit != history[parent].commit):
            break
        for path in ancestor.edits:
            changed.setdefault(path, ancestor.commit)
    return Origin(ancestor.commit, changed)


class TextCache:
    """Reads files of commits, and caches the most recent ones."""

    def __init__(self, read: Callable[[str, str], str | None]) -> None:
        self.text = functools.lru_cache(_MAX_CACHED_TEXTS)(functools.partial(_read_text, read))
        """The text of a file of a commit; None when the file does not exist or is not text."""


def _read_text(read: Callable[[str, str], str | None], commit: str, path: str) -> str | None:
    try:
        return read(commit, path)
    except LooptyError:  # git has no such file
        return None
