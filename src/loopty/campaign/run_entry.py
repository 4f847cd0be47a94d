"""Which run to work on: the newest, or a new one when the criteria changed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from loopty.campaign.context import CampaignContext, Say
from loopty.domain.access import TASK_FILE
from loopty.domain.errors import Misuse
from loopty.record.event import Event
from loopty.record.frozen_pools import FrozenPool
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.run_record import Run
from loopty.record.verdicts import has_failed
from loopty.workspaces.node_refs import NodeRefs
from loopty.workspaces.repository import Repository


def enter_run(context: CampaignContext, new: bool = False, refuse: Callable[[], None] = lambda: None) -> int:
    """The number of the run to work on: the newest, or a new one when wanted or when the criteria changed.

    `refuse` raises what makes a start impossible: before a new run is recorded for it.
    """
    context.require_trust()
    task, say, latest = context.task, context.say, _newest_search(context.history)
    base = context.repository.working_tree.snapshot("The working tree when a run began")
    benchmark, data = context.files.benchmark.digest(base.commit), context.data_digest()
    criteria = task.criteria(benchmark, data)
    if latest is not None and not new and latest.criteria_parts == criteria:
        changes = context.repository.changes(context.history[latest.root].commit, base.commit)
        if any(change.path != TASK_FILE for change in changes):
            say(
                f"run {latest.number} continues from its own baseline; your files have changed since "
                "(--new-run starts from them)"
            )
        return latest.number
    refuse()
    why = "the first run" if latest is None else "asked for" if new else "the criteria changed"
    highest, files = _highest_run_with_refs(context.repository, say), context.files.with_declarations(base)

    def decide(history: History) -> list[Event]:
        from loopty.campaign.run_start import start_run

        found = _newest_search(history)
        newer = found and (latest is None or found.number > latest.number)
        if newer and found and found.criteria_parts == criteria:
            return []  # another process was faster, and means the same run
        return start_run(history, task, benchmark, data, files, why, after=highest)

    context.recorder.record(decide)
    run = max(context.history.runs)
    if latest is not None and not new:
        say(
            f"{_change_text(latest.criteria_parts, criteria)}: results are not comparable with run "
            f"{latest.number}, so this is run {run} with a new baseline"
        )
    if task.access.write and not context.files.benchmark.has_any(base.commit):
        say(
            "warning: no file is known to belong to the benchmark, so proposals may change it: "
            "name its files under benchmark.files"
        )
    context.files.publish(context.history[context.history.runs[run].root], None)
    return run


def require_same_criteria(context: CampaignContext, node: Node) -> None:
    """Refuse to measure a node under criteria other than its run's."""
    run = context.history.runs[node.id.run]
    criteria = context.task.criteria(run.benchmark, context.data_digest())
    if run.criteria_parts != criteria:
        raise Misuse(
            f"{_change_text(run.criteria_parts, criteria)} since run {run.number} began, so results would not be "
            "comparable: start a new run with `loopty optimize`"
        )


def _newest_search(history: History) -> Run | None:
    """The newest run that combines no other one and whose baseline has not failed."""
    runs = sorted(history.runs.values(), key=lambda run: -run.number)
    return next((run for run in runs if not (FrozenPool.of(run).base or has_failed(history, run))), None)


def _highest_run_with_refs(repository: Repository, say: Say) -> int:
    """The highest run of any ref or `loopty-N` branch: those of another ledger are not ours to move."""
    found = (re.match(r"loopty-(\d+)(\.|$)", name) for name in repository.refs.branches("loopty-*"))
    branches = [int(number[1]) for number in found if number]
    if len(branches) > 1 and not repository.refs.wants_branches:
        say(f"{len(branches)} branches are named like nodes: `loopty gc` moves those that an earlier version made")
    return max((*NodeRefs(repository).runs(), *branches), default=0)


def _change_text(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Which of the criteria changed."""
    if not before:
        return "the criteria were recorded by an older loopty"
    parts = [name for name in after if before.get(name) != after[name]]
    return f"the criteria have changed ({', '.join(parts)})"
