"""`loopty config trust`, `notify`, `ledger`, `worker`, `gc`: this machine and others."""

from __future__ import annotations

import json
import os
import re
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from loopty.cli.output import confirm_requests, echo, here, json_option, print_json, say
from loopty.cli.time_span import TimeSpan
from loopty.domain.errors import Misuse
from loopty.kit import codec
from loopty.show.figures import byte_size, moment, plural, store_line
from loopty.taskfile.model_tables import user_config_file

if TYPE_CHECKING:
    from loopty.session.garbage import Garbage


@click.command("trust")
@click.option("--yes", is_flag=True, help="Allow it without a question.")
@click.option("--list", "only_list", is_flag=True, help="List what you have allowed, in all repositories.")
@click.option("--revoke", is_flag=True, help="Forget what you have allowed in this repository.")
@json_option
def trust_verb(yes: bool, only_list: bool, revoke: bool, as_json: bool) -> None:
    """Show what this task asks for beyond the default, and allow it.

    A task file may come from anybody. If it asks for the network, for files outside the repository, for a sandbox
    that protects less, for a container image, for GPUs, for another package's proposer or for a model, nothing of
    it runs until you allow that, here or with --trust. The same goes for filters and for the server of a partial
    clone in the repository's own git configuration (.git/config). Your yes is saved in your own state
    ($XDG_STATE_HOME/loopty/trusted) for this repository and these requests: a further request asks again, other
    edits do not.

    Exits with 1 when what the task asks for is not allowed.
    """
    if yes + only_list + revoke > 1:
        raise Misuse("--yes, --list and --revoke exclude each other: use one at a time")
    if only_list:
        _list(as_json)
    elif revoke:
        _revoke(as_json)
    else:
        _allow(yes, as_json)


def _allow(yes: bool, as_json: bool) -> None:
    campaign = here()
    requests, is_trusted = campaign.requests(), campaign.is_trusted()
    if not is_trusted and (yes or (not as_json and confirm_requests(requests))):
        campaign.trust()
        is_trusted = True
    if as_json:
        rows = [{"key": request.key, "asks_for": request.words} for request in requests]
        print_json({"trusted": is_trusted, "requests": rows})
    elif not requests:
        say("this task asks for nothing beyond the default: there is nothing to allow")
    elif is_trusted:
        echo("\n".join(f"allowed: {request}" for request in requests))
    else:
        echo("\n".join(f"not allowed: {request}" for request in requests))
        say("if it may have that: loopty config trust --yes")
    sys.exit(0 if is_trusted else 1)


def _list(as_json: bool) -> None:
    from loopty.session.trust import permissions

    found = permissions()
    if as_json:
        rows = [
            {"repository": one.top, "at": one.at, "requests": [str(request) for request in one.requests]}
            for one in found
        ]
        print_json(rows)
        return
    if not found:
        say("nothing is allowed beyond the default, in any repository")
    for permission in found:
        echo(f"{permission.top}, {moment(permission.at)}")
        for request in permission.requests:
            echo(f"  {request}")


def _revoke(as_json: bool) -> None:
    count = here().revoke_trust()
    if as_json:
        print_json({"revoked": count})
    else:
        say("revoked: nothing is allowed here any more" if count else "nothing was allowed here")


@click.command("notify")
@click.option("--test", is_flag=True, help="Send a notice now, to see whether it arrives.")
@json_option
def notify_verb(test: bool, as_json: bool) -> None:
    """Show where notices go: to the desktop, to a web address, to a command of yours.

    `loopty run` sends one for a new best node, a node held for a look, a stall, 80 and 100 % of the budget,
    and the end. Where they go stands in your own config file, because a repository must not decide it:

    \b
    [notify]
    desktop = true
    webhook = "https://chat.example.org/hooks/1"
    command = ["/home/me/bin/page-me"]     # gets the notice as JSON on standard input
    on = ["new-best", "held", "finished"]  # default: all of them
    """
    from loopty.features.notices.notices import Notice, NoticeKind, send_notice
    from loopty.features.notices.settings import user_notice_settings

    settings, path = user_notice_settings(os.environ), user_config_file(os.environ)
    failures = []
    if test and settings.has_receiver:
        here = Path.cwd().name
        notice = Notice(NoticeKind.TEST, 0, "this is a test", "notices of loopty arrive here", repository=here)
        failures = send_notice(settings, notice)
    if as_json:
        print_json({**codec.plain(settings), "file": str(path), "failures": failures})
    elif not settings.has_receiver:
        echo(f"notices go nowhere yet: write a table [notify] into {path} (`loopty config notify --help` has one)")
    else:
        receivers = {
            "desktop": "this desktop" if settings.desktop else "",
            "webhook": settings.webhook,
            "command": " ".join(settings.command),
        }
        for name, receiver in receivers.items():
            if receiver:
                echo(f"{name:<9}{receiver}")
        echo(f"{'on':<9}{', '.join(settings.on)}")
        if test and not failures:
            say("a test was sent to each")
    for failure in failures:
        say(failure)
    sys.exit(1 if failures or (test and not settings.has_receiver) else 0)


@click.command("ledger")
@click.argument("url", required=False)
@click.option("--own", is_flag=True, help="Go back to the file in this repository.")
@click.option(
    "--store", metavar="PLACE", help="Share the files of nodes here: a directory, or s3://BUCKET/PREFIX."
)
@click.option("--no-store", is_flag=True, help="Share no files of nodes any more.")
@click.option("--send", is_flag=True, help="Send now what the store has not got yet.")
@json_option
def ledger_verb(url: str | None, own: bool, store: str | None, no_store: bool, send: bool, as_json: bool) -> None:
    """Show or choose where the record of this repository is kept.

    Without a choice it is a file in the git directory, for the processes of this machine. A ledger on a PostgreSQL
    server (URL: postgresql://host/database) serves drivers on many machines; `?ledger=NAME` keeps several in one
    database. LOOPTY_LEDGER names one for a single shell. The password comes from PGPASSWORD or ~/.pgpass.

    Drivers with clones of their own also need each other's files: commits, logs, traces, artifacts. They share
    them through a store, which each clone names once (or LOOPTY_STORE for a single shell).
    """
    if url and own:
        raise click.UsageError("name a URL or --own, not both")
    if store and no_store:
        raise click.UsageError("name --store or --no-store, not both")
    campaign = here()
    choice = campaign.ledger_choice()
    if store:
        choice.choose_store(store)
    elif no_store:
        choice.forget_store()
    if url:
        choice.choose(url)
    elif own:
        choice.forget()
    if send:
        campaign.send_files()
    place, shared = choice.place(), campaign.store_standing()
    if as_json:
        sharing = {"store": codec.plain(shared)} if shared else {}
        print_json({"url": place.url, "source": place.source, "runs": place.runs, **sharing})
        return
    reasons = {"environment": " (from LOOPTY_LEDGER)", "repository": " (chosen here)", "default": ""}
    click.echo(f"{place.url}{reasons[place.source]}: {place.runs} {'run' if place.runs == 1 else 'runs'}")
    if shared:
        click.echo(f"store {store_line(shared.place, shared.unsent, shared.unsent_bytes, shared.fault)}")


def _print_line(text: str) -> None:
    """Print what happens now, as one line of JSON."""
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
@click.option(
    "--recipe",
    type=click.Choice(["slurm", "sky", "modal"]),
    help="Print a command for `executor.start`, as a file.",
)
def worker_verb(
    url: str | None,
    folder: Path | None,
    name: str | None,
    trust: bool,
    patience: float | None,
    as_json: bool,
    stdio: bool,
    recipe: str | None,
) -> None:
    """Run trials of a campaign that another machine drives.

    URL is what `loopty run --listen` shows there; it is a secret, and may be given as $LOOPTY_WORKER_URL
    instead. Each worker runs one trial at a time: start several for more. When the driver is gone, its trial is
    killed, and the worker joins again as soon as the driver is back. Ctrl-C ends it.
    """
    from loopty.features.fleet.door import WorkerUrl
    from loopty.features.fleet.start_command import URL_VARIABLE, recipe_text
    from loopty.features.fleet.worker import WorkerRun

    if recipe:
        click.echo(recipe_text(recipe), nl=False)
        return
    if stdio and as_json:
        raise click.UsageError("name --stdio or --json, not both: standard output belongs to the driver")
    tell = _print_line if as_json else say
    run = WorkerRun(folder.absolute() if folder else None, name or os.uname().nodename, trust, tell)
    if stdio:
        run.serve_stdio()
        return
    if not (found := url or os.environ.get(URL_VARIABLE)):
        raise click.UsageError(f"name the URL that `loopty run --listen` shows, or set ${URL_VARIABLE}")
    run.join(WorkerUrl.parse(found), patience)


_SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}


class Size(click.ParamType[int]):
    """A number of bytes, with a unit: 500M, 2G."""

    name = "size"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if isinstance(value, int):
            return value
        found = re.fullmatch(r"(\d+(?:\.\d+)?)([KMGT]?)B?", str(value), re.IGNORECASE)
        if not found:
            self.fail(f"{value!r} is no size: write 500M or 2G", param, ctx)
        return int(float(found[1]) * _SIZES[found[2].upper()])


@click.command("gc")
@click.option("--older-than", type=TimeSpan(), metavar="AGE", help="Only what is older than this: 12h, 14d, 8w.")
@click.option("--max-size", type=Size(), metavar="SIZE", help="The oldest first, until the rest fits: 500M, 2G.")
@click.option("--yes", is_flag=True, help="Remove it. Without this, it is only shown.")
@json_option
def gc_verb(older_than: float | None, max_size: int | None, yes: bool, as_json: bool) -> None:
    """Remove the files of discarded nodes: folders, logs and git objects; and old exports and build caches.

    Older than 14 days by default.

    What was measured stays in the record. Never removed: what the best node, kept or undecided nodes, drafts,
    your branches or a running process need.
    """
    found = here().collect_garbage(older_than, max_size, remove=yes)
    if as_json:
        print_json({"removed": yes, "bytes": found.total_bytes, **codec.plain(found)})
        return
    for line in _lines(found, yes):
        click.echo(line)
    if found.is_empty and older_than is None and max_size is None:
        say("only what is older than 14 days counts: --older-than 12h looks at younger files, too")
    if not (yes or found.is_empty):
        say("nothing is removed yet: add --yes")


def _lines(found: Garbage, removed: bool) -> Iterator[str]:
    if found.is_empty:
        yield "nothing to remove"
        return
    word = "removed" if removed else "would remove"
    yield f"{word} {byte_size(found.total_bytes)}"
    if found.nodes:
        yield f"  files of {plural(len(found.nodes), 'discarded node')}  {byte_size(found.node_bytes)}"
    if found.objects:
        yield f"  {plural(found.objects, 'git object')}  {byte_size(found.object_bytes)}"
    if found.exports:
        yield f"  {plural(len(found.exports), 'export')}  {byte_size(found.export_bytes)}"
    if found.caches:
        yield f"  {plural(len(found.caches), 'build cache')}  {byte_size(found.cache_bytes)}"
    if found.stored:
        yield f"  {plural(found.stored, 'content')} of the shared store"
