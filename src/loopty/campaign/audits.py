"""Looking at the held-out split, and what was found there: what `audit` does."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from loopty.campaign import by_hand
from loopty.campaign.campaign import Campaign
from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.outcome import Ending
from loopty.domain.pool import Pool
from loopty.domain.task import Audit
from loopty.ledgers.sqlite import SqliteLedger
from loopty.record.node_record import Node
from loopty.record.verdicts import Incumbents
from loopty.views.audit_rows import AuditRow, audits
from loopty.workspaces.git_session import GitError

_EXAMPLE = """it would be, for example,
  [audit]
  files = ["data/held-out.csv"]
  command = "python3 bench.py data/held-out.csv\""""


def look(campaign: Campaign, run: int, nodes: Sequence[NodeId], unsafe: bool, say: Callable[[str], None]) -> int:
    """Score these nodes on the split, one after the other, the baseline first where it has no score there.

    How many looks that took.
    """
    chosen = _chosen(campaign, run, nodes)
    split, auditing = campaign.split(run).digest, campaign.auditing()
    executor = auditing.executor(unsafe, run)
    root = campaign.history[campaign.history.runs[run].root]
    if not _scored(_looks(campaign), root.id, split, executor.machine.digest):
        chosen = [root, *(node for node in chosen if node != root)]
    measure = auditing.measure(run, executor, anywhere=True)
    for taken, node in enumerate(chosen, start=1):
        with _room_on_disk():
            outcome = by_hand.looked(measure, measure.start_audit(node, split))
        looks = [row.look for row in _looks(campaign) if row.node == node.id]
        say(f"{node.id}: look {looks[-1]} at this split")
        if outcome.ending is Ending.CANCELLED:
            return taken
    return len(chosen)


def found(campaign: Campaign, run: int) -> list[AuditRow]:
    """Every look of a run, oldest first."""
    split = campaign.split(run)
    nodes = {row.node for row in _looks(campaign) if row.node.run == run}
    leaks = {node: split.leaks(campaign.history[node].commit) for node in nodes}
    return [row for row in _looks(campaign, leaks) if row.node.run == run]


def _looks(campaign: Campaign, leaks: dict[NodeId, list[str]] | None = None) -> list[AuditRow]:
    history = campaign.recorder.refresh()
    events = SqliteLedger(campaign.state.ledger).read()
    return audits(history, (item for item in events if item.number <= history.number), leaks)


def _chosen(campaign: Campaign, run: int, nodes: Sequence[NodeId]) -> list[Node]:
    if campaign.task.audit == Audit():
        raise Misuse(f"loopty.toml names no held-out split: add [audit]; {_EXAMPLE}")
    best = Incumbents.of(campaign.history.runs[run], Pool.ATTEMPT).best
    if best is None:
        raise Misuse("there is no best node yet: run `loopty optimize` first")
    chosen = [campaign.history[node] for node in nodes or (best,)]
    for node in chosen:
        campaign.same_criteria(node)
        if node.outcome is None or not node.outcome.is_finished:
            raise Misuse(f"node {node.id} has no score of the search to compare with: audit what has one")
    return chosen


def _scored(rows: Sequence[AuditRow], node: NodeId, split: str, fingerprint: str) -> bool:
    known = (node, split, fingerprint)
    return any((row.node, row.split, row.fingerprint) == known and row.held_out is not None for row in rows)


@contextmanager
def _room_on_disk() -> Iterator[None]:
    """A full disk as one line: the look that it ended is on record, or is when loopty starts again."""
    remedy = "free some space and audit again; what is recorded is safe, and this look counts"
    try:
        yield
    except GitError as error:
        raise Misuse(f"{str(error).splitlines()[0]} (is the disk full?): {remedy}") from error
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        raise Misuse(f"the disk is full: {remedy}") from error
