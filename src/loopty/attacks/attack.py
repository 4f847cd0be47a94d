"""An attack as data: a script, what it is up against, and what is done with what it leaves."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from loopty.attacks.threats import Threat
from loopty.domain.launch import Bounds, Mount, Protection

if TYPE_CHECKING:
    from loopty.attacks.arena import Arena

BOUNDS = Bounds(seconds=30, memory_mb=256, processes=32, output_mb=1, disk_mb=8)


def no_obstacle() -> str:
    """Why the attack cannot be tried here: it can."""
    return ""


@dataclass(frozen=True, slots=True)
class SecondLaunch:
    """A later launch, with one mount more, over what the first one left. To refuse it is to hold it."""

    script: str
    mount: Callable[[Arena], Mount]


@dataclass(frozen=True, slots=True)
class Attack:
    """A Python script run inside the sandbox, for 3.8 and later, the standard library alone.

    It must do no harm outside the arena when it gets through: it is tried on people's machines. `inside_script.py`
    has what it may use. Any harm that the arena shows afterwards means that it got through.
    """

    name: str
    threat: Threat
    protection: Protection | None
    """What has to hold it. None: not the sandbox, but loopty's own handling of what a trial leaves."""
    script: str
    bounds: Bounds = BOUNDS
    second: SecondLaunch | None = None
    after: Callable[[Arena], None] | None = None
    """What loopty does on the host with what was left."""
    obstacle: Callable[[], str] = no_obstacle
    """Why it cannot be tried on this machine, or an empty text."""
