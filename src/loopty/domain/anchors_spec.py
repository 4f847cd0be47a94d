"""Anchors: what lies outside the search and tells whether it still improves what was meant."""

from __future__ import annotations

from dataclasses import dataclass

from loopty.kit.option import option

MOST_VERSIONS = 16


@dataclass(frozen=True, slots=True)
class Anchors:
    """Past versions that are measured beside the baseline, and whether audits steer the choice of parents."""

    versions: tuple[str, ...] = option(
        "Tags or commits of this repository, at most 16. Each is measured once with the present benchmark. "
        "Changes start from the best of them if it beats the best node.",
        (),
    )
    audits: bool = option(
        "Let audits steer: no change starts at or below a node whose gain did not carry over to the "
        "held-out data.",
        True,
    )


NO_ANCHORS = Anchors()
"""No past versions; audits steer where there are any."""
