"""The smaller tables of a task file: agents, anchors, combination, executor, tune mode, rounds."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from loopty.domain.space import Parameter
from loopty.kit.records import Record
from loopty.kit.tables import Table, option


class AgentRight(StrEnum):
    """What an agent may do to work that is not its own draft."""

    ABORT = "abort"
    DISCARD = "discard"
    GATE = "gate"
    INVALIDATE = "invalidate"
    REMEASURE = "remeasure"


class AgentRights(Table):
    """How coding agents work through loopty's tools, and what they may do besides making experiments."""

    may: tuple[AgentRight, ...] = option(
        "What agents may do besides experiments: `abort`, `discard`, `invalidate`, `remeasure`, `gate`. "
        "Default: nothing.",
        (),
    )
    depth: int | None = option(
        "Submissions of one agent in a round. Default: from the time of an attempt and the noise.",
        None,
        minimum=1,
    )


class AgentMode(StrEnum):
    """Each is on or off, and on where nobody said anything."""

    AUTONOMOUS = "autonomous"
    """It goes on until the budget is spent."""
    SUBAGENTS_ONLY = "subagents-only"
    """It leaves edits to its subagents."""


class ModeSource(StrEnum):
    """Who said so; an earlier one wins."""

    INSTRUCTION = "this environment"
    WORKSPACE = "this repository's setting"
    USER = "your own default"
    NOBODY = "the default"


class ModeSetting(Record):
    """Whether a mode is on, and who said so."""

    mode: AgentMode
    is_on: bool
    source: ModeSource

    def __str__(self) -> str:
        return f"{self.mode} is {'on' if self.is_on else 'off'} ({self.source})"


MOST_VERSIONS = 16


class Anchors(Table):
    """Past versions that are measured beside the baseline, and whether audits steer the choice of parents."""

    versions: tuple[str, ...] = option(
        "Tags or commits of this repository, at most 16. Each is measured once with the present benchmark. "
        "Changes start from the best of them if it beats the best node.",
        (),
    )
    audits: bool = option(
        "Let audits steer: no change starts at or below a node whose gain did not carry over to the "
        "held-out data.",
        True,
    )


NO_ANCHORS = Anchors()
"""No past versions; audits steer where there are any."""


POOL_FOLDER = "loopty-pool"
"""Where a combination finds the artifacts of the pool, from the top of its tree; no proposal may change it."""


class Combine(Table):
    """The second stage: when the search is over or stalls, it combines artifacts of its best, diverse nodes."""

    write: tuple[str, ...] = option(
        "Files that a combination may change, in place of `write` of `[access]`.", (), glob=True
    )
    parameters: Mapping[str, Parameter] = option(
        "Parameters of combinations, one `[combine.parameters.NAME]` table each, in place of `[parameters]`.", {}
    )
    patches: bool = option(
        "Let nodes without artifacts join the pool, to merge their changes with the operator `merge`.",
        False,
    )
    command: str | tuple[str, ...] = option(
        "The command that scores a combination, with the same metrics. Default: the benchmark's.", ""
    )
    members: int = option("Most nodes in the pool.", 8, minimum=2, below=65)
    patience: int | None = option(
        "Attempts without improvement before the stage starts. Default: when the search's budget is spent.",
        None,
        above=0,
    )
    attempts: int = option("Number of combinations to try.", 50, minimum=0)
    wall_seconds: float | None = option("Time for the stage. Default: no limit.", None, above=0)
    proposer: Mapping[str, Any] = option(
        "What proposes combinations, as in `[proposer]`. Default: `random` with parameters, else `mutate`.", {}
    )

    def __bool__(self) -> bool:
        """Say whether there is a second stage."""
        return bool(self.write or self.parameters)


MOST_WORKERS = 4096
"""A pool takes no more workers."""


class ExecutorSpec(Table):
    """Where trials run."""

    kind: str = option(
        "`local`: on this machine. `pool`: on workers, which `hosts` and `start` name or `loopty system worker` adds.",
        "local",
        choices=("local", "pool"),
    )
    hosts: tuple[str, ...] = option(
        "Where to start a worker each: a directory, `ssh://USER@HOST/DIRECTORY`, `ray:ADDRESS?…` "
        "(`docs/workers.md`).",
        (),
    )
    start: str = option(
        "A shell command that starts one worker anywhere, and ends with it. It runs in your home folder, with "
        "your permissions and $LOOPTY_WORKER_URL (`docs/workers.md`).",
        "",
    )
    workers: int = option(
        "How many workers `start` starts; the command is run once for each.", 1, minimum=1, below=MOST_WORKERS + 1
    )
    listen: str = option(
        "`ADDRESS:PORT` where workers may join with `loopty system worker`; `optimize --listen` wins. Default: none.",
        "",
    )
    lease_seconds: float = option(
        "A worker that is silent for this long loses its trial to another worker.", 30.0, above=0
    )
    wait_seconds: float = option("How long a trial waits for a worker while there is none.", 300.0, above=0)


SAMPLERS = ("local", "random", "tpe", "gp")


class Tune(Table):
    """Tune mode: parameters of a code change are tuned on a slice first. Off without `slice`."""

    slice: str = option(
        "What to measure instead of everything, in your own words (`dev`, `steps=50`). The benchmark gets "
        "it as LOOPTY_SLICE, with LOOPTY_MODE=tune.",
        "",
    )
    trials: int = option(
        "Tune trials for each proposal that changes code; 0: only agents tune.",
        16,
        minimum=0,
        below=257,
    )
    sampler: str = option(
        "What chooses the values: `local` changes the best ones; `random`, `tpe` and `gp` as in `[proposer]`.",
        "local",
        choices=SAMPLERS,
    )

    def __bool__(self) -> bool:
        """Say whether there is a cheaper target."""
        return bool(self.slice)


# Width: how many trials run at once, as many as the machine has room for. Depth: how many submissions one agent
# makes before the results of all are looked at again, as many as cost and noise allow.


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


class ResourceProfile(Table):
    """What one trial of the baseline uses, measured by `loopty init`."""

    seconds: float = option("Duration of one trial, in seconds; 0: not measured.", 0.0, minimum=0)
    cores: float = option("CPU cores that it keeps busy on average, with loopty's own work.", 0.0, minimum=0)
    memory_mb: int = option("Its peak memory.", 0, minimum=0)
    steady: bool = option(
        "Repeated trials gave exactly the same score. If not, it may measure time, and parallel trials "
        "would disturb it.",
        False,
    )
    editable_share: float | None = option(
        "The share of its time that editable files take, from 0 to below 1: a larger speed-up than "
        "1 / (1 - share) is held. Default: not known.",
        None,
        minimum=0,
        below=1,
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
    """Choose the depth that the time of an attempt, the noise and the budget allow."""
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
    """Choose the width that the scarcest resource allows."""
    if not profile.seconds:
        return RoundSize(1, "what a trial uses was not measured (`loopty init` does)")
    if use.names:
        return RoundSize(1, f"only one trial at a time can use {use.names[0]}")
    if not profile.steady:
        return RoundSize(1, "the score varies from run to run, so that trials at once could disturb each other")
    per_trial = max(profile.cores, 1.0)
    busy = f"keeps {profile.cores:.1f}" if profile.cores > 1 else "gets one"
    bounds = [
        RoundSize(int(machine.cores / per_trial), f"a trial {busy} of {machine.cores} cores"),
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
