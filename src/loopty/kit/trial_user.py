"""The user that trials run as when loopty is root."""

from __future__ import annotations

import os

# As real root a trial could write /proc/sys/kernel/core_pattern, and RLIMIT_NPROC does not bind root, so root
# never starts a trial as itself. This number is in the range that systemd's table of users leaves unused (60578 to
# 61183): no login, service or dynamic user has it, unlike `nobody` (65534), which daemons and network file systems
# share. It is below 65536, so containers with mapped users know it.
_TRIAL_ID = 61000


def trial_owner() -> tuple[int, int] | None:
    """The uid and gid that must own what a trial may write, or None when trials run as the current user."""
    return (_TRIAL_ID, _TRIAL_ID) if os.geteuid() == 0 else None
