"""The options of the proposer `llm-code`."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from loopty.kit.records import replace
from loopty.kit.tables import Table, option
from loopty.proposers.context.prompt_context import PromptContextOptions
from loopty.proposers.shared_pool import PARENTS


class Operator(StrEnum):
    """A way to ask for a change."""

    DIFF = "diff"
    """Change some lines of the parent."""
    REWRITE = "rewrite"
    """Rewrite whole files of the parent."""
    CROSSOVER = "crossover"
    """Combine the parent with another good node."""
    FIX = "fix"
    """Fix a parent that failed."""
    DRAFT = "draft"
    """Write another solution, from the baseline."""
    MERGE = "merge"
    """Take over the changes of another good node: by git, or by the model where both changed the same lines."""
    MUTATE = "mutate"
    """A seeded random edit of the parent, which asks no model."""


class CodeOptions(Table):
    parents: str | Mapping[str, Any] = option(PARENTS, "best")
    operators: tuple[Operator, ...] = option(
        "How to ask for a change: `diff`, `rewrite`, `fix`, `draft`, `crossover`, `merge`, `mutate`"
        " (`docs/models.md`).",
        (Operator.DIFF, Operator.REWRITE, Operator.FIX, Operator.DRAFT),
        filled=True,
    )
    weights: Mapping[str, float] = option(
        "Fixed weights of the operators; models are drawn by theirs. Default: by gain for the price so far.", {}
    )
    drafts: int = option("How many drafts come first, if `draft` is an operator.", 3, minimum=0)
    exploration: float = option(
        "Share of proposals that ignore the credit: operators are drawn alike, models by their weights.",
        0.1,
        minimum=0,
        below=1.001,
    )
    batch: int = option("How many proposals one call asks for.", 1, minimum=1, below=17)
    file_tokens: int = option("Maximum tokens of the files that the model sees.", 16_000, minimum=256)
    form: str = option(
        "Form of the answers: `block` (between the EVOLVE-BLOCK lines), `whole` (files), `search` (SEARCH "
        "and REPLACE), `diff`. `auto` learns it for each model.",
        "auto",
        choices=("auto", "block", "whole", "search", "diff"),
    )
    briefing: PromptContextOptions = option(
        "How much context the model gets besides the files.", PromptContextOptions()
    )

    def fault(self) -> str:
        """Say what is wrong with the weights, or return an empty text."""
        unknown = [name for name in self.weights if name not in self.operators]
        if unknown:
            return f"weights: {', '.join(unknown)} is none of `operators` ({', '.join(self.operators)})"
        if self.weights and not (min(self.weights.values()) >= 0 < sum(self.weights.values())):
            return "weights: none may be negative, and one must be above 0"
        return ""

    def within(self, limit_tokens: int) -> CodeOptions:
        """Return the same options, for a model with this limit on a prompt; files of another node come on top."""
        files = min(self.file_tokens, limit_tokens * 2 // 5)
        return replace(self, file_tokens=files, briefing=self.briefing.within(limit_tokens * 3 // 10))
