"""A file as lines that keep their line ends, and the positions where other lines match."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from loopty.kit.records import Record

_MAX_MATCHES = 100


class FileLines(Record):
    """The lines of a file and, separately, their line ends; only the last line may have none."""

    bodies: tuple[str, ...]
    ends: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> FileLines:
        # Not splitlines(): it splits at Unicode line ends that compilers do not accept.
        parts = text.split("\n")
        last = parts.pop()
        ends = ["\r\n" if part.endswith("\r") else "\n" for part in parts]
        bodies = [part.removesuffix("\r") for part in parts]
        if last:
            bodies, ends = [*bodies, last], [*ends, ""]
        return cls(tuple(bodies), tuple(ends))

    @property
    def end(self) -> str:
        """The line end that most lines of this file have."""
        return "\r\n" if 2 * self.ends.count("\r\n") > len(self.ends) else "\n"

    def replace(self, start: int, count: int, bodies: Sequence[str]) -> FileLines:
        """The file with `count` lines from `start` replaced; every other byte stays the same."""
        after = start + count
        ends = [self.end] * len(bodies)
        if after == len(self.bodies) and ends and self.ends and not self.ends[-1]:
            ends[-1] = ""
        return FileLines(
            (*self.bodies[:start], *bodies, *self.bodies[after:]), (*self.ends[:start], *ends, *self.ends[after:])
        )

    def __str__(self) -> str:
        return "".join(body + end for body, end in zip(self.bodies, self.ends, strict=True))


class LineMatch(Record):
    """Where lines match, and the indentation to add to or remove from their replacement."""

    start: int
    add: str = ""
    drop: str = ""

    def fit_indentation(self, bodies: Iterable[str]) -> list[str]:
        return [f"{self.add}{body.removeprefix(self.drop)}" if body.strip() else body for body in bodies]


def line_matches(bodies: Sequence[str], wanted: Sequence[str]) -> list[LineMatch]:
    """Where the wanted lines match: exactly, or up to trailing white space, or up to one common indentation."""
    if not wanted:
        return []
    for normalise in (str, str.rstrip):
        if starts := _occurrences(bodies, wanted, normalise):
            return [LineMatch(start) for start in starts]
    matches = (_match_by_indentation(bodies, wanted, start) for start in _occurrences(bodies, wanted, str.strip))
    return [match for match in matches if match]


def _occurrences(bodies: Sequence[str], wanted: Sequence[str], normalise: Callable[[str], str]) -> list[int]:
    """Line numbers from 0, at most a hundred. A text search, because it is fast for any needle."""
    text = "\n" + "".join(f"{normalise(body)}\n" for body in bodies)
    needle = "\n" + "".join(f"{normalise(line)}\n" for line in wanted)
    starts: list[int] = []
    at, line, counted = text.find(needle), 0, 0
    while at >= 0 and len(starts) < _MAX_MATCHES:
        line, counted = line + text.count("\n", counted, at), at
        starts.append(line)
        at = text.find(needle, at + 1)
    return starts


def _match_by_indentation(bodies: Sequence[str], wanted: Sequence[str], start: int) -> LineMatch | None:
    """The match if all lines there have the same extra or missing indentation, or None."""
    pairs = [(body, line) for body, line in zip(bodies[start:], wanted, strict=False) if line.strip()]
    if not pairs:
        return None
    body, line = (_indentation(text) for text in pairs[0])
    if body.endswith(line):
        match = LineMatch(start, add=body.removesuffix(line))
    elif line.endswith(body):
        match = LineMatch(start, drop=line.removesuffix(body))
    else:
        return None
    fits = all(
        line.startswith(match.drop) and body.rstrip() == f"{match.add}{line.removeprefix(match.drop)}".rstrip()
        for body, line in pairs
    )
    return match if fits else None


def _indentation(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]
