"""Screens proposals before they cost a trial: advice, so a verifier that cannot be had holds nothing up."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence

from loopty.core.errors import Exhausted
from loopty.core.model import Line, Outage, Prompt
from loopty.core.parts import Ask, Proposer
from loopty.core.proposal import Objection, Proposal, Suggestion
from loopty.core.records import Node
from loopty.kit.fence import one_line
from loopty.kit.scrub import cleaned
from loopty.verifiers.asking import LISTED, Fields, answered, chosen, listed, question, reasoning
from loopty.verifiers.rules import told
from loopty.verifiers.showing import claim, parameter_lines, shown

OPERATOR = "screen"
MOST_CHARS = 40_000

_LONGEST_REASON = 400
_DUTY = """You are the verifier of an automatic optimisation. You see a change before it is measured. Measuring \
is what tells whether it is any good, so do not guess at its score: advise against it only where it breaks a \
rule, cannot work at all, or changes nothing."""


class Screened:
    """A proposer whose proposals the verifier sees first."""

    def __init__(
        self,
        proposer: Proposer,
        line: Line,
        statement: str,
        rules: str,
        writable: Callable[[str], Sequence[str]],
        text: Callable[[str, str], str | None],
        most_chars: int = MOST_CHARS,
    ) -> None:
        """`writable` lists the files of a commit that may be changed, `text` reads one of them."""
        self.name = proposer.name
        self.width: int = getattr(proposer, "width", 1)
        self._proposer = proposer
        self._line = line
        self._told = told(statement, rules)
        self._writable = writable
        self._text = text
        self._most_chars = most_chars

    async def propose(self, ask: Ask) -> Suggestion | None:
        suggestion = await self._proposer.propose(ask)
        if not isinstance(suggestion, Proposal):
            return suggestion
        if reason := await self._advice(ask.history[suggestion.parent], suggestion):
            return suggestion.refused(f"the verifier: {reason}", Objection.SCREENED)
        return suggestion

    async def _advice(self, parent: Node, proposal: Proposal) -> str | None:
        """Why the proposal should get no trial, or None: also where the verifier has nothing readable to say."""
        lines = (*parameter_lines(parent.params, proposal.params), *self._changes(parent, proposal))
        text = "\n\n".join(
            (
                self._told,
                claim(proposal.operator, proposal.summary),
                shown(f"the change to node {parent.id}", "\n".join(lines) or "nothing", self._most_chars),
            )
        )
        try:
            return await answered(self._line, _prompt(text), OPERATOR, parent.id, _read)
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
