"""Which run to work on: the newest, or one that starts now, with the past versions that it measures first."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping

from loopty.domain.access import TASK_FILE
from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.proposal import Proposal, complete_params
from loopty.domain.task import Task, digest
from loopty.domain.trial import Pool
from loopty.engine.protocols import CommittedFiles
from loopty.git.command import GitError
from loopty.git.repository import Repository
from loopty.git.working_tree import committed_files
from loopty.proposers.mutate import OPERATOR, PastVersion
from loopty.record.fold import Event
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.nodes import NodeAdded
from loopty.record.run_record import Run
from loopty.record.search_summary import FrozenPool
from loopty.record.sessions import RunStarted
from loopty.record.verdicts import has_failed
from loopty.session import lookup
from loopty.session.carry import add_candidate, prepare_candidate
from loopty.session.context import CampaignContext
from loopty.session.criteria_changes import change_text, changed_names
from loopty.workspaces.node_refs import NodeRefs

BASELINE = "baseline"


def start_run(
    history: History,
    task: Task,
    benchmark: str,
    data: str,
    base: CommittedFiles,
    why: str,
    after: int = 0,
    secret: str | None = None,
) -> list[Event]:
    """Start a run with its baseline. `benchmark` and `data` are digests of the benchmark's files and of its data.

    The run's number is above those in this ledger and above `after`. Its secret is drawn here, if not given.
    """
    number = max(after, *history.runs, 0) + 1
    root = NodeId(str(number))
    parts = task.criteria(benchmark, data)
    params = complete_params(base.declared, task.space.baseline())
    secret = os.urandom(16).hex() if secret is None else secret
    return [
        RunStarted(
            run=number,
            criteria=digest(parts),
            objective=task.objective,
            seed=task.seed,
            why=why,
            benchmark=benchmark,
            data=data,
            criteria_parts=parts,
            secret=secret,
        ),
        NodeAdded(
            node=root,
            pool=Pool.ATTEMPT,
            operator=BASELINE,
            summary="the code as it is",
            commit=base.commit,
            tree=base.tree,
            params=params,
            declared=base.declared,
        ),
    ]


def enter_run(
    context: CampaignContext, new: bool = False, refuse: Callable[[], None] = lambda: None, start_from: str = ""
) -> int:
    """Return the number of the run to work on: the newest, or a new one when wanted or the criteria changed.

    `refuse` raises what makes a start impossible: before a new run is recorded for it. `start_from` names what a
    new run measures first: `best` of the run before, a node, or nothing but the `baseline`. By default it is the
    best, if the criteria changed.
    """
    context.require_trust()
    task, say, latest = context.task, context.say, _newest_search(context.history)
    base = context.repository.working_tree.snapshot("The working tree when a run began")
    benchmark, data = context.files.benchmark.digest(base.commit), context.data_digest()
    criteria = task.criteria(benchmark, data)
    if latest is not None and not new and latest.criteria_parts == criteria:
        if start_from:
            raise Misuse(f"run {latest.number} continues: --from is for a new one, add --new-run")
        changes = context.repository.changes(context.history[latest.root].commit, base.commit)
        if any(change.path != TASK_FILE for change in changes):
            say(
                f"run {latest.number} continues from its own baseline; your files have changed since "
                "(--new-run starts from them)"
            )
        return latest.number
    refuse()
    change = (
        change_text(latest.criteria_parts, criteria, changed_names(context, latest, base.commit)) if latest else ""
    )
    why = "the first run" if latest is None else "asked for" if new else change
    carried = prepare_candidate(context, latest, base.commit, start_from or (lookup.BASELINE if new else ""))
    highest, files = _highest_run_with_refs(context.repository), context.files.with_declarations(base)

    def decide(history: History) -> list[Event]:
        found = _newest_search(history)
        newer = found and (latest is None or found.number > latest.number)
        if newer and found and found.criteria_parts == criteria:
            return []  # another process was faster, and means the same run
        return start_run(history, task, benchmark, data, files, why, after=highest)

    context.recorder.record(decide)
    run = max(context.history.runs)
    if latest is not None and not new:
        say(f"{change}: results are not comparable with run {latest.number}, so this is run {run}")
    if task.access.write and not context.files.benchmark.has_any(base.commit):
        say(
            "warning: no file is known to belong to the benchmark, so proposals may change it: "
            "name its files under benchmark.files"
        )
    context.files.publish(context.history[context.history.runs[run].root], None)
    if carried:
        add_candidate(context, run, carried)
    return run


def require_same_criteria(context: CampaignContext, node: Node) -> None:
    """Refuse to measure a node under criteria other than its run's."""
    run = context.history.runs[node.id.run]
    criteria = context.task.criteria(run.benchmark, context.data_digest())
    if run.criteria_parts != criteria:
        raise Misuse(
            f"{change_text(run.criteria_parts, criteria)} since run {run.number} began, so results would not be "
            "comparable: start a new run with `loopty run`"
        )


def _newest_search(history: History) -> Run | None:
    """Find the newest run that combines no other one and whose baseline has not failed."""
    runs = sorted(history.runs.values(), key=lambda run: -run.number)
    return next((run for run in runs if not (FrozenPool.of(run).base or has_failed(history, run))), None)


def _highest_run_with_refs(repository: Repository) -> int:
    """Find the highest run of any ref or `loopty-N` branch: those of another ledger are not ours to move."""
    found = (re.match(r"loopty-(\d+)(\.|$)", name) for name in repository.refs.branches("loopty-*"))
    branches = [int(number[1]) for number in found if number]
    return max((*NodeRefs(repository).runs(), *branches), default=0)


_SHORT = 10


def version_commits(repository: Repository, task: Task) -> Mapping[str, str]:
    """Return the commits of the versions by their names. Raises Misuse if a name is none."""
    return {name: _commit(repository, name) for name in task.anchors.versions}


def _commit(repository: Repository, name: str) -> str:
    try:
        return committed_files(repository.git, name).commit
    except GitError:
        raise Misuse(
            f"{name!r} under [anchors] versions is no commit of this repository: fetch it with "
            "`git fetch --tags`, or take it out of loopty.toml"
        ) from None


def unmeasured_versions(context: CampaignContext, run: int, commits: Mapping[str, str]) -> list[PastVersion]:
    """List the versions new to the run, as changes of its baseline; the user learns why one is left out."""
    root = context.history[context.history.runs[run].root]
    measured = {node.summary for node in context.history.nodes(run, Pool.VERSION)}
    found: list[PastVersion] = []
    for name, commit in commits.items():
        summary = f"version {name} ({commit[:_SHORT]})"
        if summary in measured:
            continue
        version = PastVersion(summary, _edits(context, root, commit))
        proposal = Proposal(OPERATOR, root.id, summary, edits=version.edits)
        if not version.edits:
            context.say(f"{summary} is not measured: its files that may change are those of the baseline")
        elif any(version.edits == other.edits for other in found):
            context.say(f"{summary} is not measured: it is the same as another one")
        elif reason := context.files.refusal(root, proposal):
            context.say(f"{summary} is not measured: {reason}")
        else:
            found.append(version)
    return found


def has_open_version(history: History, run: int) -> bool:
    """Say whether a version of the run waits for its verdict: the process that measured it was ended."""
    return any(node.is_pending for node in history.nodes(run, Pool.VERSION))


def _edits(context: CampaignContext, root: Node, commit: str) -> dict[str, str | bytes | None]:
    """Return what turns the baseline's files that may change into those of the version."""
    files, repository = context.files, context.repository
    then, now = repository.files(commit), repository.files(root.commit)
    there, here = set(files.writable_files(commit)), set(files.writable_files(root.commit))
    changed = sorted(path for path in there if path not in now or now[path].blob != then[path].blob)
    return {**{path: repository.content(commit, path) for path in changed}, **dict.fromkeys(sorted(here - there))}
