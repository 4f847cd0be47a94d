"""Parse a model's reply into changes to files.

A proposal begins with `=== PROPOSAL 1: what it does ===`, which a single proposal may leave out, and ends with the
next heading or with `=== END ===`. It has changes, each below a line with the path of a file:

    <<<<<<< SEARCH            a fence with the whole file      a ```diff fence, which
    lines of the file                                          needs no path above it
    =======
    lines in their place
    >>>>>>> REPLACE

and `<<<<<<< DELETE path` deletes a file. Anything else is prose and ignored. A separator that is out of place is
an error, because it would end up in a program.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterator, Sequence

from loopty.kit.foreign_text import one_line
from loopty.kit.model_text import without_reasoning
from loopty.kit.records import Record
from loopty.proposers.code.reply_edits import Block, Patch, Removal, WholeFile, parse_diff, parse_fault

FileChange = Block | WholeFile | Patch | Removal

SEPARATOR = re.compile(r"^[ \t]*(?:<{5,9} ?SEARCH|={7}|>{5,9} ?REPLACE)[ \t]*$", re.MULTILINE)
"""A line that is never part of a program."""
SEPARATOR_SIGNS = ("SEARCH", "=======", "REPLACE")
"""One of them is in every such line: a text without them need not be searched line by line."""

_LONGEST_REPLY = 1_000_000
_LONGEST_SUMMARY = 160
_LONGEST_IDEA = 480
_LONGEST_CHANGE = 100
_IDEA = re.compile(r"^[\s*#>-]*(IDEA|LIMIT)[\s*]*:[\s*]*(\S.*)$")
_NO_CHANGE = re.compile(r"^[\s*#>`]*NO CHANGE[\s*`]*:[\s*]*(\S.*)", re.DOTALL)
_LONGEST_REASON = 300
_MAX_TITLE_CHARS = 1_000
_MAX_PROSE_LINES = 12
_SENTENCE_END = re.compile(r"(?<=[.!?]) +")
_SAYS_IDEA = re.compile(r"\b(?:idea|choose|will|instead|replac\w+|use|try|change)\b", re.IGNORECASE)
_EDGES = "#*`=>-–:. \t"
# None of these patterns backtracks through a line: a reply may be one endless line.
_RULE = "==="
"""In every heading and every end: most lines have none, and to look for it takes a fifth of the time."""
_HEADING = re.compile(r"[#*\s]*={3,} *PROPOSAL\b *\d*(.*)$", re.IGNORECASE)
_END = re.compile(r"[#*\s]*={3,} *END *=+[*\s]*$", re.IGNORECASE)
_SEARCH = re.compile(r"<{5,9} ?SEARCH\s*$")
_MIDDLE = re.compile(r"={7}\s*$")
_REPLACE = re.compile(r">{5,9} ?REPLACE\s*$")
_DELETE = re.compile(r"<{5,9} ?DELETE\s+(\S.*)$")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})([^`]*)$")
_LABEL = re.compile(r"(?:(?:new|updated|modified) )?(?:file(?:name)?|path)\s*:\s*", re.IGNORECASE)
_WORD = re.compile(r"[^\s`*<>|\"']+")
_LONGEST_PATH = 1_024


class ReplyItem(Record):
    """One proposal of a reply, not yet parsed."""

    title: str
    lines: tuple[str, ...]


EMPTY_ITEM = ReplyItem("", ())


def parse_items(text: str, whole: bool, limit: int) -> list[ReplyItem]:
    """Read at most `limit` proposals of a reply; only the complete ones if it was cut off (not `whole`)."""
    text, whole = text[:_LONGEST_REPLY], whole and len(text) <= _LONGEST_REPLY
    lines = without_reasoning(text).replace("\r\n", "\n").split("\n")
    starts = [index for index, line in enumerate(lines) if _RULE in line and _HEADING.match(line)] or [-1]
    items = []
    for start, stop in zip(starts, [*starts[1:], None], strict=True):
        heading = _HEADING.match(lines[start]) if start >= 0 else None
        body = lines[start + 1 : stop]
        end = next((index for index, line in enumerate(body) if _RULE in line and _END.match(line)), None)
        if whole or stop is not None or end is not None:
            items.append(ReplyItem(heading[1].strip(_EDGES) if heading else "", tuple(body[:end])))
    return items[:limit]


def no_change(text: str) -> str:
    """Return why a reply gives no change, where it says so and nothing else; else an empty text."""
    found = _NO_CHANGE.match(without_reasoning(text[:_LONGEST_REPLY]))
    return one_line(found[1], _LONGEST_REASON) if found and "```" not in text and "<<<<" not in text else ""


def summary(item: ReplyItem, paths: Collection[str]) -> str:
    """Return the model's idea, and what it says limits the result; without them its title, or what it changes."""
    said = {
        found[1]: found[2].strip(_EDGES) for line in item.lines if (found := _IDEA.match(line[:_MAX_TITLE_CHARS]))
    }
    if idea := said.get("IDEA"):
        limit = f" (limit: {said['LIMIT']})" if "LIMIT" in said else ""
        return one_line(f"{idea}{limit}", _LONGEST_IDEA)
    prose = " ".join(itertools.islice(_prose(item.lines), _MAX_PROSE_LINES))[:_MAX_TITLE_CHARS]
    title = item.title or _idea(_SENTENCE_END.split(prose))
    line = one_line(title[:_MAX_TITLE_CHARS].strip(_EDGES), _LONGEST_SUMMARY)
    return line or one_line(f"changes {', '.join(sorted(paths))}{_first_new_line(item)}", _LONGEST_SUMMARY)


def _first_new_line(item: ReplyItem) -> str:
    """Return the first line that a diff or a block adds, where the reply says nothing in words."""
    after = itertools.dropwhile(lambda line: not _MIDDLE.match(line), item.lines)
    added = (line[1:] for line in item.lines if line.startswith("+") and not line.startswith("+++"))
    found = next((line.strip() for line in (*itertools.islice(after, 1, 8), *added) if line.strip()), "")
    return f": {found[:_LONGEST_CHANGE]}" if found and not _REPLACE.match(found) else ""


def _idea(sentences: Sequence[str]) -> str:
    """Return the first sentence that says what is done; the first one if none does."""
    told = [sentence for sentence in sentences if not sentence.rstrip("* ").endswith(":")]
    return next(filter(_SAYS_IDEA.search, told), next(iter(told or sentences), ""))


def parse_changes(item: ReplyItem, known: Collection[str], only_file: str | None) -> list[FileChange]:
    """Read the proposal's changes. `only_file` is meant if no path is given. Raises ProposalFault."""
    changes = list(_ItemParser(item.lines, known, only_file).changes())
    if not changes:
        raise parse_fault(
            "the reply holds no change", "It has no SEARCH/REPLACE block, no file in a fence and no diff."
        )
    return changes


def _prose(lines: tuple[str, ...]) -> Iterator[str]:
    """Yield the lines of prose before the first change."""
    for line in lines:
        if _SEARCH.match(line) or _FENCE.match(line) or _DELETE.match(line):
            return
        if line.strip() and not _path_in(line, ()):
            yield line


class _ItemParser:
    """Reads the lines of one proposal in order."""

    def __init__(self, lines: tuple[str, ...], known: Collection[str], only_file: str | None) -> None:
        self._lines = lines
        self._known = known
        self._only_file = only_file
        self._position = 0
        self._path_above: str | None = None
        self._last_path: str | None = None
        self._wrappers: list[str] = []

    def changes(self) -> Iterator[FileChange]:
        while self._position < len(self._lines):
            line = self._lines[self._position]
            self._position += 1
            if _SEARCH.match(line):
                yield self._read_block()
            elif delete := _DELETE.match(line):
                yield Removal(_path_in(delete[1], self._known) or delete[1].strip())
            elif SEPARATOR.match(line):
                raise parse_fault(f"a separator is out of place: {line.strip()}")
            elif fence := _FENCE.match(line):
                yield from self._read_fence(fence[1], fence[2].strip())
            elif named := _path_in(line, self._known):
                self._path_above = named

    def _read_block(self) -> Block:
        path = self._take_target() or self._last_path
        if not path:
            raise parse_fault("a SEARCH block has no line with the path of a file above it")
        self._last_path = path
        search = self._read_until(_MIDDLE, "=======")
        replace = self._read_until(_REPLACE, ">>>>>>> REPLACE")
        return Block(path, search, replace)

    def _read_until(self, mark: re.Pattern[str], name: str) -> tuple[str, ...]:
        start = self._position
        for index in range(start, len(self._lines)):
            line = self._lines[index]
            if mark.match(line):
                self._position = index + 1
                return self._lines[start:index]
            if SEPARATOR.match(line):
                raise parse_fault(f"a separator is out of place: {line.strip()} before {name}")
        raise parse_fault(f"a SEARCH block is not complete: {name} is missing")

    def _read_fence(self, mark: str, info: str) -> Iterator[FileChange]:
        if not info and self._wrappers and mark.startswith(self._wrappers[-1]):
            self._wrappers.pop()
            return
        if self._is_wrapper():
            self._wrappers.append(mark)
            return
        body = self._read_fence_body(mark)
        if info.split(" ")[0].lower() in ("diff", "patch", "udiff") or _is_diff(body):
            yield from parse_diff(body, self._known)
            self._path_above = None
        elif path := self._take_target(info):
            marked = (line for line in body if line.startswith(("<", ">")))
            if stray := next((line for line in marked if _SEARCH.match(line) or _REPLACE.match(line)), None):
                raise parse_fault(f"a separator is out of place: {stray.strip()} in {path}")
            yield WholeFile(path, body)

    def _is_wrapper(self) -> bool:
        """Say whether the fence just opened only wraps SEARCH blocks."""
        ahead = [line for line in self._lines[self._position : self._position + 4] if line.strip()][:2]
        return any(_SEARCH.match(line) or _DELETE.match(line) for line in ahead)

    def _read_fence_body(self, mark: str) -> tuple[str, ...]:
        start = self._position
        for index in range(start, len(self._lines)):
            fence = _FENCE.match(self._lines[index]) if mark in self._lines[index] else None
            if fence and not fence[2].strip() and fence[1].startswith(mark):
                self._position = index + 1
                return self._lines[start:index]
        raise parse_fault("a fence is not closed")

    def _take_target(self, info: str = "") -> str | None:
        """Take the path of the next change: from the line above, the fence, or the only writable file."""
        words = re.split(r"[\s:=]+", info)
        path = self._path_above or next((word for word in words if word in self._known), None)
        if not path and len(words) > 1:
            path = _path_in(words[-1], self._known)
        self._path_above = None
        return path or self._only_file


def _is_diff(body: tuple[str, ...]) -> bool:
    first = list(itertools.islice(filter(str.strip, body), 2))
    return bool(first) and (
        first[0].startswith("diff --git ")
        or (len(first) > 1 and first[0].startswith("--- ") and first[1].startswith("+++ "))
    )


def _path_in(line: str, known: Collection[str]) -> str | None:
    """Return the path that a line consists of, without its decoration; None when the line is prose."""
    if len(line) > _LONGEST_PATH:
        return None
    bare = line.strip().lstrip("#-*> ")
    if label := _LABEL.match(bare):
        bare = bare[label.end() :]
    bare = bare.strip("*` :").removeprefix("./")
    plain = _WORD.fullmatch(bare) and ("." in bare or "/" in bare) and bare[-1] not in ".,;!?)"
    return bare if bare in known or plain else None
