"""`loopty serve`: the resident process of this repository."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import click

from loopty.cli.output import json_option, print_json, say
from loopty.domain.errors import Misuse

if TYPE_CHECKING:
    from loopty.resident.mailbox import Mailbox

_DAY_SECONDS = 86_400.0


@click.command("serve")
@click.option("--stop", is_flag=True, help="End it. Verbs that it started go on.")
@click.option(
    "--idle-seconds",
    type=click.FloatRange(min=1),
    help="It ends when no verb has come for this long. Default: 900; with --mailbox a day.",
)
@click.option(
    "--mailbox", is_flag=True, help="Also answer agents that write files below .loopty/mail: see .loopty/tool."
)
@click.option("--for", "folder", type=click.Path(exists=True, file_okay=False), hidden=True)
@json_option
def command(stop: bool, idle_seconds: float | None, mailbox: bool, folder: str | None, as_json: bool) -> None:
    """Start a process that stays, so that verbs need not import loopty anew.

    Verbs in this repository then run in processes forked from it, with the same effect, at a fraction of the CPU.
    Without it they run by themselves. LOOPTY_RESIDENT=0 keeps a verb away from it, LOOPTY_RESIDENT=1 lets verbs
    start one where there is none.
    """
    from loopty.resident import client, server

    if folder:
        os.chdir(folder)
    place = client.here()
    if place is None:
        raise Misuse("there is no git repository here: start in one")
    if stop:
        was_asked = client.ask_to_stop()
        if left := server.process_number(place):
            raise Misuse(f"resident process {left} goes on: it does not answer; end it with `kill {left}`")
        _print("stopped" if was_asked else "there was none", None, as_json)
        return
    from loopty.campaign.agent_tools import answer_call
    from loopty.cli.preload import import_verbs
    from loopty.cli.run_verb import run_verb
    from loopty.resident.verb_process import ResidentServices

    if server.process_number(place) is None:
        import_verbs()
    try:
        letters = _open_mailbox() if mailbox else None
        seconds = idle_seconds or (_DAY_SECONDS if mailbox else server.IDLE_SECONDS)
        is_new = server.start(place, ResidentServices(run_verb, answer_call, _prepare), seconds, letters)
    except OSError as error:
        raise Misuse(f"cannot listen in {place.folder} ({error}): correct its owner and permissions") from None
    if is_new:
        _resume_tickets()
    _print("started" if is_new else "there is one already", server.process_number(place), as_json)


def _prepare() -> list[int]:
    """Start what starts trials, so that no verb has to."""
    from loopty.sandboxes.namespaces import prepare_launcher

    launcher = prepare_launcher()
    return [] if launcher is None else [launcher]


def _open_mailbox() -> Mailbox:
    from pathlib import Path

    from loopty.resident.mailbox import Mailbox
    from loopty.workspaces.git_folders import GitFolders
    from loopty.workspaces.state_folder import StateFolder

    folders = GitFolders.find(Path.cwd())
    state = StateFolder.of(folders)
    state.prepare()  # `.loopty/` must hide itself from git
    opened = Mailbox(state.work_folder)
    opened.open()
    return opened


def _resume_tickets() -> None:
    """Let a worker run the tickets that are open, if there ever were any."""
    from pathlib import Path

    from loopty.campaign.ticket_worker import run_open_tickets
    from loopty.kit.detached import run_detached
    from loopty.workspaces.git_folders import GitFolders
    from loopty.workspaces.state_folder import StateFolder

    folder = Path.cwd()
    if StateFolder.of(GitFolders.find(folder)).tickets.exists():
        run_detached(lambda: run_open_tickets(folder))


def _print(what: str, process: int | None, as_json: bool) -> None:
    if as_json:
        print_json({"resident": process})
    else:
        say(f"resident process: {what}{f' (process {process})' if process else ''}")
