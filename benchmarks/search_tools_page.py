"""Writes the comparison of the product with other tools into docs/search.md."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from search_page import difference_text, replace_figures

from loopty.views.arm_comparison import paired_difference

_PAGE = Path(__file__).parents[1] / "docs" / "search.md"
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
    replace_figures(_PAGE, "tools", lines)


def _row(tool: str, results: Mapping[str, Mapping[str, float]], seeds: Sequence[int]) -> str:
    """The row of a tool over the shapes that it and loopty ran; empty where there are none."""
    both = [seed for seed in seeds if f"{tool}|{seed}" in results and f"loopty|{seed}" in results]
    if not both:
        return ""
    own, loopty = [results[f"{tool}|{seed}"] for seed in both], [results[f"loopty|{seed}"] for seed in both]
    areas = [one["area"] for one in own]
    pairs = [ours["area"] - theirs["area"] for ours, theirs in zip(loopty, own, strict=True)]
    ahead = "" if tool == "loopty" else difference_text(paired_difference([pairs]))
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
