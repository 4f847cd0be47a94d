"""`loopty direct`: what the user wants the models to know."""

from __future__ import annotations

from loopty.cli import declare
from loopty.cli.output import here, json_option, print_json, say
from loopty.domain.errors import Misuse


@declare.command("direct")
@declare.argument("text", required=False)
@declare.option("--clear", is_flag=True, help="Remove the directive.")
@json_option
def command(text: str | None, clear: bool, as_json: bool) -> None:
    """Tell the models what to try and what to avoid, from their next proposal on.

    TEXT replaces the current directive; without TEXT, the current directive is shown. It applies to the newest
    run, also while `loopty optimize` runs. Calls already in flight are not affected.
    """
    if clear and text is not None:
        raise Misuse("give a TEXT or --clear, not both")
    if text is not None and not text.strip():
        raise Misuse("the directive is empty: `loopty direct --clear` removes the present one")
    campaign = here()
    run = campaign.newest_run()
    if text is not None or clear:
        campaign.direct(text or "")
    directive = campaign.directive(run)
    if as_json:
        print_json({"run": run, "directive": directive})
    elif text is not None:
        say(f"the models of run {run} see this from now on; `loopty direct --clear` removes it")
    elif clear:
        say(f"run {run} has no directive any more")
    elif directive:
        from loopty.report.columns import printable_line

        declare.echo("\n".join(map(printable_line, directive.splitlines())))
    else:
        say(f'run {run} has no directive: give one with `loopty direct "…"`')
