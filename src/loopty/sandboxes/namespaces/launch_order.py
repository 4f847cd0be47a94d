"""What loopty tells the launcher once, and the process of each trial."""

# `_socket`, not `socket`, which imports three times as much: the launcher's memory is copied for every trial.

from __future__ import annotations

import _socket
import marshal
import os
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

WITH_NETWORK, WITHOUT_NETWORK, COPY_SOURCES = b"+", b"-", b"="
"""What loopty says to the launcher for each trial, or for the trees of one."""
READY, ENDED, FAILED, GO = b"ready ", b"ended ", b"failed ", b"go"
"""What the process of a trial says to loopty, and `GO` loopty to it."""
TITLE = b"trial"
"""The command line of the first process, which the trial can read."""
_BATCH = 200
"""The kernel passes at most 253 descriptors in one message."""
_CONTROL_BYTES = _socket.CMSG_SPACE(4 * _BATCH)
_COUNT = struct.Struct("=I")
_MARSHAL_VERSION = 2
"""Every interpreter can read it."""


class LauncherOrder:
    """What is the same for every trial. All fields are types that `marshal` can store."""

    # Not a dataclass: the launcher's memory is copied for every trial, so it imports little.
    __slots__ = ("call_filter", "copy_filter", "gid", "host_name", "owner", "system", "token", "uid")

    def __init__(
        self,
        *,
        owner: tuple[int, int] | None,
        uid: int,
        gid: int,
        host_name: str,
        system: tuple[tuple[str, str, bool], ...],
        call_filter: bytes | None,
        copy_filter: bytes | None,
        token: int,
    ) -> None:
        self.owner = owner
        """The user to become first, or None to stay the current one."""
        self.uid = uid
        self.gid = gid
        self.host_name = host_name
        self.system = system
        """Paths that a trial sees, their sources, and whether the path is a link to the source."""
        self.call_filter = call_filter
        """What the launcher sets for itself, and so for all that it starts."""
        self.copy_filter = copy_filter
        """What each copy of a warm process sets, on top of the one that it inherits."""
        self.token = token
        """The argument by which the launcher's own calls pass its filter; 0 where the filter asks for none."""


class TrialOrder:
    """A command, what it sees, and its limits. All fields are types that `marshal` can store."""

    __slots__ = (
        "argv",
        "channel",
        "cwd",
        "devices",
        "disk_bytes",
        "env",
        "facts",
        "groups",
        "home",
        "limits",
        "links",
        "mounts",
        "nests",
        "network",
        "resolver",
        "scratch",
        "temporary",
        "unset",
        "waits",
    )

    def __init__(
        self,
        *,
        argv: tuple[str, ...],
        cwd: str,
        env: dict[str, str],
        home: str,
        temporary: tuple[str, ...],
        scratch: tuple[str, ...],
        disk_bytes: int,
        mounts: tuple[tuple[str, str | None, bool], ...],
        links: tuple[tuple[str, str], ...],
        devices: tuple[str, ...],
        facts: tuple[str, ...],
        network: bool,
        resolver: str,
        channel: bool,
        groups: int,
        limits: tuple[tuple[int, int], ...],
        waits: bool,
        nests: bool = False,
        unset: tuple[str, ...] = (),
    ) -> None:
        self.argv = argv
        self.cwd = cwd
        self.env = env
        """The variables; for a copy of a warm process those that are different there, and `unset` are missing."""
        self.unset = unset
        self.home = home
        self.temporary = temporary
        """Directories in memory below the mounts; `scratch` are those above them."""
        self.scratch = scratch
        self.disk_bytes = disk_bytes
        self.mounts = mounts
        """Where each is mounted, its path on the host or None when its tree comes as a descriptor, and whether it
        can be written."""
        self.links = links
        self.devices = devices
        self.facts = facts
        self.network = network
        self.resolver = resolver
        """Where the host says which name servers there are, for a trial with the network."""
        self.channel = channel
        """Whether one descriptor is both the standard input and output."""
        self.groups = groups
        """The number of cgroups to enter."""
        self.limits = limits
        self.waits = waits
        """Whether the command starts only when loopty says so."""
        self.nests = nests
        """Whether the command is a warm process."""


class CommandOrder:
    """What a copy of a warm process needs of the order of its trial."""

    __slots__ = ("argv", "env", "unset")

    def __init__(self, argv: tuple[str, ...], env: dict[str, str], unset: tuple[str, ...]) -> None:
        self.argv = argv
        self.env = env
        self.unset = unset


class WarmOrder:
    """What a warm process imports, and what its copies run. All fields are types that `marshal` can store."""

    __slots__ = ("arguments", "imports", "interpreter", "names", "variables")

    def __init__(
        self,
        *,
        interpreter: tuple[str, ...],
        arguments: tuple[str, ...],
        imports: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...],
        names: tuple[str, ...],
        variables: dict[str, str],
    ) -> None:
        self.interpreter = interpreter
        """The first words of the command."""
        self.arguments = arguments
        """The others: a script, `-m` and a module, or `-c` and a text, and the arguments of that."""
        self.imports = imports
        """Modules, each with the names that are imported from it, and with the attributes to look up."""
        self.names = names
        """Names of modules that belong to the repository: no module of such a name may be shared."""
        self.variables = variables
        """The variables with which the process was started."""


class SourceOrder:
    """Paths of the host whose trees the launcher copies."""

    __slots__ = ("paths",)

    def __init__(self, *, paths: tuple[str, ...]) -> None:
        self.paths = paths


def dump_order(order: LauncherOrder | TrialOrder | WarmOrder | SourceOrder) -> int:
    """Write the order to a file in memory."""
    fields = {name: getattr(order, name) for name in order.__slots__}
    descriptor = os.memfd_create("loopty-order", os.MFD_CLOEXEC)
    os.write(descriptor, marshal.dumps(fields, _MARSHAL_VERSION))
    return descriptor


def read_launcher_order(descriptor: int) -> LauncherOrder:
    """Read an order from an open file and close the file."""
    return LauncherOrder(**_read(descriptor))


def read_trial_order(descriptor: int) -> TrialOrder:
    """Read an order from an open file and close the file."""
    return TrialOrder(**_read(descriptor))


def read_warm_order(descriptor: int) -> WarmOrder:
    """Read an order from an open file and close the file."""
    return WarmOrder(**_read(descriptor))


def read_source_order(descriptor: int) -> SourceOrder:
    """Read an order from an open file and close the file."""
    return SourceOrder(**_read(descriptor))


def _read(descriptor: int) -> dict[str, Any]:
    text = os.pread(descriptor, os.lseek(descriptor, 0, os.SEEK_END), 0)
    os.close(descriptor)
    fields: dict[str, Any] = marshal.loads(text)
    return fields


def send_descriptors(connection: _socket.socket, descriptors: list[int]) -> None:
    """Send descriptors, first the number of all."""
    for start in range(0, len(descriptors), _BATCH):
        send_message(connection, _COUNT.pack(len(descriptors)), descriptors[start : start + _BATCH])


def receive_descriptors(connection: _socket.socket) -> list[int]:
    """Receive the descriptors that the other side sent; none when it has closed the connection."""
    received: list[int] = []
    while True:
        message, descriptors = receive_message(connection, _COUNT.size)
        received += descriptors
        if not message or len(received) == _COUNT.unpack(message)[0]:
            return received if message else []


def send_message(connection: _socket.socket, message: bytes, descriptors: list[int]) -> None:
    """Send a message with descriptors."""
    rights = struct.pack(f"={len(descriptors)}i", *descriptors)
    connection.sendmsg([message], [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, rights)])


def receive_message(connection: _socket.socket, size: int) -> tuple[bytes, list[int]]:
    """Receive a message with its descriptors; empty when the other side has closed the connection."""
    # Not socket.recv_fds, which lets programs inherit the descriptors (Python 3.11 ignores its flags).
    message, control, _, _ = connection.recvmsg(size, _CONTROL_BYTES, _socket.MSG_CMSG_CLOEXEC)
    return message, [number for _, _, data in control for (number,) in struct.iter_unpack("=i", data)]
