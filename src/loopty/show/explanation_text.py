"""The explanation of a failed trial, as text."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

from loopty.show.explanation import Cause, Explanation
from loopty.show.terminal import Fact, Terminal, cut, printable_line, wrap

_MAX_LINES = 5


def explanation_text(
    found: Explanation, columns: int = 80, terminal: Terminal | None = None, folder: Path | None = None
) -> str:
    """Format the error, the cause, the lines to paste, and the path of the log, relative to `folder`."""
    terminal = terminal or Terminal()
    # A single line is the reason itself, which was said before.
    shown = found.lines[:_MAX_LINES] if len(found.lines) > 1 else ()
    lines = [terminal.paint(f"  | {cut(line, columns - 4)}", "dim") for line in shown]
    if found.cause:
        lines += wrap(f"cause: {found.cause.sentence}", columns)
        lines += _remedy_lines(found.cause, columns, terminal)
    if found.log:
        lines.append(f"full output: {_path_text(found.log, folder)}")
    return terminal.render("\n".join(lines))


def explanation_facts(found: Explanation, folder: Path | None = None) -> Iterator[Fact]:
    """Yield the explanation as facts of a node or a run."""
    for number, line in enumerate(found.lines[:_MAX_LINES]):
        yield Fact("error" if number == 0 else "", line.strip(), "dim")
    if found.cause:
        yield Fact("cause", found.cause.sentence, "warn")
        yield from _remedy_facts(found.cause)
    if found.log:
        yield Fact("log", _path_text(found.log, folder), is_whole=True)


def _remedy_facts(cause: Cause) -> Iterator[Fact]:
    for place, settings in groupby(cause.settings, key=lambda item: item.place):
        yield Fact("remedy", f"in loopty.toml, under {place}:")
        yield from (Fact("", item.line, "strong", is_whole=True) for item in settings)
    if cause.shell:
        yield Fact("or" if cause.settings else "remedy", "run:")
        yield Fact("", cause.shell, "strong", is_whole=True)
    if cause.advice:
        yield Fact("or" if cause.settings else "remedy", cause.advice)


def _remedy_lines(cause: Cause, columns: int, terminal: Terminal) -> Iterator[str]:
    for place, settings in groupby(cause.settings, key=lambda item: item.place):
        # Not wrapped: each line is there to be pasted.
        yield f"remedy: in loopty.toml, under {printable_line(place)}:"
        yield from (terminal.paint(f"  {printable_line(item.line)}", "strong") for item in settings)
    if cause.shell:
        yield f"{'or' if cause.settings else 'remedy'}: run"
        yield terminal.paint(f"  {printable_line(cause.shell)}", "strong")
    if cause.advice:
        yield from wrap(f"{'or' if cause.settings else 'remedy'}: {cause.advice}", columns)


def _path_text(path: str, folder: Path | None) -> str:
    inside = folder is not None and Path(path).is_relative_to(folder)
    return str(Path(path).relative_to(folder)) if folder and inside else path
