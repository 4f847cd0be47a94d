"""Writes the figures of the search benchmark into the page between two marks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from loopty.views.arm_comparison import Difference, paired_difference


@dataclass(frozen=True)
class PageTable:
    """One table: a setting on shapes with one kind of root."""

    about: str
    stratum: str
    title: str
    seeds: Sequence[int]


def write_page(
    page: Path,
    results: Mapping[str, Sequence[float]],
    tables: Sequence[PageTable],
    names: Sequence[str],
) -> None:
    """Replace the figures of the page. Of each policy the shapes count on which it ran, in their order."""
    lines = []
    for table in tables:
        own = {name: _column(results, table.about, name, table.seeds) for name in names}
        rows = [row for name in names if (row := _row(name, own))]
        if rows:
            lines += [f"**{table.stratum} roots**, {table.title}:", "", *_HEAD, *rows, ""]
    replace_figures(page, "figures", lines)


_HEAD = (
    "| policy | shapes | area | final | area over static | area over credit | final over credit |",
    "|---|---|---|---|---|---|---|",
)


def replace_figures(page: Path, mark: str, lines: Sequence[str]) -> None:
    """Write the lines between the two marks of this name."""
    begin, end = f"<!-- {mark}: begin -->", f"<!-- {mark}: end -->"
    before, _, rest = page.read_text().partition(begin)
    after = rest.partition(end)[2]
    page.write_text(f"{before}{begin}\n\n" + "\n".join(lines) + f"\n{end}{after}")


def difference_text(found: Difference) -> str:
    """A difference with its interval, bold where that excludes zero."""
    text = f"{found.mean:+.3f}"
    if found.low is not None and found.high is not None:
        text += f" [{found.low:+.3f}, {found.high:+.3f}]"
    return f"**{text}**" if found.is_sure else text


def _column(
    results: Mapping[str, Sequence[float]], about: str, name: str, seeds: Sequence[int]
) -> Mapping[int, Sequence[float]]:
    """What a policy reached, by seed."""
    return {seed: results[key] for seed in seeds if (key := f"{about}|{name}|{seed}") in results}


def _row(name: str, columns: Mapping[str, Mapping[int, Sequence[float]]]) -> str:
    """The row of a policy; empty where it did not run."""
    own = columns[name]

    def mean(column: int) -> float:
        return sum(result[column] for result in own.values()) / len(own)

    def over(base: str, column: int) -> str:
        both = [seed for seed in own if seed in columns[base]]
        if name == base or not both:
            return ""
        pairs = [own[seed][column] - columns[base][seed][column] for seed in both]
        return difference_text(paired_difference([pairs]))

    if not own:
        return ""
    figures = f"{len(own)}", f"{mean(0):.3f}", f"{mean(1):.3f}"
    return f"| {' | '.join((name, *figures, over('static', 0), over('credit', 0), over('credit', 1)))} |"
