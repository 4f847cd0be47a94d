"""What others say, made fit for the ledger where it comes in, so that it is the end of one trial at most."""

from __future__ import annotations

from loopty.domain.declared_types import cut_words, misfit
from loopty.domain.outcome import Ending, Outcome
from loopty.domain.proposal import Proposal
from loopty.kit.records import replace


def with_short_words(outcome: Outcome) -> Outcome:
    """The outcome with its words for a person cut, as far as they are words."""
    reason, lines = outcome.reason, outcome.error_lines
    if isinstance(reason, str) and (short := cut_words(reason)) != reason:
        outcome = replace(outcome, reason=short)
    if type(lines) is tuple and all(isinstance(line, str) for line in lines):
        cut = tuple(map(cut_words, lines))
        outcome = outcome if cut == lines else replace(outcome, error_lines=cut)
    return outcome


def recordable(outcome: Outcome) -> Outcome:
    """The outcome as the ledger takes it: one that it would refuse is a failure that says why.

    What is worse than a failure stays: nobody gets around a finding by adding a number that cannot be recorded.
    """
    short = with_short_words(outcome)
    if (fault := misfit(short)) is None:
        return short
    has_failed = type(outcome.ending) is Ending and outcome.ending is not Ending.FINISHED
    ending = outcome.ending if has_failed else Ending.FAILED
    return Outcome(ending, reason=cut_words(f"its result cannot be recorded: {fault}"))


def fault_of(proposal: Proposal) -> str | None:
    """Why the ledger would not take this proposal: asked before it becomes a commit."""
    fault = misfit(replace(proposal, edits=dict.fromkeys(proposal.edits)))
    return f"it cannot be recorded: {fault}" if fault else None
