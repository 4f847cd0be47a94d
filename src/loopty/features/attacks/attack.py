"""An attack as data: a script, the threat that it belongs to, and what loopty does with its leftovers."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum
from typing import TYPE_CHECKING

from loopty.domain.launch import Bounds, Freezer, Mount, Protection
from loopty.kit.records import Record

if TYPE_CHECKING:
    from loopty.features.attacks.arena import Arena


class Threat(StrEnum):
    """One way out of a trial."""

    WRITE = "change files outside the writable set"
    DETOUR = "reach them by links, /proc and descriptors"
    PARENTS = "move the parents of a read-only place in a writable tree"
    PLANTED = "plant a link where a later trial mounts something"
    KERNEL = "become root on the host"
    READ = "read homes, secrets and other processes"
    NETWORK = "reach services, sockets and the internet"
    CALLS = "use system calls that no trial needs"
    OTHERS = "signal, trace or read processes of the host"
    FORKS = "start processes without end"
    SURVIVORS = "leave a process behind"
    MEMORY = "take more memory than the bound"
    DISK = "take more disk than the bound"
    OUTPUT = "flood the output"
    BETWEEN_CALLS = "run between the calls of a benchmark"
    GIT = "have the host's git run code"
    HARVEST = "leave links, pipes, devices and floods for the host to read"
    CLONE = "have loopty follow links in a clone"


BOUNDS = Bounds(seconds=30, memory_mb=256, processes=32, output_mb=1, disk_mb=8)


def no_obstacle() -> str:
    """Return the obstacle of an attack that can be tried anywhere: an empty text."""
    return ""


class SecondLaunch(Record):
    """A later launch, with one more mount, on the leftovers of the first. Refusing it counts as held."""

    script: str
    mount: Callable[[Arena], Mount]


class Attack(Record):
    """A Python script to run inside the sandbox, for Python 3.8 and later, with the standard library only.

    It must do no harm outside the arena when it gets through, because it runs on users' machines. It may use the
    functions of `inside_script.py`. Any harm that the arena shows afterwards means that it got through.
    """

    name: str
    threat: Threat
    protection: Protection | None
    """The protection that must hold it. None: not the sandbox, but loopty's own handling of leftovers."""
    script: str
    bounds: Bounds = BOUNDS
    second: SecondLaunch | None = None
    meanwhile: Callable[[Freezer], str] | None = None
    """What loopty does while the script runs, from its `ready()` on; returns what the attack achieved.

    The script is ended then. Where nothing can stop a candidate, the attack does not apply: integrity is weak.
    """
    after: Callable[[Arena], None] | None = None
    """What loopty does on the host with the leftovers."""
    obstacle: Callable[[], str] = no_obstacle
    """Why it cannot be tried on this machine, or an empty text."""
