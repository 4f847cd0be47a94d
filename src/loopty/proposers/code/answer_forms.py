"""The forms in which a model may give a change, in words for its prompt, and the choice of one by how usable its
replies were.

Models copy what stands in a form: so a form has no filler, but the path and the lines of the file, and its example
changes a comment alone. A reply that copies the example is recognised as a change of nothing.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import PurePath

from loopty.kit.markers import editable_spans
from loopty.kit.model_text import tokens
from loopty.kit.records import Record
from loopty.proposers.code.options import Operator
from loopty.proposers.code.source_files import FileView, ShownFile
from loopty.proposers.mutation.languages import is_code, language_of
from loopty.record.calls import FormCount

_SHORTEST_LINE = 4
_LONGEST_LINE = 160
_FENCE_NAMES = {
    ".py": "python",
    ".js": "javascript",
    ".ts": "typescript",
    ".rs": "rust",
    ".sh": "bash",
    ".rb": "ruby",
    ".jl": "julia",
    ".h": "c",
    ".cc": "cpp",
    ".hpp": "cpp",
    ".kt": "kotlin",
    ".md": "markdown",
}
_SAME_NAME = frozenset({".c", ".cpp", ".cu", ".go", ".java", ".lua", ".php", ".sql", ".swift", ".toml", ".yaml"})
_DO_NOT_COPY = (
    "This example shows only the form, with a line of the file and a comment that changes nothing. "
    "Do not copy it: write your own change in its place."
)
_COMMENT_SIGNS = ("//", "#", "--", ";", "%", "!")


class Form(StrEnum):
    """A form of answer."""

    BLOCK = "block"
    """The code between the only pair of EVOLVE-BLOCK lines."""
    WHOLE = "whole"
    """Whole files."""
    SEARCH = "search"
    """SEARCH and REPLACE parts."""
    DIFF = "diff"
    """A unified diff."""


def form_text(form: Form, files: FileView) -> str:
    """Say how to give the change, as sentences that follow `Then `."""
    match form:
        case Form.BLOCK:
            return _block_text(block_file(files))
        case Form.WHOLE:
            return _whole_text(files)
        case Form.SEARCH:
            return _search_text(files)
        case Form.DIFF:
            return _diff_text(files)


def block_file(files: FileView) -> ShownFile | None:
    """Return the only writable file, if all of it is shown and one block of it may change; otherwise None."""
    if len(files.writable) != 1:
        return None
    file = next((file for file in files.shown if file.writable), None)
    if file is None or not file.marked or file.line_range:
        return None
    return file if len(editable_spans(file.text)) == 1 else None


def _block_text(file: ShownFile | None) -> str:
    assert file is not None
    span = editable_spans(file.text)[0]
    start = file.text[: span.start].rstrip("\n").rpartition("\n")[2].strip()
    end = file.text[span.end :].partition("\n")[0].strip()
    first = next((line for line in span.part_of(file.text).split("\n") if line.strip()), "")
    now = (
        f" Its first line is `{first.strip()}` now." if 0 < len(first) < _LONGEST_LINE and "`" not in first else ""
    )
    return (
        f"give the new code for {file.path} between the line `{start}` and the line `{end}`: all of that code, "
        f"also the parts that stay as they are, in one fenced block that begins with {_fence(file)} and ends with "
        f"```.{now} Leave out the two EVOLVE-BLOCK lines and everything outside of them."
    )


def _whole_text(files: FileView) -> str:
    shown = [file for file in files.shown if file.writable and not file.line_range]
    file = shown[0]
    longer = (
        " Where a file holds ``` itself, use a longer fence." if any("```" in each.text for each in shown) else ""
    )
    more = " You may add new files in the same way." if files.may_add else ""
    if len(files.writable) == 1:
        return (
            f"give the whole new text of {file.path}, all of its lines, in one fenced block that begins with "
            f"{_fence(file)} and ends with ```.{longer}"
        )
    return (
        "give each file that you change as a whole, all of its lines, in a fenced block of its own, with its "
        f"path on a line above it. For {file.path}, that line is\n\n{file.path}\n\nand the block begins with "
        f"{_fence(file)} and ends with ```.{more}{longer}"
    )


def _search_text(files: FileView) -> str:
    line = _example_line(files)
    if line is None:
        path = sorted(files.writable)[0]
        return (
            f"write a line with the path of a file, such as {path}, below it a line `<<<<<<< SEARCH`, the lines "
            "to replace exactly as the file has them, a line `=======`, the new ones, a line `>>>>>>> REPLACE`."
        )
    example = (
        f"{line.path}\n<<<<<<< SEARCH\n{line.text}\n=======\n{_commented(line.text, line.path)}\n>>>>>>> REPLACE"
    )
    return (
        f"give the change in this form, here for {line.path}:\n\n{example}\n\n{_DO_NOT_COPY} The SEARCH part "
        "has lines exactly as the file has them, enough of them to be found only once; the REPLACE part has the "
        f"new lines. Give as many of these blocks as you need.{_other_files(files)}"
    )


def _diff_text(files: FileView) -> str:
    line = _example_line(files)
    if line is None:
        return _search_text(files)
    before, after = line.lines_around
    body = "".join(f" {text}\n" for text in before) + f"-{line.text}\n+{_commented(line.text, line.path)}\n"
    body += "".join(f" {text}\n" for text in after)
    size = len(before) + len(after) + 1
    at = line.number - len(before)
    header = f"--- a/{line.path}\n+++ b/{line.path}\n@@ -{at},{size} +{at},{size} @@"
    return (
        f"give the change as a unified diff in this form, here for {line.path}:\n\n```diff\n{header}\n{body}"
        f"```\n\n{_DO_NOT_COPY} Lines of the file that stay begin with a space, removed ones with -, new ones "
        f"with +."
    )


def _other_files(files: FileView) -> str:
    if len(files.writable) < 2:
        return ""
    path = sorted(files.writable)[-1]
    words = " Each has the path of its file on the line above it."
    if not files.may_add:
        return words
    return (
        f"{words} An empty SEARCH part makes a new file, and the line `<<<<<<< DELETE {path}` alone would delete "
        f"{path}."
    )


class _ExampleLine(Record):
    """A line of a writable file that occurs once."""

    path: str
    number: int
    """From 1, in the text that is shown."""
    lines: Sequence[str]

    @property
    def text(self) -> str:
        return self.lines[self.number - 1]

    @property
    def lines_around(self) -> tuple[Sequence[str], Sequence[str]]:
        """Return the line before it and the line after it."""
        return self.lines[max(self.number - 2, 0) : self.number - 1], self.lines[self.number : self.number + 1]


def _example_line(files: FileView) -> _ExampleLine | None:
    """Find a line of code to show the form with; None if no file has one."""
    return next((line for file in files.shown if file.writable for line in _usable_lines(file)), None)


def _usable_lines(file: ShownFile) -> Iterator[_ExampleLine]:
    lines = file.text.replace("\r\n", "\n").split("\n")
    try:
        spans = editable_spans(file.text)
    except ValueError:
        return
    at, code = 0, _code_lines(file)
    for number, line in enumerate(lines, start=1):
        inside = any(span.start <= at < span.end for span in spans)
        at += len(line) + 1
        plain = _SHORTEST_LINE <= len(line) <= _LONGEST_LINE and line.isprintable() and "`" not in line
        if inside and plain and number in code and lines.count(line) == 1:
            yield _ExampleLine(file.path, number, lines)


def _code_lines(file: ShownFile) -> set[int]:
    """Return the numbers of the lines that are neither empty nor in a comment or a string of several lines."""
    text = file.text.replace("\r\n", "\n")
    numbers = {number for number, line in enumerate(text.split("\n"), start=1) if line.strip()}
    for hidden in language_of(file.path).hidden.finditer(text):
        first = text.count("\n", 0, hidden.start()) + 1
        if hidden[1] or "\n" in hidden[0] or hidden[0][:3] in ('"""', "'''"):
            numbers -= set(range(first, first + hidden[0].count("\n") + 1))
    return numbers


def _commented(line: str, path: str) -> str:
    """Put a comment behind the line; the line itself if the language of the file is unknown."""
    hidden = language_of(path).hidden
    signs = _COMMENT_SIGNS if is_code(path) else ()
    sign = next((sign for sign in signs if hidden.fullmatch(f"{sign} x")), "")
    return f"{line}  {sign} example" if sign else line


def _fence(file: ShownFile) -> str:
    suffix = PurePath(file.path).suffix.lower()
    return f"```{_FENCE_NAMES.get(suffix, suffix[1:] if suffix in _SAME_NAME else '')}"


# A draw from the posterior of each form, divided by what a reply in it costs, decides. All of a model's replies in
# the run count; the random generator is that of the question.


_LONGEST_WHOLE = 4_000
"""Tokens of the writable files: longer ones are not asked for as a whole, unless they are to be rewritten."""
_SHORT_FILE = 400
"""Tokens of a file that is asked for as a whole, however little of it may change."""
_TOKENS_PER_PRICE = 2_000
"""A reply of this many tokens costs twice as much as an empty one: the trial and the prompt cost as well."""
_PART_OF_FILE = 3
"""A change of some lines is about a third of a small file."""
_PRIOR = {Form.BLOCK: (3, 2), Form.WHOLE: (4, 2), Form.SEARCH: (2, 2), Form.DIFF: (2, 2)}
"""Usable and other replies, about as small models gave them before (docs/models.md)."""


def choose_form(
    rng: random.Random,
    operator: Operator,
    files: FileView,
    counts: Mapping[str, FormCount],
    form: str = "auto",
) -> Form:
    """Choose the form for one question. `form` comes from the task file; `auto` learns."""
    usable = usable_forms(operator, files)
    fixed = Form(form) if form != "auto" else None
    size = sum(tokens(file.text) for file in files.shown if file.writable)

    def form_worth(each: Form) -> float:
        count = counts.get(each, FormCount())
        usual, other = _PRIOR[each]
        return rng.betavariate(usual + count.usable, other + count.asked - count.usable) / _price(each, size)

    return fixed if fixed in usable else max(usable, key=form_worth) if len(usable) > 1 else usable[0]


def usable_forms(operator: Operator, files: FileView) -> list[Form]:
    """List the forms that fit what may change; at least one."""
    shown = [file for file in files.shown if file.writable]
    whole = [file for file in shown if not file.line_range and _is_mostly_editable(file)]
    size = sum(tokens(file.text) for file in shown)
    rewrites = operator in (Operator.REWRITE, Operator.DRAFT)
    forms = [Form.BLOCK] if block_file(files) else []
    if whole and (size <= _LONGEST_WHOLE or rewrites):
        forms.append(Form.WHOLE)
    has_lines = any(file.text.strip() for file in shown)
    if has_lines and not (rewrites and forms):
        forms += [Form.SEARCH, Form.DIFF]
    return forms or [Form.SEARCH]


def _is_mostly_editable(file: ShownFile) -> bool:
    """Say whether it is short, or half of it may change: to repeat a long rest would be a waste, and a risk."""
    if tokens(file.text) <= _SHORT_FILE:
        return True
    try:
        lengths = [len(span.part_of(file.text)) for span in editable_spans(file.text)]
    except ValueError:
        return True
    return sum(lengths) >= len(file.text) / 2


def _price(form: Form, size: int) -> float:
    length = size if form in (Form.BLOCK, Form.WHOLE) else size // _PART_OF_FILE
    return 1 + length / _TOKENS_PER_PRICE
