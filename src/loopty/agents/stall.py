"""A stall: a session that does not get on. It says nothing about the change that the agent would have made."""

from __future__ import annotations

from enum import StrEnum

from loopty.kit.records import Record


class StallKind(StrEnum):
    """Why a session, or a configuration's search, does not get on."""

    SILENT = "silent"
    """It prints nothing, and neither its tools nor its model's requests are at work."""
    SLOW = "slow"
    """It prints, but its model writes less than the floor of tokens per minute."""
    TOOL = "tool"
    """One of its tools has been running for too long."""
    LOOP = "loop"
    """It makes the same call again and again, with the same result."""
    CRASH = "crash"
    """Its process ended before its work did."""
    OUTAGE = "outage"
    """Its model could not be asked."""
    SAME_FAILURE = "same failure"
    """Its last changes failed in the same way."""
    SAME_CHANGE = "same change"
    """Its last changes were there before."""
    IDLE = "idle"
    """Its last sessions changed nothing."""
    BELOW_NOISE = "below noise"
    """The effects of its last changes are smaller than the noise."""


class Stall(Record):
    """What was seen, and for how long it had lasted when it was seen."""

    kind: StallKind
    reason: str
    seconds: float = 0.0

    @property
    def hint(self) -> str:
        """What a resumed agent should know."""
        return f"You were stopped, because you {_WORDS[self.kind]}: {self.reason}. {_ADVICE[self.kind]}"


_WORDS = {
    StallKind.SILENT: "gave no sign of life",
    StallKind.SLOW: "made almost no progress",
    StallKind.TOOL: "waited too long for a tool",
    StallKind.LOOP: "repeated yourself",
    StallKind.CRASH: "ended early",
}
_ADVICE = {
    StallKind.SILENT: "Go on with a smaller step, and start no program that waits for something.",
    StallKind.SLOW: "Decide on one small change now, and make it.",
    StallKind.TOOL: "Do not start that again; use a quicker check, with a time limit.",
    StallKind.LOOP: "Do not make that call again: its result will be the same. Try another way.",
    StallKind.CRASH: "Go on from what is in the files.",
}
