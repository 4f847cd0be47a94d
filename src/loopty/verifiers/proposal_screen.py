"""Screens proposals before they cost a trial: advice, so a verifier that cannot be had holds nothing up."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from loopty.domain.errors import Exhausted
from loopty.domain.model import Outage, Prompt, RoleModel
from loopty.domain.proposal import Objection, Proposal, Suggestion
from loopty.engine.protocols import Ask, Proposer
from loopty.kit.fence import one_line
from loopty.kit.scrub import cleaned
from loopty.kit.token_count import tokens_of_data
from loopty.record.node_record import Node
from loopty.verifiers.shown_change import claim, parameter_lines, shown
from loopty.verifiers.verifier_question import LISTED, Asking, Fields, Noting, chosen, listed, question, reasoning
from loopty.verifiers.verifier_rules import told

OPERATOR = "screen"
MOST_CHARS = 40_000
"""Of a change, where the model has room for so many."""

_LONGEST_REASON = 400
_DUTY = """You are the verifier of an automatic optimisation. You see a change before it is measured. Measuring \
is what tells whether it is any good, so do not guess at its score: advise against it only where it breaks a \
rule, cannot work at all, or changes nothing."""


class Screened:
    """A proposer whose proposals the verifier sees first."""

    def __init__(
        self,
        proposer: Proposer,
        line: RoleModel,
        statement: str,
        rules: str,
        writable: Callable[[str], Sequence[str]],
        text: Callable[[str, str], str | None],
        most_tokens: int,
    ) -> None:
        """`writable` lists the files of a commit that may be changed, `text` reads one of them.

        No prompt is longer than `most_tokens`. Raises Misuse where that is too little for a question.
        """
        self.name = proposer.name
        self.width: int = getattr(proposer, "width", 1)
        self._proposer = proposer
        self._asking = Asking(line, most_tokens)
        self._told = told(statement, rules, most_tokens // 8)
        self._room = self._asking.room(_prompt(self._told))
        self._writable = writable
        self._text = text

    async def propose(self, ask: Ask) -> Suggestion | None:
        suggestion = await self._proposer.propose(ask)
        if not isinstance(suggestion, Proposal):
            return suggestion
        line = Noting(self._asking.line)
        reason = await self._advice(ask.history[suggestion.parent], suggestion, replace(self._asking, line=line))
        screened = replace(suggestion, calls=(*line.calls, *suggestion.calls))
        return screened.as_refusal(f"the verifier: {reason}", Objection.SCREENED) if reason else screened

    async def _advice(self, parent: Node, proposal: Proposal, asking: Asking) -> str | None:
        """Why the proposal should get no trial, or None: also where the verifier has nothing readable to say."""
        lines = (*parameter_lines(parent.params, proposal.params), *self._changes(parent, proposal))
        said = claim(proposal.operator, proposal.summary, self._room // 8)
        room = self._room - tokens_of_data(said)
        change = shown(f"the change to node {parent.id.name}", "\n".join(lines) or "nothing", MOST_CHARS, room)
        prompt = _prompt("\n\n".join(filter(None, (self._told, said, change.text))))
        try:
            return await asking.answered(prompt, OPERATOR, parent.id, _read)
        except (Exhausted, Outage):  # the line has recorded why
            return None

    def _changes(self, parent: Node, proposal: Proposal) -> Iterator[str]:
        known = frozenset(self._writable(parent.commit)) if proposal.edits else frozenset()
        for path, after in sorted(proposal.edits.items()):
            before = (self._text(parent.commit, path) or "") if path in known else ""
            new = after.decode(errors="replace") if isinstance(after, bytes) else after or ""
            lines = difflib.unified_diff(
                cleaned(before).splitlines(), cleaned(new).splitlines(), path, path, lineterm=""
            )
            yield from lines if after is not None else (f"{path} is deleted",)


def _prompt(text: str) -> Prompt:
    asked = (
        f'{text}\n\nIs the change worth a trial? Answer as {{"reasoning": "…", "against": ["what speaks against '
        'it", …], "verdict": "try" or "skip"}.'
    )
    verdict: Fields = {"type": "string", "enum": ["try", "skip"]}
    return question(_DUTY, asked, {"against": LISTED, "verdict": verdict})


def _read(fields: Fields) -> str:
    """Why not; empty where it is worth a trial."""
    reasoning(fields)
    skip, against = chosen(fields, "verdict", {"try": False, "skip": True}), listed(fields, "against")
    if skip and not against:
        raise ValueError("the verdict is `skip`, and `against` does not say why")
    return one_line("; ".join(against), _LONGEST_REASON) if skip else ""
