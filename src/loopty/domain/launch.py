"""One bounded execution as data: the command, what it may see, how much it may use."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from loopty.domain.errors import LooptyError
from loopty.kit.records import Record, field

if TYPE_CHECKING:
    import asyncio  # importing it takes a third of the time that a reading verb needs to start


class Mount(Record):
    """A host path shown inside the sandbox at `target`."""

    source: Path
    target: str
    writable: bool = False


class Bounds(Record):
    """The limits of one execution."""

    seconds: float
    memory_mb: int
    processes: int
    output_mb: int
    disk_mb: int


class Freezer(Protocol):
    """Stops every process of a launch, and lets them go on."""

    @property
    def counts_ended(self) -> bool:
        """Say whether `cpu_seconds` includes every process that has ended, and can be asked after the last one."""
        ...

    def freeze(self) -> None:
        """Return when no process of the launch runs any more. Raises OSError when that cannot be done."""
        ...

    def thaw(self) -> None:
        """Let them go on; does nothing when they are dead."""
        ...

    def cpu_seconds(self) -> float:
        """Return the CPU time that they have used so far."""
        ...

    def processes(self) -> Iterable[int]:
        """List the numbers of those that live. Raises OSError if they cannot be known."""
        ...


class Connection(Record):
    """One connection of a process to another: what it has sent and received so far, in bytes."""

    sent: int = 0
    received: int = 0
    is_sent_last: bool = False
    """Whether it has sent something after it last received something."""
    is_connecting: bool = False
    """Whether the other side has not answered yet."""


class WarmStart(Record):
    """How a Python command starts as a copy of a process that has imported its packages already."""

    python: tuple[str, ...]
    """The interpreter and its options."""
    arguments: tuple[str, ...]
    """What it runs: a script, `-m` and a module, or `-c` and a text, and the arguments of that."""
    imports: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]
    """Modules to import once, with the names that are imported from each, and the attributes to look up."""
    mounts: tuple[Mount, ...]
    """What the process sees that imports them: nothing that a trial or a candidate may write."""
    env: tuple[tuple[str, str], ...]
    """Its variables: those that are the same for each command."""
    names: frozenset[str]
    """Names of modules of the repository: a module of such a name is never shared."""
    folders: tuple[str, ...]
    """Folders that are empty in its sandbox: its search path has them only when they exist."""
    on_cold: Callable[[str], None]
    """Called with the reason when the command starts by itself instead."""


class Launch(Record):
    """A command, its view of the file system, and its bounds."""

    argv: tuple[str, ...]
    cwd: str
    bounds: Bounds
    stdout: Path
    stderr: Path
    env: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    scratch: tuple[str, ...] = ()
    """Writable directories inside the sandbox that start empty and are removed at the end."""
    links: Mapping[str, str] = field(default_factory=dict)
    """Paths that lead to others inside, in back ends with a file system of their own: from the repository's path
    on the host, which environments and build folders name, to the same files in the trial."""
    devices: tuple[str, ...] = ()
    """Paths of device files that the command may use."""
    network: bool = False
    channel: int | None = None
    """A connected descriptor that becomes the command's stdin and stdout; the file `stdout` then stays empty."""
    on_start: Callable[[Freezer], None] | None = None
    """Called before the command starts, with what can stop its processes; never where nothing can."""
    warm: WarmStart | None = None
    """How a copy can run the command. Back ends that have no warm processes ignore it."""
    keeps_empty_logs: bool = True
    """Whether `stdout` and `stderr` are made also where nothing is printed; else a back end may leave them out."""


class Stop(StrEnum):
    """Why the sandbox stopped an execution."""

    TIME = "time"
    MEMORY = "memory"
    OUTPUT = "output"
    DISK = "disk"
    CANCELLED = "cancelled"


class Exit(Record):
    """How an execution ended. `stop` is None when the command ended by itself."""

    code: int
    seconds: float
    stop: Stop | None = None


class SandboxError(LooptyError):
    """The sandbox itself failed: infrastructure, never the candidate's fault."""


class WarmProcessLost(SandboxError):  # noqa: N818 - what happened to it, which callers act on
    """The process whose copy ran a command was killed, and the command with it."""


class Protection(StrEnum):
    """Something that a sandbox keeps a trial from doing."""

    WRITE = "write"
    """Change anything outside its outbox and scratch directories."""
    READ = "read"
    """See files that it is not shown: homes, secrets, hidden files, other trials."""
    NETWORK = "network"
    """Reach the internet, loopback services, or sockets of the host."""
    OTHERS = "others"
    """See, signal or trace processes other than its own."""
    SURVIVORS = "survivors"
    """Leave a process alive."""
    CALLS = "calls"
    """Make system calls that no trial needs."""
    MEMORY = "memory"
    """Use more memory than its limit."""
    DISK = "disk"
    """Write more than its limit."""
    FORKS = "forks"
    """Start more processes than its limit."""


class Gap(Record):
    """A protection that a back end lacks here, wholly or in part, in words for a person."""

    protection: Protection
    words: str


class Sandbox(Protocol):
    """Runs a launch and leaves no process behind."""

    @property
    def name(self) -> str:
        """Return the back end's name on results, with everything that decides whether they are comparable."""
        ...

    @property
    def gaps(self) -> tuple[Gap, ...]:
        """List the protections that this back end lacks on this machine."""
        ...

    async def run(self, launch: Launch, cancel: asyncio.Event) -> Exit:
        """Run to the end, to a limit, or until `cancel` is set; the whole process tree is dead on return.

        Raises SandboxError when the sandbox could not be set up; a command that fails is an Exit.
        """
        ...
