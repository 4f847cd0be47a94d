"""Writes the figures of the search benchmark into the page between two marks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from loopty.views.arm_comparison import Difference, paired_difference

_BEGIN, _END = "<!-- figures: begin -->", "<!-- figures: end -->"


def write_page(
    page: Path,
    results: Mapping[str, Sequence[float]],
    strata: Mapping[str, Sequence[int]],
    names: Sequence[str],
    budget: float,
) -> None:
    """Replace the figures of the page. A policy that lacks seeds of a stratum is left out of it."""
    before, _, rest = page.read_text().partition(_BEGIN)
    after = rest.partition(_END)[2]
    lines = []
    for stratum, seeds in strata.items():
        whole = [name for name in names if all(f"{name}|{seed}" in results for seed in seeds)]
        lines += [f"**{stratum} roots**, {len(seeds)} random shapes, {budget:g} calls each:", ""]
        lines += ["| policy | area | final | area over static | area over uniform | final over static |"]
        lines += ["|---|---|---|---|---|---|"]
        lines += [_row(name, results, seeds) for name in whole]
        lines += [""]
    page.write_text(f"{before}{_BEGIN}\n\n" + "\n".join(lines) + f"\n{_END}{after}")


def _row(name: str, results: Mapping[str, Sequence[float]], seeds: Sequence[int]) -> str:
    def mean(column: int) -> float:
        return sum(results[f"{name}|{seed}"][column] for seed in seeds) / len(seeds)

    def over(base: str, column: int) -> str:
        if name == base or any(f"{base}|{seed}" not in results for seed in seeds):
            return ""
        pairs = [results[f"{name}|{seed}"][column] - results[f"{base}|{seed}"][column] for seed in seeds]
        return _text(paired_difference([pairs]))

    cells = (name, f"{mean(0):.3f}", f"{mean(1):.3f}", over("static", 0), over("uniform", 0), over("static", 1))
    return f"| {' | '.join(cells)} |"


def _text(found: Difference) -> str:
    text = f"{found.mean:+.3f}"
    if found.low is not None and found.high is not None:
        text += f" [{found.low:+.3f}, {found.high:+.3f}]"
    return f"**{text}**" if found.is_sure else text
