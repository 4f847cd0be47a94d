"""From a rig to an executor on this machine: sandbox, toolchain, stages, evaluator, fingerprint."""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import loopty_sdk
from loopty.domain.errors import Misuse
from loopty.domain.launch import Mount, Sandbox
from loopty.domain.task import Rig
from loopty.domain.trial import Machine
from loopty.evaluators.warm_commands import WarmCommands
from loopty.executors.local_slots import LocalExecutor, SharedSlots, hold_place
from loopty.executors.this_machine import this_capacity, this_machine
from loopty.git.repository import Repository
from loopty.kit import codec
from loopty.kit.kept_files import ProgramAnswers
from loopty.kit.records import Record
from loopty.record.history import History
from loopty.sandboxes.installations import (
    RepositoryEnvironment,
    editable_folders,
    is_virtual_environment,
    repository_environments,
)
from loopty.sandboxes.toolchain import Toolchain, command_programs, python_of, user_toolchain
from loopty.sandboxes.trial_view import find_devices
from loopty.workspaces.bytecode import Bytecode
from loopty.workspaces.node_files import NodeFiles
from loopty.workspaces.stages import BENCHMARK, INBOX, OUTBOX, TREE, Stages
from loopty.workspaces.state_folder import StateFolder
from loopty.workspaces.warm_packages import WarmPackages

if TYPE_CHECKING:
    import asyncio
    from contextlib import AbstractAsyncContextManager

    from loopty.evaluators.command import CommandEvaluator, RunGates, RunInTree
    from loopty.evaluators.warm_commands import WarmCommands
    from loopty.executors.local_slots import LocalExecutor
    from loopty.models.trial_access import ServeTrial

_SDK = "/loopty/sdk"
_CANDIDATE = "/loopty/candidate"
_SPARE_CORES = 0.5
"""Trials that leave so much of the machine do not wait for each other."""


class TrialSetup(Record, dict=True):
    """Builds what runs the trials of a rig on this machine."""

    rig: Rig
    repository: Repository
    state: StateFolder
    files: NodeFiles
    refresh: Callable[[], History]
    folds: bool = True
    """Whether small results go to where discarded nodes are kept, and not into folders."""

    def executor(self, width: int, serve_model: ServeTrial | None, say: Callable[[str], None]) -> LocalExecutor:
        """Make the executor of trials; `serve_model` gives the benchmark a model, `say` tells what they await."""
        sandbox, trial_owner = self._sandbox()
        tools = self._tools(sandbox)
        evaluator = self._evaluator(tools, sandbox, trial_owner, serve_model, say)
        machine = self._machine(sandbox.name, tools)
        slots, own_cores = SharedSlots(self.state.slots, width, say), width * self.rig.cores
        fills_machine = not own_cores or own_cores > this_capacity().cores - _SPARE_CORES
        return LocalExecutor(evaluator.evaluate, slots, self._resources, machine, fills_machine)

    def hold_place(self, width: int, cancel: asyncio.Event) -> AbstractAsyncContextManager[str]:
        """Hold a slot and the resources of a trial, for what runs beside it; see `executors/local_slots.py`."""
        return hold_place(SharedSlots(self.state.slots, width), self._resources, cancel)

    def sandbox_gaps(self) -> tuple[str, ...]:
        """List the protections that the sandbox lacks on this machine."""
        return tuple(sorted({str(gap.protection) for gap in self._sandbox()[0].gaps}))

    @property
    def _resources(self) -> tuple[str, ...]:
        benchmark = self.rig.benchmark
        devices = () if benchmark.share_devices else find_devices(benchmark.devices).resources
        return (*benchmark.resources, *devices)

    @functools.cached_property
    def _answers(self) -> ProgramAnswers:
        return ProgramAnswers(self.state.program_answers)

    def run_gates(self) -> RunGates:
        """Return the function that runs the gates of a trial alone."""
        sandbox, trial_owner = self._sandbox()
        return self._evaluator(self._tools(sandbox), sandbox, trial_owner, None).run_gates

    def run_in_tree(self, with_programs: bool) -> RunInTree:
        """Return the function that runs any command on the files of a trial's node, without the hidden ones.

        `with_programs`: with the files by which the benchmark runs.
        """
        sandbox, trial_owner = self._sandbox()
        tools = self._tools(sandbox)
        evaluator = self._evaluator(tools, sandbox, trial_owner, None, hides_all=True, with_programs=with_programs)
        return evaluator.run_in_tree

    def _evaluator(
        self,
        tools: _TrialPrograms,
        sandbox: Sandbox,
        trial_owner: tuple[int, int] | None,
        serve_model: ServeTrial | None,
        say: Callable[[str], None] | None = None,
        hides_all: bool = False,
        with_programs: bool = True,
    ) -> CommandEvaluator:
        from loopty.evaluators.command import CommandEvaluator
        from loopty.evaluators.contract import SandboxPaths

        environments = [environment.path for environment in tools.environments]
        machine = self._machine(sandbox.name, tools).fingerprint if self.rig.benchmark.caches else ""
        sdk = Mount(Path(loopty_sdk.__file__).resolve().parent, f"{_SDK}/loopty_sdk")
        python = python_of(self.rig.benchmark.command)
        stages = Stages(
            repository=self.repository,
            state=self.state,
            rig=self.rig,
            files=self.files,
            trial_owner=trial_owner,
            environments=environments,
            machine=machine,
            sdk=sdk,
            bytecode=self._bytecode(sandbox, tools, sdk, python) if python else None,
            folds=self.folds,
            hides_all=hides_all,
            with_programs=with_programs,
        )
        stages.sweep(self.refresh)
        paths = SandboxPaths(
            TREE,
            BENCHMARK,
            INBOX,
            OUTBOX,
            _CANDIDATE,
            sdk.target,
            host_top=str(self.repository.top),
            links_host_top=bool(environments) or any(map(is_virtual_environment, tools.toolchain.prefixes)),
        )
        return CommandEvaluator(
            self.rig.benchmark,
            self.rig.limits,
            sandbox,
            stages.stage,
            stages.find_tampering,
            paths,
            env={
                **({"PATH": tools.path} if tools.path else {}),
                **self._variables(tools.toolchain),
                "PYTHONPATH": ":".join((_SDK, *self._editable_folders(sandbox, tools))),
                "PYTHONDONTWRITEBYTECODE": "1",
                "LANG": "C.UTF-8",
            },
            mounts=[Mount(prefix.resolve(), str(prefix)) for prefix in tools.toolchain.prefixes],
            serve_model=serve_model,
            devices=find_devices(self.rig.benchmark.devices).paths,
            python=python,
            frozen_sources=stages,
            warm=self._warm_commands(sandbox, tools, stages, sdk, say)
            if say and self.rig.benchmark.warm
            else None,
        )

    def _warm_commands(
        self, sandbox: Sandbox, tools: _TrialPrograms, stages: Stages, sdk: Mount, say: Callable[[str], None]
    ) -> WarmCommands:
        """Make what starts commands as copies of a warm process."""
        benchmark, top = self.rig.benchmark, self.repository.top
        inside = BENCHMARK if benchmark.isolated else TREE
        environments = (*(one.folder for one in tools.environments), *tools.toolchain.prefixes)
        folders = {name for folder in environments for name in editable_folders(folder, top) if name != "."}
        packages = WarmPackages(self.repository, self.files, sdk.source, benchmark.isolated)
        targets = tuple(f"{inside}/{name}" for name in sorted(folders))
        return WarmCommands(benchmark, sandbox.name, packages, stages.package_mounts, targets, say)

    def _bytecode(self, sandbox: Sandbox, tools: _TrialPrograms, sdk: Mount, python: str) -> Bytecode:
        """Return the byte code of this interpreter."""
        place = Path((tools.path and shutil.which(python, path=tools.path)) or self.repository.top / python)
        try:
            program = (str(place.resolve()), place.stat().st_mtime_ns, place.stat().st_size)
        except OSError:
            program = (python, 0, 0)  # the image of a container has it
        environments = [(one.path, one.digest) for one in tools.environments]
        identity = [sandbox.name, self.rig.sandbox.image, program, tools.toolchain.installations, environments]
        return Bytecode(self.state.exports, sdk.source, codec.text(identity))

    def _variables(self, toolchain: Toolchain) -> dict[str, str]:
        """Return the variables of the toolchain; the task may build in the tree itself."""
        own = (*self.rig.benchmark.scratch, *self.rig.benchmark.caches)
        has_target = "target" in (path.strip("/") for path in own)
        in_tree = ("CARGO_TARGET_DIR",) if has_target else ()
        return {name: value for name, value in toolchain.variables.items() if name not in in_tree}

    def _editable_folders(self, sandbox: Sandbox, tools: _TrialPrograms) -> Iterator[str]:
        """Yield folders to import from, if the repository's path on the host does not lead to trial files."""
        if sandbox.name not in ("landlock", "unsafe") or self.rig.benchmark.isolated:
            return
        for environment in tools.environments:
            for folder in editable_folders(environment.folder, self.repository.top):
                yield f"{TREE}/{folder}"

    def _tools(self, sandbox: Sandbox) -> _TrialPrograms:
        """Find what the task's commands call: the user's programs; a container's image has its own."""
        top = self.repository.top
        environments = [
            environment
            for environment in repository_environments(top, self.repository.working_tree.paths_that_git_ignores())
            if self.rig.access.is_visible(environment.path)
        ]
        if sandbox.name.startswith("container"):
            return _TrialPrograms(Toolchain((), ""), "", tuple(environments), frozenset())
        benchmark, audit = self.rig.benchmark, self.rig.audit
        commands = (*benchmark.commands, audit.command, *self.rig.gate_commands)
        programs = command_programs(filter(None, commands), top)
        toolchain = user_toolchain(
            programs, top, [environment.folder for environment in environments], self._answers
        )
        # After the shell's own: a program is the one that the user's shell finds, if it finds one.
        path = ":".join((toolchain.path, *(f"{top}/{environment.programs}" for environment in environments)))
        return _TrialPrograms(toolchain, path, tuple(environments), programs)

    def _sandbox(self) -> tuple[Sandbox, tuple[int, int] | None]:
        """Return the back end, and the uid and gid that own a trial's files when that is not this user."""
        if self.rig.unsafe:
            from loopty.sandboxes.unsafe import Unsafe

            return Unsafe(), None
        from loopty.kit.process import trial_owner
        from loopty.sandboxes.choice import choose_sandbox

        return choose_sandbox(self.rig.sandbox, self.state.probes), trial_owner()

    def _machine(self, sandbox: str, tools: _TrialPrograms) -> Machine:
        limits = self.rig.limits
        facts = {
            "limits": f"{limits.memory_mb} MB, {limits.processes} processes, {limits.disk_mb} MB disk",
            "slice": "whole",
            "evaluator": self.rig.benchmark_digest[:12],
            "data": self.rig.data_digest[:12],
            "environments": ", ".join(f"{one.path} {one.digest}" for one in tools.environments),
            "devices": find_devices(self.rig.benchmark.devices).fact,
            "installations": ", ".join(tools.toolchain.installations),
            "counter": self._counter(sandbox) if self.rig.benchmark.is_counted else "",
        }
        called = {name for name in ("node", "rustc", "go") if name in tools.programs}
        called |= {"rustc"} if "cargo" in tools.programs else set()
        names = ("python3", "cc", *sorted(called))
        python, compiler, *others = (shutil.which(name, path=tools.path) if tools.path else None for name in names)
        known = list(filter(None, others))
        return this_machine(sandbox, python, facts, compiler=compiler, others=known, answers=self._answers)

    def _counter(self, sandbox: str) -> str:
        """Name the counter of instructions, as trials find it; another one counts a little differently."""
        if sandbox not in ("namespaces", "bubblewrap"):
            # A pipe that the candidate can write, but neither read nor replace, takes mounts of ours.
            raise Misuse(
                f'measure = "instructions" does not work in the sandbox {sandbox.partition(" ")[0]}: set kind = '
                '"namespaces" or "bubblewrap" under [sandbox], or measure = "clock" under [benchmark]'
            )
        if not shutil.which("valgrind"):
            raise Misuse(
                'measure = "instructions" needs valgrind: install it (apt-get install valgrind), or set '
                'measure = "clock" under [benchmark]'
            )
        return self._answers.first_line("valgrind", "--version")


class _TrialPrograms(Record):
    """The programs and environments that trials see."""

    toolchain: Toolchain
    path: str
    environments: tuple[RepositoryEnvironment, ...]
    programs: frozenset[str]
