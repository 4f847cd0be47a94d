"""From a rig to an executor on this machine: sandbox, toolchain, stages, evaluator, fingerprint."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import loopty_sdk
from loopty.domain.launch import Mount, Sandbox
from loopty.domain.machine import Machine
from loopty.domain.rig import Rig
from loopty.record.history import History
from loopty.sandboxes.toolchain import Toolchain, user_toolchain
from loopty.workspaces.node_files import NodeFiles
from loopty.workspaces.repository import Repository
from loopty.workspaces.stages import BENCHMARK, INBOX, OUTBOX, TREE, Stages
from loopty.workspaces.state_folder import StateFolder

if TYPE_CHECKING:
    from loopty.evaluators.command import CommandEvaluator, RunGates, RunInTree
    from loopty.executors.local_slots import LocalExecutor
    from loopty.models.endpoint.trial_access import ServeTrial

_SDK = "/loopty/sdk"
_CANDIDATE = "/loopty/candidate"


@dataclass(frozen=True)
class TrialSetup:
    """Builds what runs the trials of a rig on this machine."""

    rig: Rig
    repository: Repository
    state: StateFolder
    files: NodeFiles
    refresh: Callable[[], History]

    def executor(self, width: int, serve_model: ServeTrial | None) -> LocalExecutor:
        """The executor of trials; `serve_model` gives the benchmark its model."""
        from loopty.executors.local_slots import LocalExecutor

        sandbox, trial_owner = self._sandbox()
        tools = _tools(sandbox)
        evaluator = self._evaluator(tools, sandbox, trial_owner, serve_model)
        return LocalExecutor(
            evaluator.evaluate, width, self.rig.benchmark.resources, self._machine(sandbox.name, tools.path)
        )

    def run_gates(self) -> RunGates:
        """The function that runs the gates of a trial alone."""
        sandbox, trial_owner = self._sandbox()
        return self._evaluator(_tools(sandbox), sandbox, trial_owner, None).run_gates

    def run_in_tree(self) -> RunInTree:
        """The function that runs any command on the files of a trial's node."""
        sandbox, trial_owner = self._sandbox()
        return self._evaluator(_tools(sandbox), sandbox, trial_owner, None).run_in_tree

    def _evaluator(
        self,
        tools: Toolchain,
        sandbox: Sandbox,
        trial_owner: tuple[int, int] | None,
        serve_model: ServeTrial | None,
    ) -> CommandEvaluator:
        from loopty.evaluators.command import CommandEvaluator
        from loopty.evaluators.contract import SandboxPaths

        stages = Stages(self.repository, self.state, self.rig, self.files, trial_owner)
        stages.sweep(self.refresh)
        sdk = Path(loopty_sdk.__file__).resolve().parent
        return CommandEvaluator(
            self.rig.benchmark,
            self.rig.limits,
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
            serve_model=serve_model,
        )

    def _sandbox(self) -> tuple[Sandbox, tuple[int, int] | None]:
        """The back end, and the uid and gid that own a trial's files when that is not this user."""
        if self.rig.unsafe:
            from loopty.sandboxes.unsafe import Unsafe

            return Unsafe(), None
        from loopty.sandboxes.choice import choose_sandbox
        from loopty.sandboxes.trial_user import trial_owner

        return choose_sandbox(self.rig.sandbox, self.state.probes), trial_owner()

    def _machine(self, sandbox: str, path: str) -> Machine:
        from loopty.executors.fingerprint import this_machine

        limits = self.rig.limits
        facts = {
            "limits": f"{limits.memory_mb} MB, {limits.processes} processes, {limits.disk_mb} MB disk",
            "slice": "whole",
            "evaluator": self.rig.benchmark_digest[:12],
            "data": self.rig.data_digest[:12],
        }
        python, compiler = (shutil.which(name, path=path) if path else None for name in ("python3", "cc"))
        return this_machine(sandbox, python, facts, compiler=compiler)


def _tools(sandbox: Sandbox) -> Toolchain:
    """The programs that trials call by name: the user's, except in a container, whose image brings its own."""
    return Toolchain((), "") if sandbox.name.startswith("container") else user_toolchain()
