"""Audits: score nodes on the held-out split, and list what earlier looks found."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from loopty.campaign.by_hand import observe
from loopty.campaign.context import CampaignContext
from loopty.campaign.run_entry import require_same_criteria
from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.outcome import Ending
from loopty.domain.pool import Pool
from loopty.domain.task import Audit
from loopty.record.node_record import Node
from loopty.record.verdicts import Incumbents
from loopty.views.audit_rows import AuditRow, audits
from loopty.workspaces.git_session import GitError

_EXAMPLE = """for example
  [audit]
  files = ["data/held-out.csv"]
  command = "python3 bench.py data/held-out.csv\""""


@dataclass(frozen=True, slots=True)
class AuditReport:
    """Every look of a run at the split, oldest first; the last `new` of them were made now."""

    rows: list[AuditRow]
    new: int

    @property
    def raises_doubt(self) -> bool:
        """Whether a new look gave no score, or found something wrong."""
        return any(row.ended or row.flags for row in self.rows[len(self.rows) - self.new :])


def audit_nodes(context: CampaignContext, run: int, nodes: Sequence[NodeId], unsafe: bool) -> AuditReport:
    """Score these nodes on the split, one after the other; the baseline first where it has no score there yet."""
    if any(node.run != run for node in nodes):
        raise Misuse("an audit covers one run: audit the nodes of another run by themselves")
    chosen = _chosen_nodes(context, run, nodes)
    split, audit_context = context.held_out_split(run).digest, context.for_audit()
    executor = audit_context.executor(unsafe, run)
    root = context.history[context.history.runs[run].root]
    if not _has_score(_looks(context), root.id, split, executor.machine.fingerprint):
        chosen = [root, *(node for node in chosen if node != root)]
    runner = audit_context.trial_runner(run, executor, anywhere=True)
    for count, node in enumerate(chosen, start=1):
        with _explain_full_disk():
            outcome = observe(runner, runner.start_audit(node, split))
        looks = [row.look for row in _looks(context) if row.node == node.id]
        context.say(f"{node.id}: look {looks[-1]} at this split")
        if outcome.ending is Ending.CANCELLED:
            return AuditReport(list_audits(context, run), count)
    return AuditReport(list_audits(context, run), len(chosen))


def list_audits(context: CampaignContext, run: int) -> list[AuditRow]:
    """Every look of a run, oldest first."""
    split = context.held_out_split(run)
    nodes = {row.node for row in _looks(context) if row.node.run == run}
    found = (context.history[node] for node in nodes)
    leaks = {node.id: split.leaks(node.commit) for node in found if not node.files_removed}
    return [row for row in _looks(context, leaks) if row.node.run == run]


def _looks(context: CampaignContext, leaks: dict[NodeId, list[str]] | None = None) -> list[AuditRow]:
    history = context.recorder.refresh()
    events = (recorded for recorded in context.ledger.read() if recorded.number <= history.number)
    return audits(history, events, leaks)


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
            raise Misuse(f"node {node.id} has no score in the search to compare with: audit a node that has one")
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
