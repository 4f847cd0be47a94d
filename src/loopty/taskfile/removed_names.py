"""Names that a task file may still have, and what stands in their place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from loopty.taskfile.positions import KeyPath

_BEST = 'use "best", which did at least as well, or bring it as a plug-in (docs/search.md)'
_REMOVED = {
    "parents.tournament": _BEST,
    "parents.top": _BEST,
    "parents.epsilon": _BEST,
    "parents.softmax": _BEST,
    "parents.uct": _BEST,
    "parents.novelty": 'use "map-elites" with the same columns, or bring it as a plug-in (docs/search.md)',
    "operators.part": "leave it out; two small models' changes had no part that was worth a trial by itself",
    "proposer.embedding": "leave it out; changes are compared by their characters",
    "proposer.guide_after": 'leave it out; tell the search what to try with loopty direct "…"',
    "verifier.screen": 'leave it out; review = "reject" reads each winner instead',
}
"""What to write instead, by the table or key, and the name in it."""


def replacement(path: KeyPath, name: Any) -> str | None:
    """Say what to write instead of a key of this table, or a value of this key, that is gone; None for others."""
    remedy = next((_REMOVED[known] for owner in path if (known := f"{owner}.{name}") in _REMOVED), None)
    return remedy and f"{name!r} is gone: {remedy}"
