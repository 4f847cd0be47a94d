"""`loopty status`, `report`, `best`: where the run stands, its chart, its best nodes, and what the time gave."""

from __future__ import annotations

import contextlib
import json
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from loopty.cli.output import (
    columns,
    echo,
    here,
    json_option,
    print_json,
    print_json_text,
    run_option,
    say,
    say_control,
    say_failed_baseline,
    say_run_without_result,
    terminal,
    unsafe_option,
    write_for_user,
)
from loopty.domain.errors import Misuse
from loopty.domain.objective import score_metric
from loopty.kit import codec
from loopty.kit.process import pause_collection
from loopty.kit.records import Record, as_dict
from loopty.record.tickets import Tickets
from loopty.record.trials import Cohorts
from loopty.session.reader import CampaignReader
from loopty.show.figures import store_line
from loopty.show.terminal import Fact, control_code

if TYPE_CHECKING:
    from collections.abc import Iterator

    from loopty.campaign.campaign import Campaign
    from loopty.domain.ids import NodeId
    from loopty.session.queries import Report
    from loopty.show.explanation import Explanation


class RecordCheck(Record):
    """A check of the newest events and nodes, and of everything that was read before."""

    flaw: str | None
    """What was changed, with the remedy; None if nothing was."""
    events: int
    nodes: int
    """How many were checked."""
    all_events: int
    all_nodes: int

    @property
    def plain(self) -> dict[str, Any]:
        """Return what `--json` prints about it."""
        return {"flaw": self.flaw} if self.flaw else {"checked_events": self.events, "checked_nodes": self.nodes}

    def say(self) -> None:
        """Warn of a flaw; else say what was checked where that was not everything."""
        if self.flaw:
            say(f"warning: {self.flaw}")
        elif self.events < self.all_events:
            newest = f"the newest {self.nodes:,} of {self.all_nodes:,} nodes"
            say(
                "checked for edits by hand: what is shown here, "
                f"{newest if self.nodes < self.all_nodes else 'every node'} and the newest {self.events:,} of "
                f"{self.all_events:,} events (`loopty report --check` checks all)"
            )


def check_record(campaign: CampaignReader, events: int | None, nodes: int | None) -> RecordCheck:
    """Check so many of the newest events and nodes; all of them if None."""
    all_events, all_nodes = campaign.history.number, campaign.history.count
    flaw = campaign.flaw(events, nodes)
    checked_events = all_events if events is None else min(events, all_events)
    checked_nodes = all_nodes if nodes is None else min(nodes, all_nodes)
    return RecordCheck(flaw, checked_events, checked_nodes, all_events, all_nodes)


_CHECKED = 2_000
"""Events, and nodes. Of a longer record, `apply` and `report --check` look at all; this verb stays fast."""


@click.command("status")
@run_option
@json_option
def status_verb(run: int | None, as_json: bool) -> None:
    """Show where the run stands: the result, running trials, what was spent, and what to do next."""
    from loopty.show.tally import is_quick

    campaign = here()
    status = campaign.status(run)
    say_run_without_result(campaign, status.run, run)
    tally = campaign.tally(run) if is_quick(campaign.history) else None
    check = check_record(campaign, _CHECKED, _CHECKED)
    found = campaign.explanation(str(status.run)) if status.without_baseline else None
    store = campaign.store_standing()
    tickets = len(Tickets.of(campaign.history.runs[status.run]).open)
    if as_json:
        cause = {"explanation": found.plain()} if found else {}
        running = {"store": codec.plain(store)} if store else {}
        running |= {"open_tickets": tickets} if tickets else {}
        print_json({**codec.plain(status), **codec.plain(tally or {}), **check.plain, **cause, **running})
        return
    check.say()
    from loopty.show.status_text import status_text

    more = []
    if tickets:
        more.append(Fact("tickets", f"{tickets} open: agents wait for {'it' if tickets == 1 else 'them'}"))
    if store:
        more.append(Fact("store", store_line(store.place, store.unsent, store.unsent_bytes, store.fault)))
    echo(status_text(status, columns(), terminal(), tally, found, more))


@click.command("best")
@click.option(
    "--top",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    metavar="N",
    help="How many nodes to list.",
)
@run_option
@json_option
def best_verb(top: int, run: int | None, as_json: bool) -> None:
    """Print the best node and its score; with --top N the N best of the kept nodes, those of the control included.

    Exits with 1 when the run has no result, and with 2 when there is no run yet.

    Results from other machines are not comparable: they are listed separately, and --json leaves them out.
    """
    from loopty.show.comparisons import score

    campaign = here()
    history, number = campaign.history, campaign.newest_run(run)
    say_run_without_result(campaign, number, run)
    if top == 1:
        best = campaign.best(number)
        if best is None:
            _exit_without_result(campaign, number)
        value = score(history, history[best], Cohorts.of(history.runs[number]).fingerprint)
        say_control(campaign, number)
        if as_json:
            _print_row(campaign, best, 1, value)
        else:
            from loopty.show.score_text import ScoreText

            assert value is not None, "the best node has a score"
            echo(f"{history.name(best)} {ScoreText.of_run(campaign.status(number)).score(value)}")
        return
    from loopty.show.best import leaderboard_text, other_cohorts, other_cohorts_text

    rows = campaign.leaderboard(top, number)
    if not rows:
        _exit_without_result(campaign, number)
    if as_json:
        for row in rows:
            _print_row(campaign, row.node.id, row.rank, row.score)
        return
    metrics = history.metrics(history[history.runs[number].root])
    metric = score_metric(metrics).name if metrics else "score"
    parts = [
        leaderboard_text(rows, metric, columns(), terminal()),
        other_cohorts_text(other_cohorts(history, number, top), metric, columns(), terminal()),
    ]
    echo("\n\n".join(filter(None, parts)))


def _print_row(campaign: Campaign, node: NodeId, rank: int, score: float | None) -> None:
    """Print the node as JSON: the same keys for every node, of code or of parameters, one or several."""
    history = campaign.history
    metrics, root = history.metrics(history[node]), history[history.runs[node.run].root]
    row: dict[str, Any] = {
        "rank": rank,
        "score": score,
        "metric": score_metric(metrics).name if metrics else None,
        "edited": history[node].tree != root.tree,
    }
    print_json_text(json.dumps({**row, **codec.every_field(history[node])}))


def _exit_without_result(campaign: Campaign, run: int) -> NoReturn:
    say("there is no result yet")
    say_failed_baseline(campaign, run)
    sys.exit(1)


_MOST_DRAWN = 20_000
"""Points of the chart: it has a few thousand places for them."""
_SECONDS_BETWEEN_DRAWINGS = 2.0
_CHECKED_NODES, _CHECKED_EVENTS = 20_000, 80_000
"""A longer record is checked as a whole only when asked: reading a million nodes takes half a minute."""


@click.command("report")
@click.option(
    "--top",
    type=click.IntRange(min=0),
    default=5,
    show_default=True,
    metavar="N",
    help="How many of the best nodes to list.",
)
@click.option(
    "--confirm",
    is_flag=True,
    help="First measure the best node beside the baseline in fresh pairs, so that the stated gain is of today.",
)
@click.option(
    "--slice",
    "parameter",
    metavar="NAME",
    help="The parameter to draw the scores against. Default: the most important one.",
)
@click.option(
    "--check",
    "everything",
    is_flag=True,
    help="Check every event and node for edits by hand, also of a record of more than 20,000 nodes; exit with 1 "
    "where there is one.",
)
@click.option("--watch", is_flag=True, help="Draw the newest run again every two seconds, until Ctrl-C.")
@click.option("--markdown", is_flag=True, help="Print a summary to paste into a pull request instead.")
@click.option(
    "--html",
    "page",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write that summary with the chart as one page that needs nothing else, to share.",
)
@click.option(
    "--operators",
    "shows_operators",
    is_flag=True,
    help="Show instead what each operator, model and kind of change brought and cost.",
)
@unsafe_option
@click.option("--run", type=int, metavar="N", help="Only this run. Default: all, the newest first.")
@json_option
def report_verb(
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
    echo(terminal().render("\n\n".join(texts)))
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
    """Return the report of one run, for JSON."""
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
    """Say why the baseline failed; None if it did not."""
    return campaign.explanation(str(found.status.run)) if found.status.without_baseline else None


def _report_text(found: Report, top: int, explanation: Explanation | None = None) -> str:
    from loopty.show.best import leaderboard_text, other_cohorts_text
    from loopty.show.chart import chart
    from loopty.show.goodput import goodput_text
    from loopty.show.parameters import importance_text, slice_chart
    from loopty.show.status_text import status_text

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
    from loopty.show.documents import markdown_text
    from loopty.show.run_summary import summary_document

    summary = campaign.summary(run=run)
    document = summary_document(summary)
    if page is None:
        if as_json:
            print_json({"title": document.title, "markdown": markdown_text(document)})
        else:
            echo(markdown_text(document), nl=False)
        return
    from loopty.show.chart import svg_chart
    from loopty.show.documents import html_page

    content = html_page(document, svg_chart(summary.points)).encode()
    write_for_user(page, content)
    if as_json:
        print_json({"title": document.title, "path": str(page), "bytes": len(content)})
    else:
        echo(f"{page} has the report; it needs no other file")


def _watch(run: int | None, top: int, parameter: str | None) -> None:
    """Draw the report again and again."""
    if not sys.stdout.isatty():
        raise Misuse("--watch draws on a terminal, and this is none: leave it out, or use --json in a loop")
    while True:
        with pause_collection():
            text = _report_text(here().report(run, top, parameter, _MOST_DRAWN), top)
        lines = text.splitlines()[: shutil.get_terminal_size((80, 24)).lines - 2]
        echo("\n".join([control_code("H") + control_code("2J") + lines[0], *lines[1:], "Ctrl-C ends"]))
        time.sleep(_SECONDS_BETWEEN_DRAWINGS)


def _show_operators(campaign: Campaign, run: int | None, as_json: bool) -> None:
    found = campaign.operators(run)
    if as_json:
        print_json(as_dict(found))
        return
    from loopty.show.operators import operators_text

    echo(operators_text(found, columns(), terminal()))
