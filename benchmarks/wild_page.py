"""Writes docs/repositories.md: what `init` did in the repositories of a random sample."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from wild_preparation import RECIPES
from wild_types import WildResult

PAGE = Path(__file__).parent.parent / "docs/repositories.md"
HEAD = """# Real repositories

What does `loopty init --yes` do in a repository that nobody prepared for it? `benchmarks/wild_names.toml`
lists {names} packages of eight languages, written down before any of them was tried. `python benchmarks/wild.py
--seed {seed}` draws from each group of names its share, unpacks the release, commits it unchanged, and runs
`loopty init --yes --within {within}`, once.

A task is *sensible* where a planted delay made the score worse, a comment did not change it, and a planted fault
was noticed ([how](benchmarks.md#what-init-proves)). What is not sensible is refused, with the reason.

"""
TAIL = """
Of {tried} repositories in {languages} languages, {sensible} got a task that is sensible, {unproven} one of which
not all was proven, and {refused} none. `init` took {seconds} s (median).
{earlier}

- The sample was to be of 40, and ended early. Two cores had work for twenty programs, so many rows ran out of
  time.
- While it ran, `init` was repaired by failures of the sample before. node-vlq came first: its code takes 0.25 ms,
  two samples of the profiler. Now less than 2 ms is refused, so it counts as refused: one sensible task less.
- Each repository had what a developer already has: {recipes}. C, C++ and Java had nothing.
- Only PyPI, npm and Debian could be reached, so crates and modules of Go are Debian's development packages, and
  Maven has no plug-ins. What could not be fetched, with all that it needs, was replaced by the next name.
- Perl is left out: loopty does not support it.
- When `init` fails, it names the cause and the remedy if it knows one: see [failures](failures.md).

`python benchmarks/wild.py --page` writes this page.
"""
TITLES = ("repository", "language", "measured", "share", "delay", "comment", "faults", "verdict")
_LONGEST = 110


def write_page(samples: Mapping[str, Sequence[WildResult]], names: int, within: str) -> None:
    PAGE.write_text(page(samples, names, within))


def page(samples: Mapping[str, Sequence[WildResult]], names: int, within: str) -> str:
    """Write the last sample out; earlier ones, from whose failures something was repaired, are a line each."""
    *earlier, seed = sorted(samples, key=int)
    rows = tried(samples[seed])
    recipes = ", ".join(f"{language} {recipe}" for language, recipe in RECIPES.items())
    tail = TAIL.format(
        tried=len(rows),
        languages=len({row.language for row in rows}),
        sensible=sum(map(is_sensible, rows)),
        unproven=sum(row.proven and not is_sensible(row) for row in rows),
        refused=sum(not row.proven for row in rows),
        seconds=f"{statistics.median(row.seconds for row in rows):.0f}" if rows else "0",
        recipes=recipes,
        earlier="\n".join(_line_of(name, tried(samples[name])) for name in earlier),
    )
    head = HEAD.format(names=names, seed=seed, within=within)
    return head + "\n".join(table(rows)) + "\n" + tail


def _line_of(seed: str, rows: Sequence[WildResult]) -> str:
    sensible = sum(map(is_sensible, rows))
    return (
        f"Before, of {len(rows)} with seed {seed}, {sensible} were sensible; `init` was changed by their failures."
    )


def tried(rows: Sequence[WildResult]) -> list[WildResult]:
    return sorted((row for row in rows if not row.passed_over), key=lambda row: (row.language, row.name))


def is_sensible(row: WildResult) -> bool:
    """Say whether a delay or a fault moved the score, and nothing that was planted spoke against the task."""
    found = row.sensitivity
    return row.proven and bool(found) and not found.get("unknown") and not found.get("problem")


def table(rows: Sequence[WildResult]) -> Iterator[str]:
    """One row for each repository."""
    yield f"| {' | '.join(TITLES)} |"
    yield "|---" * len(TITLES) + "|"
    for row in rows:
        yield f"| {' | '.join(cells(row))} |"


def cells(row: WildResult) -> Iterator[str]:
    found = row.sensitivity or {}
    share, slowed, usual = found.get("share"), found.get("slowed"), found.get("usual")
    yield f"{row.name} {row.version}".strip()
    yield row.language
    yield row.score or "–"
    yield f"{100 * share:.0f} %" if share is not None else "–"
    yield f"×{found['times'] + 1}: {usual:.3g} → {slowed:.3g}" if slowed is not None else "–"
    yield "still" if found.get("still") is not None else "–"
    faults = [fault["end"] for fault in found.get("faults", ())]
    yield f"{faults.count('caught')} of {len(faults)} caught" if faults else "–"
    yield "sensible" if is_sensible(row) else shortened(found.get("unknown") or row.message or "not proven")


def shortened(text: str) -> str:
    """Return the reason in one cell."""
    plain = " ".join(text.replace("|", "/").split())
    return plain if len(plain) <= _LONGEST else f"{plain[:_LONGEST]}…"
