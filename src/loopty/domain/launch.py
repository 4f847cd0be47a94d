"""One bounded execution, as data: what to start, what it may see, how much it may use."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from loopty.domain.errors import LooptyError

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
    channel: int | None = None
    """A connected descriptor that becomes the command's standard input and output; `stdout` then stays empty."""


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


class Protection(enum.StrEnum):
    """What a sandbox keeps a trial from."""

    WRITE = "write"
    """Changing anything outside its outbox and scratch directories."""
    READ = "read"
    """Seeing files that it is not shown: homes, secrets, hidden files, other trials."""
    NETWORK = "network"
    """Reaching the internet, loopback services, or sockets of the host."""
    OTHERS = "others"
    """Seeing, signalling or tracing processes that are not its own."""
    SURVIVORS = "survivors"
    """Leaving a process alive."""
    CALLS = "calls"
    """System calls that no trial needs."""
    MEMORY = "memory"
    """Using more memory than its bound."""
    DISK = "disk"
    """Writing more than its bound."""
    FORKS = "forks"
    """Starting more processes than its bound."""


@dataclass(frozen=True, slots=True)
class Gap:
    """A protection that a back end does not give here, or not wholly, in words for a person."""

    protection: Protection
    words: str


class Sandbox(Protocol):
    """Runs a launch and leaves no process behind."""

    @property
    def name(self) -> str:
        """What it is called on results, with what decides whether they are comparable."""
        ...

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """The protections that this back end does not give on this machine."""
        ...

    async def run(self, launch: Launch, cancel: asyncio.Event) -> Exit:
        """Run to the end, to a bound, or until `cancel` is set; the whole process tree is dead on return.

        Raises SandboxError when the sandbox could not be set up; a command that fails is an Exit.
        """
        ...
