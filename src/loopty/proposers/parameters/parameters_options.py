"""What a task file may say of the proposer that lets a model choose parameters."""

from __future__ import annotations

from dataclasses import dataclass, replace

from loopty.kit.option import option
from loopty.proposers.prompt_context import PromptContextOptions

_TOKENS_PER_LINE = 60
"""Of a configuration that was tried, with its result."""


@dataclass(frozen=True, slots=True)
class ParametersOptions:
    batch: int = option(
        "How many configurations a call asks for; they are tried one after the other.", 4, minimum=1
    )
    history: int = option("How many configurations the model is shown: the best, then the newest.", 30, minimum=0)
    briefing: PromptContextOptions = option(
        "How much the model is told besides them.", PromptContextOptions(digest_tokens=0, artifacts=False)
    )

    def within(self, limit_tokens: int) -> ParametersOptions:
        """The same, for a model that can be told so many tokens."""
        shown = min(self.history, limit_tokens // 4 // _TOKENS_PER_LINE)
        return replace(self, history=shown, briefing=self.briefing.within(limit_tokens // 3))
