"""The part of docs/repositories.md about random samples, from wild_results.json."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import first_hour
from wild_preparation import RECIPES
from wild_types import WildResult

TITLE = "## Drawn at random"
HEAD = f"""{TITLE}

The list above was chosen by hand. These were drawn: `benchmarks/wild_names.toml` has 829 well-known packages,
written down before any of them was tried, and `python benchmarks/wild.py --seed N` draws from each group of names
its share. Each is the release as the registry has it, unpacked and committed unchanged; then `loopty init --yes`,
without any other word. *With its line* means that `init` failed, its message held a line to paste, and with that
line, pasted once, `init` passed.

- What a developer has already, once for each language: {{recipes}}. Nothing for C, C++ and Perl.
- From 19 on, crates, and some modules of Go, are from Debian's development packages, which hold their whole
  source; a crate has a `.cargo/config.toml` that names Debian's folder of crates, in place of crates.io.
- Passed over, and replaced by the next name of the group: a release that could not be fetched, or whose
  dependencies could not be, on this machine (it reaches PyPI, npm and Debian, but not crates.io or Go's proxy).
- *Seconds* are of two cores that other busy processes shared: some thirty in samples 1 to 3, where builds and
  tests of C and C++ ran into limits of 300 s (`init`) and 600 s (with the line), ten in samples 4 to 6, ten to
  sixty in samples 9 to 11, where some builds of C ran into a limit of 1800 s, fifteen to thirty in 12, and five to
  fifteen in 13 and 14, with a larger share of the cores and a limit of 900 s for each call of `init`. In
  15 and 16, with twenty to thirty, `init` had its own limit of ten minutes; a line that only gives it
  more is not pasted. 17 had ten to fifteen, 18 fifteen to thirty, 19 to 21 ten to twenty, 22 two to seven,
  23 to 26 fifteen to thirty, which waited for those of the sample; from 20 on
  `init` had twenty minutes, as it has since then on a busy machine.
- A benchmark that turned out to measure nothing counts as not proven, whatever `init` said: jsonpickle in
  sample 13, eigen3 in sample 14, http-parser in sample 15, nlohmann-json3, jsonpatch and pycparser in sample 16,
  multidict in sample 18, greenlet and node-sprintf-js in sample 19, ruamel.yaml and ijson in sample 20,
  pydantic and a52dec in sample 21.
- Many packages of npm, and some of PyPI, are released without tests. There the line of the message measured how
  long the package takes to load, which counts as *with its line* in samples 1 to 9. From sample 10 to 26 `init`
  fell back on this, or on the time of the build, by itself: a *last resort*, which the figures count apart. Now
  it ends with the line again. Where its message has a line that leads to the tests, the line is pasted, too: *its
  line: tests*.
- The figures are those of the first try. *Again* says what a second one gave, after the repairs.
- Before the repairs, `init --yes` proved 11 of the first 25 of sample 1, one by a script that tested nothing.

"""
TITLES = ("repository", "registry; language", "outcome", "what is measured", "seconds", "the line, or why not")
_LONGEST = 160


def write_page(samples: Mapping[str, Sequence[WildResult]]) -> None:
    """Replace the part about samples; the rest of the page stays."""
    text = first_hour.PAGE.read_text()
    before = text.partition(TITLE)[0].rstrip("\n")
    recipes = ", ".join(f"{language} {recipe}" for language, recipe in RECIPES.items())
    parts = [before, "", HEAD.format(recipes=recipes).rstrip("\n"), ""]
    for seed, rows in sorted(samples.items(), key=lambda item: int(item[0])):
        parts += [*sample_lines(seed, rows), ""]
    first_hour.PAGE.write_text("\n".join(parts).rstrip("\n") + "\n")


def sample_lines(seed: str, rows: Sequence[WildResult]) -> Iterator[str]:
    """One sample: its figures, its table, and what was passed over."""
    tried = [row for row in rows if not row.passed_over]
    alone = sum(row.proven for row in tried)
    resorts = sum(bool(row.last_resort) for row in tried if row.proven)
    with_line = sum(row.proven_with_line for row in tried if not row.proven)
    unhelped = [row for row in tried if row.line and not (row.proven or row.proven_with_line)]
    apart = f", {resorts} of them by the last resort, the time to load or to build," if resorts else ""
    yield f"### Sample {seed}: {SAMPLES.get(seed, '')}"
    yield ""
    yield (
        f"Of {len(tried)} repositories, {alone} were proven by `loopty init --yes` alone{apart} "
        f"({_percent(alone, tried)}), {with_line} more with the line of the message "
        f"(together {_percent(alone + with_line, tried)}). For {len(unhelped)} others the message had a line that "
        f"did not lead there here, and for {len(tried) - alone - with_line - len(unhelped)} it had none."
    )
    yield ""
    yield f"| {' | '.join(TITLES)} |"
    yield "|---" * len(TITLES) + "|"
    for row in tried:
        yield f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells(row))} |"
    if passed := sorted(row.name for row in rows if row.passed_over):
        yield ""
        yield f"Passed over: {', '.join(passed)}."


SAMPLES = {
    "1": "its failures were repaired, by general rules, until most passed",
    "2": "drawn and tried after the repairs for the first",
    "3": "drawn and tried after the repairs for the second",
    "4": "drawn after the repairs for the third; those for it began while it was tried",
    "5": "drawn and tried after the repairs for the fourth; from backoff on, limits grew with the load",
    "6": "drawn and tried after the repairs for the fifth; time ended before its last names",
    "9": "drawn and tried before the next repairs, to find their causes; stopped before its last names",
    "10": "drawn and tried after the last resort and builds of npm came; stopped before its last names",
    "11": "drawn and tried after most repairs for the tenth; stopped before its last names",
    "12": "drawn and tried before the next repairs, to find their causes; stopped after ten names, in argcomplete",
    "13": "drawn and tried after the first repairs for the twelfth; from humanize on, after all of them",
    "14": "drawn and tried after the repair for libffi; those for its own failures came later",
    "15": "drawn and tried after `init` got its limit of ten minutes",
    "16": "drawn and tried after the repairs for the fifteenth",
    "17": "drawn and tried after the repairs for the sixteenth",
    "18": "drawn and tried after the first repairs for the seventeenth",
    "19": "drawn and tried after more names were written down, with crates and more modules of Go",
    "20": "drawn and tried after the first repairs for the nineteenth",
    "21": "drawn and tried after the repairs for the twentieth; stopped before its last names",
    "22": "drawn and tried after the repairs for the twenty-first, on quieter cores; stopped before its last name",
    "23": "drawn and tried after no further repairs, on cores that gave it their time first",
    "24": "drawn and tried after the first repairs for the twenty-third",
    "25": "drawn and tried after the repairs for the twenty-third and the twenty-fourth",
    "26": "drawn and tried after the repairs for the twenty-fifth",
}
"""How each sample was used: only the figure of one that was tried once, after all repairs, says what to expect."""


def cells(row: WildResult) -> list[str]:
    outcome = "proven" if row.proven else "with its line" if row.proven_with_line else "not proven"
    if row.proven and row.last_resort:
        outcome = f"proven, a last resort{'; its line: tests' if row.proven_with_line else ''}"
    outcome += f"; again: {row.again}" if row.again else ""
    why = "" if row.proven and not row.last_resort else f"`{row.line}`" if row.line else row.message[:_LONGEST]
    if row.line and not (row.proven or row.proven_with_line):
        why = f"{why}: {row.message[:_LONGEST]}"
    measured = first_hour.measure(row.command) if row.proven or row.proven_with_line else ""
    return [
        f"{row.name} {row.version}",
        f"{row.registry}; {row.language}",
        outcome,
        measured,
        str(row.seconds),
        why,
    ]


def _percent(count: int, rows: Sequence[object]) -> str:
    return f"{100 * count / len(rows):.0f} %" if rows else "none"


def kept_part(page: Path) -> str:
    """What other scripts leave of the page: this part of it."""
    _, title, rest = page.read_text().partition(TITLE) if page.exists() else ("", "", "")
    return f"\n{title}{rest}" if title else ""
