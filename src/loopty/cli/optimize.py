"""`loopty optimize`: drive the loop until the budget, the user or the target says stop."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import sys
import time
from typing import TYPE_CHECKING

import click

from loopty.cli.output import columns, current_status, here, look, print_json, say

if TYPE_CHECKING:
    from loopty.campaign.campaign import Campaign
    from loopty.engine.loop import Finish, Loop
    from loopty.report.progress import Progress

UNSAFE = click.option(
    "--unsafe-no-sandbox", "unsafe", is_flag=True, help="Run candidates with all your rights. Dangerous."
)
_TICK_SECONDS = 0.25


@click.command("optimize")
@click.option("--new-run", is_flag=True, help="Start a new run from the files as they are now.")
@click.option("--quiet", "-q", is_flag=True, help="No progress, only the result.")
@click.option("--json", "as_json", is_flag=True, help="Print the closing status as JSON.")
@UNSAFE
def command(new_run: bool, quiet: bool, as_json: bool, unsafe: bool) -> None:
    """Run experiments until the budget is spent.

    Ctrl-C stops cleanly; running it again resumes. Exits with 1 when nothing succeeded.
    """
    from loopty.campaign.campaign import Campaign
    from loopty.taskfile.unused_roles import idle_roles

    campaign = Campaign.open(here())
    run = campaign.enter_run(new_run, say)
    if unsafe:
        say("warning: no sandbox; candidates run with all your rights")
    loop = campaign.loop(run, unsafe)
    for words in (*campaign.lines(run).unpriced(), *idle_roles(campaign.task).values()):
        say(words)
    collect_rarely()
    finish = asyncio.run(_driven(loop, None if quiet else _progress(campaign, run, loop)))
    _close(campaign, run, finish, as_json)
    sys.exit(0 if finish.sound else 1)


def _progress(campaign: Campaign, run: int, loop: Loop) -> Progress:
    from loopty.report.progress import make_progress

    shown = make_progress(
        campaign.recorder, run, campaign.task.pools, sys.stderr, os.environ, time.time, loop.latest
    )
    campaign.recorder.listeners.append(shown.on_event)
    return shown


def collect_rarely() -> None:
    """A run makes records that stay: looking for rubbish among them all the time would find next to none."""
    gc.set_threshold(50_000, 20, 50)


async def _driven(loop: Loop, progress: Progress | None) -> Finish:
    """The loop, with the first Ctrl-C as a request and the second as an order."""

    def stop() -> None:
        if asked:
            os._exit(130)
        asked.append(True)
        loop.stop("stopped on request")

    asked: list[bool] = []
    with contextlib.suppress(NotImplementedError):
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop)
    ticking = asyncio.create_task(_tick(progress)) if progress else None
    try:
        return await loop.drive()
    finally:
        if ticking and progress:
            ticking.cancel()
            progress.close()


async def _tick(progress: Progress) -> None:
    while True:
        progress.tick()
        await asyncio.sleep(_TICK_SECONDS)


def _close(campaign: Campaign, run: int, finish: Finish, as_json: bool) -> None:
    from loopty.domain.outcome import Verdict
    from loopty.domain.pool import Pool
    from loopty.engine.budget import fruitless_reason
    from loopty.kit import codec
    from loopty.report.best_text import closing_text
    from loopty.views.verdict_tally import tally

    status, counted = current_status(campaign.history, run), tally(campaign.history, run)
    if as_json:
        plain = {**codec.plain(status), **codec.plain(counted)}
        print_json({"reason": finish.reason, "sound": finish.sound, **plain})
    else:
        click.echo(closing_text(status, finish.reason, columns(), look(), counted))
    if finish.resumable:
        say("resume: loopty optimize")
    if finish.reason == fruitless_reason(campaign.history.runs[run], Pool.ATTEMPT):
        _point_to_refused(campaign, run)
    root = campaign.history[campaign.history.runs[run].root]
    if root.verdict in (Verdict.DISCARDED, Verdict.REJECTED):
        say(f"its output: {campaign.state.node_folder(root.id)}   when it is mended: loopty optimize --new-run")


def _point_to_refused(campaign: Campaign, run: int) -> None:
    """Say where the refused proposals can be seen, where a model made them: a pass over the whole ledger."""
    from loopty.ledgers.sqlite import SqliteLedger
    from loopty.report.columns import short_id
    from loopty.views.model_calls import calls_of_run

    if node := calls_of_run(SqliteLedger(campaign.state.ledger).read(), run).last_refused_parent:
        say(f"what was refused: loopty show {short_id(node)} --refused")
