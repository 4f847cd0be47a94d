"""Writes the figures of the search benchmark into the page between two marks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from page_tables import difference_text, write_table


@dataclass(frozen=True)
class PageTable:
    """One table: a setting on shapes with one kind of root."""

    about: str
    stratum: str
    title: str
    seeds: Sequence[int]


def write_page(
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
    write_table("figures", "\n".join(lines).rstrip("\n"))


_HEAD = (
    "| policy | shapes | area | final | area over credit |",
    "|---|---|---|---|---|",
)


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

    def over_credit() -> str:
        base = columns["credit"]
        both = [seed for seed in own if seed in base]
        if name == "credit" or not both:
            return ""
        return difference_text([own[seed][0] for seed in both], [base[seed][0] for seed in both])

    if not own:
        return ""
    figures = f"{len(own)}", f"{mean(0):.3f}", f"{mean(1):.3f}"
    return f"| {' | '.join((name, *figures, over_credit()))} |"
