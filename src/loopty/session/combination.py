"""The second stage of a search: a run of its own over a frozen pool of the search's nodes and their artifacts."""

from __future__ import annotations

import hashlib
import json
from typing import TypeVar

from loopty.domain.errors import Misuse
from loopty.domain.ids import handle_name
from loopty.domain.model import RoleBudget
from loopty.domain.space import Params
from loopty.domain.task import Pools, Task
from loopty.domain.task_tables import POOL_FOLDER
from loopty.engine.protocols import CommittedFiles
from loopty.evaluators.command import ARTIFACTS, LARGEST_FILE
from loopty.kit.records import replace
from loopty.record.calls import Spend
from loopty.record.fold import Event
from loopty.record.history import History
from loopty.record.nodes import NodeAdded
from loopty.record.run_record import Run
from loopty.record.search_summary import FrozenPool, PoolFrozen, PoolMember
from loopty.record.verdicts import has_failed
from loopty.session.context import CampaignContext
from loopty.session.runs import start_run
from loopty.workspaces.node_files import NodeFiles
from loopty.workspaces.node_folders import NodeFolder

_FEWEST_MEMBERS = 2
_REMEDY = "restore its file, or leave the node out of the pool with `loopty node reject {node}`"
Caps = TypeVar("Caps", Pools, RoleBudget)


def context_of_run(context: CampaignContext, run: int) -> CampaignContext:
    """Return the context in which nodes of this run are measured: the second stage's, if the run is one."""
    # There may be no such run: whoever asks for one of its nodes says so.
    found = context.history.runs.get(run)
    return _stage_context(context, run) if found and FrozenPool.of(found).base else context


def enter_combination(context: CampaignContext, base: int) -> tuple[CampaignContext, int] | None:
    """Return the context and the run that combine the nodes of the search `base`; None if there are too few.

    It continues the run that there is, as long as its criteria are the task's.
    """
    from loopty.show.chosen_nodes import choose_pool

    task = _stage_task(context.task, context.history.runs[base])
    data = context.data_digest()
    if found := _newest_combination(context.history, task, base, data):
        return _stage_context(context, found), found
    combine = context.task.combine
    members = choose_pool(context.history, base, combine.members, combine.patches)
    if len(members) < _FEWEST_MEMBERS:
        needed, remedy = "two nodes with artifacts", "write files to $LOOPTY_ARTIFACTS_DIR"
        if combine.patches:
            needed, remedy = "two nodes with different files", "let the search go on"
        context.say(f"nothing is combined: it takes {needed}, and run {base} has {len(members)}; {remedy}")
        return None
    number = _start_run(context, task, base, members, data)
    context.say(f"run {number} combines {len(members)} nodes of run {base}")
    return _stage_context(context, number), number


def _newest_combination(history: History, task: Task, base: int, data: str) -> int | None:
    """Find the newest run over nodes of `base` whose criteria are the task's."""
    runs = (run for run in history.runs.values() if not has_failed(history, run))
    ours = (run for run in runs if FrozenPool.of(run).base == base)
    numbers = (run.number for run in ours if run.criteria_parts == task.criteria(run.benchmark, data))
    return max(numbers, default=None)


def _start_run(context: CampaignContext, task: Task, base: int, members: list[PoolMember], data: str) -> int:
    best = context.history[members[0].node]
    files = context.files.commit(best, _pool_files(context, members), f"The pool of run {base}")
    stage_files = NodeFiles(context.repository, context.state, task, context.sharing)
    benchmark = stage_files.benchmark.digest(files.commit)

    def decide(history: History) -> list[Event]:
        if _newest_combination(history, task, base, data):
            return []  # another process was faster, and means the same run
        return _stage_events(
            history=history,
            task=task,
            base=base,
            members=members,
            benchmark=benchmark,
            data=data,
            files=files,
            best_params=best.params,
        )

    context.recorder.record(decide)
    number = _newest_combination(context.history, task, base, data)
    assert number is not None
    root = context.history[context.history.runs[number].root]
    stage_files.publish(root, None)
    return number


def _stage_events(
    history: History,
    task: Task,
    base: int,
    members: list[PoolMember],
    benchmark: str,
    data: str,
    files: CommittedFiles,
    best_params: Params,
) -> list[Event]:
    nodes = tuple(member.node for member in members)
    why = f"combines {len(members)} nodes of run {base}"
    started, root = start_run(history, task, benchmark, data, files, why)
    assert isinstance(root, NodeAdded)
    declared = {name: value for name, value in best_params.items() if name in files.declared}
    root = replace(root, summary=why, merged=nodes, params={**root.params, **declared})
    return [started, root, PoolFrozen(root.node.run, base, tuple(members))]


def _pool_files(context: CampaignContext, members: list[PoolMember]) -> dict[str, str | bytes | None]:
    """Lay out the pool as files: a folder for each member, and an index. No artifact is interpreted."""
    folders = context.folders
    files: dict[str, str | bytes | None] = {}
    try:
        for member in members:
            folder, shown = folders.open(member.node), handle_name(member.handle)
            for name, digest in member.artifacts.items():
                files[f"{POOL_FOLDER}/{member.node.name}/{name}"] = read_artifact(folder, shown, digest)
    finally:
        folders.close()
    index = [
        {"node": str(one.node), "folder": one.node.name, "score": one.score, "files": sorted(one.artifacts)}
        for one in members
    ]
    files[f"{POOL_FOLDER}/pool.json"] = json.dumps({"members": index}, indent=1) + "\n"
    return files


def read_artifact(folder: NodeFolder, node: str, digest: str) -> bytes:
    """Read an artifact of the node as it was published. Raises Misuse if it is gone or was changed."""
    try:
        content = folder.read(f"{ARTIFACTS}/{digest}", LARGEST_FILE + 1)
    except OSError:
        raise Misuse(f"an artifact of {node} is gone: {_REMEDY.format(node=node)}") from None
    if hashlib.sha256(content).hexdigest() != digest:
        raise Misuse(f"an artifact of {node} was changed by hand: {_REMEDY.format(node=node)}")
    return content


def _stage_context(context: CampaignContext, run: int) -> CampaignContext:
    base = FrozenPool.of(context.history.runs[run]).base
    task = _stage_task(context.task, context.history.runs[base])
    return replace(
        context,
        task=task,
        files=NodeFiles(context.repository, context.state, task.without_held_out(), context.sharing),
    )


def _stage_task(task: Task, base: Run) -> Task:
    """Return the task of the second stage. What the search has spent on models counts against the same caps."""
    if not task.combine:
        raise Misuse("the run combines nodes of another one: put the table [combine] back into loopty.toml")
    spend = Spend.of(base)
    stage = task.for_combination()
    roles = replace(stage.roles, evolver=_rest_of(stage.roles.evolver, spend))
    return replace(stage, pools=_rest_of(stage.pools, spend), roles=roles)


def _rest_of(caps: Caps, spend: Spend) -> Caps:
    """Return what is left under these caps."""
    tokens, money = caps.tokens, caps.money_usd
    return replace(
        caps,
        tokens=None if tokens is None else max(tokens - spend.total_tokens, 0),
        money_usd=None if money is None else max(money - spend.total_money_usd, 0.0),
    )
