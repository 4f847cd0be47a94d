"""A list of facts: names in one column, what is said of them in the next."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from loopty.report.columns import wrap
from loopty.report.terminal import Terminal

NAME_COLUMNS = 10
"""Columns of the longest name."""


@dataclass(frozen=True, slots=True)
class Fact:
    name: str
    text: str
    style: str = ""


def fact_lines(facts: Iterable[Fact], columns: int, look: Terminal) -> list[str]:
    lines = []
    for fact in facts:
        first, *more = wrap(fact.text, max(columns - NAME_COLUMNS - 2, 1))
        lines.append(look.paint(f"  {fact.name:<{NAME_COLUMNS}}", "dim") + look.paint(first, fact.style))
        lines += [" " * (NAME_COLUMNS + 2) + look.paint(line, fact.style) for line in more]
    return lines
