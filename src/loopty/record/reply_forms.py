"""The family of reply forms: how often a model's replies in a form were usable.

A reply that repeats what was tried, or the example in the prompt, is not usable.
"""

from __future__ import annotations

from collections.abc import Mapping

from loopty.domain.proposal import Objection
from loopty.kit.records import Record, field, replace
from loopty.record.calls import Spend
from loopty.record.family import Family
from loopty.record.fold_state import FoldState
from loopty.record.nodes import NodeAdded
from loopty.record.proposals import ProposalRefused
from loopty.record.run_record import RunPart

_MOST_FORMS = 128
"""Models times forms: bounded, as all that the fold keeps."""


class FormCount(Record):
    """Replies in one form by one model."""

    asked: int = 0
    usable: int = 0

    def with_reply(self, usable: bool) -> FormCount:
        return FormCount(self.asked + 1, self.usable + usable)


class ReplyForms(RunPart):
    """What a run has learned about the forms of answers."""

    models: Mapping[str, Mapping[str, FormCount]] = field(default_factory=dict)
    """By model, then by form."""

    def of_model(self, model: str) -> Mapping[str, FormCount]:
        return self.models.get(model, {})

    def with_reply(self, model: str, form: str, usable: bool) -> ReplyForms:
        counts = self.of_model(model)
        if form not in counts and sum(map(len, self.models.values())) >= _MOST_FORMS:
            return self
        counts = {**counts, form: counts.get(form, FormCount()).with_reply(usable)}
        return replace(self, models={**self.models, model: counts})


def _count(state: FoldState, event: NodeAdded | ProposalRefused, _at: float) -> None:
    """Count the replies behind a proposal: those before the last one were not usable."""
    if not event.calls or event.index_in_reply:
        return
    run = state.runs[event.node.run if isinstance(event, NodeAdded) else event.run]
    unread, known = Spend.of(run).unread, ReplyForms.of(run)
    forms = known
    for call in event.calls:
        reply = unread.get(call)
        if reply and reply.form and not reply.taken:
            is_usable = isinstance(event, NodeAdded) or event.objection is Objection.OTHER
            forms = forms.with_reply(reply.model, reply.form, is_usable and call == event.calls[-1])
    if forms is not known:
        state.put_run(run.with_part(forms))


FAMILY = Family((), {NodeAdded: _count, ProposalRefused: _count})
