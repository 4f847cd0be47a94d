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
from loopty.kit.scrub import strip_hidden
from loopty.kit.token_count import tokens_of_data
from loopty.record.node_record import Node
from loopty.verifiers.shown_change import excerpt, parameter_lines, proposer_claim
from loopty.verifiers.verifier_question import (
    STRING_LIST,
    CallTracker,
    Fields,
    VerifierModel,
    question,
    read_choice,
    read_list,
    read_reasoning,
)
from loopty.verifiers.verifier_rules import task_text

OPERATOR = "screen"
MAX_CHARS = 40_000
"""Of a change, where the model has room for so many."""

_MAX_REASON_CHARS = 400
_DUTY = """You are the verifier of an automatic optimisation. You see a change before it is measured. Measuring \
is what tells whether it is any good, so do not guess at its score: advise against it only where it breaks a \
rule, cannot work at all, or changes nothing."""


class ScreenedProposer:
    """A proposer whose proposals the verifier sees first."""

    def __init__(
        self,
        proposer: Proposer,
        role_model: RoleModel,
        statement: str,
        rules: str,
        writable_files: Callable[[str], Sequence[str]],
        read_text: Callable[[str, str], str | None],
        max_prompt_tokens: int,
    ) -> None:
        """`writable` lists the files of a commit that may be changed, `text` reads one of them.

        No prompt is longer than `most_tokens`. Raises Misuse where that is too little for a question.
        """
        self.name = proposer.name
        self.width: int = getattr(proposer, "width", 1)
        self._proposer = proposer
        self._verifier = VerifierModel(role_model, max_prompt_tokens)
        self._task_text = task_text(statement, rules, max_prompt_tokens // 8)
        self._data_tokens = self._verifier.data_tokens(_prompt(self._task_text))
        self._writable_files = writable_files
        self._read_text = read_text

    async def propose(self, ask: Ask) -> Suggestion | None:
        suggestion = await self._proposer.propose(ask)
        if not isinstance(suggestion, Proposal):
            return suggestion
        line = CallTracker(self._verifier.role_model)
        reason = await self._advice(
            ask.history[suggestion.parent], suggestion, replace(self._verifier, role_model=line)
        )
        screened = replace(suggestion, calls=(*line.calls, *suggestion.calls))
        return screened.as_refusal(f"the verifier: {reason}", Objection.SCREENED) if reason else screened

    async def _advice(self, parent: Node, proposal: Proposal, verifier: VerifierModel) -> str | None:
        """Why the proposal should get no trial, or None: also where the verifier has nothing readable to say."""
        lines = (*parameter_lines(parent.params, proposal.params), *self._change_lines(parent, proposal))
        said = proposer_claim(proposal.operator, proposal.summary, self._data_tokens // 8)
        room = self._data_tokens - tokens_of_data(said)
        change = excerpt(f"the change to node {parent.id.name}", "\n".join(lines) or "nothing", MAX_CHARS, room)
        prompt = _prompt("\n\n".join(filter(None, (self._task_text, said, change.text))))
        try:
            return await verifier.ask(prompt, OPERATOR, parent.id, _read_advice)
        except (Exhausted, Outage):  # the line has recorded why
            return None

    def _change_lines(self, parent: Node, proposal: Proposal) -> Iterator[str]:
        known = frozenset(self._writable_files(parent.commit)) if proposal.edits else frozenset()
        for path, after in sorted(proposal.edits.items()):
            before = (self._read_text(parent.commit, path) or "") if path in known else ""
            new = after.decode(errors="replace") if isinstance(after, bytes) else after or ""
            lines = difflib.unified_diff(
                strip_hidden(before).splitlines(), strip_hidden(new).splitlines(), path, path, lineterm=""
            )
            yield from lines if after is not None else (f"{path} is deleted",)


def _prompt(text: str) -> Prompt:
    asked = (
        f'{text}\n\nIs the change worth a trial? Answer as {{"reasoning": "…", "against": ["what speaks against '
        'it", …], "verdict": "try" or "skip"}.'
    )
    verdict: Fields = {"type": "string", "enum": ["try", "skip"]}
    return question(_DUTY, asked, {"against": STRING_LIST, "verdict": verdict})


def _read_advice(fields: Fields) -> str:
    """Why not; empty where it is worth a trial."""
    read_reasoning(fields)
    skip, against = read_choice(fields, "verdict", {"try": False, "skip": True}), read_list(fields, "against")
    if skip and not against:
        raise ValueError("the verdict is `skip`, and `against` does not say why")
    return one_line("; ".join(against), _MAX_REASON_CHARS) if skip else ""
