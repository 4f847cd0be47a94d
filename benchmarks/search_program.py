"""A genome as a small Python program, a line for each block, so that every form of change can be applied to it.

It imports nothing of loopty, because the evaluators of other tools use it in their own environments.
"""

from __future__ import annotations

import re

from search_landscape import CONSTANTS, GRID, Genome, Landscape, random_shape

from loopty.kit.records import replace

UNFINISHED = "assert not 'this change was left unfinished'"
"""The line that makes a program fail."""
_PROGRAM = re.compile(r"^PARADIGM = (\d+)\n((?:B\d+ = \(\d+, \d+, \d+\)\n?)+)", re.M)
_BLOCK = re.compile(r"^B(\d+) = \((\d+), (\d+), (\d+)\)$", re.M)


class ProgramError(ValueError):
    """The program does not run."""


def make_task(seed: int) -> Landscape:
    """The landscape of a seed: a random shape without noise, so that each evaluation counts once for everybody."""
    return Landscape(replace(random_shape(seed), noise=0.0), seed)


def program_text(genome: Genome, is_broken: bool = False) -> str:
    lines = ["# EVOLVE-BLOCK-START", f"PARADIGM = {genome.paradigm}"]
    for block, choice in enumerate(genome.blocks):
        first, second = genome.constants[CONSTANTS * block : CONSTANTS * (block + 1)]
        lines.append(f"B{block} = ({choice}, {first}, {second})")
    lines += [UNFINISHED] * is_broken
    return "\n".join((*lines, "# EVOLVE-BLOCK-END", ""))


def programs(text: str, blocks: int) -> list[tuple[int, Genome]]:
    """The whole programs in a text, each with the position of its beginning."""
    found = []
    for match in _PROGRAM.finditer(text):
        rows = [tuple(map(int, row)) for row in _BLOCK.findall(match[2])]
        if [row[0] for row in rows] == list(range(blocks)):
            constants = tuple(value for row in rows for value in row[2:])
            found.append((match.start(), Genome(int(match[1]), tuple(row[1] for row in rows), constants)))
    return found


def within_range(genome: Genome, land: Landscape) -> Genome:
    """The genome with its numbers cut to what the program knows."""
    shape = land.shape
    return Genome(
        min(genome.paradigm, shape.paradigms - 1),
        tuple(min(choice, shape.choices - 1) for choice in genome.blocks),
        tuple(min(constant, GRID) for constant in genome.constants),
    )


def evaluate(text: str, land: Landscape) -> float:
    """The share of the way from the first program to the optimum; ProgramError where it does not run."""
    found = programs(text, land.shape.blocks)
    if len(found) != 1 or UNFINISHED in text:
        raise ProgramError(
            "the program is unfinished" if UNFINISHED in text else "a line of the program is missing"
        )
    genome = found[0][1]
    if genome != within_range(genome, land):
        raise ProgramError("a number is out of range")
    return land.score(genome)[0]


def shown_score(value: float, land: Landscape) -> float:
    """The score as a tool sees it: never negative, because some tools take 0 for a failure."""
    return max(land.low + value * land.span, 0.0)
