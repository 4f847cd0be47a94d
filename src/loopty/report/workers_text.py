"""The workers of a session, as text."""

from __future__ import annotations

from collections.abc import Iterator

from loopty.report.columns import printable_line
from loopty.report.figures import duration, plural
from loopty.views.cluster_rows import ClusterRow
from loopty.views.run_status import RunStatus
from loopty.views.worker_rows import WorkerRow
from loopty.views.worker_slots import WorkerSlots

_MAX_WORKERS = 16
_COHORTS = {"present": "", "other": ", its own cohort", "closed": ", not ranked yet"}


def worker_lines(status: RunStatus) -> Iterator[str]:
    """A line for each node of a cluster and each worker, then what was lost."""
    yield from map(_node_text, status.nodes[:_MAX_WORKERS])
    if len(status.nodes) > _MAX_WORKERS:
        yield f"{len(status.nodes) - _MAX_WORKERS:,} more nodes"
    rows = status.workers
    if status.worker_slots:
        yield _slots_text(status.worker_slots)
    yield from (_row_text(row) for row in rows[:_MAX_WORKERS])
    if len(rows) > _MAX_WORKERS:
        busy = sum(bool(row.trial) for row in rows[_MAX_WORKERS:])
        yield f"{len(rows) - _MAX_WORKERS:,} more, {busy:,} of them busy"
    if status.lost_leases:
        yield (
            f"{plural(status.lost_leases, 'trial')} lost by workers and given out again, the last because "
            f"{printable_line(status.last_loss)}"
        )


def _slots_text(slots: WorkerSlots) -> str:
    """`8 workers, 2 trials at once: width = 2 of loopty.toml lets 6 wait`."""
    text = f"{plural(slots.workers, 'worker')}, {plural(slots.trials, 'trial')} at once"
    if slots.bound == "width":
        return f"{text}: width = {slots.trials} of loopty.toml lets {slots.ranked - slots.trials:,} wait"
    return f"{text}: one on each that is ranked"


def _node_text(row: ClusterRow) -> str:
    name = f"{row.name} at {row.address}" if row.name != row.address else row.address
    has = ", ".join(f"{kind} {amount:g}" for kind, amount in row.resources.items()) or "no resources"
    text = (
        f"node {row.node[:12]} of {row.cluster}, {name}: {has}; {row.busy} of {plural(row.workers, 'worker')} busy"
    )
    return printable_line(text)


def _row_text(row: WorkerRow) -> str:
    doing = f"{row.trial} for {duration(row.lease_seconds)}" if row.trial else "waits"
    place = "" if row.host in row.name else f" at {row.host}"
    text = f"{row.name}{place}: {doing}; {plural(row.trials, 'trial')}, {row.sandbox}{_COHORTS[row.cohort]}"
    return printable_line(f"{text}; it has changed: {row.drift}" if row.drift else text)
