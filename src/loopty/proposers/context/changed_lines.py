"""The first changed lines of a diff, for a list of what was tried."""

from __future__ import annotations

from collections.abc import Iterator

from loopty.kit.fence import one_line

_MAX_LINES = 6
_LONGEST = 120


def changed_lines(diff: str) -> list[str]:
    """At most six changed lines, removed and added ones alike, and how many more there are."""
    changed = list(_changed(diff))
    removed = [line for line in changed if line[0] == "-"]
    added = [line for line in changed if line[0] == "+"]
    # What is new says more than what is gone.
    old = removed[: max(_MAX_LINES // 2, _MAX_LINES - len(added))]
    new = added[: _MAX_LINES - len(old)]
    more = len(changed) - len(old) - len(new)
    return [*old, *new, *([f"... {more} more changed lines"] if more else [])]


def _changed(diff: str) -> Iterator[str]:
    """The changed lines that are not empty, each with its sign."""
    in_hunk = False
    for line in diff.split("\n"):
        if line.startswith("@@"):
            in_hunk = True
        elif line.startswith("diff "):
            in_hunk = False
        elif in_hunk and line[:1] in ("+", "-") and line[1:].strip():
            indent = len(line[1:]) - len(line[1:].lstrip())
            yield f"{line[0]}{' ' * indent}{one_line(line[1:], _LONGEST)}"
