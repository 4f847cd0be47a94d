"""`loopty optimize`: drive the loop until the budget, the user or the target says stop."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from typing import TYPE_CHECKING

import click

from loopty.cli.output import here, say

if TYPE_CHECKING:
    from loopty.core.loop import Finish, Loop

UNSAFE = click.option(
    "--unsafe-no-sandbox", "unsafe", is_flag=True, help="Run candidates with all your rights. Dangerous."
)


@click.command("optimize")
@click.option("--new-run", is_flag=True, help="Start a new run from the files as they are now.")
@click.option("--quiet", "-q", is_flag=True, help="No progress, only the result.")
@click.option("--json", "as_json", is_flag=True, help="Print the closing status as JSON.")
@UNSAFE
def command(new_run: bool, quiet: bool, as_json: bool, unsafe: bool) -> None:
    """Run experiments until the budget is spent.

    Ctrl-C stops cleanly; running it again resumes. Exits with 1 when nothing succeeded.
    """
    from loopty.assemble import Workshop

    workshop = Workshop.open(here())
    run = workshop.enter_run(new_run, say)
    if unsafe:
        say("warning: no sandbox; candidates run with all your rights")
    finish = asyncio.run(_driven(workshop.loop(run, unsafe)))
    say(finish.reason)
    sys.exit(0 if finish.sound else 1)


async def _driven(loop: Loop) -> Finish:
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
    return await loop.drive()
