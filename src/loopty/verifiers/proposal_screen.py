"""Screens proposals before they cost a trial. This is advice: an unavailable verifier holds nothing up."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence

from loopty.domain.errors import Exhausted
from loopty.domain.model import Outage, Prompt, RoleModel
from loopty.domain.proposal import Objection, Proposal, Suggestion
from loopty.engine.protocols import Ask, Proposer
from loopty.kit.dataclass import replace
from loopty.kit.fence import one_line
from loopty.kit.scrub import strip_hidden
from loopty.kit.token_count import tokens_of_data
from loopty.record.node_record import Node
from loopty.record.role_shares import SCREEN, RoleShares
from loopty.verifiers.change_excerpt import excerpt, parameter_lines, proposer_claim
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

OPERATOR = SCREEN
MAX_CHARS = 40_000
"""The most that is shown of a change; a small model sees less."""

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
        """`writable_files` lists the files of a commit that may be changed, `read_text` reads one of them.

        No prompt is longer than `max_prompt_tokens`. Raises Misuse when that is too little for a question.
        """
        self.name = proposer.name
        self.width: int = getattr(proposer, "width", 0)
        self._proposer = proposer
        self._verifier = VerifierModel(role_model, max_prompt_tokens)
        self._task_text = task_text(statement, rules, max_prompt_tokens // 8)
        self._data_tokens = self._verifier.data_tokens(_prompt(self._task_text))
        self._writable_files = writable_files
        self._read_text = read_text

    async def propose(self, ask: Ask) -> Suggestion | None:
        suggestion = await self._proposer.propose(ask)
        if not isinstance(suggestion, Proposal) or not _is_due(ask):
            return suggestion
        tracker = CallTracker(self._verifier.role_model)
        verifier = replace(self._verifier, role_model=tracker)
        reason = await self._advice(ask.history[suggestion.parent], suggestion, verifier)
        screened = replace(suggestion, calls=(*tracker.calls, *suggestion.calls))
        return screened.as_refusal(f"the verifier: {reason}", Objection.SCREENED) if reason else screened

    async def _advice(self, parent: Node, proposal: Proposal, verifier: VerifierModel) -> str | None:
        """Why the proposal should get no trial, or None, also when the verifier gives no readable answer."""
        lines = (*parameter_lines(parent.params, proposal.params), *self._change_lines(parent, proposal))
        claim = proposer_claim(proposal.operator, proposal.summary, self._data_tokens // 8)
        max_tokens = self._data_tokens - tokens_of_data(claim)
        label = f"the change to node {parent.name}"
        change = excerpt(label, "\n".join(lines) or "nothing", MAX_CHARS, max_tokens)
        prompt = _prompt("\n\n".join(filter(None, (self._task_text, claim, change.text))))
        try:
            return await verifier.ask(prompt, OPERATOR, parent.id, _read_advice)
        except (Exhausted, Outage):  # the role model has recorded why
            return None

    def _change_lines(self, parent: Node, proposal: Proposal) -> Iterator[str]:
        """The edits of the proposal as unified diffs, without hidden characters."""
        writable = frozenset(self._writable_files(parent.commit)) if proposal.edits else frozenset()
        for path, content in sorted(proposal.edits.items()):
            before = (self._read_text(parent.commit, path) or "") if path in writable else ""
            after = content.decode(errors="replace") if isinstance(content, bytes) else content or ""
            lines = difflib.unified_diff(
                strip_hidden(before).splitlines(), strip_hidden(after).splitlines(), path, path, lineterm=""
            )
            yield from lines if content is not None else (f"{path} is deleted",)


def _is_due(ask: Ask) -> bool:
    """Whether this proposal is screened: all are, unless the shares of the roles are adaptive."""
    share = RoleShares.of(ask.history.runs[ask.run]).screened
    return share >= 1.0 or ask.generator_at(-1 - ask.position).random() < share


def _prompt(text: str) -> Prompt:
    asked = (
        f'{text}\n\nIs the change worth a trial? Answer as {{"reasoning": "…", "against": ["what speaks against '
        'it", …], "verdict": "try" or "skip"}.'
    )
    verdict: Fields = {"type": "string", "enum": ["try", "skip"]}
    return question(_DUTY, asked, {"against": STRING_LIST, "verdict": verdict})


def _read_advice(fields: Fields) -> str:
    """Why the change should get no trial; empty when it is worth one. Raises ValueError for a faulty answer."""
    read_reasoning(fields)
    skip, against = read_choice(fields, "verdict", {"try": False, "skip": True}), read_list(fields, "against")
    if skip and not against:
        raise ValueError("the verdict is `skip`, and `against` does not say why")
    return one_line("; ".join(against), _MAX_REASON_CHARS) if skip else ""
