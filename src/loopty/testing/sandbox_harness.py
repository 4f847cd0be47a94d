"""Run real commands in a real sandbox: with a read-only tree, a writable folder and an interpreter."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from loopty.domain.launch import Bounds, Exit, Launch, Mount, Sandbox
from loopty.kit.process import trial_owner
from loopty.kit.records import Record, replace

_BOUNDS = Bounds(seconds=60, memory_mb=512, processes=32, output_mb=4, disk_mb=32)
_INTERPRETER = Path(sys.base_prefix).resolve()


class CommandResult(Record):
    """How a command ended, and what it printed."""

    exit: Exit
    out: str
    err: str


class SandboxHarness(Record):
    """A tree that commands can only read, a folder that they can write, and files for their outputs."""

    root: Path
    sandbox: Sandbox

    @classmethod
    def create(cls, root: Path, sandbox: Sandbox) -> SandboxHarness:
        """Create the two folders below `root`."""
        harness = cls(root.resolve(), sandbox)
        for folder in (harness.tree, harness.edit):
            folder.mkdir()
            folder.chmod(0o755)
        if (owner := trial_owner()) is not None:
            os.chown(harness.edit, *owner)
        return harness

    @property
    def tree(self) -> Path:
        """Return the folder at /tree, which commands can only read."""
        return self.root / "tree"

    @property
    def edit(self) -> Path:
        """Return the folder at /edit, which commands can write."""
        return self.root / "edit"

    @property
    def interpreter(self) -> tuple[str, ...]:
        """Return the beginning of a command that runs a Python script given as text."""
        return (str(_INTERPRETER / "bin" / f"python3.{sys.version_info.minor}"), "-I", "-c")

    def launch(self, *argv: str, **changes: object) -> Launch:
        """Make a launch of `argv` in /tree; `changes` replace fields of the launch.

        The variable EDIT names the writable folder, because some back ends do not translate paths in a script.
        """
        mounts = [Mount(self.tree, "/tree"), Mount(self.edit, "/edit", writable=True)]
        if not _INTERPRETER.is_relative_to("/usr"):
            mounts.append(Mount(_INTERPRETER, str(_INTERPRETER)))
        launch = Launch(
            argv=argv,
            cwd="/tree",
            bounds=_BOUNDS,
            stdout=self.root / "stdout",
            stderr=self.root / "stderr",
            env={"PATH": "/usr/bin:/bin", "EDIT": "/edit"},
            mounts=tuple(mounts),
        )
        return replace(launch, **changes)  # type: ignore[arg-type]

    async def run(self, launch: Launch, cancel: asyncio.Event | None = None) -> CommandResult:
        """Run a launch and read what it printed."""
        result = await self.sandbox.run(launch, cancel or asyncio.Event())
        out, err = (path.read_text(errors="replace") for path in (launch.stdout, launch.stderr))
        return CommandResult(result, out, err)

    async def shell(self, script: str, **changes: object) -> CommandResult:
        """Run a shell script."""
        return await self.run(self.launch("/bin/sh", "-c", script, **changes))

    async def python(self, script: str, **changes: object) -> CommandResult:
        """Run a Python script."""
        return await self.run(self.launch(*self.interpreter, script, **changes))


def bounds_with(**changes: float) -> Bounds:
    """Return the usual bounds with some changed."""
    return replace(_BOUNDS, **changes)  # type: ignore[arg-type]


def pids_with(token: str) -> list[int]:
    """List the living processes, other than this one, that have `token` on their command line."""
    pids = []
    for directory in Path("/proc").iterdir():
        if directory.name.isdecimal() and int(directory.name) != os.getpid():
            try:
                if token.encode() in (directory / "cmdline").read_bytes():
                    pids.append(int(directory.name))
            except OSError:
                continue
    return pids


def wait_until(condition: Callable[[], object], seconds: float = 60.0) -> None:
    """Wait until the condition is true. Raises AssertionError when it is not in time."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)
