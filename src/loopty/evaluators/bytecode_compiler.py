"""Compiles the SDK and the frozen files of a repository once, before the first trial that imports them.

The benchmark's own interpreter compiles them, in a sandbox that shows these files alone. Nothing of a candidate
runs there: neither a candidate nor a trial can write byte code that another one loads.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Protocol

from loopty.engine.protocols import Stage, Trial
from loopty.evaluators.benchmark_runner import BenchmarkRunner, Command
from loopty.evaluators.contract import SandboxPaths
from loopty.kit.records import replace
from loopty.kit.safe_folder import SafeFolder

_SECONDS = 60.0
_LIST, _OUT = "sources.list", "bytecode"

EnterStage = Callable[[AbstractContextManager[Stage]], AbstractAsyncContextManager[Stage]]


class FrozenSources(Protocol):
    """The files that no candidate can change, and where their byte code is kept."""

    def has_bytecode(self, trial: Trial) -> bool:
        """Whether those of the trial's baseline have byte code, or can have none."""
        ...

    def stage_of_sources(self, trial: Trial) -> AbstractContextManager[Stage]:
        """A stage that shows the files to compile, and nothing else of the repository."""
        ...

    def files_to_compile(self, trial: Trial) -> Mapping[str, Sequence[str]]:
        """The files that an open stage shows, by the folder in which a trial sees them."""
        ...

    def save_bytecode(self, trial: Trial, compiled: SafeFolder) -> None:
        """Keep what the compiler wrote for these files, and show it to the next trials."""
        ...


class BytecodeCompiler:
    """Sees to it that no trial of a run starts before the byte code is there, so that all have the same start."""

    def __init__(self, python: str, sources: FrozenSources, runner: BenchmarkRunner, paths: SandboxPaths) -> None:
        """`python` is the interpreter as the benchmark's command names it."""
        self._python = python
        self._sources = sources
        self._runner = runner
        self._paths = paths
        self._lock = asyncio.Lock()
        self._tried: set[str] = set()
        """Commits whose files were compiled, or could not be: then each trial compiles for itself."""

    async def prepare(self, trial: Trial, enter: EnterStage, cancel: asyncio.Event) -> None:
        """Compile what has no byte code yet. Raises SandboxError when the sandbox failed."""
        commit = trial.root.commit
        async with self._lock:
            if commit in self._tried:
                return
            if not await asyncio.to_thread(self._sources.has_bytecode, trial):
                # On the baseline's files: a candidate may have changed what the command calls.
                trial = replace(trial, node=trial.root)
                async with enter(self._sources.stage_of_sources(trial)) as stage:
                    files = self._sources.files_to_compile(trial)
                    if await self._compile(trial, stage, files, cancel):
                        compiled = stage.outbox.below(_OUT)
                        await asyncio.to_thread(self._sources.save_bytecode, trial, compiled)
            if not cancel.is_set():
                self._tried.add(commit)

    async def _compile(
        self, trial: Trial, stage: Stage, files: Mapping[str, Sequence[str]], cancel: asyncio.Event
    ) -> bool:
        """Whether all of them went through the compiler."""
        lines = (f"{number}/{name}\0" for number, names in enumerate(files.values()) for name in names)
        stage.inbox.file(_LIST).write(os.fsencode("".join(lines)))
        script, here = f"{self._paths.sdk}/compile_files.py", self._paths
        # Folders are arguments, because some back ends show them under other names.
        argv = (self._python, "-I", "-S", script, f"{here.inbox}/{_LIST}", f"{here.outbox}/{_OUT}", *files)
        logs = stage.folder.file("compiler-stdout.log"), stage.folder.file("compiler-stderr.log")
        try:
            command = Command(argv, _SECONDS, {}, stage.mounts, *logs)
            end = await self._runner.run(trial, stage, command, cancel)
        finally:
            for log in logs:
                log.remove()
        return end.exit.code == 0 and end.exit.stop is None
