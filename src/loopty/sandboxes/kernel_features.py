"""Features of the running kernel that older ones lack."""

from __future__ import annotations

import os


def counts_processes_by_namespace() -> bool:
    """Whether RLIMIT_NPROC counts within a user namespace, so that it can bound one trial."""
    # Before 5.14 it counts all processes of the user, and trials would fail at random.
    major, minor = os.uname().release.split(".")[:2]
    return (int(major), int(minor.split("-")[0])) >= (5, 14)
