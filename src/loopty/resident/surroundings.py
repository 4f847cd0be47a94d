"""What a process inherits and a forked one cannot take over: where it differs, a verb runs in its own process."""

import _signal
import os
import resource
import sys

from loopty.version import __version__

_INTERPRETER = ("PYTHON", "LC_", "LANG")
"""Variables with these beginnings are read when Python starts; later they have no effect."""
_NAMESPACES = ("cgroup", "ipc", "mnt", "net", "pid", "user", "uts")
_LIMITS = 16
"""The number of resource limits of Linux."""
_SIGNALS = (_signal.SIGHUP, _signal.SIGINT, _signal.SIGQUIT, _signal.SIGTERM, _signal.SIGCHLD)


def installation() -> bytes:
    """What must be the same for a tool call: it runs in the surroundings of the resident process."""
    return repr([__version__, __file__, os.getuid()]).encode(errors="surrogateescape")


def surroundings() -> bytes:
    """Everything that must be the same for the client and for the resident process, as one text."""
    variables = sorted((name, value) for name, value in os.environ.items() if name.startswith(_INTERPRETER))
    limits = [resource.getrlimit(which) for which in range(_LIMITS)]
    facts = [
        __version__,
        __file__,
        sys.executable,
        sys.version,
        variables,
        [_link(f"/proc/self/ns/{name}") for name in _NAMESPACES],
        _link("/proc/self/root"),
        _cgroups(),
        limits,
        (os.getuid(), os.geteuid(), os.getgid(), os.getegid(), sorted(os.getgroups())),
        (os.getpriority(os.PRIO_PROCESS, 0), sorted(os.sched_getaffinity(0))),
        [_signal.getsignal(number) == _signal.SIG_IGN for number in _SIGNALS],
    ]
    return repr(facts).encode(errors="surrogateescape")


def _link(path: str) -> str:
    try:
        return os.readlink(path)
    except OSError:
        return ""


def _cgroups() -> bytes:
    try:
        with open("/proc/self/cgroup", "rb") as file:
            return file.read()
    except OSError:
        return b""
