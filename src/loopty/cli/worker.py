"""`loopty worker`: run trials of a campaign that another machine drives."""

from __future__ import annotations

import os
from pathlib import Path

import click

from loopty.cli.output import say

_VARIABLE = "LOOPTY_WORKER_URL"


@click.command("worker")
@click.argument("url", required=False)
@click.option(
    "--dir", "folder", type=click.Path(path_type=Path, file_okay=False), help="Where it keeps its files."
)
@click.option("--name", help="What `loopty status` calls it. Default: the name of this machine.")
@click.option("--trust", is_flag=True, help="Give trials what their task asks of this machine beyond a sandbox.")
@click.option("--patience", type=float, help="Seconds without a driver after which it ends. Default: it waits.")
@click.option("--stdio", is_flag=True, help="Talk to the driver by standard input and output, as over ssh.")
def command(
    url: str | None, folder: Path | None, name: str | None, trust: bool, patience: float | None, stdio: bool
) -> None:
    """Run trials of a campaign that another machine drives.

    URL is what `loopty optimize --listen` shows there; it is a secret, and may be given as $LOOPTY_WORKER_URL
    instead. Each worker runs one trial at a time: start several for more. When the driver is gone, its trial is
    killed, and the worker joins again as soon as the driver is back. Ctrl-C ends it.
    """
    from loopty.campaign.worker_run import WorkerRun
    from loopty.executors.worker_url import WorkerUrl

    run = WorkerRun(folder.absolute() if folder else None, name or os.uname().nodename, trust, say)
    if stdio:
        run.serve_stdio()
        return
    if not (found := url or os.environ.get(_VARIABLE)):
        raise click.UsageError(f"name the URL that `loopty optimize --listen` shows, or set ${_VARIABLE}")
    run.join(WorkerUrl.parse(found), patience)
