"""The order that loopty gives to the supervisor of one trial."""

from __future__ import annotations

import marshal
import os

_MAX_BYTES = 1 << 26


class SupervisorOrder:
    """A command, its working directory, and what it may do. All fields are types that `marshal` can store."""

    # Not a dataclass: importing dataclasses takes as long as everything else that the supervisor does.
    __slots__ = (
        "abi",
        "argv",
        "call_filter",
        "channel",
        "cwd",
        "devices",
        "disk_bytes",
        "env",
        "launch_paths",
        "network",
        "notify_calls",
        "owner",
        "processes",
        "system_paths",
        "writable_paths",
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
        call_filter: bytes,
        notify_calls: dict[int, str],
        processes: int,
        disk_bytes: int,
        system_paths: tuple[str, ...],
        launch_paths: tuple[str, ...],
        writable_paths: tuple[str, ...],
        devices: tuple[str, ...],
    ) -> None:
        self.argv = argv
        self.env = env
        self.cwd = cwd
        self.channel = channel
        """Whether the supervisor's standard output also becomes the command's standard input."""
        self.owner = owner
        self.abi = abi
        self.network = network
        self.call_filter = call_filter
        """A system call filter that asks the supervisor about the `notify_calls`."""
        self.notify_calls = notify_calls
        """Names of calls by number."""
        self.processes = processes
        self.disk_bytes = disk_bytes
        self.system_paths = system_paths
        """Directories and files of the system, which can be read."""
        self.launch_paths = launch_paths
        """Directories and files of this launch that can only be read."""
        self.writable_paths = writable_paths
        self.devices = devices
        """Device files that the command may use."""

    def dump(self) -> bytes:
        """The order as bytes, for a supervisor on the same interpreter."""
        return marshal.dumps({name: getattr(self, name) for name in self.__slots__})


def read_order(descriptor: int) -> SupervisorOrder:
    """Read the order from an open file and close the file."""
    text = os.pread(descriptor, _MAX_BYTES, 0)
    os.close(descriptor)
    return SupervisorOrder(**marshal.loads(text))
