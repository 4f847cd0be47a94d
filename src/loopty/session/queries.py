"""Questions about a saved record: each answer is one typed value. They need no task file."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from loopty.domain.benchmark import Gate
from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.space import Value
from loopty.domain.task import Task, digest
from loopty.kit.records import Record
from loopty.record.history import History
from loopty.record.ledger import Owners
from loopty.record.nodes import NodeGates, require_files
from loopty.record.run_record import Run
from loopty.record.search_summary import FrozenPool
from loopty.record.workers import Workers
from loopty.session.saved_record import SavedRecord
from loopty.taskfile.read import load
from loopty.workspaces.state_folder import StateFolder

# Views are imported where they are used: each verb starts with its own alone.
if TYPE_CHECKING:
    from loopty.show.best import Cohort, LeaderboardRow
    from loopty.show.goodput import Goodput
    from loopty.show.node import NodeDetail
    from loopty.show.parameters import ParameterImportance, ParameterSlice
    from loopty.show.rated_nodes import ScorePoints
    from loopty.show.run_status import RunStatus
    from loopty.show.search_context import SearchContext
    from loopty.show.spend import SpendReport
    from loopty.show.tally import Tally


class Report(Record):
    """A run at a glance: chart, best nodes, status, what its time gave, and which parameters matter."""

    points: ScorePoints
    best: list[LeaderboardRow]
    other_cohorts: list[Cohort]
    """The best under other fingerprints: not comparable with the rest."""
    status: RunStatus
    tally: Tally
    goodput: Goodput
    importance: list[ParameterImportance]
    """How much each parameter matters; empty where there are too few trials to say."""
    slice: ParameterSlice | None
    """The scores against the parameter that was asked for, else against the most important one."""


class ParamChange(Record):
    before: Value | None
    after: Value | None


class NodeDiff(Record):
    """What a node changed, in files and parameters."""

    node: NodeId
    against: NodeId
    patch: str
    params: Mapping[str, ParamChange]


def task_of_run(task: Task, run: Run) -> Task:
    """Return the task whose limits hold in the run: the second stage's, if it combines another run's nodes."""
    return task.for_combination() if task.combiner and FrozenPool.of(run).base else task


def run_status(state: StateFolder, owners: Owners, history: History, run: int) -> RunStatus:
    """Say where a run stands, with the budget of the task file if that can be read."""
    from loopty.show.run_status import status

    task, is_alive = task_or_none(state.top), owners.is_alive
    if task is None:
        return status(history, history.runs[run], time.time(), is_alive)
    task = task_of_run(task, history.runs[run])
    return status(
        history=history,
        run=history.runs[run],
        now=time.time(),
        is_alive=is_alive,
        pools=task.pools,
        trials_at_once=task.width,
        noise=task.noise,
        stated_width=task.stated_width,
    )


def search_context(
    state: StateFolder, owners: Owners, history: History, run: int, node: NodeId | None = None
) -> SearchContext:
    """Tell what anyone who joins the search has to know, with the task file if that can be read."""
    from loopty.show.search_context import search_context

    task, is_alive = task_or_none(state.top), owners.is_alive
    return search_context(history, history.runs[run], task, time.time(), is_alive, node)


def report(
    record: SavedRecord, run: int, top: int, parameter: str | None = None, most_points: int | None = None
) -> Report:
    """Return everything that `loopty report` shows; the scores are drawn against `parameter`.

    It has every point of the chart, or about `most_points` of them.
    """
    from loopty.show.best import leaderboard, other_cohorts
    from loopty.show.goodput import goodput
    from loopty.show.parameters import parameter_importance, parameter_slice, parameters_of
    from loopty.show.rated_nodes import points, rated_nodes
    from loopty.show.tally import tally

    history = record.history
    rated = rated_nodes(history, run)
    if parameter is not None and parameter not in (known := parameters_of(history, run, rated)):
        names = ", ".join(known) or "none"
        raise Misuse(f"no trial has the parameter {parameter}: there are {names}")
    where = run_status(record.state, record.owners, history, run)
    importance = parameter_importance(history, run, rated)
    task = task_or_none(record.state.top)
    workers = Workers.of(history.runs[run]).most
    trial_slots = workers or (task.width if task else 1)
    model_slots = min(task.questions, workers or task.questions) if task else 1
    drawn = parameter or (importance[0].name if importance else None)
    return Report(
        points=points(history, run, rated, most_points),
        best=leaderboard(history, run, top),
        other_cohorts=other_cohorts(history, run, top, rated),
        status=where,
        tally=tally(history, run, rated),
        goodput=goodput(history, history.runs[run], where.work_seconds, trial_slots, model_slots, rated),
        importance=importance,
        slice=parameter_slice(history, run, drawn, rated) if drawn else None,
    )


def node_detail(record: SavedRecord, node: NodeId) -> NodeDetail:
    """Return everything that is known about a node."""
    from loopty.show.node import detail

    run = record.history.runs[record.history[node].id.run]
    return detail(record.history, node, _task_gates(record.state.top, run))


def node_diff(record: SavedRecord, node: NodeId, baseline: bool = False) -> NodeDiff:
    """Return what a node changed in its parent, or with `baseline` in the run's baseline."""
    from loopty.session.trust import open_own_repository

    history, found = record.history, record.history[node]
    other = history[history.runs[node.run].root if baseline else node.parent or node]
    require_files(found)
    require_files(other)
    patch = (
        open_own_repository(record.state.top).patches.between(other.commit, found.commit).decode(errors="replace")
    )
    changes = {
        name: ParamChange(other.params.get(name), found.params.get(name))
        for name in {**other.params, **found.params}
        if other.params.get(name) != found.params.get(name)
    }
    return NodeDiff(node, other.id, patch, changes)


def spend_report(record: SavedRecord, run: int) -> SpendReport:
    """Report what models cost a run, with the caps of the task file if that can be read."""
    from loopty.models.prices import free_model_check
    from loopty.show.spend import spend

    task, history, events = task_or_none(record.state.top), record.history, record.call_events()
    if task is None:
        return spend(history, events, run, free_model_check({}))
    return spend(history, events, run, free_model_check(task.models), task.pools, task.roles)


def gates(record: SavedRecord, node: NodeId | None, run: int) -> list[tuple[str, Gate]]:
    """List the gates of the task and of nodes, and where each was added; with a node, those it must pass."""
    from loopty.git.repository import Repository

    if node:
        node = record.history[node].id
    task = load(Repository.open(record.state.top).top)
    rows: list[tuple[str, Gate]] = [("task", gate) for gate in task.gates]
    for above, added in NodeGates.of(record.history.runs[run]).by_node.items():
        if node is None or node.is_within(above):
            rows += [(above, gate) for gate in added]
    return rows


def task_or_none(top: Path) -> Task | None:
    """Return the task, or None if its file cannot be read: a record can be shown without it."""
    try:
        return load(top)
    except Misuse:
        return None


def _task_gates(top: Path, run: Run) -> tuple[Gate, ...]:
    """Return the gates of the task file, unless it has other ones than when the run began."""
    task = task_or_none(top)
    return task.gates if task and digest(task.gates) == run.criteria_parts.get("gates") else ()
