"""What a task file may say of the proposer that lets a model change code."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from loopty.kit.option import option
from loopty.proposers.prompt_context import PromptContextOptions


class Operator(enum.StrEnum):
    """A way to ask for a change."""

    DIFF = "diff"
    """Some lines of the parent."""
    REWRITE = "rewrite"
    """Whole files of the parent."""
    CROSSOVER = "crossover"
    """The parent and another good node become one."""
    FIX = "fix"
    """The parent failed."""
    DRAFT = "draft"
    """Another solution, from the baseline."""


@dataclass(frozen=True, slots=True)
class CodeOptions:
    parents: str | Mapping[str, Any] = option(
        "Which node is changed next: `best`, `tournament` (the best of a few drawn at random) or `root` (always "
        'the baseline). With options: a table, as in `{ kind = "tournament", size = 8 }`.',
        "best",
    )
    operators: tuple[Operator, ...] = option(
        "How changes are asked for, drawn at random among those that apply: `diff` (some lines), `rewrite` (whole "
        "files), `crossover` (with another good node), `fix` (of what failed), `draft` (a new solution from the "
        "baseline). One that is named twice is drawn twice as often.",
        (Operator.DIFF, Operator.REWRITE, Operator.CROSSOVER, Operator.FIX),
        filled=True,
    )
    batch: int = option("Proposals that one call is asked for.", 1, minimum=1, below=17)
    file_tokens: int = option("Tokens of files that the model is shown.", 16_000, minimum=256)
    similarity: float = option(
        "How much like an earlier change of the same node a change may be, 1 being equal; more is refused. "
        "1 refuses only what is equal but for comments and white space.",
        0.97,
        above=0,
        below=1.001,
    )
    embedding: str = option(
        "The model by whose embeddings changes are compared: a name of `[models]`, or `provider:model`. Left out, "
        "or while it cannot be had: they are compared by their runs of four characters.",
        "",
    )
    briefing: PromptContextOptions = option(
        "How much the model is told besides the files.", PromptContextOptions()
    )

    def within(self, limit_tokens: int) -> CodeOptions:
        """The same, for a model that can be told so many tokens: those of another node's files come on top."""
        files = min(self.file_tokens, limit_tokens * 2 // 5)
        return replace(self, file_tokens=files, briefing=self.briefing.within(limit_tokens * 3 // 10))
