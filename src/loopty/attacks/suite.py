"""All attacks, in the order in which they are reported."""

from __future__ import annotations

from loopty.attacks import (
    between_calls,
    clone_links,
    host_processes,
    hostile_leftovers,
    network,
    outside_writes,
    resource_exhaustion,
    secrets,
    survivors,
    system_calls,
    two_steps,
)
from loopty.attacks.attack import Attack

ATTACKS: tuple[Attack, ...] = (
    *outside_writes.ATTACKS,
    *two_steps.ATTACKS,
    *secrets.ATTACKS,
    *host_processes.ATTACKS,
    *network.ATTACKS,
    *system_calls.ATTACKS,
    *survivors.ATTACKS,
    *resource_exhaustion.ATTACKS,
    *between_calls.ATTACKS,
    *hostile_leftovers.ATTACKS,
    *clone_links.ATTACKS,
)
