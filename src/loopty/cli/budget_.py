"""`loopty budget`: show or change what a run may spend."""

from __future__ import annotations

from loopty.cli import declare
from loopty.cli.output import here, json_option, print_json, run_option
from loopty.domain.errors import Misuse


@declare.command("budget")
@declare.argument("changes", nargs=-1, metavar="[NAME=LIMIT]...")
@run_option
@json_option
def command(changes: tuple[str, ...], run: int | None, as_json: bool) -> None:
    """Show the limits of a run, or change them, also while `loopty optimize` runs: `loopty budget attempts=500`.

    NAME is attempts, control, repeats, tunes, tokens, wall_seconds or money_usd; LIMIT is a number, or `none`. A
    changed limit holds for this run instead of the one in loopty.toml.
    """
    campaign = here()
    number = campaign.newest_run(run)
    limits = campaign.budget(dict(map(_parse, changes)), number)
    if as_json:
        print_json({"run": number, "limits": dict(limits)})
        return
    for name, limit in limits.items():
        declare.echo(f"{name:<13} {'no limit' if limit is None else f'{limit:,.10g}'}")


def _parse(change: str) -> tuple[str, float | None]:
    name, equals, text = change.partition("=")
    try:
        limit = None if text.strip().lower() == "none" else float(text)
    except ValueError:
        limit, equals = None, ""
    if not equals:
        raise Misuse(f"{change!r} is no change of a limit: write NAME=NUMBER or NAME=none")
    return name.strip(), limit
