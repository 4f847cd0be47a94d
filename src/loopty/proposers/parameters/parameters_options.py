"""The options of the proposer `llm-parameters`."""

from __future__ import annotations

from dataclasses import dataclass

from loopty.kit.option import option
from loopty.kit.records import replace
from loopty.proposers.prompt_context import PromptContextOptions

_TOKENS_PER_LINE = 60
"""One tried configuration with its result."""


@dataclass(frozen=True, slots=True)
class ParametersOptions:
    batch: int = option(
        "How many configurations one call asks for; they are tried one after the other.", 4, minimum=1
    )
    history: int = option(
        "How many tried configurations the model sees: the best ones, then the newest ones.", 30, minimum=0
    )
    briefing: PromptContextOptions = option(
        "How much other context the model gets. Default: none.",
        PromptContextOptions(digest_tokens=0, artifacts=False),
    )

    def within(self, limit_tokens: int) -> ParametersOptions:
        """The same options, for a model with this limit on a prompt."""
        history = min(self.history, limit_tokens // 4 // _TOKENS_PER_LINE)
        return replace(self, history=history, briefing=self.briefing.within(limit_tokens // 3))
