"""`loopty pr`: a branch with a node's change, and the text of a pull request about it."""

from __future__ import annotations

from pathlib import Path

from loopty.cli import declare
from loopty.cli.output import (
    NodeArgument,
    here,
    json_option,
    print_integrity,
    print_json,
    say,
    say_control,
    write_for_user,
)
from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId


@declare.command("pr")
@declare.argument("node", type=NodeArgument(), required=False)
@declare.option("--branch", metavar="NAME", help="Name of the new branch. Default: loopty-best-@N.")
@declare.option("--force", is_flag=True, help="Move the branch if it already exists.")
@declare.option(
    "--to",
    type=declare.kind_of_click("Path", path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the text to this file. Default: it is printed.",
)
@json_option
def command(node: NodeId | None, branch: str | None, force: bool, to: Path | None, as_json: bool) -> None:
    """Prepare a pull request: a branch with a node's whole change, and a text that says what it is worth.

    The text says what changed, by how much with its interval, how that was verified, what it cost, and what was
    tried and did not help. Nothing is pushed: that is yours to do. Default: the best node.
    """
    from loopty.report.markdown import markdown_text
    from loopty.report.summary_sections import summary_document

    campaign = here()
    summary = campaign.summary(node)
    if summary.winner is None:
        raise Misuse("nothing better than the baseline was found: there is nothing to propose")
    found = summary.winner.node
    if summary.winner.is_best:
        say_control(campaign, found.id.run)
    document = summary_document(summary)
    text = markdown_text(document)
    if to:
        write_for_user(to, text.encode())
    made = campaign.make_branch(found.id, branch, force)
    if as_json:
        print_json(
            {
                "node": found.id,
                "handle": found.handle,
                "branch": made.branch,
                "commit": made.commit,
                "title": document.title,
                "text": text,
            }
        )
        return
    if not to:
        declare.echo(text, nl=False)
    print_integrity(found.outcome)
    say(f"branch {made.branch} holds the change; push it: git push -u origin {made.branch}")
    if to:
        say(f"{to} has the text; its first line is the title")
