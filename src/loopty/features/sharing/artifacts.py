"""Artifacts: pack a node so that any machine can measure it again; measure one again, and compare."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from loopty.domain.access import TASK_FILE
from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.model import Role, RoleBudget, Roles
from loopty.domain.objective import Metric
from loopty.domain.proposal import Proposal
from loopty.domain.task import PluginChoice, Task
from loopty.domain.trial import Ending, Outcome, Pool, differences
from loopty.engine import decisions
from loopty.git.repository import Repository
from loopty.kit.records import Record, replace
from loopty.kit.temporary_folder import temporary_folder
from loopty.record.fold import Event
from loopty.record.history import History
from loopty.record.node_record import Result
from loopty.record.nodes import NodeGates, require_files
from loopty.record.trials import Cohorts
from loopty.session import hand_decisions
from loopty.session.by_hand import observe
from loopty.session.combination import context_of_run
from loopty.session.context import CampaignContext, Say
from loopty.session.runs import require_same_criteria, start_run
from loopty.session.saved_record import SavedRecord
from loopty.session.trust import TaskHere, open_own_repository
from loopty.show.reproduction import Reproduction, reproduction
from loopty.taskfile.model_tables import user_config_file, user_config_models
from loopty.taskfile.read import load
from loopty.taskfile.task_requests import model_requests, task_requests
from loopty.version import __version__
from loopty.workspaces.artifact import UnpackedArtifact, open_artifact, pack_artifact, unpack_artifact
from loopty.workspaces.manifest import Manifest
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
    """Read the task file as it was when the run began."""
    if TASK_FILE in repository.entries(manifest.baseline_commit, [TASK_FILE]):
        return repository.content(manifest.baseline_commit, TASK_FILE)
    task = load(state.top)
    if task.criteria(manifest.benchmark, manifest.data) != manifest.criteria or task.seed != manifest.seed:
        raise Misuse(f"{TASK_FILE} has changed since the run began, and git ignores it: restore the old one")
    return (state.top / TASK_FILE).read_bytes()


_NO_PROPOSER = PluginChoice("mutate")


class Replay(Record):
    """A node measured again, beside its record."""

    node: NodeId
    then: Result
    outcomes: list[Outcome]
    reproduction: Reproduction
    noise: Mapping[str, float]
    """How much each metric varied when the record was made."""
    task_differences: list[str]
    """Why the measurement now differs in kind from the one then, whatever it gives."""
    machine_differences: list[str]

    @property
    def now(self) -> Outcome:
        return self.outcomes[-1]

    @property
    def was_cancelled(self) -> bool:
        return self.now.ending is Ending.CANCELLED

    @property
    def is_same(self) -> bool:
        return self.reproduction.is_same and not self.task_differences


class _Record(Record):
    """A node that can be measured in this context, and what was measured before."""

    name: NodeId
    context: CampaignContext
    node: NodeId
    results: Mapping[str, Result]
    """By fingerprint; the first belongs to the verdict."""
    machines: Mapping[str, Mapping[str, str]]
    criteria: Mapping[str, str]
    counting: tuple[Metric, ...]
    contradictions: tuple[str, ...] = ()

    def result(self, now: Outcome) -> Result:
        """Return the result recorded on the same machine if there is one, else the one of the verdict."""
        return self.results.get(now.fingerprint) or next(iter(self.results.values()))

    def task_differences(self) -> list[str]:
        now = self.context.history.runs[self.node.run].criteria_parts
        changed = (name for name in self.criteria if name in now and self.criteria[name] != now[name])
        return [*self.contradictions, *(f"{name}: {self.criteria[name]}, now {now[name]}" for name in changed)]

    def machine_differences(self, now: Outcome) -> list[str]:
        then = self.result(now).outcome.fingerprint
        known = Cohorts.of(self.context.history.runs[self.node.run]).machines
        return differences(self.machines.get(then, {}), known.get(now.fingerprint, {}))


def replay_node(context: CampaignContext, node: NodeId, repeats: int, unsafe: bool) -> Replay:
    """Measure a node of this repository again; its verdict stays."""
    context = context_of_run(context, node.run)
    found, run = context.history[node], context.history.runs[node.run]
    if found.outcome is None:
        raise Misuse(f"{found.name} has no result to compare with: run `loopty run {found.name}` first")
    results = {found.outcome.fingerprint: Result(found.outcome, found.samples), **found.other_fingerprints}
    machines, counting = Cohorts.of(run).machines, context.history.metrics(found)
    record = _Record(
        name=node,
        context=context,
        node=node,
        results=results,
        machines=machines,
        criteria=run.criteria_parts,
        counting=counting,
    )
    return _replay(record, repeats, unsafe)


def replay_artifact(path: Path, keep: Path | None, trust: bool, repeats: int, unsafe: bool, say: Say) -> Replay:
    """Measure an artifact in a repository of its own: in `keep`, or in one that is removed afterwards.

    `trust` gives its benchmark what it asks for beyond a sandbox with its own files.
    """
    with _artifact_record(path, keep, trust, say) as record:
        return _replay(record, repeats, unsafe)


def _replay(record: _Record, repeats: int, unsafe: bool) -> Replay:
    context, node = record.context, record.context.history[record.node]
    require_same_criteria(context, node)
    outcomes: list[Outcome] = []
    while len(outcomes) < repeats and all(outcome.is_finished for outcome in outcomes):
        executor = context.executor(unsafe, node.id.run)
        runner = context.trial_runner(node.id.run, executor, anywhere=True)
        outcomes.append(observe(runner, runner.start_observation(node, Pool.REPLAY)))
    now = outcomes[-1]
    then = record.result(now)
    noise = Cohorts.of(context.history.runs[record.node.run]).noise.get(then.outcome.fingerprint, {})
    return Replay(
        node=record.name,
        then=then,
        outcomes=outcomes,
        reproduction=reproduction(then, outcomes, record.counting, noise),
        noise=noise,
        task_differences=record.task_differences(),
        machine_differences=record.machine_differences(now),
    )


@contextmanager
def _artifact_record(path: Path, keep: Path | None, trust: bool, say: Say) -> Iterator[_Record]:
    with open_artifact(path) as artifact, temporary_folder("replay") as temporary:
        unpacked = unpack_artifact(artifact, Path(temporary))
        _require_trust(
            _task_for_replay(load(Path(temporary))), [Path(temporary), *([keep] if keep else [])], trust
        )
        if keep:  # only now, so that a refusal leaves nothing in the way of the next try
            unpacked = unpack_artifact(artifact, keep)
        context = CampaignContext.for_task(
            TaskHere(unpacked.repository, load(unpacked.repository.top), ()), say, allow=True
        )
        context = replace(context, task=_task_for_replay(context.task))
        manifest, outcome = artifact.manifest, artifact.manifest.outcome
        node = _add_node(context, unpacked, manifest)
        results = {outcome.fingerprint: Result(outcome, manifest.samples), **manifest.other_fingerprints}
        yield _Record(
            name=manifest.node,
            context=context,
            node=node,
            results=results,
            machines=manifest.machines,
            criteria=manifest.criteria,
            counting=manifest.counting,
            contradictions=unpacked.contradictions,
        )


def _task_for_replay(task: Task) -> Task:
    """Return the task as a replay uses it: nothing is proposed, and the user's own model of a name counts."""
    roles = Roles(user=task.roles.user, verifier=task.roles.verifier if task.verifier.judged else RoleBudget())
    named = {*roles.user.names, *roles.verifier.names}
    known = {**task.models, **user_config_models(os.environ)}
    models = {name: spec for name, spec in known.items() if name in named}
    return replace(task, roles=roles, models=models, proposer=_NO_PROPOSER, control=_NO_PROPOSER)


def _require_trust(task: Task, tops: Sequence[Path], trust: bool) -> None:
    """Refuse a benchmark that asks for more than a sandbox with its own files, unless the user trusts it.

    An artifact never chooses which server is called, whatever the user trusts.
    """
    host_paths = (*task.benchmark.mounts, *task.benchmark.data)
    user_models = user_config_models(os.environ)
    if calls := list(model_requests(task, tops[0], user_models)):
        names = {name for role in Role for name in task.roles.of(role).names} - {*user_models}
        raise Misuse(
            f"the artifact's benchmark asks for {', '.join(map(str, calls))}, and a replay uses only models that "
            f"you have defined: define {', '.join(sorted(names))} under [models] in {user_config_file(os.environ)}"
        )
    absent = [path for path in host_paths if not (tops[0] / Path(path).expanduser()).exists()]
    requests = [*(f"your {path!r}" for path in absent), *map(str, task_requests(task, tops[0], user_models))]
    if requests and not trust:
        raise Misuse(
            f"the artifact's benchmark asks for {', '.join(requests)}: "
            f"look at its {TASK_FILE}, and add --trust if it may have that"
        )
    absent = [path for path in host_paths if not any((top / Path(path).expanduser()).exists() for top in tops)]
    if absent:
        raise Misuse(
            f"the artifact's benchmark needs {', '.join(map(repr, absent))}, which the artifact does not hold: "
            "copy it to this machine; put a relative path into a directory, and name that with --keep"
        )


def _add_node(context: CampaignContext, unpacked: UnpackedArtifact, manifest: Manifest) -> NodeId:
    """Add the artifact's node to the new ledger: as a change to the baseline, or as the baseline itself."""
    task = replace(context.task, seed=manifest.seed)
    benchmark = context.files.benchmark.digest(unpacked.baseline.commit)
    data, why = context.data_digest(), "to replay an artifact"

    def decide(history: History) -> Iterator[Event]:
        yield from start_run(history, task, benchmark, data, unpacked.baseline, why)
        root = history.runs[max(history.runs)].root
        proposal = Proposal(manifest.operator, root, manifest.summary, params=manifest.params)
        yield from decisions.add_node(history, proposal, unpacked.node, Pool.ATTEMPT)
        for gate in manifest.gates:
            yield from hand_decisions.add_gate(history, root, gate)

    context.recorder.record(decide)
    return context.history.node_of_handle(context.history.count)
