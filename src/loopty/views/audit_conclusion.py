"""What the looks at a split say together: whether the gains of the search carry over, and which do not."""

from __future__ import annotations

from collections.abc import Sequence

from loopty.record.audit_anchors import AuditConcluded
from loopty.views.audit_rows import AuditRow

_MOST_REFUTED = 32


def audit_conclusion(run: int, rows: Sequence[AuditRow]) -> AuditConcluded:
    """The conclusion from a run's looks, oldest first, at the split that was looked at last.

    The node with the largest held-out gain is the anchor. A later one that gains more in the search and less on
    the split only fits the data of the search.
    """
    compared = [row for row in rows if row.split == rows[-1].split and _has_gains(row)]
    if not compared:
        return AuditConcluded(run, (), "")
    anchor = max(compared, key=lambda row: row.held_out_gain or 0.0)
    later = compared[compared.index(anchor) + 1 :]
    worse = [row for row in later if _is_refuted(row, anchor) and not anchor.node.is_within(row.node)]
    refuted = tuple(dict.fromkeys(row.node for row in worse))[-_MOST_REFUTED:]
    return AuditConcluded(run, refuted, _text(compared[-1], anchor, worse))


def _has_gains(row: AuditRow) -> bool:
    return row.search_gain is not None and row.held_out_gain is not None


def _is_refuted(row: AuditRow, anchor: AuditRow) -> bool:
    gains, anchored = (row.search_gain or 0.0, row.held_out_gain or 0.0), anchor
    return gains[0] > (anchored.search_gain or 0.0) and gains[1] < (anchored.held_out_gain or 0.0)


def _text(newest: AuditRow, anchor: AuditRow, worse: Sequence[AuditRow]) -> str:
    if (anchor.held_out_gain or 0.0) <= 0:
        is_gain = (newest.search_gain or 0.0) > 0
        return f"no gain carries over to the held-out split, nor does that of {newest.name}" if is_gain else ""
    if newest not in worse:
        return ""
    return (
        f"gains stopped carrying over to the held-out split after {anchor.name}: {newest.name} gains more in the "
        "search, and less there"
    )
