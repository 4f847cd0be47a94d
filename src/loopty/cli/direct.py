"""`loopty direct`: what the user wants the models to know from here on."""

from __future__ import annotations

import time
from collections.abc import Iterator

import click

from loopty.cli.output import here, history, json_option, newest_run, print_json, say
from loopty.record.directives import Directive, DirectiveSet
from loopty.record.event import Event
from loopty.record.history import History

_LONGEST = 4_000
"""Characters: it is part of every prompt, and must not crowd out the rest."""


@click.command("direct")
@click.argument("text", required=False)
@click.option("--clear", is_flag=True, help="Take the directive back.")
@json_option
def command(text: str | None, clear: bool, as_json: bool) -> None:
    """Tell the models what to try or to leave alone, from their next proposal on.

    TEXT takes the place of the directive that is there; without TEXT it is shown. It holds for the newest run, and
    works while `loopty optimize` runs. What goes on in a call at that moment is not touched.
    """
    run = newest_run(history(), None)
    if text is not None or clear:
        _direct(run, _checked(text, clear))
    directive = Directive.of(history().runs[run]).text
    if as_json:
        print_json({"run": run, "directive": directive})
    elif text is not None:
        say(f"the models of run {run} are told so from now on; `loopty direct --clear` takes it back")
    elif clear:
        say(f"run {run} has no directive any more")
    elif directive:
        from loopty.report.columns import printable_line

        click.echo("\n".join(map(printable_line, directive.splitlines())))
    else:
        say(f'run {run} has no directive: give one with `loopty direct "…"`')


def _checked(text: str | None, clear: bool) -> str:
    """The directive to be recorded: empty takes back what is there."""
    from loopty.domain.errors import Misuse

    if clear and text is not None:
        raise Misuse("give a TEXT or --clear, not both")
    said = (text or "").strip()
    if not said and not clear:
        raise Misuse("the directive is empty: `loopty direct --clear` takes back the one that is there")
    if len(said) > _LONGEST:
        raise Misuse(f"the directive has {len(said):,} characters, more than {_LONGEST:,}: say it shorter")
    try:
        said.encode()
    except UnicodeEncodeError:
        raise Misuse("the directive is no valid text in this terminal's encoding: write it anew") from None
    return said


def _direct(run: int, directive: str) -> None:
    from loopty.campaign.saved_state import found_state
    from loopty.ledgers.sqlite import SqliteLedger
    from loopty.record.recorder import Recorder

    def directed(found: History) -> Iterator[Event]:
        if Directive.of(found.runs[run]).text != directive:
            yield DirectiveSet(run, directive)

    Recorder(SqliteLedger(found_state(here()).ledger), time.time).record(directed)
