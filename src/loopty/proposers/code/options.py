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


class Policy(StrEnum):
    """How the operator and the model of a proposal are chosen."""

    CREDIT = "credit"
    WEIGHTS = "weights"
    GRADIENT = "gradient"


class CodeOptions(Table):
    parents: str | Mapping[str, Any] = option(PARENTS, "best")
    operators: tuple[Operator, ...] = option(
        "How to ask for a change: `diff`, `rewrite`, `fix`, `draft`, `crossover`, `merge`, `mutate`"
        " (`docs/models.md`).",
        (Operator.DIFF, Operator.REWRITE, Operator.FIX, Operator.DRAFT),
        filled=True,
    )
    policy: Policy = option(
        "How operator and model are chosen. `credit`: by reward for the price so far; `weights`: by fixed "
        "weights; `gradient`: an experiment.",
        Policy.CREDIT,
    )
    weights: Mapping[str, float] = option(
        "Weights of operators with the policy `weights`. Default: equal.",
        {},
    )
    drafts: int = option("How many drafts come first, if `draft` is an operator.", 3, minimum=0)
    exploration: float = option(
        "Share of proposals that ignore the credit.",
        0.1,
        minimum=0,
        below=1.001,
    )
    trial_price: float = option(
        "What a trial costs, in calls of the cheapest model.",
        1.0,
        above=0,
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

    def weight(self, operator: Operator) -> float:
        """Return the weight of an operator with the policy `weights`."""
        return max(self.weights.get(operator, 0.0), 0.0) if self.weights else 1.0

    def within(self, limit_tokens: int) -> CodeOptions:
        """Return the same options, for a model with this limit on a prompt; files of another node come on top."""
        files = min(self.file_tokens, limit_tokens * 2 // 5)
        return replace(self, file_tokens=files, briefing=self.briefing.within(limit_tokens * 3 // 10))
