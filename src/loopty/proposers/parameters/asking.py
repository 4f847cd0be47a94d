"""What a model over parameters is asked, and what it is told of a reply that is no use."""

from __future__ import annotations

from collections.abc import Sequence

from loopty.domain.model import Message, Prompt, Speaker
from loopty.domain.space import Space
from loopty.kit.fence import FENCED_IS_DATA
from loopty.proposers.parameters.parameter_prompts import reply_schema, space_text

_SYSTEM = (
    "You choose the parameters of a program so that its benchmark gives better results. You see what was tried "
    "and what it gave; you propose what to try next, and the benchmark decides. " + FENCED_IS_DATA
)
_SHAPE = '{"proposals": [{"parameters": {"name": value, …}, "reason": "one sentence: why this one"}, …]}'


def configurations_prompt(context: str, space: Space, tried: str, batch: int) -> Prompt:
    """Asks for so many configurations."""
    wanted = "the configuration that is" if batch == 1 else f"the {batch} configurations that are"
    sections = (
        context,
        f"# Parameters\n\n{space_text(space)}",
        f"# Configurations that were tried\n\n{tried}",
        f"# What to do\n\nPropose {wanted} most worth trying next. Each must differ from all that were tried, and "
        "from each other. Weigh what the results suggest against regions where little is known. Change parameters "
        "alone, no files. Give every parameter that exists under the others' values. Reply with JSON alone:\n"
        f"{_SHAPE}",
    )
    return Prompt(_SYSTEM, (Message(Speaker.ASKER, "\n\n".join(sections)),), reply_schema(space))


def retry_text(faults: Sequence[str]) -> str:
    lines = "\n".join(f"- {fault}" for fault in faults)
    return f"Nothing of this can be tried:\n{lines}\n\nReply again, with the JSON alone, as it was described."
