"""From `loopty.toml` to a working loop: the one place that knows which class stands behind which name."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loopty.campaign.proposer_factory import Proposing
from loopty.campaign.rig import Trying
from loopty.domain.access import TASK_FILE
from loopty.domain.errors import Misuse
from loopty.domain.gate_spec import Gate
from loopty.domain.ids import NodeId
from loopty.domain.model import Role
from loopty.domain.objective import Objective
from loopty.domain.outcome import Verdict
from loopty.domain.pool import Pool
from loopty.domain.task import PluginChoice, Pools, Task
from loopty.engine import decisions
from loopty.engine.decisions import Judging
from loopty.engine.protocols import Pruner, Reviewer, Trial
from loopty.executors.process_locks import ProcessLocks
from loopty.ledgers.sqlite import SqliteLedger
from loopty.models.purse import RunPurse
from loopty.record.cohorts import Cohorts
from loopty.record.event import Event
from loopty.record.history import History
from loopty.record.node_gates import NodeGates
from loopty.record.node_record import Node
from loopty.record.recorder import Recorder
from loopty.record.run_record import Run
from loopty.record.runs import RunStarted
from loopty.taskfile import plugins, read
from loopty.workspaces import stages
from loopty.workspaces.node_files import NodeFiles
from loopty.workspaces.node_leftovers import NodeLeftovers
from loopty.workspaces.repository import Repository
from loopty.workspaces.state_folder import StateFolder

if TYPE_CHECKING:
    from loopty.campaign.role_models import RoleModels
    from loopty.engine.loop import Loop, Pace
    from loopty.engine.trial_runner import TrialRunner
    from loopty.evaluators.command import RunGates
    from loopty.executors.fingerprint import Machine
    from loopty.executors.local_slots import LocalExecutor
    from loopty.verifiers.judged_metrics import JudgedExecutor
    from loopty.workspaces.held_out import HeldOutSplit

    TrialExecutor = LocalExecutor | JudgedExecutor[Machine]


@dataclass(frozen=True)
class Campaign:
    """Everything that it takes to change the tree of one repository."""

    task: Task
    repository: Repository
    state: StateFolder
    recorder: Recorder
    files: NodeFiles
    owner: str
    _lines: dict[int | None, RoleModels] = field(default_factory=dict)

    @classmethod
    def open(cls, start: Path) -> Campaign:
        """The campaign of the repository around this directory; what dead processes left open is closed."""
        repository = Repository.open(start)
        task = read.load(repository.top)
        state = StateFolder(repository.top)
        state.prepare()
        recorder = Recorder(SqliteLedger(state.ledger), time.time)
        owners = ProcessLocks(state.owners)
        recorder.record(lambda history: decisions.close_abandoned(history, owners.is_alive))
        files = NodeFiles(repository, state, task.without_held_out())
        return cls(task, repository, state, recorder, files, owners.claim())

    @property
    def history(self) -> History:
        return self.recorder.history

    def enter_run(self, new: bool, say: Callable[[str], None]) -> int:
        """The run to work on: the newest, or a new one when asked for or when the criteria changed."""
        latest = self.history.run
        base = self.repository.snapshot("The working tree when a run began")
        benchmark, data = self.files.benchmark_digest(base.commit), self.data_digest()
        stated = self.task.criteria(benchmark, data)
        if latest is not None and not new and latest.criteria_parts == stated:
            changed = self.repository.changes(self.history[latest.root].commit, base.commit)
            if any(change.path != TASK_FILE for change in changed):
                say(
                    f"run {latest.number} goes on from its own baseline; your files have changed since "
                    "(--new-run starts from them)"
                )
            return latest.number
        why = "the first run" if latest is None else "asked for" if new else "the criteria changed"

        taken = self._highest_run_with_branches()

        def started(history: History) -> list[Event]:
            newer = history.run and (latest is None or history.run.number > latest.number)
            if newer and history.run and history.run.criteria_parts == stated:
                return []  # another process was faster, and means the same run
            return decisions.start_run(history, self.task, benchmark, data, base, why, after=taken)

        self.recorder.record(started)
        run = max(self.history.runs)
        if latest is not None and not new:
            say(
                f"{_changed(latest.criteria_parts, stated)}: results are not comparable with run {latest.number}, "
                f"so this is run {run} with a new baseline"
            )
        if self.task.access.write and not self.files.has_benchmark_files(base.commit):
            say(
                "warning: no file is known to be the benchmark's, so proposals may change it: name benchmark.files"
            )
        self.files.publish(self.history[self.history.runs[run].root], None)
        return run

    def _comparable(self, run: Run, machine: Machine) -> None:
        """Refuse to go on with a run whose incumbent was measured on another machine."""
        from loopty.executors.fingerprint import differences

        if self.history[run.root].verdict is not Verdict.KEPT or Cohorts.of(run).fingerprint == machine.digest:
            return
        lines = differences(Cohorts.of(run).machines.get(Cohorts.of(run).fingerprint, {}), machine.facts)
        raise Misuse(
            f"run {run.number} was measured under other conditions ({'; '.join(lines)}): results would not be "
            "comparable; `loopty rebaseline` measures the incumbent here and goes on, "
            "`loopty optimize --new-run` starts anew"
        )

    def data_digest(self) -> str:
        """A digest of the benchmark's data outside the repository."""
        if not self.task.benchmark.data:
            return ""
        from loopty.workspaces import seals

        return seals.data_digest(self.state.top, self.task.benchmark.data)

    def _highest_run_with_branches(self) -> int:
        """Runs of another working tree, or of a ledger that is gone: their branches are not ours to move."""
        numbers = (re.match(r"loopty-(\d+)(\.|$)", name) for name in self.repository.branches("loopty-*"))
        return max((int(number[1]) for number in numbers if number), default=0)

    def same_criteria(self, node: Node) -> None:
        """Refuse to measure a node under other criteria than its run's."""
        run = self.history.runs[node.id.run]
        stated = self.task.criteria(run.benchmark, self.data_digest())
        if run.criteria_parts != stated:
            raise Misuse(
                f"{_changed(run.criteria_parts, stated)} since run {run.number} began: results would not be "
                "comparable; start a new run with `loopty optimize --new-run`"
            )

    def executor(self, unsafe: bool, run: int | None = None) -> TrialExecutor:
        """What executes trials here; the fingerprint of its results names the run's benchmark too."""
        serving = self.lines(run).serving if self.task.roles.user.model else None
        executor = self._trying.executor(unsafe, self.history.runs.get(run or 0), serving)
        if not self.task.verifier.judged or run is None:
            return executor
        from loopty.verifiers.judged_metrics import JudgedExecutor

        lines, judged = self.lines(run), self.task.verifier.judged
        line, most = lines.of(Role.VERIFIER), lines.prompt_tokens(Role.VERIFIER)
        return JudgedExecutor(executor, executor.machine, judged, line, self._traces, most)

    def _traces(self, trial: Trial) -> Path:
        return stages.results_folder(self.state, trial) / "traces"

    def lines(self, run: int | None) -> RoleModels:
        """The models of a run; without one, of a check, whose costs are held against the caps and forgotten."""
        from loopty.campaign.role_models import RoleModels

        if run not in self._lines:
            recorder, number = (self.recorder, run) if run is not None else (_forgetful(), 1)
            purse = RunPurse(recorder, number, self.task.pools, self.owner, self.task.roles)
            self._lines[run] = RoleModels(self.task, self.state, purse)
        return self._lines[run]

    def gatekeeper(self, unsafe: bool) -> RunGates:
        """What runs the gates of a trial alone."""
        return self._trying.gatekeeper(unsafe)

    @property
    def _trying(self) -> Trying:
        return Trying(self.task, self.repository, self.state, self.files, self.recorder.refresh)

    def auditing(self) -> Campaign:
        """The campaign whose trials see the held-out split; nothing is proposed in it."""
        task = self.task.for_audit()
        return replace(self, task=task, files=NodeFiles(self.repository, self.state, task))

    def split(self, run: int) -> HeldOutSplit:
        """The held-out split as a run began with it."""
        from loopty.workspaces.held_out import HeldOutSplit

        access, baseline = self.task.without_held_out().access, self.history[self.history.runs[run].root]

        def shown(path: str) -> bool:
            return self.files.is_benchmark_file(path) or access.is_visible(path)

        return HeldOutSplit(self.repository, self.task.audit, self.task.benchmark, baseline.commit, shown)

    def gates(self, node: NodeId) -> tuple[Gate, ...]:
        """The gates that a node must pass: the task's, and those added to it or above it."""
        return (*self.task.gates, *NodeGates.of(self.history.runs[node.run]).gates_of(node))

    def measure(self, run: int, executor: TrialExecutor, anywhere: bool = False) -> TrialRunner:
        """What runs and records trials; unless `anywhere`, only where the run's results are comparable."""
        from loopty.engine.trial_runner import TrialRunner

        machine = executor.machine
        if not anywhere:
            self._comparable(self.history.runs[run], machine)
        self.recorder.record(lambda history: decisions.note_machine(history, run, machine.digest, machine.facts))
        task, reviewer = self.task, None if anywhere else self._reviewer(run)
        judging = Judging(task.pools, task.noise, reviewer.mode if reviewer else "off")
        return TrialRunner(self.recorder, judging, task.gates, executor, self.files, self.owner, reviewer)

    def _reviewer(self, run: int) -> Reviewer | None:
        asked = self.task.verifier
        if asked.review == "off":
            return None
        from loopty.verifiers.winner_review import WinnerReviewer

        lines, patch, statement = self.lines(run), self.repository.patch, self.task.statement
        line, most = lines.of(Role.VERIFIER), lines.prompt_tokens(Role.VERIFIER)
        return WinnerReviewer(line, asked.review, statement, asked.rules, lambda: self.history, patch, most)

    def loop(self, run: int, unsafe: bool) -> Loop:
        """The loop over one run, with the proposer and the control that the task names."""
        from loopty.engine.loop import Loop
        from loopty.engine.prune_watch import PruneWatch
        from loopty.evaluators.command import read_curve

        lines = self.lines(run)
        proposing = Proposing(self.task, self.files, NodeLeftovers(self.state), lines)
        lanes = {Pool.ATTEMPT: proposing.proposer()}
        if self.task.pools.control:
            lanes[Pool.CONTROL] = proposing.control()
        return Loop(
            self.recorder,
            run,
            self.task.pools,
            lanes,
            self.measure(run, self.executor(unsafe, run)),
            self.files,
            PruneWatch(
                lambda: self.history,
                _pruner(self.task.pruner),
                lambda node: read_curve(self.state.node_folder(node.id)),
            ),
            lines.purse,
            self.owner,
            time.time,
            _pace(self.task.pools),
        )


def _forgetful() -> Recorder:
    """A ledger of one run that is gone with the process."""
    from loopty.ledgers.memory import MemoryLedger

    recorder = Recorder(MemoryLedger(), time.time)
    recorder.record(lambda _: [RunStarted(1, "", Objective(), 0, "a check")])
    return recorder


def _pace(pools: Pools) -> Pace | None:
    """What keeps proposals to so many a minute."""
    if pools.iterations_per_minute is None:
        return None
    from loopty.models.throttle import Throttle

    throttle = Throttle(pools.iterations_per_minute)

    async def pace() -> None:
        await throttle.start()

    return pace


def _changed(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Which of the criteria have changed, in words."""
    if not before:
        return "the criteria were recorded by an older loopty"
    parts = [name for name in after if before.get(name) != after[name]]
    return f"the criteria have changed ({', '.join(parts)})"


def _pruner(choice: PluginChoice) -> Pruner | None:
    if choice.kind == "none":
        return None
    made: Any = plugins.options_class(plugins.PRUNERS, choice.kind)(**choice.options)
    return made  # type: ignore[no-any-return]
