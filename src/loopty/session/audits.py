"""Audits: nodes on the held-out split, what earlier looks found, and the summary of a run beside them."""

from __future__ import annotations

import errno
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.task import Audit, Task
from loopty.domain.trial import Ending, Outcome, Pool
from loopty.engine import decisions
from loopty.git.command import GitError
from loopty.git.repository import Repository
from loopty.kit.records import Record
from loopty.record.directives import AuditAnchors
from loopty.record.fold import Recorded
from loopty.record.history import History
from loopty.record.ledger import Ledger
from loopty.record.node_record import Node
from loopty.record.verdicts import Incumbents
from loopty.session.by_hand import observe
from loopty.session.combination import context_of_run
from loopty.session.context import CampaignContext
from loopty.session.queries import node_detail, node_diff, report, search_context
from loopty.session.runs import require_same_criteria
from loopty.session.saved_record import SavedRecord
from loopty.session.trust import open_own_repository
from loopty.show.audits import AuditRow, audit_conclusion, audits
from loopty.show.run_summary import RunSummary, WholeChange, summary_steps
from loopty.taskfile.read import load
from loopty.workspaces.held_out import HeldOutSplit
from loopty.workspaces.node_files import NodeFiles
from loopty.workspaces.state_folder import StateFolder


def conclude_audits(context: CampaignContext, run: int) -> None:
    """Let the run know which gains do not carry over, where an audit ended since: no number of the split."""
    history = context.recorder.refresh()
    known = AuditAnchors.of(history.runs[run])
    if not known.has_new_audit:
        return

    events = _events_until(history, context.ledger)
    if context.task.audit == Audit():  # taken out of the task since
        rows = [row for row in audits(history, events) if row.node.run == run]
    else:
        split = _held_out_split(context.task, context.repository, context.state, history, run)
        rows = _rows(history, events, split, run)
    found = audit_conclusion(run, rows, context.task.anchors.audits)
    context.recorder.record(lambda _: [found])
    if found.text and found.text != known.text:
        context.say(found.text)


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
        """Say whether a new look gave no score, or found something wrong."""
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
    """List every look of a run, oldest first; for this the state may be read-only."""
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
    """Return the held-out split as it was when the run began."""
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
        raise Misuse("there is no best node yet: run `loopty run` first")
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


_MOST_POINTS = 4_000


def summarize_run(record: SavedRecord, run: int, node: NodeId | None = None) -> RunSummary:
    """Summarize a run, about this node or its best one."""
    history = record.history
    root = history.runs[run].root
    if node == root:
        raise Misuse(f"{history.name(node)} is the baseline: name a node that changes something")
    found = node or Incumbents.of(history.runs[run], Pool.ATTEMPT).best
    winner = None if found == root else found
    context = search_context(record.state, record.owners, history, run)
    parts = report(record, run, 0, most_points=_MOST_POINTS)
    steps, hidden = summary_steps(history, winner) if winner else ((), 0)
    return RunSummary(
        statement=context.task.statement if context.task else "",
        status=parts.status,
        tally=parts.tally,
        goodput=parts.goodput,
        points=parts.points,
        winner=node_detail(record, winner) if winner else None,
        change=_whole_change(record, winner) if winner else None,
        steps=steps,
        hidden_steps=hidden,
        failed=context.failed,
        audits=tuple(row for row in list_audits(record, run) if row.node == winner),
    )


def _whole_change(record: SavedRecord, node: NodeId) -> WholeChange | None:
    if record.history[node].files_removed:
        return None
    diff = node_diff(record, node, baseline=True)
    return WholeChange(diff.patch, {name: (change.before, change.after) for name, change in diff.params.items()})
