"""Where code of any language can be edited, by its tokens and lines."""

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

from loopty.kit.markers import Span
from loopty.proposers.mutation.edit_places import EditPlace, Statement, Swap, statements_of
from loopty.proposers.mutation.languages import Language, language_of
from loopty.proposers.mutation.numbers import Number, is_number

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
    """Every editable place."""
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
    """The text with blanks for comments and quotes for strings, of the same length.

    Line ends inside them are replaced, too, so that no token spans two lines of the result.
    """
    return language.hidden.sub(lambda hidden: (" " if hidden.lastindex else '"') * len(hidden[0]), text)


def _statements(text: str, code: str, language: Language, editable: Sequence[Span]) -> Iterator[Statement]:
    """The statements; a run of neighbouring lines that are each a statement counts as a block."""
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
    """Whether the line is a statement that ends in a semicolon, neither a declaration nor part of a larger one."""
    return line.endswith(";") and _is_balanced(line) and line[0] not in "#}" and not _DECLARATION.match(line)


def _is_bare_statement(line: str) -> bool:
    """Whether the line is a complete statement in a language without semicolons."""
    return (
        (line[0].isalnum() or line[0] in "_$(@*")
        and _is_balanced(line)
        and not _BLOCK_WORD.match(line)
        and not _UNFINISHED.match(line)
        and "::" not in line
    )


def _is_balanced(line: str) -> bool:
    return all(line.count(opening) == line.count(closing) for opening, closing in ("()", "[]", "{}"))
