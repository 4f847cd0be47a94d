"""`loopty direct`: what the user wants the models to know, and which nodes changes start from."""

from __future__ import annotations

from loopty.cli import declare
from loopty.cli.output import NodeArgument, here, json_option, print_json, say
from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId


@declare.command("direct")
@declare.argument("text", required=False)
@declare.option(
    "--build-on",
    type=NodeArgument(),
    multiple=True,
    metavar="NODE",
    help="Start changes from the best node at or below NODE; repeatable.",
)
@declare.option(
    "--not-below",
    type=NodeArgument(),
    multiple=True,
    metavar="NODE",
    help="Start no change from NODE, nor from what is below it; repeatable.",
)
@declare.option("--clear", is_flag=True, help="Remove the directive, with its nodes.")
@json_option
def command(
    text: str | None, build_on: tuple[NodeId, ...], not_below: tuple[NodeId, ...], clear: bool, as_json: bool
) -> None:
    """Tell the models what to try and what to avoid, from their next proposal on.

    TEXT replaces the current text, --build-on and --not-below the nodes named before; without any of them, the
    current directive is shown. It applies to the newest run, also while `loopty optimize` runs. Calls already in
    flight are not affected. `loopty show NODE` says where the directive chose the parent.
    """
    is_given = text is not None or bool(build_on) or bool(not_below)
    if clear and is_given:
        raise Misuse("give a directive or --clear, not both")
    if text is not None and not text.strip():
        raise Misuse("the directive is empty: `loopty direct --clear` removes the present one")
    campaign = here()
    run = campaign.newest_run()
    if clear:
        campaign.direct("", (), ())
    elif is_given:
        campaign.direct(text, build_on or None, not_below or None)
    directive = campaign.directive(run)
    if as_json:
        print_json({"run": run, "directive": directive, **campaign.directed_nodes(run)})
    elif is_given:
        effect = "changes start where you said, and " if build_on or not_below else ""
        say(f"from now on {effect}the models of run {run} see this; `loopty direct --clear` removes it")
    elif clear:
        say(f"run {run} has no directive any more")
    elif directive:
        from loopty.report.columns import printable_line

        declare.echo("\n".join(map(printable_line, directive.splitlines())))
    else:
        say(f'run {run} has no directive: give one with `loopty direct "…"`')
