"""The protections that namespaces, a system call filter and a watcher cannot give on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from loopty.domain.launch import Gap, Protection
from loopty.sandboxes import seccomp
from loopty.sandboxes.cgroup import UNCOUNTED_MEMORY, can_make_cgroups
from loopty.sandboxes.kernel_features import counts_processes_by_namespace
from loopty.sandboxes.resource_usage import sees_files_between_processes


def namespace_gaps() -> Iterator[Gap]:
    """The gaps of every back end that gives a trial namespaces of its own."""
    if seccomp.program(os.uname().machine) is None:
        words = f"the system call filter (no table of calls for {os.uname().machine})"
        yield Gap(Protection.CALLS, words)
    if not counts_processes_by_namespace():
        yield Gap(Protection.FORKS, "the bound on processes (needs Linux 5.14)")
    if not Path("/proc/thread-self/children").exists():
        yield Gap(Protection.MEMORY, "the bound on memory (the kernel does not list children)")
    elif not can_make_cgroups():
        yield Gap(Protection.MEMORY, UNCOUNTED_MEMORY)
    if not sees_files_between_processes():
        words = "files in transit between processes are not counted (needs Linux 5.7)"
        yield Gap(Protection.DISK, words)
