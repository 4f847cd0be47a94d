"""The results of a run under other fingerprints than its present one, one cohort per fingerprint."""

from __future__ import annotations

from loopty.kit.records import Record
from loopty.record.cohorts import Cohorts
from loopty.record.history import History
from loopty.views.comparable import machine_description
from loopty.views.leaderboard import LeaderboardRow, leaderboard
from loopty.views.rated_nodes import RatedNodes, rated_nodes


class Cohort(Record):
    """Results that are comparable only with each other."""

    fingerprint: str
    machine: str
    """How that machine differs from the present one."""
    places: tuple[LeaderboardRow, ...]


def other_cohorts(history: History, run: int, top: int, rated: RatedNodes | None = None) -> list[Cohort]:
    """The other cohorts with the `top` best nodes of each, in the order they were first seen.

    `rated` are the nodes of the run, where they are known.
    """
    record = history.runs[run]
    seen: dict[str, None] = {}
    for kind in (rated or rated_nodes(history, run)).kinds:
        if kind.ending is not None:
            seen[kind.fingerprint] = None
            if kind.record:
                seen |= dict.fromkeys(kind.record.other_fingerprints)
    cohorts = (
        Cohort(
            fingerprint,
            machine_description(record, fingerprint),
            tuple(leaderboard(history, run, top, fingerprint)),
        )
        for fingerprint in seen
        if fingerprint != Cohorts.of(record).fingerprint
    )
    return [cohort for cohort in cohorts if cohort.places]
