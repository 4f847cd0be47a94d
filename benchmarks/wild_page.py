"""Writes docs/repositories.md: what `init` did in the repositories of the newest random samples."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from wild_preparation import RECIPES
from wild_types import WildResult

PAGE = Path(__file__).parent.parent / "docs/repositories.md"
NEWEST = ("25", "26")
"""Drawn and tried after the last repairs; earlier samples found the failures that were repaired."""
HEAD = """# Real repositories

How far does `loopty init --yes` get in a repository that nobody prepared for it? `benchmarks/wild_names.toml`
lists 829 well-known packages, written down before any of them was tried. `python benchmarks/wild.py --seed N`
draws from each group of names its share, unpacks the release, commits it unchanged, and runs `loopty init --yes`.
A benchmark counts as *proven* when it ran in the sandbox and gave a score.

The table counts the two newest samples at their first try, in November 2026, on two cores under a load of 15 to
30, with twenty minutes for `init`. Then, a package without a working benchmark or tests got a *last resort*: the
time to load or to build it. `init --yes` has since become stricter: it prints that command and ends with 1.

"""
TAIL = """
Conditions:

- Each repository had what a developer already has: {recipes}. C, C++ and Perl had nothing.
- Only PyPI, npm and Debian could be reached, so crates and some Go modules are Debian's development packages. A
  release that could not be fetched was replaced by the next name of its group.
- Earlier samples were used to find and repair failures, so they say less about your repository. All samples are
  in `benchmarks/wild_results.json`.
- When `init` fails, it names the cause and the remedy if it knows one: see [failures](failures.md).

`python benchmarks/wild.py --page` writes this page.
"""
TITLES = ("registry", "language", "tried", "benchmark or tests", "last resort", "not proven", "seconds (median)")


def write_page(samples: Mapping[str, Sequence[WildResult]]) -> None:
    PAGE.write_text(page(samples))


def page(samples: Mapping[str, Sequence[WildResult]]) -> str:
    recipes = ", ".join(f"{language} {recipe}" for language, recipe in RECIPES.items())
    return HEAD + "\n".join(table(tried(samples))) + "\n" + TAIL.format(recipes=recipes)


def tried(samples: Mapping[str, Sequence[WildResult]]) -> list[WildResult]:
    return [row for seed in NEWEST for row in samples[seed] if not row.passed_over]


def table(rows: Sequence[WildResult]) -> Iterator[str]:
    """One row for each language of a registry, and their sum."""
    yield f"| {' | '.join(TITLES)} |"
    yield "|---" * len(TITLES) + "|"
    groups = sorted({(row.registry.removesuffix(" development"), row.language) for row in rows})
    for registry, language in groups:
        yield line(
            registry,
            language,
            [row for row in rows if row.language == language and row.registry.startswith(registry)],
        )
    yield line("**all**", "", rows)


def line(registry: str, language: str, rows: Sequence[WildResult]) -> str:
    resorts = sum(bool(row.last_resort) for row in rows if row.proven)
    proven = sum(row.proven for row in rows)
    seconds = f"{statistics.median(row.seconds for row in rows):.0f}"
    cells = (registry, language, len(rows), proven - resorts, resorts, len(rows) - proven, seconds)
    return f"| {' | '.join(map(str, cells))} |"
