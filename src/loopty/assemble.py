"""From `loopty.toml` to a working loop: the one place that knows which class stands behind which name."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import loopty_sdk
from loopty.core import decisions
from loopty.core.access import TASK_FILE
from loopty.core.errors import Misuse
from loopty.core.events import Event
from loopty.core.history import History
from loopty.core.launch import Mount, Sandbox
from loopty.core.outcome import Pool
from loopty.core.parts import Proposer, Pruner, Selector
from loopty.core.records import Node
from loopty.core.scribe import Scribe
from loopty.core.task import Choice, Task
from loopty.executors.owner import Owners
from loopty.ledgers.sqlite import SqliteLedger
from loopty.sandboxes.toolchain import toolchain
from loopty.taskfile import plugins, read
from loopty.workspaces import staging
from loopty.workspaces.files import Files
from loopty.workspaces.repository import Repository
from loopty.workspaces.staging import Stages
from loopty.workspaces.state import State

if TYPE_CHECKING:
    from loopty.core.loop import Loop
    from loopty.executors.local import LocalExecutor

_SDK = "/loopty/sdk"


@dataclass(frozen=True)
class Workshop:
    """Everything that it takes to change the tree of one repository."""

    task: Task
    repository: Repository
    state: State
    scribe: Scribe
    files: Files
    owner: str

    @classmethod
    def open(cls, start: Path) -> Workshop:
        """The workshop of the repository around this directory; what dead processes left open is closed."""
        repository = Repository.around(start)
        task = read.load(repository.top)
        state = State(repository.top)
        state.prepare()
        scribe = Scribe(SqliteLedger(state.ledger), time.time)
        owners = Owners(state.owners)
        scribe.decide(lambda history: decisions.recovered(history, owners.alive))
        files = Files(repository, state, task)
        return cls(task, repository, state, scribe, files, owners.this_process())

    @property
    def history(self) -> History:
        return self.scribe.history

    def enter_run(self, new: bool, say: Callable[[str], None]) -> int:
        """The run to work on: the newest, or a new one when asked for or when the criteria changed."""
        latest = self.history.run
        base = self.repository.snapshot("The working tree when a run began")
        benchmark = self.files.benchmark_digest(base.commit)
        criteria = self.task.criteria(benchmark)
        if latest is not None and not new and latest.criteria == criteria:
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
            if newer and history.run and history.run.criteria == criteria:
                return []  # another process was faster, and means the same run
            return decisions.run_started(history, self.task, benchmark, base, why, after=taken)

        self.scribe.decide(started)
        run = max(self.history.runs)
        if latest is not None and not new:
            say(
                "objective, benchmark, access rules or limits have changed: results are not comparable, "
                f"so this is run {run}"
            )
        if self.task.access.write and not self.files.benchmark_known(base.commit):
            say(
                "warning: no file is known to be the benchmark's, so proposals may change it: name benchmark.files"
            )
        self.files.publish(self.history[self.history.runs[run].root], None)
        return run

    def _highest_run_with_branches(self) -> int:
        """Runs of another working tree, or of a ledger that is gone: their branches are not ours to move."""
        numbers = (re.match(r"loopty-(\d+)(\.|$)", name) for name in self.repository.branches("loopty-*"))
        return max((int(number[1]) for number in numbers if number), default=0)

    def same_criteria(self, node: Node) -> None:
        """Refuse to measure a node under other criteria than its run's."""
        run = self.history.runs[node.id.run]
        if run.criteria != self.task.criteria(run.benchmark):
            raise Misuse(
                f"the criteria have changed since run {run.number} began: results would not be comparable; "
                "start a new run with `loopty optimize --new-run`"
            )

    def executor(self, unsafe: bool) -> LocalExecutor:
        from loopty.evaluators.command import CommandEvaluator
        from loopty.executors.local import LocalExecutor

        tools = toolchain()
        sandbox, trial_owner = _sandbox(unsafe)
        stages = Stages(self.repository, self.state, self.task, self.files, trial_owner)
        stages.sweep(self.scribe.refresh)
        sdk = Path(loopty_sdk.__file__).resolve().parent
        evaluator = CommandEvaluator(
            self.task.benchmark,
            self.task.limits,
            sandbox,
            stages.stage,
            tree=staging.TREE,
            inbox=staging.INBOX,
            outbox=staging.OUTBOX,
            env={"PATH": tools.path, "PYTHONPATH": _SDK, "PYTHONDONTWRITEBYTECODE": "1", "LANG": "C.UTF-8"},
            mounts=[
                *(Mount(prefix.resolve(), str(prefix)) for prefix in tools.prefixes),
                Mount(sdk, f"{_SDK}/loopty_sdk"),
            ],
        )
        return LocalExecutor(evaluator.evaluate, self.task.width, self.task.benchmark.resources)

    def loop(self, run: int, unsafe: bool) -> Loop:
        """The loop over one run, with the proposer and the control that the task names."""
        from loopty.core.loop import Loop
        from loopty.evaluators.command import curve

        lanes = {Pool.ATTEMPT: self._proposer("proposer", self.task.proposer)}
        if self.task.pools.control:
            lanes[Pool.CONTROL] = self._proposer("control", self.task.control)
        return Loop(
            self.scribe,
            run,
            self.task.pools,
            lanes,
            self.executor(unsafe),
            self.files,
            _pruner(self.task.pruner),
            lambda node: curve(self.state.node(node.id)),
            self.owner,
            time.time,
        )

    def _proposer(self, role: str, choice: Choice) -> Proposer:
        space = self.task.space
        if choice.kind not in plugins.PROPOSERS.kinds and (make := plugins.external(role, choice.kind)):
            made: Proposer = make(
                space=space, writable=self.files.writable, text=self.files.text, **choice.options
            )
            return made
        options = plugins.options_of(plugins.PROPOSERS, choice.kind)(**choice.options)
        match choice.kind:
            case "mutate":
                from loopty.proposers.mutate import MutateProposer

                return MutateProposer(_selector(options.parents), self.files.writable, self.files.text)
            case "grid":
                from loopty.proposers.grid import GridProposer

                return GridProposer(space, options)
            case "random":
                from loopty.proposers.random import RandomProposer

                return RandomProposer(space)
            case "tpe" | "gp":
                from loopty.proposers.optuna import RememberingProposer

                return RememberingProposer(choice.kind, space)
            case _:
                from loopty.proposers.optuna import StatefulProposer

                return StatefulProposer(choice.kind, space)


def _selector(name: str) -> Selector:
    from loopty.selectors.best import BestSelector
    from loopty.selectors.root import RootSelector
    from loopty.selectors.tournament import TournamentSelector

    kinds: dict[str, Callable[[], Selector]] = {
        "best": BestSelector,
        "root": RootSelector,
        "tournament": TournamentSelector,
    }
    return kinds[name]()


def _pruner(choice: Choice) -> Pruner | None:
    if choice.kind == "none":
        return None
    made: Any = plugins.options_of(plugins.PRUNERS, choice.kind)(**choice.options)
    return made  # type: ignore[no-any-return]


def _sandbox(unsafe: bool) -> tuple[Sandbox, tuple[int, int] | None]:
    """The back end, and the uid and gid that own what a trial writes when that is not us."""
    if unsafe:
        from loopty.sandboxes.unsafe import Unsafe

        return Unsafe(), None
    from loopty.sandboxes.bubblewrap import Bubblewrap
    from loopty.sandboxes.owner import trial_owner

    return Bubblewrap(), trial_owner()
