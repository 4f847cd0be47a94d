"""The size of a round, where the user does not say it.

Width: how many trials run at once, as many as the machine has room for. Depth: how many submissions one agent
makes before the results of all are looked at again, as many as cost and noise allow.
"""

from __future__ import annotations

from dataclasses import dataclass

from loopty.kit.option import option
from loopty.kit.records import Record

MOST_AT_ONCE = 8
"""More trials at once tell a proposer less before it is asked again."""
_ROUND_SECONDS = 1800.0
"""A round should not take longer: what others found out meanwhile is known only after it."""
_MOST_IN_ROW = 8
_DEPTH_UNKNOWN = 2
_NOISY_PERCENT, _DEPTH_NOISY = 2.0, 2
"""Above this noise, few submissions in a row: an agent that builds on a lucky result builds on nothing."""
_MEMORY_SHARE = 0.8
"""The rest is for the machine, and for candidates that need more than the baseline."""


@dataclass(frozen=True, slots=True)
class ResourceProfile:
    """What one trial of the baseline uses, measured by `loopty init --probe`."""

    seconds: float = option("Duration of one trial, in seconds; 0: not measured.", 0.0, minimum=0)
    cores: float = option("CPU cores that it keeps busy on average, with loopty's own work.", 0.0, minimum=0)
    memory_mb: int = option("Its peak memory.", 0, minimum=0)
    steady: bool = option(
        "Repeated trials gave exactly the same score. If not, it may measure time, and parallel trials "
        "would disturb it.",
        False,
    )


class Capacity(Record):
    """What a machine has."""

    cores: int
    memory_mb: int


class ExclusiveUse(Record):
    """What only some trials can use at a time."""

    names: tuple[str, ...] = ()
    """Ports, databases, devices: one trial at a time."""
    requests_per_minute: float | None = None
    """How often the model that proposes may be asked."""


class RoundSize(Record):
    """How many trials run at once, and what bounds them."""

    width: int
    reason: str


class RoundDepth(Record):
    """How many submissions one agent makes in a round, and what bounds them."""

    depth: int
    reason: str


class AttemptFigures(Record):
    """What is known about an attempt."""

    seconds: float
    """With its repeat measurements; 0: not known."""
    noise_percent: float = 0.0
    """How much the score of the same files varies."""


def choose_round_depth(attempt: AttemptFigures, attempts_left: int | None, width: int) -> RoundDepth:
    """The depth that the time of an attempt, the noise and the budget allow."""
    if not attempt.seconds:
        return RoundDepth(_DEPTH_UNKNOWN, "what an attempt takes is not known yet")
    bounds = [
        RoundDepth(int(_ROUND_SECONDS / attempt.seconds), f"an attempt takes about {attempt.seconds:.3g} s"),
        RoundDepth(_MOST_IN_ROW, f"after {_MOST_IN_ROW} submissions the results of others count more"),
    ]
    if attempt.noise_percent > _NOISY_PERCENT:
        reason = f"noise of {attempt.noise_percent:.2g} % lets one result say little"
        bounds.append(RoundDepth(_DEPTH_NOISY, reason))
    if attempts_left is not None:
        shared = attempts_left // max(width, 1)
        bounds.append(RoundDepth(shared, f"{attempts_left} attempts are left for {width} at once"))
    tightest = min(bounds, key=lambda bound: bound.depth)
    return RoundDepth(max(tightest.depth, 1), tightest.reason)


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
