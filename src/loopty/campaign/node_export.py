"""Export: pack a node as an artifact that can be measured again on any machine."""

from __future__ import annotations

import os
from pathlib import Path

from loopty.campaign.own_repository import open_own_repository
from loopty.campaign.saved_record import SavedRecord
from loopty.domain.access import TASK_FILE
from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.kit.records import Record
from loopty.record.cohorts import Cohorts
from loopty.record.history import History
from loopty.record.node_gates import NodeGates
from loopty.record.removed_files import require_files
from loopty.taskfile.read import load
from loopty.version import __version__
from loopty.workspaces.artifact_pack import pack_artifact
from loopty.workspaces.manifest import Manifest
from loopty.workspaces.repository import Repository
from loopty.workspaces.state_folder import StateFolder


class ExportedArtifact(Record):
    """Where a node was packed."""

    node: NodeId
    path: Path
    digest: str


def export_node(record: SavedRecord, node: NodeId, to: Path | None, force: bool) -> ExportedArtifact:
    """Pack a node: a tarball where `to` ends in .tar.gz, else a folder. The same node gives the same bytes."""
    state, repository = record.state, open_own_repository(record.state.top)
    manifest = _manifest(record.history, node, _verdict_time(record, node))
    # Absolute without resolving links: the path is shown as it was given, and made where that is.
    path = Path(os.path.abspath(to)) if to else _default_path(state, node)  # noqa: PTH100
    task_file = _task_file(repository, state, manifest)
    digest = pack_artifact(repository, manifest, task_file, record.folders.open(node), path, force)
    return ExportedArtifact(node, path, digest)


def _default_path(state: StateFolder, node: NodeId) -> Path:
    return state.artifacts.make().path_for_programs() / f"{node.branch}.tar.gz"


def _verdict_time(record: SavedRecord, node: NodeId) -> float:
    found = record.history[node]
    require_files(found)
    if found.outcome is None or found.verdict is None:
        raise Misuse(f"{found.name} has no result and verdict to export: run `loopty run {found.name}` first")
    return next(record.ledger.read(after=found.judged - 1)).at


def _manifest(history: History, node: NodeId, judged_at: float) -> Manifest:
    found, run = history[node], history.runs[node.run]
    root, machines = history[run.root], Cohorts.of(run).machines
    assert found.outcome is not None
    assert found.verdict is not None
    fingerprints = (found.outcome.fingerprint, *found.other_fingerprints)
    return Manifest(
        node=node,
        operator=found.operator,
        summary=found.summary,
        commit=found.commit,
        tree=found.tree,
        baseline_commit=root.commit,
        baseline_tree=root.tree,
        seed=run.seed,
        verdict=found.verdict,
        reason=found.reason,
        judged_at=judged_at,
        objective=run.objective,
        counting=history.metrics(found),
        outcome=found.outcome,
        benchmark=run.benchmark,
        data=run.data,
        criteria=run.criteria_parts,
        loopty=__version__,
        params=found.params,
        gates=NodeGates.of(run).gates_of(node),
        samples=found.samples,
        effect=found.effect,
        other_fingerprints=found.other_fingerprints,
        machines={one: machines[one] for one in fingerprints if one in machines},
    )


def _task_file(repository: Repository, state: StateFolder, manifest: Manifest) -> bytes:
    """The task file as it was when the run began."""
    if TASK_FILE in repository.entries(manifest.baseline_commit, [TASK_FILE]):
        return repository.content(manifest.baseline_commit, TASK_FILE)
    task = load(state.top)
    if task.criteria(manifest.benchmark, manifest.data) != manifest.criteria or task.seed != manifest.seed:
        raise Misuse(f"{TASK_FILE} has changed since the run began, and git ignores it: restore the old one")
    return (state.top / TASK_FILE).read_bytes()
