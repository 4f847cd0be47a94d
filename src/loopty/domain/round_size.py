"""How many trials run at once, where the user does not say it: as many as the machine has room for."""

from __future__ import annotations

from loopty.kit.dataclass import dataclass
from loopty.kit.option import option

MOST_AT_ONCE = 8
"""More trials at once tell a proposer less before it is asked again."""
_MEMORY_SHARE = 0.8
"""The rest is for the machine, and for candidates that need more than the baseline."""


@dataclass(frozen=True, slots=True)
class ResourceProfile:
    """What one trial of the baseline uses, measured by `loopty init --probe`."""

    seconds: float = option("Duration of one trial, in seconds; 0: not measured.", 0.0, minimum=0)
    cores: float = option("CPU cores that it keeps busy on average, with loopty's own work.", 0.0, minimum=0)
    memory_mb: int = option("Its peak memory.", 0, minimum=0)
    steady: bool = option(
        "Whether repeated trials gave exactly the same score. One that varies may measure time, and trials at "
        "once would disturb each other.",
        False,
    )


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a machine has."""

    cores: int
    memory_mb: int


@dataclass(frozen=True, slots=True)
class ExclusiveUse:
    """What only some trials can use at a time."""

    names: tuple[str, ...] = ()
    """Ports, databases, devices: one trial at a time."""
    requests_per_minute: float | None = None
    """How often the model that proposes may be asked."""


@dataclass(frozen=True, slots=True)
class RoundSize:
    """How many trials run at once, and what bounds them."""

    width: int
    reason: str


def choose_round_size(profile: ResourceProfile, machine: Capacity, use: ExclusiveUse) -> RoundSize:
    """The width that the scarcest resource allows."""
    if not profile.seconds:
        return RoundSize(1, "what a trial uses was not measured (`loopty init --probe` does)")
    if use.names:
        return RoundSize(1, f"only one trial at a time can use {use.names[0]}")
    if not profile.steady:
        return RoundSize(1, "the score varies from run to run, so that trials at once could disturb each other")
    per_trial = max(profile.cores, 1.0)
    bounds = [
        RoundSize(int(machine.cores / per_trial), f"a trial keeps {per_trial:.1f} of {machine.cores} cores busy"),
        RoundSize(MOST_AT_ONCE, f"at most {MOST_AT_ONCE} trials run at once unless you say more"),
    ]
    if profile.memory_mb:
        fitting = int(_MEMORY_SHARE * machine.memory_mb / profile.memory_mb)
        reason = f"a trial needs {profile.memory_mb:,} MB of {machine.memory_mb:,} MB of memory"
        bounds.append(RoundSize(fitting, reason))
    if use.requests_per_minute:
        asked = int(use.requests_per_minute * profile.seconds / 60)
        bounds.append(RoundSize(asked, f"the model may be asked {use.requests_per_minute:g} times a minute"))
    tightest = min(bounds, key=lambda bound: bound.width)
    return RoundSize(max(tightest.width, 1), tightest.reason)
