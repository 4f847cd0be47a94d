"""What coding agents may do in a task."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from loopty.kit.option import option


class AgentRight(StrEnum):
    """What an agent may do to work that is not its own draft."""

    ABORT = "abort"
    DISCARD = "discard"
    GATE = "gate"
    INVALIDATE = "invalidate"
    REMEASURE = "remeasure"


@dataclass(frozen=True, slots=True)
class AgentRights:
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
