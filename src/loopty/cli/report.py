"""`loopty report`: the chart, the best nodes, and what the time gave."""

from __future__ import annotations

import contextlib
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loopty.cli import declare
from loopty.cli.output import (
    columns,
    here,
    json_option,
    print_json,
    say,
    terminal,
    unsafe_option,
    write_for_user,
)
from loopty.cli.record_check import RecordCheck, check_record
from loopty.domain.errors import Misuse
from loopty.kit.collection_pause import pause_collection
from loopty.kit.records import as_dict
from loopty.report.control_codes import control_code

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopty.campaign.campaign import Campaign
    from loopty.campaign.queries import Report
    from loopty.causes.explanation import Explanation

_MOST_DRAWN = 20_000
"""Points of the chart: it has a few thousand places for them."""
_SECONDS_BETWEEN_DRAWINGS = 2.0
_CHECKED_NODES, _CHECKED_EVENTS = 20_000, 80_000
"""A longer record is checked as a whole only when asked: reading a million nodes takes half a minute."""


@declare.command("report")
@declare.option(
    "--top",
    type=declare.kind_of_click("IntRange", min=0),
    default=5,
    show_default=True,
    metavar="N",
    help="How many of the best nodes to list.",
)
@declare.option(
    "--confirm",
    is_flag=True,
    help="First measure the best node beside the baseline in fresh pairs, so that the stated gain is of today.",
)
@declare.option(
    "--slice",
    "parameter",
    metavar="NAME",
    help="The parameter to draw the scores against. Default: the most important one.",
)
@declare.option(
    "--check",
    "everything",
    is_flag=True,
    help="Check every event and node for edits by hand, also of a record of more than 20,000 nodes; exit with 1 "
    "where there is one.",
)
@declare.option("--watch", is_flag=True, help="Draw the newest run again every two seconds, until Ctrl-C.")
@declare.option("--markdown", is_flag=True, help="Print a summary to paste into a pull request instead.")
@declare.option(
    "--html",
    "page",
    type=declare.kind_of_click("Path", path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write that summary with the chart as one page that needs nothing else, to share.",
)
@declare.option(
    "--operators",
    "shows_operators",
    is_flag=True,
    help="Show instead what each operator, model and kind of change brought and cost.",
)
@unsafe_option
@declare.option("--run", type=int, metavar="N", help="Only this run. Default: all, the newest first.")
@json_option
def command(
    top: int,
    run: int | None,
    confirm: bool,
    parameter: str | None,
    everything: bool,
    watch: bool,
    markdown: bool,
    page: Path | None,
    shows_operators: bool,
    unsafe: bool,
    as_json: bool,
) -> None:
    """Chart the scores of every run, the newest first; list the best nodes, the status, and where the time went.

    From 20 trials on, it also says how much of the score each parameter accounts for, and draws the scores against
    the most important one.

    Results from other machines are not comparable, so they are listed separately.
    """
    campaign = here()
    if shows_operators:
        _show_operators(campaign, run, as_json)
        return
    if confirm:
        campaign.confirm(run, unsafe)
    if markdown or page:
        _summarize(campaign, run, page, as_json)
        return
    if watch:
        _watch(run, top, parameter)
        return
    with _naming_edits(campaign, everything):
        numbers = [campaign.newest_run(run)] if run is not None else sorted(campaign.history.runs, reverse=True)
        campaign.newest_run(run)  # says what to do where there is none
    with _naming_edits(campaign, everything), pause_collection():
        reports = [
            campaign.report(
                number, top, parameter if number == numbers[0] else None, None if as_json else _MOST_DRAWN
            )
            for number in numbers
        ]
    check = check_record(campaign, *(None, None) if everything else (_CHECKED_EVENTS, _CHECKED_NODES))
    if as_json:
        newest, *older = (_plain(campaign, found) for found in reports)
        print_json({**newest, **({"older_runs": older} if older else {}), **check.plain})
        _end(everything, check)
        return
    check.say()
    texts = [_report_text(found, top, _explanation(campaign, found)) for found in reports]
    if len(texts) > 1:
        rules = [f"── run {number} " for number in numbers]
        texts = [f"{rule:─<{columns()}}\n\n{text}" for rule, text in zip(rules, texts, strict=True)]
    declare.echo(terminal().render("\n\n".join(texts)))
    _end(everything, check)


@contextlib.contextmanager
def _naming_edits(campaign: Campaign, was_asked: bool) -> Iterator[None]:
    """Name the edit that leaves nothing to show, where a check was asked for, and exit with 1."""
    try:
        yield
    except Misuse as error:
        if was_asked and (flaw := campaign.record.ledger.flaw()):
            say(f"warning: the ledger was changed by hand ({flaw}), and it cannot be shown: {error}")
            sys.exit(1)
        raise


def _end(was_asked: bool, check: RecordCheck) -> None:
    """Exit with 1 where the check that was asked for has found something."""
    if was_asked and check.flaw:
        sys.exit(1)


def _plain(campaign: Campaign, found: Report) -> dict[str, Any]:
    """The report of one run, for JSON."""
    from loopty.kit import codec

    status = {**codec.plain(found.status), **codec.plain(found.tally)}
    parts = {
        "points": found.points,
        "best": found.best,
        "other_fingerprints": found.other_cohorts,
        "goodput": found.goodput,
        "importance": found.importance,
        "slice": found.slice,
    }
    cause = {"explanation": why.plain()} if (why := _explanation(campaign, found)) else {}
    return {"status": status, **codec.plain(parts), **cause}


def _explanation(campaign: Campaign, found: Report) -> Explanation | None:
    """Why the baseline failed; None where it did not."""
    return campaign.explanation(str(found.status.run)) if found.status.without_baseline else None


def _report_text(found: Report, top: int, explanation: Explanation | None = None) -> str:
    from loopty.report.best_text import leaderboard_text, other_cohorts_text
    from loopty.report.chart import chart
    from loopty.report.goodput_text import goodput_text
    from loopty.report.importance_text import importance_text
    from loopty.report.slice_chart import slice_chart
    from loopty.report.status_text import status_text

    rows = min(max(shutil.get_terminal_size((80, 24)).lines - 8, 12), 24)
    texts = [
        chart(found.points, columns(), rows, terminal()),
        leaderboard_text(found.best, found.points.metric, columns(), terminal()) if top else "",
        importance_text(found.importance, columns(), terminal()),
        slice_chart(found.slice, columns(), rows // 2, terminal()) if found.slice else "",
        other_cohorts_text(found.other_cohorts, found.points.metric, columns(), terminal()),
        status_text(found.status, columns(), terminal(), found.tally, explanation),
        goodput_text(found.goodput, columns(), terminal()),
    ]
    return "\n\n".join(filter(None, texts))


def _summarize(campaign: Campaign, run: int | None, page: Path | None, as_json: bool) -> None:
    """Print the summary as Markdown, or write it as a page."""
    from loopty.report.markdown import markdown_text
    from loopty.report.summary_sections import summary_document

    summary = campaign.summary(run=run)
    document = summary_document(summary)
    if page is None:
        if as_json:
            print_json({"title": document.title, "markdown": markdown_text(document)})
        else:
            declare.echo(markdown_text(document), nl=False)
        return
    from loopty.report.html_page import html_page
    from loopty.report.svg_chart import svg_chart

    content = html_page(document, svg_chart(summary.points)).encode()
    write_for_user(page, content)
    if as_json:
        print_json({"title": document.title, "path": str(page), "bytes": len(content)})
    else:
        declare.echo(f"{page} has the report; it needs no other file")


def _watch(run: int | None, top: int, parameter: str | None) -> None:
    """Draw the report again and again."""
    if not sys.stdout.isatty():
        raise Misuse("--watch draws on a terminal, and this is none: leave it out, or use --json in a loop")
    while True:
        with pause_collection():
            text = _report_text(here().report(run, top, parameter, _MOST_DRAWN), top)
        lines = text.splitlines()[: shutil.get_terminal_size((80, 24)).lines - 2]
        declare.echo("\n".join([control_code("H") + control_code("2J") + lines[0], *lines[1:], "Ctrl-C ends"]))
        time.sleep(_SECONDS_BETWEEN_DRAWINGS)


def _show_operators(campaign: Campaign, run: int | None, as_json: bool) -> None:
    found = campaign.operators(run)
    if as_json:
        print_json(as_dict(found))
        return
    from loopty.report.operators_text import operators_text

    declare.echo(operators_text(found, columns(), terminal()))
