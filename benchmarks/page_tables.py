"""Paired differences as cells of a table, and a table's place between two marks of docs/research/search.md."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from loopty.show.arms import paired_difference

_PAGE = Path(__file__).parents[1] / "docs" / "research" / "search.md"


def difference_text(mine: Sequence[float], theirs: Sequence[float]) -> str:
    """The mean difference with its 95 % interval, bold where it excludes zero."""
    found = paired_difference([[one - other for one, other in zip(mine, theirs, strict=True)]])
    text = f"{found.mean:+.3f}"
    if found.low is not None and found.high is not None:
        text += f" [{found.low:+.3f}, {found.high:+.3f}]"
    return f"**{text}**" if found.is_sure else text


def difference_table(
    results: Mapping[str, Sequence[float]],
    first: str,
    rows: Sequence[str],
    strata: Mapping[str, Sequence[Callable[[str], str]]],
    base: str,
) -> list[str]:
    """Lines of a table: for each row the differences to the base in area and final, and the number of pairs.

    A stratum is a list of functions, each from a row's name to the key of its result; pairs without a result of
    both are left out.
    """
    lines = [
        f"| {first} | " + " | ".join(f"{name}: area | final" for name in strata) + " | shapes |",
        "|---|" + "---|" * (2 * len(strata) + 1),
    ]
    for row in rows:
        cells, counts = [], []
        for keys in strata.values():
            pairs = [(key(row), key(base)) for key in keys if key(row) in results and key(base) in results]
            counts.append(str(len(pairs)))
            for place in (0, 1):
                mine, theirs = ([results[pair[side]][place] for pair in pairs] for side in (0, 1))
                cells.append(difference_text(mine, theirs))
        lines.append(f"| {row} | {' | '.join(cells)} | {' and '.join(counts)} |")
    return lines


def write_table(mark: str, text: str) -> None:
    """Put the text between `<!-- MARK: begin -->` and `<!-- MARK: end -->`."""
    begin, end = f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->"
    before, _, rest = _PAGE.read_text().partition(begin)
    _PAGE.write_text(f"{before}{begin}\n\n{text}\n\n{end}{rest.partition(end)[2]}")
