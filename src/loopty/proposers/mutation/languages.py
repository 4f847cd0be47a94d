"""What an edit without a syntax tree needs to know about a language: comments, strings, operators, statements."""

import functools
import re
from collections.abc import Iterable, Sequence
from pathlib import PurePath

from loopty.kit.records import Record

_QUOTED = r'"(?:\\.|[^"\\\n])*"'
_SINGLE = r"'(?:\\.|[^'\\\n])*'"
_CHARACTER = r"'(?:\\[^'\n]+|[^'\\\n])'"  # no longer strings: Rust's lifetimes carry a lone quote
_BACKTICK = r"`(?:\\.|[^`\\])*`"
_TRIPLE = r'"""(?:\\.|[^\\])*?"""' + r"|'''(?:\\.|[^\\])*?'''"
_LINE_COMMENT = r"//[^\n]*"
_BLOCK_COMMENT = r"/\*.*?(?:\*/|\Z)"
_PREPROCESSOR = r"^[ \t]*#(?![ \t]*define\b)[^\n]*"
_C_COMMENTS = (_LINE_COMMENT, _BLOCK_COMMENT, _PREPROCESSOR)
_HASH = r"#(?<!\S#)[^\n]*"

_ARITHMETIC = "+ - * / %"
_COMPARISONS = "< <= > >= == !="
_C_OPERATORS = (_ARITHMETIC, _COMPARISONS, "=== !==", "+= -= *= /=", "&& ||", "& | ^", "true false")
_WORD_OPERATORS = (_ARITHMETIC, _COMPARISONS, "+= -= *= /=", "and or", "&& ||", "true false", "True False")
_SHELL_TESTS = ("&& ||", "== !=", "-eq -ne -lt -le -gt -ge")
_FORTRAN_OPERATORS = ("+ - * / **", "< <= > >= == /=", ".lt. .le. .gt. .ge.", ".and. .or.", ".true. .false.")


def swaps(*groups: str) -> dict[str, tuple[str, ...]]:
    """Return, for each token, the others of its group."""
    split = [group.split() for group in groups]
    return {token: tuple(other for other in group if other != token) for group in split for token in group}


class Language(Record):
    """The patterns of a language's comments and strings, and of its operators."""

    hidden: re.Pattern[str]
    """Comments and strings: only the match of a comment has a group."""
    swaps: dict[str, tuple[str, ...]]
    operator: re.Pattern[str]
    semicolons: bool = False  # only a line that ends in one is a statement

    def others(self, token: str) -> tuple[str, ...]:
        """Return the tokens that can replace this one, which may be in capitals."""
        return self.swaps.get(token) or self.swaps[token.lower()]


@functools.lru_cache(maxsize=256)
def language_of(path: str) -> Language:
    """Return the language of a file by its extension; plain text, with numbers and lines, if that is unknown."""
    return _BY_EXTENSION.get(PurePath(path).suffix.lower(), _PLAIN)


def is_code(path: str) -> bool:
    """Say whether the file's extension belongs to a language in the table."""
    return PurePath(path).suffix.lower() in _BY_EXTENSION


def _comments_and_strings(comments: Sequence[str], *strings: str) -> re.Pattern[str]:
    # A comment ends with its group, which is empty: where all begin with a sign, Python looks only for the signs.
    return re.compile("|".join((*(f"{comment}()" for comment in comments), *strings)), re.DOTALL | re.MULTILINE)


def _alternatives(tokens: Iterable[str]) -> str:
    return "|".join(map(re.escape, sorted(tokens, key=len, reverse=True))) or "(?!)"


def _infix(tokens: Iterable[str]) -> str:
    """Make a pattern of tokens with spaces on both sides or neither, which skips signs, pointers and generics."""
    symbols = [token for token in tokens if not token.isalpha()]
    compact = _alternatives(symbol for symbol in symbols if symbol not in {"<", ">"})
    words = _alternatives(token for token in tokens if token.isalpha())
    return rf"(?<=\s)(?:{_alternatives(symbols)})(?=\s)|(?<=[\w)\]\"])(?:{compact})(?=[\w(\"$])|\b(?:{words})\b"


def _language(hidden: re.Pattern[str], *groups: str, semicolons: bool = False) -> Language:
    table = swaps(*groups)
    return Language(hidden, table, re.compile(_infix(table), re.IGNORECASE), semicolons)


def _shell() -> Language:
    tests = _alternatives(swaps(*_SHELL_TESTS))
    inside = _infix(swaps(_ARITHMETIC, _COMPARISONS))
    # Outside $((…)) a minus is an option, a slash a path and a star a pattern.
    operator = re.compile(rf"(?<=\s)(?:{tests})(?=\s)|(?:{inside})(?=[^\n]{{0,99}}\)\))")
    hidden = _comments_and_strings([_HASH], _QUOTED, _SINGLE, r"\d?[<>]&?\d?(?=\s|\Z)|>&\d")
    return Language(hidden, swaps(_ARITHMETIC, _COMPARISONS, *_SHELL_TESTS), operator)


def _lisp() -> Language:
    table = swaps("+ - * /", "< <= > >=", "and or")
    hidden = _comments_and_strings([r";[^\n]*", r"#\|.*?(?:\|#|\Z)"], _QUOTED)
    return Language(hidden, table, re.compile(rf"(?<=\()(?:{_alternatives(table)})(?=\s)"))


_C = _comments_and_strings(_C_COMMENTS, _QUOTED, _CHARACTER)
_SCRIPT = _comments_and_strings(_C_COMMENTS, _QUOTED, _SINGLE, _BACKTICK)
_PYTHON = _comments_and_strings([_HASH], _TRIPLE, _QUOTED, _SINGLE)
_FORTRAN = _comments_and_strings([r"![^\n]*", r"^[cC*](?=\s)[^\n]*"], _QUOTED, _SINGLE)
_SQL = _comments_and_strings([r"--[^\n]*", _BLOCK_COMMENT], _QUOTED, _SINGLE)
_LUA = _comments_and_strings([r"--\[\[.*?(?:\]\]|\Z)", r"--[^\n]*"], _QUOTED, _SINGLE)
_PLAIN = _language(_comments_and_strings([_HASH], _QUOTED), "true false", "True False")
_FAMILIES = {
    ".c .h .cc .cpp .cxx .hh .hpp .cu .cuh .cl .java .cs .d .rs .zig .glsl .metal .wgsl": _language(
        _C, *_C_OPERATORS, semicolons=True
    ),
    ".js .mjs .cjs .jsx .ts .tsx .php .dart": _language(_SCRIPT, *_C_OPERATORS, semicolons=True),
    ".go .swift .kt .scala": _language(_SCRIPT, *_C_OPERATORS),
    ".py .pyx .pyi .rb .pl .r .jl .nim": _language(_PYTHON, *_WORD_OPERATORS),
    ".sh .bash .zsh .ksh": _shell(),
    ".f .for .f77 .f90 .f95 .f03 .f08": _language(_FORTRAN, *_FORTRAN_OPERATORS),
    ".sql": _language(_SQL, _ARITHMETIC, "< <= > >= <>", "and or", semicolons=True),
    ".lua": _language(_LUA, _ARITHMETIC, "< <= > >= == ~=", "and or", "true false"),
    ".lisp .lsp .el .clj .scm .ss .rkt": _lisp(),
    ".json": _language(_comments_and_strings([], _QUOTED), "true false", semicolons=True),
}
_BY_EXTENSION = {extension: language for family, language in _FAMILIES.items() for extension in family.split()}
