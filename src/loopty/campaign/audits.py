"""Audits: score nodes on the held-out split, and list what earlier looks found."""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from loopty.campaign.audit_conclusions import conclude_audits
from loopty.campaign.by_hand import observe
from loopty.campaign.combine_stage import context_of_run
from loopty.campaign.context import CampaignContext
from loopty.campaign.own_repository import open_own_repository
from loopty.campaign.run_entry import require_same_criteria
from loopty.campaign.saved_record import SavedRecord
from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.outcome import Ending, Outcome
from loopty.domain.pool import Pool
from loopty.domain.task import Audit, Task
from loopty.engine import decisions
from loopty.kit.records import Record
from loopty.record.event import Recorded
from loopty.record.history import History
from loopty.record.ledger import Ledger
from loopty.record.node_record import Node
from loopty.record.verdicts import Incumbents
from loopty.taskfile.read import load
from loopty.views.audit_rows import AuditRow, audits
from loopty.workspaces.git_session import GitError
from loopty.workspaces.held_out import HeldOutSplit
from loopty.workspaces.node_files import NodeFiles
from loopty.workspaces.repository import Repository
from loopty.workspaces.state_folder import StateFolder

_EXAMPLE = """for example
  [audit]
  files = ["data/held-out.csv"]
  command = "python3 bench.py data/held-out.csv\""""


class AuditReport(Record):
    """Every look of a run at the split, oldest first; the last `new` of them were made now."""

    rows: list[AuditRow]
    new: int

    @property
    def raises_doubt(self) -> bool:
        """Whether a new look gave no score, or found something wrong."""
        return any(row.ended or row.flags for row in self.rows[len(self.rows) - self.new :])


def audit_nodes(context: CampaignContext, run: int, nodes: Sequence[NodeId], unsafe: bool) -> AuditReport:
    """Score these nodes on the split, one after the other; the baseline first where it has no score there yet."""
    context = context_of_run(context, run)
    if any(node.run != run for node in nodes):
        raise Misuse("an audit covers one run: audit the nodes of another run by themselves")
    chosen = _chosen_nodes(context, run, nodes)
    split = _held_out_split(context.task, context.repository, context.state, context.history, run)
    digest, audit_context = split.digest, context.for_audit()
    executor = audit_context.executor(unsafe, run)
    root = context.history[context.history.runs[run].root]
    if not _has_score(_looks(context), root.id, digest, executor.machine.fingerprint):
        chosen = [root, *(node for node in chosen if node != root)]
    runner = audit_context.trial_runner(run, executor, anywhere=True)
    outcomes: list[Outcome] = []
    for node in chosen:
        with _explain_full_disk():
            outcomes.append(observe(runner, runner.start_audit(node, digest)))
        looks = [row.look for row in _looks(context) if row.node == node.id]
        context.say(f"{node.name}: look {looks[-1]} at this split")
        if outcomes[-1].ending is Ending.CANCELLED:
            break
    history = context.recorder.refresh()
    rows = _rows(history, _events_until(history, context.ledger), split, run)
    conclude_audits(context, run)
    return AuditReport(rows, len(outcomes))


def list_audits(record: SavedRecord, run: int) -> list[AuditRow]:
    """Every look of a run, oldest first; for this the state may be read-only."""
    history, repository = record.history, open_own_repository(record.state.top)
    split = _held_out_split(load(repository.top), repository, record.state, history, run)
    events = _events_until(history, record.ledger)
    # What a dead process left open is closed here only, and recorded by the next verb that changes something.
    for event in list(decisions.close_abandoned(history, record.owners.is_alive)):
        events.append(Recorded(history.number + 1, time.time(), event))
        history.apply(events[-1])
    return _rows(history, events, split, run)


def _events_until(history: History, ledger: Ledger) -> list[Recorded]:
    return [recorded for recorded in ledger.read() if recorded.number <= history.number]


def _rows(history: History, events: Sequence[Recorded], split: HeldOutSplit, run: int) -> list[AuditRow]:
    nodes = {row.node for row in audits(history, events) if row.node.run == run}
    leaks = {node: split.leaks(history[node].commit) for node in nodes if not history[node].files_removed}
    return [row for row in audits(history, events, leaks) if row.node.run == run]


def _held_out_split(
    task: Task, repository: Repository, state: StateFolder, history: History, run: int
) -> HeldOutSplit:
    """The held-out split as it was when the run began."""
    search = task.without_held_out()
    files, baseline = NodeFiles(repository, state, search), history[history.runs[run].root]

    def is_shown(path: str) -> bool:
        return files.benchmark.includes(path) or search.access.is_visible(path)

    return HeldOutSplit(repository, task.audit, task.benchmark, baseline.commit, is_shown)


def _looks(context: CampaignContext) -> list[AuditRow]:
    history = context.recorder.refresh()
    return audits(history, _events_until(history, context.ledger))


def _chosen_nodes(context: CampaignContext, run: int, nodes: Sequence[NodeId]) -> list[Node]:
    if context.task.audit == Audit():
        raise Misuse(f"loopty.toml names no held-out split: add [audit], {_EXAMPLE}")
    best = Incumbents.of(context.history.runs[run], Pool.ATTEMPT).best
    if best is None:
        raise Misuse("there is no best node yet: run `loopty optimize` first")
    chosen = [context.history[node] for node in nodes or (best,)]
    for node in chosen:
        require_same_criteria(context, node)
        if node.outcome is None or not node.outcome.is_finished:
            raise Misuse(f"{node.name} has no score in the search to compare with: audit a node that has one")
    return chosen


def _has_score(rows: Sequence[AuditRow], node: NodeId, split: str, fingerprint: str) -> bool:
    known = (node, split, fingerprint)
    return any((row.node, row.split, row.fingerprint) == known and row.held_out is not None for row in rows)


@contextmanager
def _explain_full_disk() -> Iterator[None]:
    """Turn a full disk into one line. The look is recorded, or will be when loopty starts again."""
    remedy = "free some space and audit again; recorded events are safe, and this look counts"
    try:
        yield
    except GitError as error:
        raise Misuse(f"{str(error).splitlines()[0]} (is the disk full?): {remedy}") from error
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        raise Misuse(f"the disk is full: {remedy}") from error
