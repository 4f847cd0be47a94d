"""Which files a model is shown, as far as the tokens go: what it may change before what it may only read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from loopty.domain.errors import Misuse
from loopty.kit.markers import Span, editable_spans
from loopty.kit.token_count import tokens
from loopty.proposers.code.node_texts import Texts, origin
from loopty.record.history import History
from loopty.record.node_record import Node

_MOST_FILES = 200
_LEAST_TOKENS = 64
_BEFORE_BLOCK = 20
_KEPT = 64

Listing = Callable[[str], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Page:
    """A file as it is shown, all of it or some of its lines."""

    path: str
    text: str
    writable: bool
    marked: bool = False
    lines: str = ""
    """Which lines these are, where some are left out."""


@dataclass(frozen=True, slots=True)
class Shelf:
    """The files of one node."""

    writable: frozenset[str]
    known: frozenset[str]
    pages: tuple[Page, ...]

    @property
    def sole(self) -> str | None:
        """The file that is meant where none is named."""
        return next(iter(self.writable)) if len(self.writable) == 1 else None

    @property
    def unseen(self) -> frozenset[str]:
        """Files that are not shown, or in part."""
        return self.known - {page.path for page in self.pages if not page.lines}

    @property
    def unshown(self) -> list[str]:
        """Paths of which only the name is known, in order."""
        return sorted(self.known - {page.path for page in self.pages})


class Sources:
    """The shelves of nodes; each is made once."""

    def __init__(self, writable: Listing, readable: Listing, texts: Texts, most_tokens: int) -> None:
        self._writable = writable
        self._readable = readable
        self._texts = texts
        self._most_tokens = most_tokens
        self._shelves: dict[str, Shelf] = {}

    def shelf(self, history: History, node: Node) -> Shelf:
        if node.commit not in self._shelves:
            if len(self._shelves) >= _KEPT:
                del self._shelves[next(iter(self._shelves))]
            self._shelves[node.commit] = self._made(history, node)
        return self._shelves[node.commit]

    def differing(self, history: History, node: Node, other: Node) -> list[Page]:
        """The files of a node that another node has differently, to read."""
        mine, theirs = origin(history, node), origin(history, other)
        paths = (path for path in {**mine.changed, **theirs.changed} if mine.commit(path) != theirs.commit(path))
        texts = ((path, self._texts.text(mine.commit(path), path)) for path in paths if path.isprintable())
        found = ((path, text) for path, text in texts if text is not None)
        return list(_pages(found, frozenset(), self._most_tokens // 2, ()))

    def _made(self, history: History, node: Node) -> Shelf:
        writable, readable = _printable(self._writable(node.commit)), _printable(self._readable(node.commit))
        whence = origin(history, node)
        near = frozenset(map(_folder, writable))
        order = [
            *(path for path in whence.changed if path in writable),
            *sorted(writable - whence.changed.keys(), key=_by_depth),
            *sorted(
                readable - writable,
                key=lambda path: (_folder(path) not in near, _by_depth(path)),
            ),
        ]
        texts = ((path, self._texts.text(whence.commit(path), path)) for path in order[:_MOST_FILES])
        found = ((path, text) for path, text in texts if text is not None)
        pages = _pages(found, writable, self._most_tokens, whence.changed)
        return Shelf(writable, writable | readable, tuple(pages))


def _printable(paths: Iterable[str]) -> frozenset[str]:
    """What cannot be written on one line cannot be named in a reply."""
    return frozenset(path for path in paths if path.isprintable())


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _by_depth(path: str) -> tuple[int, str]:
    return path.count("/"), path


def _pages(
    texts: Iterable[tuple[str, str]], writable: frozenset[str], most: int, changed: Iterable[str]
) -> Iterable[Page]:
    left = most
    for path, text in texts:
        if left < _LEAST_TOKENS:
            return
        marked = _marked(path, text, path in changed) if path in writable else False
        needed = tokens(text)
        if needed <= left:
            page = Page(path, text, path in writable, marked)
        else:
            page = _part(Page(path, text, path in writable, marked), len(text) * (left // 2) // needed)
            needed = tokens(page.text)
        left -= needed
        yield page


def _marked(path: str, text: str, changed: bool) -> bool:
    """Whether only blocks of the file may change; raises Misuse where the user's markers do not pair."""
    try:
        return editable_spans(text) != (Span(0, len(text)),)
    except ValueError as error:
        if changed:
            return False
        raise Misuse(f"{path}, {error}: mend the markers") from None


def _part(page: Page, limit: int) -> Page:
    """As many lines as have room: from the first marked block on, else from the top."""
    lines = page.text.split("\n")
    first = 0
    if page.marked:
        block = editable_spans(page.text)[0].start
        first = max(page.text.count("\n", 0, block) - _BEFORE_BLOCK, 0)
    last, room = first, limit
    while last < len(lines) and len(lines[last]) < room:
        room -= len(lines[last]) + 1
        last += 1
    shown = "\n".join(lines[first:last])
    return Page(page.path, shown, page.writable, page.marked, f"lines {first + 1} to {last} of {len(lines)}")
