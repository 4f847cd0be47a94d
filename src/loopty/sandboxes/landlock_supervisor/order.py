"""What the warden of one trial is told."""

from __future__ import annotations

import marshal
import os

_MOST_BYTES = 1 << 26


class SupervisorOrder:
    """A command, where it starts, and what it may do. Fields are what `marshal` can carry."""

    # Not a dataclass: importing those takes as long as all else that the warden does.
    __slots__ = (
        "abi",
        "argv",
        "asked",
        "channel",
        "cwd",
        "disk_bytes",
        "env",
        "network",
        "owner",
        "processes",
        "program",
        "readable",
        "shown",
        "writable",
    )

    def __init__(
        self,
        *,
        argv: tuple[str, ...],
        env: dict[str, str],
        cwd: str,
        channel: bool,
        owner: tuple[int, int] | None,
        abi: int,
        network: bool,
        program: bytes,
        asked: dict[int, str],
        processes: int,
        disk_bytes: int,
        readable: tuple[str, ...],
        shown: tuple[str, ...],
        writable: tuple[str, ...],
    ) -> None:
        self.argv = argv
        self.env = env
        self.cwd = cwd
        self.channel = channel
        """Whether the warden's standard output is to be the command's standard input, too."""
        self.owner = owner
        self.abi = abi
        self.network = network
        self.program = program
        """A filter of system calls that asks about those in `asked` (names by number)."""
        self.asked = asked
        self.processes = processes
        self.disk_bytes = disk_bytes
        self.readable = readable
        """Directories and files of the system."""
        self.shown = shown
        """Directories and files of this launch that are read."""
        self.writable = writable

    def dump(self) -> bytes:
        """The order for a warden that runs on the same interpreter."""
        return marshal.dumps({name: getattr(self, name) for name in self.__slots__})


def read_order(descriptor: int) -> SupervisorOrder:
    """The order in a file, which is closed."""
    text = os.pread(descriptor, _MOST_BYTES, 0)
    os.close(descriptor)
    return SupervisorOrder(**marshal.loads(text))
