"""The family of workers: who has joined a session, which trial each holds by a lease, and what was lost."""

from __future__ import annotations

from collections.abc import Mapping

from loopty.domain.ids import NodeId
from loopty.kit.records import Record, field, replace
from loopty.record.fold import Event, Family, FoldState
from loopty.record.run_record import Run, RunPart
from loopty.record.sessions import SessionEnded
from loopty.record.trials import TrialEnded, trial_name


class WorkerJoined(Event):
    """A worker is ready for trials; its machine has this fingerprint."""

    run: int
    worker: str
    host: str
    fingerprint: str
    sandbox: str


class WorkerLeft(Event):
    """A worker is gone: it ended, or it was not heard of for too long."""

    run: int
    worker: str
    reason: str


class TrialLeased(Event):
    """A worker gets a trial. Only the result that comes with this lease counts."""

    node: NodeId
    number: int
    worker: str
    lease: str


class LeaseLost(Event):
    """A worker lost its trial. The trial is no failure: it is given out again."""

    node: NodeId
    number: int
    lease: str
    reason: str


class WorkerDrifted(Event):
    """What a worker measures has changed: from now on its machine counts as another one, with this fingerprint."""

    run: int
    worker: str
    fingerprint: str
    reason: str


class ClusterNode(Record):
    """One node of a cluster that places workers."""

    id: str
    name: str
    address: str
    resources: Mapping[str, float] = field(default_factory=dict)


def worker_name_on(node: str) -> str:
    """Name a worker that a cluster places on the node with this identifier."""
    return f"node-{node[:12]}"


class ClusterSeen(Event):
    """Which nodes a cluster has from now on; none once nobody looks at it any more."""

    run: int
    cluster: str
    """The entry of `[executor] hosts` that names it."""
    nodes: tuple[ClusterNode, ...] = ()


class WorkerRecord(Record):
    """One worker of the present session."""

    host: str
    fingerprint: str
    sandbox: str
    since: float
    trial: str = ""
    """The trial that it holds, `node#number`; empty where it waits."""
    lease: str = ""
    leased_at: float = 0.0
    trials: int = 0
    """The trials that it has ended."""
    drift: str = ""
    """How what it measures has changed since it joined; empty where it has not."""


class Workers(RunPart):
    """The workers of the present session, and the leases that were lost in the run."""

    members: Mapping[str, WorkerRecord] = field(default_factory=dict)
    lost_leases: int = 0
    last_loss: str = ""
    most: int = 0
    """The most workers that the run had at once."""
    clusters: Mapping[str, tuple[ClusterNode, ...]] = field(default_factory=dict)
    """The nodes of each cluster that places workers, by its entry."""


def _join(state: FoldState, event: WorkerJoined, at: float) -> None:
    record = WorkerRecord(event.host, event.fingerprint, event.sandbox, at)
    _put(state, state.runs[event.run], event.worker, record)


def _leave(state: FoldState, event: WorkerLeft, _at: float) -> None:
    run = state.runs[event.run]
    workers = Workers.of(run)
    members = {name: member for name, member in workers.members.items() if name != event.worker}
    state.put_run(run.with_part(replace(workers, members=members)))


def _lease(state: FoldState, event: TrialLeased, at: float) -> None:
    run = state.runs[event.node.run]
    if member := Workers.of(run).members.get(event.worker):
        trial = trial_name(event.node, event.number)
        _put(state, run, event.worker, replace(member, trial=trial, lease=event.lease, leased_at=at))


def _lose(state: FoldState, event: LeaseLost, _at: float) -> None:
    run = state.runs[event.node.run]
    workers = Workers.of(run)
    members = {
        name: replace(member, trial="", lease="") if member.lease == event.lease else member
        for name, member in workers.members.items()
    }
    lost = replace(workers, members=members, lost_leases=workers.lost_leases + 1, last_loss=event.reason)
    state.put_run(run.with_part(lost))


def _end(state: FoldState, event: TrialEnded, _at: float) -> None:
    run = state.runs[event.node.run]
    trial = trial_name(event.node, event.number)
    for name, member in Workers.of(run).members.items():
        if member.trial == trial:
            _put(state, run, name, replace(member, trial="", lease="", trials=member.trials + 1))
            return


def _forget_members(state: FoldState, event: SessionEnded, _at: float) -> None:
    run = state.runs[event.run]
    workers = Workers.of(run)
    if workers.members or workers.clusters:
        state.put_run(run.with_part(replace(workers, members={}, clusters={})))


def _drift(state: FoldState, event: WorkerDrifted, _at: float) -> None:
    run = state.runs[event.run]
    if member := Workers.of(run).members.get(event.worker):
        _put(state, run, event.worker, replace(member, fingerprint=event.fingerprint, drift=event.reason))


def _see_cluster(state: FoldState, event: ClusterSeen, _at: float) -> None:
    run = state.runs[event.run]
    clusters = {**Workers.of(run).clusters, event.cluster: event.nodes}
    state.put_run(run.with_part(replace(Workers.of(run), clusters=clusters)))


def _put(state: FoldState, run: Run, name: str, member: WorkerRecord) -> None:
    workers = Workers.of(run)
    members = {**workers.members, name: member}
    state.put_run(run.with_part(replace(workers, members=members, most=max(workers.most, len(members)))))


WORKERS = Family(
    (WorkerJoined, WorkerLeft, WorkerDrifted, TrialLeased, LeaseLost, ClusterSeen),
    {
        WorkerJoined: _join,
        WorkerLeft: _leave,
        WorkerDrifted: _drift,
        TrialLeased: _lease,
        LeaseLost: _lose,
        TrialEnded: _end,
        SessionEnded: _forget_members,
        ClusterSeen: _see_cluster,
    },
)
