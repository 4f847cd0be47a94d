"""A place to run real commands in a real sandbox."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from loopty.domain.launch import Bounds, Exit, Launch, Mount, Sandbox
from loopty.sandboxes.bubblewrap import Bubblewrap
from loopty.sandboxes.trial_user import trial_owner

BOUNDS = Bounds(seconds=60, memory_mb=512, processes=32, output_mb=4, disk_mb=32)
INTERPRETER = Path(sys.base_prefix).resolve()


@dataclass(frozen=True)
class Ran:
    """An execution and what it printed."""

    exit: Exit
    out: str
    err: str


@dataclass(frozen=True)
class Place:
    """A read-only tree, an edit directory that the trial may write, and files for the outputs."""

    root: Path
    sandbox: Sandbox

    @property
    def tree(self) -> Path:
        return self.root / "tree"

    @property
    def edit(self) -> Path:
        return self.root / "edit"

    def launch(self, *argv: str, **changes: object) -> Launch:
        """A launch of `argv` with the tree at /tree and the edit directory at /edit."""
        mounts = [Mount(self.tree, "/tree"), Mount(self.edit, "/edit", writable=True)]
        if not INTERPRETER.is_relative_to("/usr"):
            mounts.append(Mount(INTERPRETER, str(INTERPRETER)))
        launch = Launch(
            argv=argv,
            cwd="/tree",
            bounds=BOUNDS,
            stdout=self.root / "stdout",
            stderr=self.root / "stderr",
            env={"PATH": "/usr/bin:/bin"},
            mounts=tuple(mounts),
        )
        return dataclasses.replace(launch, **changes)  # type: ignore[arg-type]

    async def run(self, launch: Launch, cancel: asyncio.Event | None = None) -> Ran:
        ended = await self.sandbox.run(launch, cancel or asyncio.Event())
        return Ran(ended, launch.stdout.read_text(errors="replace"), launch.stderr.read_text(errors="replace"))

    async def shell(self, script: str, **changes: object) -> Ran:
        return await self.run(self.launch("/bin/sh", "-c", script, **changes))

    async def python(self, script: str, **changes: object) -> Ran:
        return await self.run(self.launch(*self.interpreter, script, **changes))

    @property
    def interpreter(self) -> tuple[str, ...]:
        return (str(INTERPRETER / "bin" / f"python3.{sys.version_info.minor}"), "-I", "-c")


def bounds(**changes: float) -> Bounds:
    return dataclasses.replace(BOUNDS, **changes)  # type: ignore[arg-type]


@pytest.fixture
def bounded() -> Callable[..., Bounds]:
    """The usual bounds with some changed."""
    return bounds


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return prepared(tmp_path.resolve(), Bubblewrap())


@pytest.fixture
def place_of(tmp_path: Path) -> Callable[[Sandbox], Place]:
    return lambda sandbox: prepared(tmp_path.resolve(), sandbox)


def prepared(root: Path, sandbox: Sandbox) -> Place:
    made = Place(root, sandbox)
    for directory in (made.tree, made.edit):
        directory.mkdir()
        directory.chmod(0o755)
    if (owner := trial_owner()) is not None:
        os.chown(made.edit, *owner)
    return made


def processes_with(token: str) -> list[int]:
    """Living processes that have `token` on their command line."""
    found = []
    for directory in Path("/proc").iterdir():
        if directory.name.isdecimal() and int(directory.name) != os.getpid():
            try:
                if token.encode() in (directory / "cmdline").read_bytes():
                    found.append(int(directory.name))
            except OSError:
                continue
    return found


@pytest.fixture
def alive() -> Callable[[str], list[int]]:
    return processes_with
