"""What a replay compares with: the record of a node, here or in an artifact."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from loopty.campaign.campaign import Campaign
from loopty.domain.access import TASK_FILE
from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.objective import Metric
from loopty.domain.outcome import Outcome
from loopty.domain.pool import Pool
from loopty.domain.proposal import Proposal
from loopty.domain.task import SandboxSpec, Task
from loopty.engine import decisions
from loopty.executors.fingerprint import differences
from loopty.record.cohorts import Cohorts
from loopty.record.event import Event
from loopty.record.history import History
from loopty.record.node_record import Result
from loopty.taskfile.read import load
from loopty.workspaces.artifact import UnpackedArtifact, open_artifact, unpack_artifact
from loopty.workspaces.manifest import Manifest


@dataclass(frozen=True, slots=True)
class Record:
    """A node that can be measured in this campaign, and what was measured of it before."""

    name: NodeId
    campaign: Campaign
    node: NodeId
    results: Mapping[str, Result]
    """By fingerprint; the first is the one that decided."""
    machines: Mapping[str, Mapping[str, str]]
    criteria: Mapping[str, str]
    counting: tuple[Metric, ...]
    contradictions: tuple[str, ...] = ()

    def result(self, now: Outcome) -> Result:
        """What was recorded on the same machine where that was done, else what decided."""
        return self.results.get(now.fingerprint) or next(iter(self.results.values()))

    def other_task(self) -> list[str]:
        """What makes the measurement now another one than then, whatever it gives."""
        now = self.campaign.history.runs[self.node.run].criteria_parts
        changed = (name for name in self.criteria if name in now and self.criteria[name] != now[name])
        return [*self.contradictions, *(f"{name}: {self.criteria[name]}, now {now[name]}" for name in changed)]

    def other_machine(self, now: Outcome) -> list[str]:
        then = self.result(now).outcome.fingerprint
        known = Cohorts.of(self.campaign.history.runs[self.node.run]).machines
        return differences(self.machines.get(then, {}), known.get(now.fingerprint, {}))


def of_node(campaign: Campaign, node: NodeId) -> Record:
    """The record of a node in its own repository."""
    found, run = campaign.history[node], campaign.history.runs[node.run]
    if found.outcome is None:
        raise Misuse(f"node {node} has no result to compare with: `loopty run {node}` first")
    results = {found.outcome.fingerprint: Result(found.outcome, found.samples), **found.other_fingerprints}
    return Record(
        node,
        campaign,
        node,
        results,
        Cohorts.of(run).machines,
        run.criteria_parts,
        campaign.history.metrics(found),
    )


@contextmanager
def of_artifact(path: Path, keep: Path | None, trust: bool) -> Iterator[Record]:
    """The record in an artifact, laid out as a repository of its own: in `keep`, or only while the block runs."""
    with open_artifact(path) as artifact, TemporaryDirectory(prefix="loopty-replay-") as temporary:
        laid_out = unpack_artifact(artifact, Path(temporary))
        _refuse_what_is_not_given(load(Path(temporary)), [Path(temporary), *([keep] if keep else [])], trust)
        if keep:  # only now, so that a refusal leaves nothing in the way of the next try
            laid_out = unpack_artifact(artifact, keep)
        campaign = Campaign.open(laid_out.repository.top)
        manifest, outcome = artifact.manifest, artifact.manifest.outcome
        node = _planted(campaign, laid_out, manifest)
        results = {outcome.fingerprint: Result(outcome, manifest.samples), **manifest.elsewhere}
        yield Record(
            manifest.node,
            campaign,
            node,
            results,
            manifest.machines,
            manifest.criteria,
            manifest.counting,
            laid_out.contradictions,
        )


def _refuse_what_is_not_given(task: Task, tops: Sequence[Path], trust: bool) -> None:
    """A stranger's benchmark gets a sandbox with its own files in it; what else it wants is the user's to give."""
    benchmark, named = task.benchmark, (*task.benchmark.mounts, *task.benchmark.data)
    spared = [kind for kind in SandboxSpec().require if kind not in task.sandbox.require]
    asked = [
        *(["the network"] if benchmark.network else []),
        *(f"your {path!r}" for path in named),
        *(f"no protection of kind '{kind}'" for kind in spared),
    ]
    if asked and not trust:
        raise Misuse(
            f"the artifact's benchmark asks for {', '.join(asked)}: "
            f"look at its {TASK_FILE}, and add --trust if it may have that"
        )
    if absent := [path for path in named if not any((top / Path(path).expanduser()).exists() for top in tops)]:
        raise Misuse(
            f"the artifact's benchmark needs {', '.join(map(repr, absent))}, which is no part of it: "
            "bring it here; what has a relative path belongs into a directory that you name with --keep"
        )


def _planted(campaign: Campaign, laid_out: UnpackedArtifact, manifest: Manifest) -> NodeId:
    """Give the artifact's node its place in the new ledger: a change to the baseline, or the baseline itself."""
    task = replace(campaign.task, seed=manifest.seed)
    benchmark = campaign.files.benchmark_digest(laid_out.baseline.commit)
    data, why = campaign.data_digest(), "to replay an artifact"

    def planted(history: History) -> Iterator[Event]:
        yield from decisions.start_run(history, task, benchmark, data, laid_out.baseline, why)
        root = history.runs[max(history.runs)].root
        proposal = Proposal(manifest.operator, root, manifest.summary, params=manifest.params)
        yield from decisions.add_node(history, proposal, laid_out.node, Pool.ATTEMPT)
        for gate in manifest.gates:
            yield from decisions.add_gate(history, root, gate)

    campaign.recorder.record(planted)
    return list(campaign.history.ids)[-1]
