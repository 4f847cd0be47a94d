"""In a long drought, the strongest model of the evolver names directions that were not tried."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from loopty.domain.errors import Exhausted
from loopty.domain.model import Message, ModelOption, Prompt, RoleModel, Speaker
from loopty.domain.search_config import SearchMove
from loopty.engine.protocols import Ask
from loopty.kit.fence import FENCED_IS_DATA, one_line
from loopty.kit.reasoning_blocks import without_reasoning
from loopty.proposers.code.code_options import CodeOptions
from loopty.proposers.code.search_moves import next_move, unchanged_move, with_directions
from loopty.record.search_learning import SearchLearning

GUIDE = "guide"
"""The operator of calls that ask for directions."""
_MOST_DIRECTIONS = 5
_LONGEST_DIRECTION = 300
_ITEM = re.compile(r"^\s*(?:[-*•]|\d{1,2}[.)])\s+(\S.*)$")
_SYSTEM = (
    "You advise a search that improves a program step by step. Others write the code; you say where to look next. "
    f"{FENCED_IS_DATA}"
)
_REQUEST = (
    "# What to do\n\nThe last {dry} results were no better than the best program. Name three to five directions "
    "that differ from all that was tried: another algorithm, another data structure, another part of the program, "
    "an assumption that may be wrong. Write one line for each, beginning with `- `: what to change, and why that "
    "may help. Write no code, and nothing else."
)


class SearchGuide:
    """Makes the moves of a search that learns; in a long drought it asks a model for directions first."""

    def __init__(
        self,
        models: Mapping[ModelOption, RoleModel],
        options: CodeOptions,
        program_text: Callable[[Ask], str],
    ) -> None:
        """`program_text` is the context and the files of the best node, as the other prompts have them."""
        self._model = models[strongest_model(tuple(models))]
        self._options = options
        self._program_text = program_text
        self._is_asked = False
        """Whether a question to the guide is open: parallel proposals do not ask it as well."""

    async def next_move(self, ask: Ask) -> SearchMove | None:
        """The move that is due now, or None. Raises Outage when the guide is unavailable."""
        move = next_move(ask, self._options)
        if self._is_asked or not is_guide_due(ask, self._options):
            return move
        self._is_asked = True
        try:
            directions, reason = await self._ask_guide(ask)
        finally:
            self._is_asked = False
        # Other proposals went on meanwhile, and may have moved the values themselves.
        return with_directions(next_move(ask, self._options) or unchanged_move(ask), directions, reason)

    async def _ask_guide(self, ask: Ask) -> tuple[tuple[str, ...], str]:
        dry = SearchLearning.of(ask.history.runs[ask.run], ask.pool).dry
        text = f"{self._program_text(ask)}\n\n{_REQUEST.format(dry=dry)}"
        prompt = Prompt(_SYSTEM, (Message(Speaker.ASKER, text),))
        try:
            answer = await self._model.ask(prompt, GUIDE, ask.best.id)
        except Exhausted as end:
            return (), f"a guide could not be asked: {end}"
        directions = parse_directions(answer.reply.text)
        named = f"{self._model.model} named {len(directions)} directions"
        return directions, f"{named} after {dry} verdicts without a new best node"


def is_guide_due(ask: Ask, options: CodeOptions) -> bool:
    """Whether the drought is so long that new directions are asked for, once for each `guide_after` verdicts."""
    known = SearchLearning.of(ask.history.runs[ask.run], ask.pool)
    has_begun = known.move is not None
    return has_begun and 0 < options.guide_after <= known.dry - known.guided_at


def strongest_model(models: tuple[ModelOption, ...]) -> ModelOption:
    """The dearest model; where prices are alike or unknown, the one that was listed last."""
    return max(enumerate(models), key=lambda numbered: (numbered[1].price, numbered[0]))[1]


def parse_directions(reply: str) -> tuple[str, ...]:
    """The items of the list in a reply, one line each. What a model wrote is data, also for other models."""
    items = (match[1] for line in without_reasoning(reply).splitlines() if (match := _ITEM.match(line)))
    lines = (one_line(item, _LONGEST_DIRECTION) for item in items)
    return tuple(dict.fromkeys(filter(None, lines)))[:_MOST_DIRECTIONS]
