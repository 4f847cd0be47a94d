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
    """Replace the figures of the page. Of each policy the shapes count on which it ran, in their order."""
    before, _, rest = page.read_text().partition(_BEGIN)
    after = rest.partition(_END)[2]
    lines = []
    for stratum, seeds in strata.items():
        lines += [f"**{stratum.capitalize()} roots**, random shapes, {budget:g} calls each:", ""]
        lines += ["| policy | shapes | area | final | area over static | area over uniform | final over static |"]
        lines += ["|---|---|---|---|---|---|---|"]
        lines += [row for name in names if (row := _row(name, results, seeds))]
        lines += [""]
    page.write_text(f"{before}{_BEGIN}\n\n" + "\n".join(lines) + f"\n{_END}{after}")


def _row(name: str, results: Mapping[str, Sequence[float]], seeds: Sequence[int]) -> str:
    """The row of a policy; empty where it did not run."""
    own = [seed for seed in seeds if f"{name}|{seed}" in results]

    def mean(column: int) -> float:
        return sum(results[f"{name}|{seed}"][column] for seed in own) / len(own)

    def over(base: str, column: int) -> str:
        both = [seed for seed in own if f"{base}|{seed}" in results]
        if name == base or not both:
            return ""
        pairs = [results[f"{name}|{seed}"][column] - results[f"{base}|{seed}"][column] for seed in both]
        return _text(paired_difference([pairs]))

    if not own:
        return ""
    figures = f"{len(own)}", f"{mean(0):.3f}", f"{mean(1):.3f}"
    return f"| {' | '.join((name, *figures, over('static', 0), over('uniform', 0), over('static', 1)))} |"


def _text(found: Difference) -> str:
    text = f"{found.mean:+.3f}"
    if found.low is not None and found.high is not None:
        text += f" [{found.low:+.3f}, {found.high:+.3f}]"
    return f"**{text}**" if found.is_sure else text
