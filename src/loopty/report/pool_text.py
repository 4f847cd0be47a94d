"""The pool of a combination as text."""

from __future__ import annotations

from loopty.record.frozen_pools import FrozenPool
from loopty.report.figures import plural, three_digits
from loopty.report.node_name import short_id


def pool_text(pool: FrozenPool) -> str:
    """`4 nodes of run 1: 1.3 (0.62, the best node), 1.7 (0.6, 75 % unlike the members before it), …`."""
    members = (f"{short_id(one.node)} ({three_digits(one.score)}, {one.reason})" for one in pool.members)
    return f"{plural(len(pool.members), 'node')} of run {pool.base}: {', '.join(members)}"
