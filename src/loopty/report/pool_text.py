"""The pool of a combination as text."""

from __future__ import annotations

from loopty.record.frozen_pools import FrozenPool
from loopty.report.figures import plural, three_digits
from loopty.report.node_name import node_name


def pool_text(pool: FrozenPool) -> str:
    """`4 nodes of run 1: @4 (0.62, the best node), @8 (0.6, 75 % unlike the members before it), …`."""
    members = (
        f"{node_name(one.node, one.handle)} ({three_digits(one.score)}, {one.reason})" for one in pool.members
    )
    return f"{plural(len(pool.members), 'node')} of run {pool.base}: {', '.join(members)}"
