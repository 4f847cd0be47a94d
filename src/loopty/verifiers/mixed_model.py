"""Several models as one verifier: each question goes to one of them, drawn by weight."""

from __future__ import annotations

import random
from collections.abc import Mapping

from loopty.domain.ids import NodeId
from loopty.domain.model import Answer, ModelOption, Prompt, Reply, RoleModel
from loopty.domain.pool import Pool
from loopty.verifiers import comparison


class MixedModel:
    """The draw follows from the question alone, so that a resumed run asks the same model."""

    def __init__(self, models: Mapping[ModelOption, RoleModel]) -> None:
        """All of them write into one archive."""
        self._models = list(models.values())
        self._weights = [option.weight for option in models]
        self.model = self._models[0].model

    async def ask(
        self, prompt: Prompt, operator: str, node: NodeId | None = None, pool: Pool | None = None
    ) -> Answer:
        # One model makes all comparisons of a node: otherwise its two orders would also be two models. The first
        # message is the question itself: a second try after an unreadable reply stays with its model.
        text = "" if operator == comparison.OPERATOR else prompt.messages[0].text
        rng = random.Random(f"{operator} {node} {text}")
        (model,) = rng.choices(self._models, self._weights)
        return await model.ask(prompt, operator, node, pool)

    def reply_of(self, call: str) -> Reply:
        return self._models[0].reply_of(call)
