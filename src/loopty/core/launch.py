"""One bounded execution, as data: what to start, what it may see, how much it may use."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from loopty.core.errors import LooptyError

if TYPE_CHECKING:
    import asyncio  # it takes a third of a reading verb's start


@dataclass(frozen=True, slots=True)
class Mount:
    """A host path shown inside the sandbox at `target`."""

    source: Path
    target: str
    writable: bool = False


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one execution may use at the most."""

    seconds: float
    memory_mb: int
    processes: int
    output_mb: int
    disk_mb: int


@dataclass(frozen=True, slots=True)
class Launch:
    """A command, its view of the file system, and its bounds."""

    argv: tuple[str, ...]
    cwd: str
    bounds: Bounds
    stdout: Path
    stderr: Path
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    scratch: tuple[str, ...] = ()
    """Directories inside the sandbox that start empty, are writable, and vanish at the end."""
    network: bool = False


class Stop(enum.StrEnum):
    """Why the sandbox ended an execution that had not ended by itself."""

    TIME = "time"
    MEMORY = "memory"
    OUTPUT = "output"
    DISK = "disk"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Exit:
    """How an execution ended. `stop` is None when the command ended by itself."""

    code: int
    seconds: float
    stop: Stop | None = None


class SandboxError(LooptyError):
    """The sandbox itself failed: infrastructure, never the candidate's fault."""


class Sandbox(Protocol):
    """Runs a launch and leaves no process behind."""

    name: str

    @property
    def unenforced(self) -> tuple[str, ...]:
        """Protections that this back end does not give, in words for a person."""
        ...

    async def run(self, launch: Launch, cancel: asyncio.Event) -> Exit:
        """Run to the end, to a bound, or until `cancel` is set; the whole process tree is dead on return.

        Raises SandboxError when the sandbox could not be set up; a command that fails is an Exit.
        """
        ...
