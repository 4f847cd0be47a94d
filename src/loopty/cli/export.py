"""`loopty export`: a winner as an artifact."""

from __future__ import annotations

import os
from pathlib import Path

import click

from loopty import __version__
from loopty.cli.output import NodeArgument, here, json_option, print_json
from loopty.domain.access import TASK_FILE
from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.record.cohorts import Cohorts
from loopty.record.history import History
from loopty.record.node_gates import NodeGates
from loopty.workspaces.manifest import Manifest
from loopty.workspaces.repository import Repository
from loopty.workspaces.state_folder import StateFolder


@click.command("export")
@click.argument("node", type=NodeArgument())
@click.option("--to", type=click.Path(path_type=Path), help="Where. Default: below .loopty/artifacts.")
@click.option("--force", is_flag=True, help="Replace the artifact that is there.")
@json_option
def command(node: NodeId, to: Path | None, force: bool, as_json: bool) -> None:
    """Write a node down as an artifact: a tarball where --to ends in .tar.gz, else a folder.

    It holds the whole change as a patch, the parameters, the metrics with their samples, the machine, the digests
    of benchmark and data, the task file, and the baseline and the node as a git bundle without your history.
    `loopty replay` measures it again on any machine. The same node gives the same bytes.
    """
    from loopty.campaign.saved_state import found_state, read_history
    from loopty.workspaces.artifact_pack import pack_artifact

    history, state = read_history(here()), found_state(here())
    repository = Repository.open(state.top)
    manifest = _manifest(history, node, _judged_at(state, history, node))
    # From here, as `..` and links are: the place is told as it was asked for, and made where that is.
    place = Path(os.path.abspath(to)) if to else state.artifacts / f"{node.branch}.tar.gz"  # noqa: PTH100
    state.artifacts.mkdir(exist_ok=True)
    digest = pack_artifact(
        repository, manifest, _task_file(repository, state, manifest), state.node_folder(node), place, force
    )
    if as_json:
        print_json({"node": node, "path": str(place), "digest": digest})
    else:
        click.echo(f"{place} holds {node}, digest {digest[:12]}")


def _judged_at(state: StateFolder, history: History, node: NodeId) -> float:
    from loopty.ledgers.sqlite import SqliteLedger

    found = history[node]
    if found.outcome is None or found.verdict is None:
        raise Misuse(f"node {node} has no result and verdict to export: `loopty run {node}` first")
    return next(SqliteLedger(state.ledger).read(after=found.judged - 1)).at


def _manifest(history: History, node: NodeId, judged_at: float) -> Manifest:
    found, run = history[node], history.runs[node.run]
    root = history[run.root]
    assert found.outcome is not None
    assert found.verdict is not None
    seen = (found.outcome.fingerprint, *found.other_fingerprints)
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
        elsewhere=found.other_fingerprints,
        machines={
            fingerprint: Cohorts.of(run).machines[fingerprint]
            for fingerprint in seen
            if fingerprint in Cohorts.of(run).machines
        },
    )


def _task_file(repository: Repository, state: StateFolder, manifest: Manifest) -> bytes:
    """The task file as it was when the run began."""
    from loopty.taskfile.read import load

    if TASK_FILE in repository.entries(manifest.baseline_commit, [TASK_FILE]):
        return repository.content(manifest.baseline_commit, TASK_FILE)
    task = load(state.top)
    if task.criteria(manifest.benchmark, manifest.data) != manifest.criteria or task.seed != manifest.seed:
        raise Misuse(f"{TASK_FILE} has changed since the run began, and git ignores it: bring the old one back")
    return (state.top / TASK_FILE).read_bytes()
