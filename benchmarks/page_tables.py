"""Paired differences as cells of a table, and a table's place between two marks of a page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from loopty.views.arm_comparison import paired_difference


def difference_text(mine: Sequence[float], theirs: Sequence[float]) -> str:
    """The mean difference with its 95 % interval, bold where it excludes zero."""
    found = paired_difference([[one - other for one, other in zip(mine, theirs, strict=True)]])
    text = f"{found.mean:+.3f}"
    if found.low is not None and found.high is not None:
        text += f" [{found.low:+.3f}, {found.high:+.3f}]"
    return f"**{text}**" if found.is_sure else text


def replace_between(page: Path, mark: str, text: str) -> None:
    """Put the text between `<!-- MARK: begin -->` and `<!-- MARK: end -->`."""
    begin, end = f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->"
    before, _, rest = page.read_text().partition(begin)
    page.write_text(f"{before}{begin}\n\n{text}\n\n{end}{rest.partition(end)[2]}")
