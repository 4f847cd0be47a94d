"""What this machine cannot give: features of its kernel, protections that namespaces lack here, why bubblewrap
does not start and what to do.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from loopty.domain.launch import Gap, Protection
from loopty.sandboxes import seccomp
from loopty.sandboxes.cgroup import UNCOUNTED_MEMORY, can_make_cgroups
from loopty.sandboxes.resource_usage import sees_files_between_processes


def counts_processes_by_namespace() -> bool:
    """Say whether RLIMIT_NPROC counts within a user namespace, so that it can bound one trial."""
    # Before 5.14 it counts all processes of the user, and trials would fail at random.
    major, minor = os.uname().release.split(".")[:2]
    return (int(major), int(minor.split("-")[0])) >= (5, 14)


def namespace_gaps() -> Iterator[Gap]:
    """Yield the gaps of every back end that gives a trial namespaces of its own."""
    if seccomp.program(os.uname().machine) is None:
        words = f"the system call filter (no table of calls for {os.uname().machine})"
        yield Gap(Protection.CALLS, words)
    if not counts_processes_by_namespace():
        yield Gap(Protection.FORKS, "the bound on processes (needs Linux 5.14)")
    if not Path("/proc/thread-self/children").exists():
        yield Gap(Protection.MEMORY, "the bound on memory (the kernel does not list children)")
    # Memory that no process shows is bounded by a cgroup alone.
    elif not can_make_cgroups():
        yield Gap(Protection.MEMORY, UNCOUNTED_MEMORY)
    if not sees_files_between_processes():
        words = "files in transit between processes are not counted (needs Linux 5.7)"
        yield Gap(Protection.DISK, words)


_SWITCHES = (
    (
        "kernel/unprivileged_userns_clone",
        "0",
        "user namespaces are off: sysctl kernel.unprivileged_userns_clone=1",
    ),
    ("user/max_user_namespaces", "0", "user namespaces are off: sysctl user.max_user_namespaces=10000"),
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "AppArmor restricts user namespaces (Ubuntu 24.04): allow `userns` to bwrap in a profile, "
        "or sysctl kernel.apparmor_restrict_unprivileged_userns=0",
    ),
)

_ADVICE = (
    (
        "unknown option",
        "this bubblewrap is too old: install 0.8 or later with its distribution's security fixes",
    ),
)

_NAMESPACE_WORDS = ("namespace", "uid map", "gid map", "setting up", "loopback", "operation not permitted")


def remedy(message: str) -> str:
    """Return the remedy for bubblewrap's message, or an empty text if none is known."""
    words = message.lower()
    for part, advice in _ADVICE:
        if part in words:
            return advice
    if not any(word in words for word in _NAMESPACE_WORDS):
        return ""
    for switch, off, advice in _SWITCHES:
        if _setting(switch) == off:
            return advice
    return "a container may forbid user namespaces: start it with --security-opt seccomp=unconfined"


def _setting(name: str) -> str | None:
    try:
        return (Path("/proc/sys") / name).read_text(encoding="ascii").strip()
    except OSError:
        return None
