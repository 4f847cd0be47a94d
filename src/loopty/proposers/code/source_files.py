"""Which files a model is shown, as far as the tokens go: what it may change before what it may only read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from loopty.domain.errors import Misuse
from loopty.kit.markers import Span, editable_spans
from loopty.kit.token_count import tokens
from loopty.proposers.code.node_texts import TextCache, origin_of
from loopty.record.history import History
from loopty.record.node_record import Node

_MAX_FILES = 200
_MIN_TOKENS = 64
_LINES_BEFORE_BLOCK = 20
_MAX_CACHED = 64

ListPaths = Callable[[str], Sequence[str]]


@dataclass(frozen=True, slots=True)
class ShownFile:
    """A file as it is shown, all of it or some of its lines."""

    path: str
    text: str
    writable: bool
    marked: bool = False
    line_range: str = ""
    """Which lines these are, where some are left out."""


@dataclass(frozen=True, slots=True)
class FileView:
    """The files of one node."""

    writable: frozenset[str]
    known: frozenset[str]
    shown: tuple[ShownFile, ...]

    @property
    def only_writable(self) -> str | None:
        """The file that is meant where none is named."""
        return next(iter(self.writable)) if len(self.writable) == 1 else None

    @property
    def not_fully_shown(self) -> frozenset[str]:
        """Files that are not shown, or in part."""
        return self.known - {page.path for page in self.shown if not page.line_range}

    @property
    def not_shown(self) -> list[str]:
        """Paths of which only the name is known, in order."""
        return sorted(self.known - {page.path for page in self.shown})


class FileViews:
    """The shelves of nodes; each is made once."""

    def __init__(self, writable: ListPaths, readable: ListPaths, texts: TextCache, limit_tokens: int) -> None:
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
        """The files of a node that another node has differently, to read."""
        mine, theirs = origin_of(history, node), origin_of(history, other)
        paths = (path for path in {**mine.changed, **theirs.changed} if mine.commit(path) != theirs.commit(path))
        texts = ((path, self._texts.text(mine.commit(path), path)) for path in paths if path.isprintable())
        found = ((path, text) for path, text in texts if text is not None)
        return list(_shown_files(found, frozenset(), self._limit_tokens // 2, ()))

    def _build(self, history: History, node: Node) -> FileView:
        writable, readable = (
            _printable_paths(self._writable(node.commit)),
            _printable_paths(self._readable(node.commit)),
        )
        whence = origin_of(history, node)
        near = frozenset(map(_folder, writable))
        order = [
            *(path for path in whence.changed if path in writable),
            *sorted(writable - whence.changed.keys(), key=_by_depth),
            *sorted(
                readable - writable,
                key=lambda path: (_folder(path) not in near, _by_depth(path)),
            ),
        ]
        texts = ((path, self._texts.text(whence.commit(path), path)) for path in order[:_MAX_FILES])
        found = ((path, text) for path, text in texts if text is not None)
        pages = _shown_files(found, writable, self._limit_tokens, whence.changed)
        return FileView(writable, writable | readable, tuple(pages))


def _printable_paths(paths: Iterable[str]) -> frozenset[str]:
    """What cannot be written on one line cannot be named in a reply."""
    return frozenset(path for path in paths if path.isprintable())


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _by_depth(path: str) -> tuple[int, str]:
    return path.count("/"), path


def _shown_files(
    texts: Iterable[tuple[str, str]], writable: frozenset[str], limit_tokens: int, changed: Iterable[str]
) -> Iterable[ShownFile]:
    left = limit_tokens
    for path, text in texts:
        if left < _MIN_TOKENS:
            return
        marked = _has_marked_blocks(path, text, path in changed) if path in writable else False
        needed = tokens(text)
        if needed <= left:
            page = ShownFile(path, text, path in writable, marked)
        else:
            page = _excerpt(ShownFile(path, text, path in writable, marked), len(text) * (left // 2) // needed)
            needed = tokens(page.text)
        left -= needed
        yield page


def _has_marked_blocks(path: str, text: str, changed: bool) -> bool:
    """Whether only blocks of the file may change; raises Misuse where the user's markers do not pair."""
    try:
        return editable_spans(text) != (Span(0, len(text)),)
    except ValueError as error:
        if changed:
            return False
        raise Misuse(f"{path}, {error}: mend the markers") from None


def _excerpt(file: ShownFile, limit_chars: int) -> ShownFile:
    """As many lines as have room: from the first marked block on, else from the top."""
    lines = file.text.split("\n")
    first = 0
    if file.marked:
        block = editable_spans(file.text)[0].start
        first = max(file.text.count("\n", 0, block) - _LINES_BEFORE_BLOCK, 0)
    last, room = first, limit_chars
    while last < len(lines) and len(lines[last]) < room:
        room -= len(lines[last]) + 1
        last += 1
    shown = "\n".join(lines[first:last])
    return ShownFile(file.path, shown, file.writable, file.marked, f"lines {first + 1} to {last} of {len(lines)}")
