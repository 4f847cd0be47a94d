"""The nodes of clusters that place workers: what each has, and what its workers do."""

from __future__ import annotations

from collections.abc import Mapping

from loopty.kit.records import Record
from loopty.record.run_record import Run
from loopty.record.workers import Workers, worker_name_on


class ClusterRow(Record):
    """One node."""

    cluster: str
    """The entry of `[executor] hosts` that names its cluster."""
    node: str
    name: str
    address: str
    resources: Mapping[str, float]
    workers: int
    busy: int
    """Of these workers, those that hold a trial."""


def cluster_rows(run: Run) -> tuple[ClusterRow, ...]:
    """The nodes that are there now."""
    workers = Workers.of(run)
    rows = []
    for cluster, nodes in workers.clusters.items():
        for node in nodes:
            start = f"{worker_name_on(node.id)}/"
            there = [member for name, member in workers.members.items() if name.startswith(start)]
            busy = sum(bool(member.trial) for member in there)
            facts = (node.name, node.address, node.resources)
            rows.append(ClusterRow(cluster, node.id, *facts, len(there), busy))
    return tuple(rows)
