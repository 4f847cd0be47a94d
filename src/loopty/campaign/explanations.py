"""Explains failed trials. The remedy is looked up when it is shown, not recorded.

The record has what happened: the reason, the lines of the error, the name of the log. The remedy depends on this
machine and on the task file of now: an environment that was made meanwhile, a mount that was added. So the rules
run when somebody looks, they help with old records, too, and no advice in a ledger gets stale.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from loopty.campaign.saved_record import SavedRecord
from loopty.causes.explanation import Explanation
from loopty.domain.outcome import Ending, Verdict
from loopty.kit.by_name import by_name
from loopty.record.node_record import Node

if TYPE_CHECKING:
    from loopty.causes.cause import Cause
    from loopty.domain.task import Task

_KNOWN_CAUSE = "loopty.campaign.this_host:known_cause"
_NO_FAILURE = (Ending.FINISHED, Ending.PRUNED, Ending.STOPPED, Ending.CANCELLED)


def explain_node(record: SavedRecord, node: Node) -> Explanation | None:
    """The explanation of a node that failed, or None where it did not.

    Only for a baseline it has a cause: it is the user's own code, and what a candidate prints must not choose what
    the user is advised to do. A candidate runs under the settings that its baseline passed.
    """
    outcome, state = node.outcome, record.state
    if outcome is None:
        return None
    is_failed_baseline = node.id.parent is None and node.verdict in (Verdict.DISCARDED, Verdict.REJECTED)
    if outcome.ending in _NO_FAILURE and not is_failed_baseline:
        return None
    log = state.node_copy(node.id).file_at(outcome.log).shown_path if outcome.log else None
    if log:
        from loopty.workspaces.node_description import analysis_files

        with contextlib.suppress(OSError):  # without room for a copy, the lines of the error have to do
            record.folders.lay_out(node.id, analysis_files(node, record.history))
    cause = known_cause(state.top, node.reason, outcome.error_lines) if is_failed_baseline else None
    return Explanation(outcome.error_lines, str(log or ""), cause)


def known_cause(
    top: Path, reason: str, lines: Sequence[str], task: Task | None = None, output: str = ""
) -> Cause | None:
    """Return the known cause of a failure of the user's own code, or None."""
    # By its name: the rules are a feature above this floor, and a verb that shows no failure must start fast.
    found: Cause | None = by_name(_KNOWN_CAUSE)(top, reason, lines, task, output)
    return found
