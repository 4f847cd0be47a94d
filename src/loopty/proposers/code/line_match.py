"""A file as lines that keep their ends, and where other lines occur among them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

_MAX_MATCHES = 100


@dataclass(frozen=True, slots=True)
class FileLines:
    """The lines of a file without their ends, and the ends; only the last line may have none."""

    bodies: tuple[str, ...]
    ends: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> FileLines:
        # Not splitlines(): what unicode takes for the end of a line, compilers do not.
        parts = text.split("\n")
        last = parts.pop()
        ends = ["\r\n" if part.endswith("\r") else "\n" for part in parts]
        bodies = [part.removesuffix("\r") for part in parts]
        if last:
            bodies, ends = [*bodies, last], [*ends, ""]
        return cls(tuple(bodies), tuple(ends))

    @property
    def end(self) -> str:
        """How lines of this file end, mostly."""
        return "\r\n" if 2 * self.ends.count("\r\n") > len(self.ends) else "\n"

    def replace(self, start: int, count: int, bodies: Sequence[str]) -> FileLines:
        """With other lines in place of these; the rest stays as it is, to the last byte."""
        after = start + count
        ends = [self.end] * len(bodies)
        if after == len(self.bodies) and ends and self.ends and not self.ends[-1]:
            ends[-1] = ""
        return FileLines(
            (*self.bodies[:start], *bodies, *self.bodies[after:]), (*self.ends[:start], *ends, *self.ends[after:])
        )

    def __str__(self) -> str:
        return "".join(body + end for body, end in zip(self.bodies, self.ends, strict=True))


@dataclass(frozen=True, slots=True)
class LineMatch:
    """Where lines were found, and how far their indentation is off: what to add to it and what to take away."""

    start: int
    add: str = ""
    drop: str = ""

    def fit_indentation(self, bodies: Iterable[str]) -> list[str]:
        return [f"{self.add}{body.removeprefix(self.drop)}" if body.strip() else body for body in bodies]


def line_matches(bodies: Sequence[str], wanted: Sequence[str]) -> list[LineMatch]:
    """Where the wanted lines are: exactly, else but for trailing white space, else but for one indentation."""
    if not wanted:
        return []
    for seen in (str, str.rstrip):
        if found := _occurrences(bodies, wanted, seen):
            return [LineMatch(start) for start in found]
    shifted = (_match_by_indentation(bodies, wanted, start) for start in _occurrences(bodies, wanted, str.strip))
    return [place for place in shifted if place]


def _occurrences(bodies: Sequence[str], wanted: Sequence[str], normalise: Callable[[str], str]) -> list[int]:
    """Line numbers from 0, at most a hundred; by text search, which stays fast whatever is searched for."""
    text = "\n" + "".join(f"{normalise(body)}\n" for body in bodies)
    needle = "\n" + "".join(f"{normalise(line)}\n" for line in wanted)
    found: list[int] = []
    at, line, counted = text.find(needle), 0, 0
    while at >= 0 and len(found) < _MAX_MATCHES:
        line, counted = line + text.count("\n", counted, at), at
        found.append(line)
        at = text.find(needle, at + 1)
    return found


def _match_by_indentation(bodies: Sequence[str], wanted: Sequence[str], start: int) -> LineMatch | None:
    """The place if all lines there are indented by the same more, or the same less, than wanted."""
    pairs = [(body, line) for body, line in zip(bodies[start:], wanted, strict=False) if line.strip()]
    if not pairs:
        return None
    body, line = (_indentation(text) for text in pairs[0])
    if body.endswith(line):
        place = LineMatch(start, add=body.removesuffix(line))
    elif line.endswith(body):
        place = LineMatch(start, drop=line.removesuffix(body))
    else:
        return None
    fits = all(
        line.startswith(place.drop) and body.rstrip() == f"{place.add}{line.removeprefix(place.drop)}".rstrip()
        for body, line in pairs
    )
    return place if fits else None


def _indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]
