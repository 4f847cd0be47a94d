"""`loopty context`: what somebody who joins the search has to know."""

from __future__ import annotations

from loopty.cli import declare
from loopty.cli.output import NodeArgument, here, json_option, print_json
from loopty.domain.ids import NodeId


@declare.command("context")
@declare.option(
    "--for", "node", type=NodeArgument(), metavar="NODE", help="Also say what is known about this node."
)
@declare.option(
    "--words",
    type=declare.kind_of_click("IntRange", 60, 5_000),
    default=600,
    show_default=True,
    help="Never print more words.",
)
@json_option
def command(node: NodeId | None, words: int, as_json: bool) -> None:
    """Print what to know before the next experiment, in a bounded number of words.

    In this order: the task, what an attempt costs, the best and the way to it, what could be merged, what failed,
    who works on what, weak tasks, notes, the directive, and advice. It takes the same time however long the run.
    """
    from loopty.report.context_text import context_sections, context_text

    campaign = here()
    context = campaign.search_context(node)
    sections = context_sections(context, words)
    if as_json:
        counted = sum(section.words for section in sections)
        rows = {section.name: list(section.lines) for section in sections}
        print_json({"run": context.status.run, "words": counted, "sections": rows})
        return
    declare.echo(context_text(sections))
