"""What a worker on a rented machine runs, whoever rents the machine.

Nothing that is rented stays: a worker ends when its driver is gone or its minutes are over, and what it ran on is
told at its launch to end when it is idle, so that this holds also when this process is killed at any instant.
"""

from __future__ import annotations

from loopty.domain.errors import Misuse
from loopty.executors.cluster_spec import ClusterSpec
from loopty.kit.own_installation import requirement_elsewhere

URL_VARIABLE = "LOOPTY_WORKER_URL"
_MINUTES = 12 * 60
_PATIENCE_SECONDS = 120
"""A worker that finds no driver for this long ends: nobody else would end it."""


def worker_seconds(spec: ClusterSpec) -> int:
    """How long a worker may run at most."""
    return int(60 * spec.number("minutes", _MINUTES))


def worker_line(spec: ClusterSpec) -> str:
    """The command of a worker that ends without a driver, and at the latest when its minutes are over."""
    return f"timeout {worker_seconds(spec)} loopty worker --trust --patience {_PATIENCE_SECONDS}"


def requirement(spec: ClusterSpec) -> str:
    """What pip installs on the rented machine: what the user says, or this loopty from where it came."""
    found = spec.options.get("install") or requirement_elsewhere()
    if found is None:
        raise Misuse(
            "this loopty came from a folder here; say what pip installs on the rented machine, "
            "as install=git%2Bhttps://HOST/loopty or the address of a wheel"
        )
    return found
