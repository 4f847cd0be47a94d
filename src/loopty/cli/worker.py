"""`loopty worker`: run trials of a campaign that another machine drives."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import click

from loopty.cli.output import say

_VARIABLE = "LOOPTY_WORKER_URL"


def _print_line(text: str) -> None:
    """What happens now, as one line of JSON."""
    click.echo(json.dumps({"at": round(time.time(), 3), "message": text}))


@click.command("worker")
@click.argument("url", required=False)
@click.option(
    "--dir", "folder", type=click.Path(path_type=Path, file_okay=False), help="Where it keeps its files."
)
@click.option("--name", help="What `loopty status` calls it. Default: the name of this machine.")
@click.option("--trust", is_flag=True, help="Give trials what their task asks of this machine beyond a sandbox.")
@click.option("--patience", type=float, help="Seconds without a driver after which it ends. Default: it waits.")
@click.option("--json", "as_json", is_flag=True, help="Write what it does as lines of JSON to standard output.")
@click.option("--stdio", is_flag=True, help="Talk to the driver by standard input and output, as over ssh.")
def command(
    url: str | None,
    folder: Path | None,
    name: str | None,
    trust: bool,
    patience: float | None,
    as_json: bool,
    stdio: bool,
) -> None:
    """Run trials of a campaign that another machine drives.

    URL is what `loopty optimize --listen` shows there; it is a secret, and may be given as $LOOPTY_WORKER_URL
    instead. Each worker runs one trial at a time: start several for more. When the driver is gone, its trial is
    killed, and the worker joins again as soon as the driver is back. Ctrl-C ends it.
    """
    from loopty.campaign.worker_run import WorkerRun
    from loopty.executors.worker_url import WorkerUrl

    if stdio and as_json:
        raise click.UsageError("name --stdio or --json, not both: standard output belongs to the driver")
    tell = _print_line if as_json else say
    run = WorkerRun(folder.absolute() if folder else None, name or os.uname().nodename, trust, tell)
    if stdio:
        run.serve_stdio()
        return
    if not (found := url or os.environ.get(_VARIABLE)):
        raise click.UsageError(f"name the URL that `loopty optimize --listen` shows, or set ${_VARIABLE}")
    run.join(WorkerUrl.parse(found), patience)
