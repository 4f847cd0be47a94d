"""Writes the comparison of the product with other tools into docs/research/search.md."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence

from page_tables import difference_text, write_table

_HEAD = (
    "| tool | shapes | median area | mean area | mean final | loopty's area over it | calls | failures |",
    "|---|---|---|---|---|---|---|---|",
)


def write_tools_page(
    results: Mapping[str, Mapping[str, float]], strata: Mapping[str, Sequence[int]], tools: Sequence[str]
) -> None:
    lines = []
    for stratum, seeds in strata.items():
        rows = [row for tool in tools if (row := _row(tool, results, seeds))]
        lines += [f"**{stratum.capitalize()} roots**, 60 evaluations each:", "", *_HEAD, *rows, ""]
    write_table("tools", "\n".join(lines).rstrip("\n"))


def _row(tool: str, results: Mapping[str, Mapping[str, float]], seeds: Sequence[int]) -> str:
    """The row of a tool over the shapes that it and loopty ran; empty where there are none."""
    both = [seed for seed in seeds if f"{tool}|{seed}" in results and f"loopty|{seed}" in results]
    if not both:
        return ""
    own, loopty = [results[f"{tool}|{seed}"] for seed in both], [results[f"loopty|{seed}"] for seed in both]
    areas = [one["area"] for one in own]
    ahead = "" if tool == "loopty" else difference_text([one["area"] for one in loopty], areas)
    figures = (
        f"{len(both)}",
        f"{statistics.median(areas):.3f}",
        f"{statistics.fmean(areas):.3f}",
        f"{statistics.fmean(one['final'] for one in own):.3f}",
        ahead,
        f"{statistics.fmean(one['calls'] for one in own):.0f}",
        f"{100 * statistics.fmean(one['broken'] / max(one['evaluations'], 1) for one in own):.0f} %",
    )
    return f"| {' | '.join((tool, *figures))} |"
