"""Anchors: what lies outside the search and tells whether it still improves what was meant."""

from __future__ import annotations

from loopty.kit.dataclass import Record, dataclass
from loopty.kit.option import option

MOST_VERSIONS = 16


@dataclass(frozen=True, slots=True)
class Anchors(Record):
    """Past versions that are measured beside the baseline, and whether audits steer the choice of parents."""

    versions: tuple[str, ...] = option(
        "Past versions: tags or commits of this repository, at most 16. Each is measured once in a run, with the "
        "present benchmark and its own version of the files that may change. It is a node of its own and no "
        "attempt. A change starts from the best of them where that is better than the best node.",
        (),
    )
    audits: bool = option(
        "Whether audits steer: no change starts from a node whose gain did not carry over to the held-out split, "
        "nor below it.",
        True,
    )


NO_ANCHORS = Anchors()
"""No past versions; audits steer where there are any."""
