"""`loopty run`: run the loop until the budget, the user or the target says stop."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from typing import TYPE_CHECKING

import click

from loopty.cli.output import (
    NO_SANDBOX,
    columns,
    here_with_trust,
    print_explanation,
    print_json,
    say,
    say_own_path,
    terminal,
    trust_option,
    unsafe_option,
)
from loopty.domain.trial import Pool, Verdict
from loopty.engine.budget import fruitless_reason
from loopty.kit import codec
from loopty.show.terminal import SetUpLine

if TYPE_CHECKING:
    from loopty.campaign.campaign import Campaign
    from loopty.campaign.optimize import OptimizeSession
    from loopty.engine.budget import Finish
    from loopty.show.progress import Progress


@click.command("optimize")
@click.option("--new-run", is_flag=True, help="Start a new run, from your files as they are now.")
@click.option(
    "--from",
    "start_from",
    default="",
    metavar="best|NODE|baseline",
    help="What a new run measures first. Default: best of the run before; baseline with --new-run.",
)
@click.option("--quiet", "-q", is_flag=True, help="Print only the result, no progress.")
@click.option("--json", "as_json", is_flag=True, help="Print the final status as JSON.")
@click.option(
    "--listen", metavar="ADDRESS:PORT", help="Let other machines run the trials, with `loopty system worker`."
)
@click.option("--on", "hosts", multiple=True, metavar="HOST", help="Start workers there, as executor.hosts does.")
@click.option("--dashboard", is_flag=True, help="Show it in your browser, too, as `loopty dashboard` does.")
@trust_option
@unsafe_option
def optimize_verb(
    new_run: bool,
    start_from: str,
    quiet: bool,
    as_json: bool,
    listen: str | None,
    hosts: tuple[str, ...],
    dashboard: bool,
    trust: bool,
    unsafe: bool,
) -> None:
    """Run experiments until the budget is spent.

    Ctrl-C stops it cleanly; the same command resumes it. Exits with 1 when nothing succeeded or a model was
    unavailable.
    """
    line = SetUpLine(sys.stderr, os.environ)

    def talk(text: str) -> None:
        line.erase()
        say(text)

    campaign = here_with_trust(trust, talk)
    try:
        on_step = (lambda _: None) if quiet else line.show
        session = campaign.start_session(new_run, unsafe, on_step, listen or "", hosts, start_from)
    finally:
        line.erase()
    for warning in (*([NO_SANDBOX] if unsafe else []), *session.warnings):
        say(warning)
    with _dashboard(session) if dashboard else contextlib.nullcontext():
        finish = _run(session, quiet)
        if second := campaign.start_combination(session.run, finish, unsafe, listen or "", hosts):
            if not as_json:
                _print_result(campaign, session.run, finish, as_json)
            session, finish = second, _run(second, quiet)
    _print_result(campaign, session.run, finish, as_json)
    if obstacle := session.pruning_obstacle():
        say(obstacle)
    sys.exit(0 if finish.sound else 1)


def _run(session: OptimizeSession, quiet: bool) -> Finish:
    if quiet:
        return session.run_to_end()
    progress, listeners = _progress(session), session.context.recorder.listeners
    listeners.append(progress.on_event)
    try:
        return session.run_to_end(progress.tick)
    finally:
        listeners.remove(progress.on_event)  # the second stage has a progress display of its own
        progress.close()


def _dashboard(session: OptimizeSession) -> contextlib.AbstractContextManager[None]:
    from loopty.web.launch import dashboard_beside

    return dashboard_beside(session.context.state.top, lambda url: say(f"dashboard: {url}"))


def _progress(session: OptimizeSession) -> Progress:
    from loopty.show.progress import make_progress

    context = session.context
    return make_progress(
        recorder=context.recorder,
        run=session.run,
        pools=context.task.pools,
        out=sys.stderr,
        env=os.environ,
        clock=time.time,
        latest=session.loop.latest,
        noise=context.task.noise,
        trials_at_once=context.task.width,
    )


def _print_result(campaign: Campaign, run: int, finish: Finish, as_json: bool) -> None:
    from loopty.show.closing_text import closing_text

    status, history = campaign.status(run), campaign.history
    # A look at every node: the text shows only the uplift over the control.
    tally = campaign.tally(run) if as_json or status.control else None
    if as_json:
        plain = {**codec.plain(status), **codec.plain(tally)}
        found = campaign.explanation(history.runs[run].root)
        more = {"explanation": found.plain()} if found else {}
        print_json({"reason": finish.reason, "sound": finish.sound, **plain, **more})
    else:
        click.echo(closing_text(status, finish.reason, columns(), terminal(), tally))
    if finish.resumable:
        say("resume: loopty run")
    fruitless = finish.reason == fruitless_reason(history.runs[run], Pool.ATTEMPT)
    # A pass over the whole ledger: only where a model made the proposals is there more to see.
    if fruitless and (parent := campaign.last_fruitless_parent(run)):
        say(f"see what was refused: loopty show {history.name(parent)} --refused")
    root = history[history.runs[run].root]
    if root.verdict in (Verdict.DISCARDED, Verdict.REJECTED):
        print_explanation(campaign.explanation(root.id))
        say("fix the benchmark or loopty.toml, then run: loopty run")
    if not as_json:
        say_own_path()
