"""The options of the proposer `llm-code`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from loopty.kit.dataclass import Record, dataclass, replace
from loopty.kit.option import option
from loopty.kit.str_enum import StrEnum
from loopty.proposers.parents_option import PARENTS
from loopty.proposers.prompt_context import PromptContextOptions


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
    PART = "part"
    """One part of another good node's change, or the parent without a part of its own; asks no model."""


class Policy(StrEnum):
    """How the operator and the model of a proposal are chosen."""

    CREDIT = "credit"
    WEIGHTS = "weights"
    GRADIENT = "gradient"


@dataclass(frozen=True, slots=True)
class CodeOptions(Record):
    parents: str | Mapping[str, Any] = option(PARENTS, "best")
    operators: tuple[Operator, ...] = option(
        "How to ask for a change: `diff` (some lines), `rewrite` (whole files), `fix` (a node that failed), "
        "`draft` (a new solution from the baseline), `crossover` (with another good node), `merge` (the changes "
        "of another good node, by git where they do not conflict), `part` (one part of a good node's change, or "
        "the parent without a part of its own; asks no model), `mutate` (a random edit, which asks no model). "
        "Each proposal is drawn from those that apply, by the policy.",
        (Operator.DIFF, Operator.REWRITE, Operator.FIX, Operator.DRAFT, Operator.PART),
        filled=True,
    )
    policy: Policy = option(
        "How the operator and the model of a proposal are chosen. `credit`: by what they have brought for their "
        "price so far. `weights`: by fixed weights. `gradient`: by weights that follow the rewards, and by values "
        "(exploration, drafts, restart, batch) that move while the search runs; it is an experiment (see "
        "docs/search.md).",
        Policy.CREDIT,
    )
    weights: Mapping[str, float] = option(
        "The weights of operators with the policy `weights`. Default: alike; an operator that is listed twice is "
        "drawn twice as often.",
        {},
    )
    drafts: int = option(
        "How many drafts are asked for before anything else, where `draft` is one of the operators.", 3, minimum=0
    )
    exploration: float = option(
        "The share of proposals that ignores the credit, so that no operator is given up.",
        0.1,
        minimum=0,
        below=1.001,
    )
    trial_price: float = option(
        "What a trial costs, in calls of the cheapest model: with a high price, dear models and operators that "
        "fail less are worth more.",
        1.0,
        above=0,
    )
    guide_after: int = option(
        "With the policy `gradient`: verdicts without a new best node after which the evolver's strongest model "
        "is asked for new directions; 0: never.",
        40,
        minimum=0,
    )
    batch: int = option("How many proposals one call asks for.", 1, minimum=1, below=17)
    file_tokens: int = option("Maximum tokens of the files that the model sees.", 16_000, minimum=256)
    form: str = option(
        "The form of the answers: `block` (the code between the only pair of EVOLVE-BLOCK lines), `whole` (whole "
        "files), `search` (SEARCH and REPLACE), `diff` (a unified diff). `auto` takes one that fits what may "
        "change, and learns for each model in which its replies are usable. Replies in any form are read.",
        "auto",
        choices=("auto", "block", "whole", "search", "diff"),
    )
    reasons_first: str = option(
        "Whether the model explains its idea before the change. `auto` learns it for each model.",
        "auto",
        choices=("auto", "always", "never"),
    )
    similarity: float = option(
        "Maximum similarity of a change to an earlier change to the same node, where 1 means equal; a more "
        "similar change is refused. With 1, only changes that are equal apart from comments and white space are "
        "refused.",
        0.97,
        above=0,
        below=1.001,
    )
    embedding: str = option(
        "The model whose embeddings compare changes: a name of `[models]`, or `provider:model`. Without one, or "
        "while it is unavailable, changes are compared by their sequences of four characters.",
        "",
    )
    briefing: PromptContextOptions = option(
        "How much context the model gets besides the files.", PromptContextOptions()
    )

    def weight(self, operator: Operator) -> float:
        """The weight of an operator with the policy `weights`."""
        return max(self.weights.get(operator, 0.0), 0.0) if self.weights else 1.0

    def within(self, limit_tokens: int) -> CodeOptions:
        """The same options, for a model with this limit on a prompt; the files of another node come on top."""
        files = min(self.file_tokens, limit_tokens * 2 // 5)
        return replace(self, file_tokens=files, briefing=self.briefing.within(limit_tokens * 3 // 10))
