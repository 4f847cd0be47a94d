"""`loopty serve`: the resident process of this repository."""

from __future__ import annotations

import click

from loopty.cli.output import json_option, print_json, say
from loopty.domain.errors import Misuse


@click.command("serve")
@click.option("--stop", is_flag=True, help="End it. Verbs that it started go on.")
@click.option(
    "--idle-seconds",
    type=click.FloatRange(min=1),
    default=900.0,
    show_default=True,
    help="It ends when no verb has come for this long.",
)
@json_option
def command(stop: bool, idle_seconds: float, as_json: bool) -> None:
    """Start a process that stays, so that verbs need not import loopty anew.

    Verbs in this repository then run in processes forked from it, with the same effect, at a fraction of the CPU.
    Without it they run by themselves. LOOPTY_RESIDENT=0 keeps a verb away from it, LOOPTY_RESIDENT=1 lets verbs
    start one where there is none.
    """
    from loopty.resident import client, server

    place = client.here()
    if place is None:
        raise Misuse("there is no git repository here: start in one")
    if stop:
        was_asked = client.ask_to_stop()
        if left := server.process_number(place):
            raise Misuse(f"resident process {left} goes on: it does not answer; end it with `kill {left}`")
        _print("stopped" if was_asked else "there was none", None, as_json)
        return
    from loopty.cli.preload import import_verbs
    from loopty.cli.verbs import run_verb

    if server.process_number(place) is None:
        import_verbs()
    try:
        is_new = server.start(place, run_verb, _prepare, idle_seconds)
    except OSError as error:
        raise Misuse(f"cannot listen in {place.folder} ({error}): correct its owner and permissions") from None
    _print("started" if is_new else "there is one already", server.process_number(place), as_json)


def _prepare() -> list[int]:
    """Start what starts trials, so that no verb has to."""
    from loopty.sandboxes.namespaces import prepare_launcher

    launcher = prepare_launcher()
    return [] if launcher is None else [launcher]


def _print(what: str, process: int | None, as_json: bool) -> None:
    if as_json:
        print_json({"resident": process})
    else:
        say(f"resident process: {what}{f' (process {process})' if process else ''}")
