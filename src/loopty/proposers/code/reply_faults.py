"""Why a reply cannot become a proposal: one line for the ledger, and advice for the model that retries."""

from __future__ import annotations

from loopty.domain.errors import LooptyError
from loopty.domain.proposal import Objection
from loopty.kit.fence import one_line

_LONGEST_REASON = 300


class ProposalFault(LooptyError):  # noqa: N818
    """A change that cannot be parsed or applied, or is not allowed."""

    def __init__(self, objection: Objection, reason: str, advice: str = "", quotation: str = "") -> None:
        """`advice` is loopty's own words, `quotation` lines of a file, which are shown as data."""
        self.objection = objection
        self.reason = one_line(reason[: 4 * _LONGEST_REASON], _LONGEST_REASON)
        self.advice = advice
        self.quotation = quotation
        super().__init__(self.reason)


def parse_fault(reason: str, advice: str = "") -> ProposalFault:
    """A fault of a reply that cannot be parsed."""
    return ProposalFault(Objection.REPLY, reason, advice)


def apply_fault(reason: str, advice: str = "", quotation: str = "") -> ProposalFault:
    """A fault of a change that cannot be applied to the files."""
    return ProposalFault(Objection.APPLY, reason, advice, quotation)
