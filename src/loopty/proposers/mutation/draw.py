"""Draw one mutation: the places of Python, of any language by its tokens, or of prose where an edit can be made,
and the resulting text.
"""

from __future__ import annotations

import ast
import random
import re
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import groupby, pairwise
from pathlib import PurePath
from types import CodeType
from typing import ClassVar

from loopty.kit.markers import Span, editable_spans, line_label
from loopty.kit.records import Record
from loopty.proposers.mutation.edit_places import (
    Edit,
    EditKind,
    EditPlace,
    Number,
    Statement,
    Swap,
    apply_edits,
    is_number,
    statements_of,
)
from loopty.proposers.mutation.languages import Language, is_code, language_of, swaps

_WEIGHTS: dict[EditKind, float] = {
    "number": 0.6,
    "operator": 0.2,
    "statement": 0.2,
    # Only prose has these, and then no operators or statements.
    "passage": 0.6,
    "word": 0.3,
}
_MAX_DRAWS = 20  # most edits leave the program valid, so the first draw is nearly always enough
_ONE_MORE_CHANCE = 0.3  # the chance of one more edit
_MAX_EDITS = 3


class Mutation(Record):
    """A text with one to three edits, all of one kind, so that a result can be credited to the kind."""

    text: str
    summary: str
    operator: EditKind


def mutate(
    text: str, path: str, rng: random.Random, bias: Callable[[str], float] = lambda _: 1.0
) -> Mutation | None:
    """Make one seeded mutation inside the marked blocks, or None when nothing can be changed.

    `bias` says how much more often than usual a kind of edit is drawn.

    Python that compiles still compiles afterwards. Raises ValueError when the markers are malformed.
    """
    editable = editable_spans(text)
    python = python_places(text, editable) if path.endswith(".py") else None
    places = _by_kind(_places(text, path, editable) if python is None else python)
    kinds = [kind for kind in _WEIGHTS if places[kind]]
    for _ in range(_MAX_DRAWS if kinds else 0):
        kind = rng.choices(kinds, [_WEIGHTS[kind] * bias(kind) for kind in kinds])[0]
        edits = _without_overlaps(_draw_edits(text, places[kind], rng))
        mutated = apply_edits(text, edits)
        if mutated != text and (python is None or compiles(mutated)):
            return Mutation(mutated, "; ".join(edit.summary for edit in edits), kind)
    return None


def _places(text: str, path: str, editable: Sequence[Span]) -> list[EditPlace]:
    """List places of code by its tokens and lines; of prose, or if there are none, by sentences and words."""
    tokens = token_places(text, path, editable)
    if is_prose(path):
        return [place for place in tokens if place.kind == "number"] + text_places(text, editable)
    return tokens or (text_places(text, editable) if not is_code(path) else [])


def _by_kind(places: Iterable[EditPlace]) -> dict[EditKind, list[EditPlace]]:
    by_kind: dict[EditKind, list[EditPlace]] = {kind: [] for kind in _WEIGHTS}
    for place in places:
        by_kind[place.kind].append(place)
    return by_kind


def _draw_edits(text: str, places: Sequence[EditPlace], rng: random.Random) -> list[Edit]:
    count = 1
    while count < _MAX_EDITS and rng.random() < _ONE_MORE_CHANCE:
        count += 1
    drawn = (place.edit(text, rng) for place in rng.sample(places, min(count, len(places))))
    return sorted(edit for edit in drawn if edit)


def _without_overlaps(edits: Iterable[Edit]) -> list[Edit]:
    """Return the edits, in order, that do not overlap an earlier one."""
    separate: list[Edit] = []
    for edit in edits:
        if not separate or separate[-1].span.end <= edit.span.start:
            separate.append(edit)
    return separate


_SWAPS = {
    **swaps("+ - * / // % **", "& | ^", "<< >>", "< <= > >= == !=", "and or"),
    **swaps("+= -= *= /= //= %= **=", "&= |= ^=", "<<= >>="),
    "in": ("not in",),
    "not in": ("in",),
    "is": ("is not",),
    "is not": ("is",),
}
_OPERATOR = re.compile(r"#[^\r\n]*|(is\s+not\b|not\s+in\b|[a-z]+|[-+*/%<>=!&|^@]+)")
_REST_OF_LINE = re.compile(r"[ \t\f]*(?:#[^\r\n]*)?(?=[\r\n]|\Z)")
_BLOCKS = ("body", "orelse", "finalbody")
_TYPES = {"annotation", "returns"}
# By name, because template strings came with Python 3.14.
_CLOSED = {"Import", "ImportFrom", "JoinedStr", "TemplateStr"}
_FIXED = {"FunctionDef", "AsyncFunctionDef", "ClassDef", "Global", "Nonlocal", "Pass", *_CLOSED}


def compiles(text: str) -> bool:
    """Say whether the text compiles as Python; nothing is executed."""
    return _compile(text) is not None


def python_places(text: str, editable: Sequence[Span]) -> list[EditPlace] | None:
    """List every editable place, or None when the text is not Python."""
    tree = _compile(text, ast.PyCF_ONLY_AST)
    if not isinstance(tree, ast.Module):
        return None
    source = _Source(text)
    places: list[EditPlace] = []
    for node in _editable_nodes(tree):
        places += (token for token in _token_places(node, source) if token.span.is_within(editable))
        for block in (getattr(node, name) for name in _BLOCKS if name in node._fields):
            if isinstance(block, list):
                places += statements_of([source.line_span(statement) for statement in block], editable, text)
    return places


def _compile(text: str, flags: int = 0) -> CodeType | ast.Module | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            code: CodeType | ast.Module = compile(text, "<mutation>", "exec", flags, dont_inherit=True)
            return code
    except (SyntaxError, ValueError, RecursionError, MemoryError, OverflowError):
        return None


class _Source:
    """Source text, addressed by the positions of the syntax tree, whose columns count UTF-8 bytes."""

    def __init__(self, text: str) -> None:
        data = text.encode()
        self.text = text
        self._lines = [0, *(match.end() for match in re.finditer(rb"\r\n|\r|\n", data))]
        self._continuations = [match.start() for match in re.finditer(rb"[\x80-\xbf]", data)]

    def _position(self, line: int, column: int) -> int:
        byte = self._lines[line - 1] + column
        return byte - bisect_left(self._continuations, byte)

    def span(self, node: ast.expr | ast.stmt) -> Span:
        end_line, end_column = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        return Span(self._position(node.lineno, node.col_offset), self._position(end_line, end_column))

    def line_span(self, statement: ast.stmt) -> Span | None:
        """Return the whole lines of a statement; None when it shares a line or must not change."""
        is_docstring = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if is_docstring or type(statement).__name__ in _FIXED or _is_guard(statement):
            return None
        start, end = self.span(statement)
        first = self._position(statement.lineno, 0)
        rest = _REST_OF_LINE.match(self.text, end)
        if rest is None or self.text[first:start].strip() or self.text.startswith("elif", start):
            return None
        return Span(first, rest.end())


def _editable_nodes(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of the tree without imports, type annotations, f-strings and the main guard."""
    stack = [tree]
    while stack:
        node = stack.pop()
        if type(node).__name__ in _CLOSED or _is_guard(node):
            continue
        yield node
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, list):
                stack += (child for child in value if isinstance(child, ast.AST))
            elif isinstance(value, ast.AST) and name not in _TYPES:
                stack.append(value)


def _is_guard(node: ast.AST) -> bool:
    """Say whether it is `if __name__ == …`."""
    if not isinstance(node, ast.If) or not isinstance(node.test, ast.Compare):
        return False
    return isinstance(node.test.left, ast.Name) and node.test.left.id == "__name__"


def _token_places(node: ast.AST, source: _Source) -> Iterator[Number | Swap]:
    match node:
        case ast.Constant(value=bool(value)):
            yield Swap(source.span(node), (str(not value),))
        case ast.Constant(value=int() | float() | complex()):
            yield Number(source.span(node))
        case ast.BinOp(left=ast.Constant(value=str() | bytes()) | ast.JoinedStr(), op=ast.Mod()):
            return  # text formatting
        case ast.BinOp(left=left, right=right) | ast.AugAssign(target=left, value=right):
            yield from _operator_places([left, right], source)
        case ast.Compare(left=left, comparators=others):
            yield from _operator_places([left, *others], source)
        case ast.BoolOp(values=operands):
            yield from _operator_places(operands, source)


def _operator_places(operands: Sequence[ast.expr], source: _Source) -> Iterator[Swap]:
    """Yield the operators between the operands, where brackets and comments are possible, too."""
    for left, right in pairwise(operands):
        matches = _OPERATOR.finditer(source.text, source.span(left).end, source.span(right).start)
        operator = next((match for match in matches if match[1]), None)
        if operator and (others := _SWAPS.get(" ".join(operator[1].split()))):
            yield Swap(Span(*operator.span()), others)


# The digits of x1, x.0 and $1 are not numbers; in 0..10 and 1.max(2) the dot is not part of the number.
_NUMBER = re.compile(
    r"(?<![\w$])(?:(?<![^.]\.)\d|(?<![.)\]])\.\d)(?:[eEdD][+-](?=\d)|'(?=\d)|\.(?!\.|[A-Za-z_]{2})|\w)*"
)
_DECLARATION = re.compile(r"\w+\s+\w")
_BLOCK_WORD = re.compile(
    r"(?:begin|break|case|catch|class|contains|continue|def|default|do|done|elif|else|elseif|end\w*|esac|except"
    r"|exit|export|fi|finally|for|from|func|function|if|implicit|import|include|let|local|loop|module|package"
    r"|program|return|select|subroutine|switch|then|try|type|until|use|using|var|when|where|while|with)\b",
    re.IGNORECASE,
)
_UNFINISHED = re.compile(r".*(?:[-\\&,(\[{=+*/|<>:.]|\b(?:do|then|and|or|not|in))\Z")


def token_places(text: str, path: str, editable: Sequence[Span]) -> list[EditPlace]:
    """List every editable place."""
    language = language_of(path)
    code = _code(text, language)
    # The minus in 1e-5 belongs to the number.
    without_numbers = _NUMBER.sub(lambda match: "0" * len(match[0]), code)
    places: list[EditPlace] = []
    for span in editable:
        numbers = [Span(*match.span()) for match in _NUMBER.finditer(code, *span)]
        places += (Number(number) for number in numbers if is_number(number.part_of(code)))
        operators = language.operator.finditer(without_numbers, *span)
        places += (Swap(Span(*match.span()), language.others(match[0])) for match in operators)
    places += _statements(text, code, language, editable)
    return places


def _code(text: str, language: Language) -> str:
    """Return the text with blanks for comments and quotes for strings, of the same length.

    Line ends inside them are replaced, too, so that no token spans two lines of the result.
    """
    return language.hidden.sub(lambda hidden: (" " if hidden.lastindex else '"') * len(hidden[0]), text)


def _statements(text: str, code: str, language: Language, editable: Sequence[Span]) -> Iterator[Statement]:
    """Yield the statements; a run of neighbouring lines that are each a statement counts as a block."""
    lines: list[tuple[bool, Span]] = []
    begins = True
    for match in re.finditer(r"[^\n]+", code):
        line = match[0].strip()
        if line:
            is_statement = begins and (_is_terminated(line) if language.semicolons else _is_bare_statement(line))
            # Look in the text, because a comment hides the carriage return after it.
            end = match.end() - text.endswith("\r", *match.span())
            lines.append((is_statement, Span(match.start(), end)))
            begins = line[-1] in ";{}:" if language.semicolons else not _UNFINISHED.match(line)
    for is_statement, run in groupby(lines, key=lambda line: line[0]):
        if is_statement:
            yield from statements_of([span for _, span in run], editable, text)


def _is_terminated(line: str) -> bool:
    """Say whether the line is a whole statement that ends in a semicolon, and no declaration."""
    return line.endswith(";") and _is_balanced(line) and line[0] not in "#}" and not _DECLARATION.match(line)


def _is_bare_statement(line: str) -> bool:
    """Say whether the line is a complete statement in a language without semicolons."""
    return (
        (line[0].isalnum() or line[0] in "_$(@*")
        and _is_balanced(line)
        and not _BLOCK_WORD.match(line)
        and not _UNFINISHED.match(line)
        and "::" not in line
    )


def _is_balanced(line: str) -> bool:
    return all(line.count(opening) == line.count(closing) for opening, closing in ("()", "[]", "{}"))


# So a prompt has a random control, too.


_TEXTS = frozenset(
    [
        ".md",
        ".markdown",
        ".txt",
        ".text",
        ".rst",
        ".adoc",
        ".tex",
        ".prompt",
        ".jinja",
        ".jinja2",
        ".j2",
        ".tmpl",
        ".mustache",
    ]
)
# A sentence ends with its line, or after a mark that a blank follows.
_SENTENCE = re.compile(r"\S(?:[^\n.!?]|[.!?](?!\s))*[.!?]*")
_WORD = re.compile(r"(?<!\S)[^\W\d_][\w'’-]*(?!\S)")
_FEWEST_SENTENCES = 2


def is_prose(path: str) -> bool:
    """Say whether the file is text for people or models, by its extension."""
    return PurePath(path).suffix.lower() in _TEXTS


class Passage(Record):
    """A sentence that can be left out, said twice, or said after the next one."""

    kind: ClassVar[EditKind] = "passage"
    span: Span
    following: Span | None
    is_only: bool
    """Without it nothing would be left."""

    def edit(self, text: str, rng: random.Random) -> Edit | None:
        moves = ["duplicate"] + ["delete"] * (not self.is_only) + ["swap"] * (self.following is not None)
        move, own = rng.choice(moves), self.span.part_of(text)
        summary = f"{move} passage {line_label(text, self.span.start)}"
        if move == "delete":
            return Edit(self.span, "", summary)
        if move == "duplicate" or self.following is None:
            return Edit(self.span, f"{own} {own}", summary)
        between = text[self.span.end : self.following.start]
        return Edit(
            Span(self.span.start, self.following.end), self.following.part_of(text) + between + own, summary
        )


class Word(Record):
    """A word that can be left out, or change places with the next one."""

    kind: ClassVar[EditKind] = "word"
    span: Span
    following: Span | None

    def edit(self, text: str, rng: random.Random) -> Edit | None:
        label, own = line_label(text, self.span.start), self.span.part_of(text)
        if self.following is None or rng.random() < 0.5:
            end = self.span.end + (text[self.span.end : self.span.end + 1] == " ")
            return Edit(Span(self.span.start, end), "", f"delete word {own} {label}")
        between, other = text[self.span.end : self.following.start], self.following.part_of(text)
        both = Span(self.span.start, self.following.end)
        return Edit(both, other + between + own, f"swap words {own} and {other} {label}")


def text_places(text: str, editable: Sequence[Span]) -> list[EditPlace]:
    """List every sentence and word of the editable text."""
    sentences = [Span(*match.span()) for span in editable for match in _SENTENCE.finditer(text, *span)]
    words = [Span(*match.span()) for span in editable for match in _WORD.finditer(text, *span)]
    is_only = len(sentences) < _FEWEST_SENTENCES
    passages = (Passage(span, following, is_only) for span, following in _with_following(sentences, editable))
    return [*passages, *(Word(span, following) for span, following in _with_following(words, editable))]


def _with_following(spans: list[Span], editable: Sequence[Span]) -> Iterator[tuple[Span, Span | None]]:
    for span, following in pairwise([*spans, None]):
        assert span is not None
        both = following and Span(span.start, following.end)
        yield span, following if both and both.is_within(editable) else None
