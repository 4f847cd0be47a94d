"""`loopty status`: where the run stands."""

from __future__ import annotations

import click

from loopty.cli.output import (
    columns,
    current_status,
    history,
    json_option,
    look,
    newest_run,
    print_json,
    run_option,
)


@click.command("status")
@run_option
@json_option
def command(run: int | None, as_json: bool) -> None:
    """Say where the run stands: best, budget, what is running, why it stopped."""
    from loopty.views.verdict_tally import is_quick, tally

    found = history()
    number = newest_run(found, run)
    status = current_status(found, number)
    counted = tally(found, number) if is_quick(found) else None
    if as_json:
        from loopty.kit import codec

        print_json({**codec.plain(status), **codec.plain(counted or {})})
        return
    from loopty.report.status_text import status_text

    click.echo(status_text(status, columns(), look(), counted))
