"""What the audits of a run say together is recorded once they ended, also after a kill."""

from __future__ import annotations

from loopty.campaign.context import CampaignContext
from loopty.record.audit_anchors import AuditAnchors


def conclude_audits(context: CampaignContext, run: int) -> None:
    """Let the run know which gains do not carry over, where an audit ended since: no number of the split."""
    history = context.recorder.refresh()
    known = AuditAnchors.of(history.runs[run])
    if not known.has_new_audit:
        return
    from loopty.views.audit_conclusion import audit_conclusion
    from loopty.views.audit_rows import audits

    events = (recorded for recorded in context.ledger.read() if recorded.number <= history.number)
    found = audit_conclusion(run, [row for row in audits(history, events) if row.node.run == run])
    context.recorder.record(lambda _: [found])
    if found.text and found.text != known.text:
        context.say(found.text)
