"""Where Python code can be edited: the syntax tree gives the places, as positions in the source text."""

import ast
import re
import warnings
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise
from types import CodeType

from loopty.kit.markers import Span
from loopty.proposers.mutation.edit_places import EditPlace, Swap, statements_of
from loopty.proposers.mutation.languages import swaps
from loopty.proposers.mutation.numbers import Number

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
    """Whether the text compiles as Python; nothing is executed."""
    return _compile(text) is not None


def python_places(text: str, editable: Sequence[Span]) -> list[EditPlace] | None:
    """Every editable place, or None when the text is not Python."""
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
        """The whole lines of a statement; None when it shares a line or must not change."""
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
    """The nodes of the tree without imports, type annotations, f-strings and the main guard."""
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
    """Whether it is `if __name__ == …`."""
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
    """The operators between the operands, where brackets and comments are possible, too."""
    for left, right in pairwise(operands):
        matches = _OPERATOR.finditer(source.text, source.span(left).end, source.span(right).start)
        operator = next((match for match in matches if match[1]), None)
        if operator and (others := _SWAPS.get(" ".join(operator[1].split()))):
            yield Swap(Span(*operator.span()), others)
