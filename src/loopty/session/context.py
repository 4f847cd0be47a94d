"""What every verb works with: the task, the repository, its state, the ledger, and what is built from them."""

from __future__ import annotations

import shlex
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from loopty.domain.benchmark import Gate
from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.model import Role
from loopty.domain.objective import Objective
from loopty.domain.task import Rig, Task
from loopty.domain.trial import Machine, Verdict, differences
from loopty.engine import decisions
from loopty.engine.protocols import Executor, Reviewer, Trial
from loopty.engine.trial_runner import TrialRunner
from loopty.executors.process_locks import ProcessLocks
from loopty.git.repository import Repository
from loopty.judge.tuning import Judging, Tuning
from loopty.kit.records import Record, field, replace
from loopty.kit.safe_folder import SafeFolder
from loopty.ledgers.open_ledger import open_ledger
from loopty.models.purse import RunPurse
from loopty.proposers.verifiers.comparison import JudgedExecutor
from loopty.proposers.verifiers.winner_review import WinnerReviewer
from loopty.record.history import History
from loopty.record.ledger import Ledger, Owners
from loopty.record.nodes import FilesStored, NodeGates
from loopty.record.recorder import Recorder
from loopty.record.run_record import Run
from loopty.record.sessions import RunStarted
from loopty.record.trials import Cohorts, note_machine
from loopty.session.saved_record import refold_progress
from loopty.session.trust import TaskHere, refusal_text
from loopty.taskfile.task_requests import TaskRequest
from loopty.workspaces import seals
from loopty.workspaces.node_files import NodeFiles
from loopty.workspaces.node_folders import NodeFolders
from loopty.workspaces.state_folder import OLD_LEDGER, StateFolder

if TYPE_CHECKING:
    import asyncio
    from contextlib import AbstractAsyncContextManager

    from loopty.domain.task import Rig
    from loopty.engine.trial_runner import TrialRunner
    from loopty.evaluators.command import RunGates, RunInTree
    from loopty.judge.tuning import Tuning
    from loopty.session.models import RoleModels
    from loopty.session.trial_setup import TrialSetup
    from loopty.workspaces.shared_files import NodeSharing


Say = Callable[[str], None]
"""Shows a person one line about what happens."""


class CampaignContext(Record):
    """One repository with its task, opened to change its tree of experiments."""

    task: Task
    repository: Repository
    state: StateFolder
    ledger: Ledger
    owners: Owners
    recorder: Recorder
    files: NodeFiles
    owner: str
    say: Say
    refused_requests: tuple[TaskRequest, ...] = ()
    """What the task asks for and the user has not allowed: as long as there is any, nothing of the task runs."""
    sharing: NodeSharing | None = None
    """How other clones get the files of nodes, where the user has chosen a store."""
    _role_models: dict[int | None, RoleModels] = field(default_factory=dict)

    @classmethod
    def open(cls, start: Path, say: Say, allow: bool = False) -> CampaignContext:
        """Open the context of the repository around this directory. Closes what dead processes left open.

        With `allow`, the user has just allowed what the task asks for; else the saved permissions count.
        """
        return cls.for_task(TaskHere.read(Repository.open(start)), say, allow)

    @classmethod
    def for_task(cls, here: TaskHere, say: Say, allow: bool = False) -> CampaignContext:
        """Open the context of a task that is already read: an artifact's is a stranger's."""
        repository, task = here.repository, here.task
        refused = () if allow or here.are_trusted() else here.requests
        if not (allow or refused):
            repository.allow_programs()
        state = StateFolder.of(repository.folders)
        _refuse_tracked_files(repository)
        state.prepare()
        if state.has_old_ledger():
            say(f"{OLD_LEDGER}; remove it")
        ledger = open_ledger(state.ledger_url)
        recorder = Recorder(ledger, ledger.now, refold_progress(say))
        recorder.on_wait = say
        owners = ledger.owners(ProcessLocks(state.owners))
        recorder.record(
            lambda history: decisions.close_abandoned(history, lambda owner: not owners.exclude(owner))
        )
        sharing = _share_files(repository, state, recorder)
        files = NodeFiles(repository, state, task.without_held_out(), sharing)
        return cls(
            task=task,
            repository=repository,
            state=state,
            ledger=ledger,
            owners=owners,
            recorder=recorder,
            files=files,
            owner=owners.claim(),
            say=say,
            refused_requests=refused,
            sharing=sharing,
        )

    @property
    def history(self) -> History:
        return self.recorder.history

    @property
    def folders(self) -> NodeFolders:
        """Return what is kept of nodes, here or in the shared store."""
        return self.files.folders

    def gates(self, node: NodeId) -> tuple[Gate, ...]:
        """List the gates that a node must pass: the task's, and those added to it or to its ancestors."""
        return (*self.task.gates, *NodeGates.of(self.history.runs[node.run]).gates_of(node))

    def require_trust(self) -> None:
        """Refuse to run anything of a task that asks for more than the user has allowed."""
        if self.refused_requests:
            raise Misuse(refusal_text(self.refused_requests))

    def data_digest(self) -> str:
        """Compute a digest of the benchmark's data outside the repository."""
        self.require_trust()
        if not self.task.benchmark.data:
            return ""

        return seals.data_digest(self.state.top, self.task.benchmark.data)

    def role_models(self, run: int | None) -> RoleModels:
        """Return a run's models; without a run, a check's, whose costs count against caps and are forgotten."""
        from loopty.session.models import RoleModels

        self.require_trust()
        if run not in self._role_models:
            recorder, number = (self.recorder, run) if run is not None else (_throwaway_recorder(), 1)
            purse = RunPurse(recorder, number, self.task.pools, self.owner, self.task.roles)
            self._role_models[run] = RoleModels(self.task, self.state, purse)
        return self._role_models[run]

    def rig(self, unsafe: bool, run: int | None = None) -> Rig:
        """Say how trials of a run are run; without one, those of a check."""
        self.require_trust()
        task, found = self.task.without_held_out(), self.history.runs.get(run or 0)
        return Rig(
            benchmark=task.benchmark,
            limits=task.limits,
            access=task.access,
            audit=task.audit,
            sandbox=task.sandbox,
            unsafe=unsafe,
            benchmark_digest=found.benchmark if found else "",
            data_digest=found.data if found else "",
            gate_commands=tuple(gate.command for gate in task.gates if gate.command),
        )

    def executor(self, unsafe: bool, run: int | None = None) -> Executor:
        """Make the executor of the trials of a run on this machine; without one, of a check."""
        task = self.task
        serve_model = self.role_models(run).serve_trial if task.roles.user.model else None
        return self.judged_executor(self._setup(unsafe, run).executor(task.width, serve_model, self.say), run)

    def judged_executor(self, executor: Executor, run: int | None) -> Executor:
        """Return the executor, with the metrics that the verifier judges if the task has some."""
        task = self.task
        if not task.verifier.judged or run is None:
            return executor

        models = self.role_models(run)
        model, limit = models.of(Role.VERIFIER), models.prompt_tokens(Role.VERIFIER)
        return JudgedExecutor(executor, task.verifier.judged, model, self._traces_folder, limit)

    def run_gates(self, unsafe: bool) -> RunGates:
        """Return the function that runs the gates of a trial alone."""
        return self._setup(unsafe).run_gates()

    def run_in_tree(self, unsafe: bool) -> RunInTree:
        """Return the function that runs any command on the files of a trial's node."""
        return self._setup(unsafe).run_in_tree()

    def hold_place(self, cancel: asyncio.Event) -> AbstractAsyncContextManager[str]:
        """Hold a slot and the resources of a trial, for what runs beside trials; yields why it cannot, if so."""
        return self._setup(unsafe=False).hold_place(self.task.width, cancel)

    def _setup(self, unsafe: bool, run: int | None = None) -> TrialSetup:
        from loopty.session.trial_setup import TrialSetup

        rig = self.rig(unsafe, run)
        return TrialSetup(rig, self.repository, self.state, self.files, self.recorder.refresh)

    def trial_runner(
        self, run: int, executor: Executor, anywhere: bool = False, is_pool: bool = False
    ) -> TrialRunner:
        """Make what runs and records a run's trials. Unless `anywhere`, only where its results are comparable."""
        machine = executor.machine
        # A pool sees to that itself: it measures the incumbent on each machine first.
        if not (anywhere or is_pool):
            self._refuse_other_machine(self.history.runs[run], machine)
        self.recorder.record(lambda history: note_machine(history, run, machine.fingerprint, machine.facts))
        task, reviewer = self.task, None if anywhere else self._reviewer(run)
        review = reviewer.mode if reviewer else "off"
        judging = Judging(
            pools=task.pools,
            noise=task.noise,
            review=review,
            tuning=None if anywhere else self.tuning(),
            editable_share=task.profile.editable_share,
        )
        return TrialRunner(
            recorder=self.recorder,
            judging=judging,
            gates=task.gates,
            executor=executor,
            workspaces=self.files,
            owner=self.owner,
            reviewer=reviewer,
        )

    def for_audit(self) -> CampaignContext:
        """Return the context whose trials see the held-out split; nothing is proposed in it."""
        task = self.task.for_audit()
        return replace(self, task=task, files=NodeFiles(self.repository, self.state, task, self.sharing))

    def _refuse_other_machine(self, run: Run, machine: Machine) -> None:
        """Refuse to continue a run whose incumbent was measured on another machine."""
        cohorts = Cohorts.of(run)
        if self.history[run.root].verdict is not Verdict.KEPT or cohorts.fingerprint == machine.fingerprint:
            return
        lines = differences(cohorts.machines.get(cohorts.fingerprint, {}), machine.facts)
        raise Misuse(
            f"run {run.number} was measured under other conditions ({'; '.join(lines)}), so results would not be "
            "comparable: `loopty measure rebaseline` measures the incumbent here and continues, "
            "`loopty run --new-run` starts a new run"
        )

    def _reviewer(self, run: int) -> Reviewer | None:
        verifier = self.task.verifier
        if verifier.review == "off":
            return None

        models, patch, statement = self.role_models(run), self.repository.patches.between, self.task.statement
        model, limit = models.of(Role.VERIFIER), models.prompt_tokens(Role.VERIFIER)
        return WinnerReviewer(
            role_model=model,
            mode=verifier.review,
            statement=statement,
            rules=verifier.rules,
            history=lambda: self.history,
            diff_commits=patch,
            max_prompt_tokens=limit,
        )

    def tuning(self) -> Tuning | None:
        """Say how proposals of this task are tuned; None if they are not."""
        tune = self.task.tune
        if not (tune and tune.trials):
            return None
        from loopty.proposers.parameters.tune_samplers import make_draw

        return Tuning(tune, self.task.space, make_draw(tune.sampler))

    def _traces_folder(self, trial: Trial) -> SafeFolder:
        from loopty.workspaces import stages

        return stages.results_folder(self.state, trial).below("traces")


def _share_files(repository: Repository, state: StateFolder, recorder: Recorder) -> NodeSharing | None:
    """Share the files of nodes with other clones, where the user has chosen a store."""
    if not state.store_url:
        return None
    from loopty.session.places import open_shared_files
    from loopty.workspaces.shared_files import NodeSharing

    def note(node: NodeId, digest: str) -> None:
        recorder.record(lambda _: [FilesStored(node, digest)])

    shared = open_shared_files(state, repository.git)
    assert shared is not None
    repository.restore_with(shared.restore)
    shared.send_what_waits()
    return NodeSharing(shared, lambda: recorder.history, note)


def _refuse_tracked_files(repository: Repository) -> None:
    """Refuse a repository that brings files into loopty's own folder: they could be links to the user's."""
    if path := repository.working_tree.foreign_state_path():
        folder = path.partition("/")[0]
        raise Misuse(
            f"the repository tracks {path!r}, where loopty keeps files of its own: look at it, then remove it "
            f"with `git rm -r --cached {shlex.quote(folder)}` and `rm -r {shlex.quote(folder)}`"
        )


def _throwaway_recorder() -> Recorder:
    """Make the recorder of a run that is gone with the process."""
    recorder = Recorder(open_ledger("memory:"), time.time)
    recorder.record(lambda _: [RunStarted(1, "", Objective(), 0, "a check")])
    return recorder
