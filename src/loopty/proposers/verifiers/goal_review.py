"""Reviews goal against benchmark: which words of the goal does the evaluator not check?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from loopty.domain.ids import NodeId
from loopty.domain.model import Outage, Prompt, RoleModel
from loopty.kit.foreign_text import one_line
from loopty.kit.model_text import cut_to
from loopty.kit.records import Record
from loopty.proposers.verifiers.question import (
    Fields,
    VerifierModel,
    excerpt,
    question,
    read_reasoning,
)

OPERATOR = "goal review"
_MAX_CHARS = 40_000
_MAX_GAPS = 8
_LONGEST = 300
_DUTY = """You review the benchmark of an automatic optimisation before it runs. The search will find whatever \
scores, whether it serves the goal or not. You are asked one thing: which words of the goal does the evaluator \
not check? Name only gaps that a candidate could use: what the goal demands or forbids, and the evaluator neither \
measures nor refuses. A benchmark without such a gap is common."""
_GAP: Fields = {
    "type": "object",
    "properties": {
        "goal": {"type": "string", "description": "The words of the goal, as they stand there."},
        "gap": {"type": "string", "description": "What a candidate could do that scores and breaks them."},
        "mend": {"type": "string", "description": "The check to add, and where."},
    },
    "required": ["goal", "gap", "mend"],
    "additionalProperties": False,
}


_FIELDS = ("goal", "gap", "mend")


class Gap(Record):
    """Words of the goal that the evaluator does not check."""

    goal: str
    gap: str
    mend: str


async def review_goal(
    role_model: RoleModel, statement: str, rules: str, files: Mapping[str, str], node: NodeId, max_tokens: int
) -> tuple[Gap, ...]:
    """Ask the verifier for the gaps; `files` are the evaluator and the program, the evaluator first.

    Raises Outage where its replies cannot be read, Misuse where its model reads too little.
    """
    verifier = VerifierModel(role_model, max_tokens)
    goal = cut_to("\n\n".join(filter(None, (statement.strip(), rules.strip()))), max_tokens // 8)
    room = verifier.data_tokens(_prompt(goal))
    shown: list[str] = []
    for path, text in files.items():
        part = excerpt(path, text, _MAX_CHARS, room)
        if part.tokens > room:
            break
        shown.append(part.text)
        room -= part.tokens
    found = await verifier.ask(_prompt("\n\n".join((goal, *shown))), OPERATOR, node, _read_gaps)
    if found is None:
        raise Outage("two replies of the verifier could not be read: use a more capable model")
    return found


def _prompt(text: str) -> Prompt:
    asked = (
        f'The goal:\n{text}\n\nWhich words of the goal does the evaluator not check? Answer as {{"reasoning": '
        '"…", "gaps": [{"goal": "the words", "gap": "what a candidate could do", "mend": "the check to add"}, …]}.'
    )
    return question(_DUTY, asked, {"gaps": {"type": "array", "items": _GAP}})


def _read_gaps(fields: Fields) -> tuple[Gap, ...]:
    read_reasoning(fields)
    gaps = fields.get("gaps")
    if not isinstance(gaps, list):
        raise ValueError("`gaps` is no list")
    return tuple(_gaps(gaps[:_MAX_GAPS]))


def _gaps(gaps: list[object]) -> Iterator[Gap]:
    for gap in gaps:
        if not isinstance(gap, dict) or not all(
            isinstance(gap.get(name), str) for name in ("goal", "gap", "mend")
        ):
            raise ValueError("a gap has no `goal`, `gap` and `mend`")
        yield Gap(*(one_line(gap[name], _LONGEST) for name in ("goal", "gap", "mend")))
