"""From what a task says of its benchmark to what executes its trials: sandbox, stages, machine."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import loopty_sdk
from loopty.domain.launch import Mount, Sandbox
from loopty.domain.task import Task
from loopty.record.history import History
from loopty.record.run_record import Run
from loopty.sandboxes.toolchain import Toolchain, user_toolchain
from loopty.workspaces.node_files import NodeFiles
from loopty.workspaces.repository import Repository
from loopty.workspaces.stages import BENCHMARK, INBOX, OUTBOX, TREE, Stages
from loopty.workspaces.state_folder import StateFolder

if TYPE_CHECKING:
    from loopty.evaluators.command import CommandEvaluator, RunGates
    from loopty.executors.fingerprint import Machine
    from loopty.executors.local_slots import LocalExecutor
    from loopty.models.endpoint.trial_access import ServeTrial

_SDK = "/loopty/sdk"
_CANDIDATE = "/loopty/candidate"


@dataclass(frozen=True)
class Trying:
    """Makes what runs trials on this machine."""

    task: Task
    repository: Repository
    state: StateFolder
    files: NodeFiles
    refresh: Callable[[], History]

    def executor(self, unsafe: bool, run: Run | None, serving: ServeTrial | None) -> LocalExecutor:
        """Of the trials of a run, or of a check; `serving` gives the benchmark its model."""
        from loopty.executors.local_slots import LocalExecutor

        sandbox, trial_owner = self._sandbox(unsafe)
        tools = _tools(sandbox)
        evaluator = self._evaluator(tools, sandbox, trial_owner, serving)
        machine = self._machine(sandbox.name, tools.path, run)
        return LocalExecutor(evaluator.evaluate, self.task.width, self.task.benchmark.resources, machine)

    def gatekeeper(self, unsafe: bool) -> RunGates:
        """What runs the gates of a trial alone."""
        sandbox, trial_owner = self._sandbox(unsafe)
        return self._evaluator(_tools(sandbox), sandbox, trial_owner).run_gates

    def _evaluator(
        self,
        tools: Toolchain,
        sandbox: Sandbox,
        trial_owner: tuple[int, int] | None,
        serving: ServeTrial | None = None,
    ) -> CommandEvaluator:
        from loopty.evaluators.command import CommandEvaluator
        from loopty.evaluators.contract import SandboxPaths

        stages = Stages(self.repository, self.state, self.task.without_held_out(), self.files, trial_owner)
        stages.sweep(self.refresh)
        sdk = Path(loopty_sdk.__file__).resolve().parent
        return CommandEvaluator(
            self.task.benchmark,
            self.task.limits,
            sandbox,
            stages.stage,
            stages.find_tampering,
            SandboxPaths(TREE, BENCHMARK, INBOX, OUTBOX, _CANDIDATE, f"{_SDK}/loopty_sdk"),
            env={
                **({"PATH": tools.path} if tools.path else {}),
                "PYTHONPATH": _SDK,
                "PYTHONDONTWRITEBYTECODE": "1",
                "LANG": "C.UTF-8",
            },
            mounts=[
                *(Mount(prefix.resolve(), str(prefix)) for prefix in tools.prefixes),
                Mount(sdk, f"{_SDK}/loopty_sdk"),
            ],
            serve_model=serving,
        )

    def _sandbox(self, unsafe: bool) -> tuple[Sandbox, tuple[int, int] | None]:
        """The back end, and the uid and gid that own what a trial writes when that is not us."""
        if unsafe:
            from loopty.sandboxes.unsafe import Unsafe

            return Unsafe(), None
        from loopty.sandboxes.choice import choose_sandbox
        from loopty.sandboxes.trial_user import trial_owner

        return choose_sandbox(self.task.sandbox, self.state.probes), trial_owner()

    def _machine(self, sandbox: str, path: str, run: Run | None) -> Machine:
        from loopty.executors.fingerprint import this_machine

        limits = self.task.limits
        facts = {
            "limits": f"{limits.memory_mb} MB, {limits.processes} processes, {limits.disk_mb} MB disk",
            "slice": "whole",
            "evaluator": run.benchmark[:12] if run else "",
            "data": run.data[:12] if run else "",
        }
        python, compiler = (shutil.which(name, path=path) if path else None for name in ("python3", "cc"))
        return this_machine(sandbox, python, facts, compiler=compiler)


def _tools(sandbox: Sandbox) -> Toolchain:
    """The programs that trials call by name: the user's, except in a container, whose image brings its own."""
    return Toolchain((), "") if sandbox.name.startswith("container") else user_toolchain()
