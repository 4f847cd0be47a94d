"""`loopty status`: where the run stands."""

from __future__ import annotations

from loopty.cli import declare
from loopty.cli.output import columns, here, json_option, print_json, run_option, say_run_without_result, terminal
from loopty.cli.record_check import check_record

_CHECKED = 2_000
"""Events, and nodes. Of a longer record, `apply` and `report --check` look at all; this verb stays fast."""


@declare.command("status")
@run_option
@json_option
def command(run: int | None, as_json: bool) -> None:
    """Show where the run stands: the result, running trials, what was spent, and what to do next."""
    from loopty.record.tickets import Tickets
    from loopty.views.verdict_tally import is_quick

    campaign = here()
    status = campaign.status(run)
    say_run_without_result(campaign, status.run, run)
    tally = campaign.tally(run) if is_quick(campaign.history) else None
    check = check_record(campaign, _CHECKED, _CHECKED)
    found = campaign.explanation(str(status.run)) if status.without_baseline else None
    store = campaign.store_standing()
    tickets = len(Tickets.of(campaign.history.runs[status.run]).open)
    if as_json:
        from loopty.kit import codec

        cause = {"explanation": found.plain()} if found else {}
        running = {"store": codec.plain(store)} if store else {}
        running |= {"open_tickets": tickets} if tickets else {}
        print_json({**codec.plain(status), **codec.plain(tally or {}), **check.plain, **cause, **running})
        return
    check.say()
    from loopty.report.columns import Fact
    from loopty.report.status_text import status_text
    from loopty.report.store_text import store_line

    more = []
    if tickets:
        more.append(Fact("tickets", f"{tickets} open: agents wait for {'it' if tickets == 1 else 'them'}"))
    if store:
        more.append(Fact("store", store_line(store.place, store.unsent, store.unsent_bytes, store.fault)))
    declare.echo(status_text(status, columns(), terminal(), tally, found, more))
