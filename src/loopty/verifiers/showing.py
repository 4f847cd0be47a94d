"""What the verifier is shown of a change, as data."""

from __future__ import annotations

from collections.abc import Iterator

from loopty.core.space import Params
from loopty.kit.fence import fenced, untagged

_LONGEST_CLAIM = 2_000


def claim(operator: str, summary: str) -> str:
    """What its proposer says of the change."""
    return fenced("what its proposer says of the change", f"{operator}: {summary}", _LONGEST_CLAIM)


def shown(label: str, text: str, limit_chars: int) -> str:
    """Nothing is scrubbed out of it: a cheat must not hide in the gaps."""
    return fenced(label, untagged(text), limit_chars, exact=True)


def parameter_lines(before: Params, after: Params) -> Iterator[str]:
    """The parameters that change, a line each."""
    for name, value in after.items():
        if before.get(name) != value:
            yield f"parameter {name}: {before.get(name)!r} -> {value!r}"
