"""The options of `[proposer.stalls]`: when a session counts as stalled, and what follows."""

from __future__ import annotations

from dataclasses import dataclass

from loopty.agents.agent_driver import SIGN_OF_LIFE, AgentDriver
from loopty.agents.stall_watch import StallLimits
from loopty.kit.option import option

_SHORTEST_WINDOW = 50.0


@dataclass(frozen=True, slots=True)
class StallOptions:
    """When a session of a coding agent counts as stalled."""

    watch: bool = option("Stop stalled sessions before their time limit, and resume each once.", True)
    silence_seconds: float | None = option(
        "How long an agent may print nothing while its tools use no CPU and no model request is open. "
        "Default: 45, or 240 for agents that print nothing while their model thinks (`docs/agents.md`).",
        None,
        above=0,
    )
    tool_seconds: float = option("How long an agent may print nothing while a tool is at work.", 300.0, above=0)
    tokens_per_minute: float = option(
        "Least that an agent's model writes while no tool is at work.", 10.0, minimum=0
    )
    repeats: int = option(
        "How often a call may fail with the same result; successful calls may repeat three times as often.",
        5,
        minimum=2,
    )
    bench_after: int = option(
        "After this many stalled sessions in a row, suspend the configuration.",
        3,
        minimum=1,
    )
    bench_minutes: float = option("For how long; each time twice as long.", 30.0, above=0)

    def limits(self, driver: AgentDriver, is_served: bool) -> StallLimits:
        """The limits of one session; `is_served`: loopty sees the requests to its model."""
        silence = self.silence_seconds or (SIGN_OF_LIFE if is_served else driver.silence_seconds)
        window = silence if self.silence_seconds else max(_SHORTEST_WINDOW, silence)
        answer = None if is_served or not driver.streams else self.silence_seconds or SIGN_OF_LIFE
        return StallLimits(silence, self.tool_seconds, self.tokens_per_minute, window, self.repeats, answer)
