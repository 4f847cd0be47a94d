"""`loopty merge`: a draft with the changes of two nodes."""

from __future__ import annotations

from loopty.cli import declare
from loopty.cli.output import NodeArgument, here, json_option, print_json, say
from loopty.domain.ids import NodeId, handle_name


@declare.command("merge")
@declare.argument("first", type=NodeArgument())
@declare.argument("second", type=NodeArgument())
@declare.option("-m", "--message", default="", help="The change, in words. Default: merge FIRST and SECOND.")
@json_option
def command(first: NodeId, second: NodeId, message: str, as_json: bool) -> None:
    """Bring the changes of two nodes onto their common ancestor, as a draft to look at and run.

    It is a child of the better one. Files that both changed are merged line by line; conflicts are marked in them,
    and the draft runs only as you leave it.
    """
    text = message.encode(errors="surrogateescape").decode(errors="replace")  # a shell may pass any bytes
    merged = here().merge(first, second, text)
    draft = merged.draft
    if as_json:
        named = {"node": draft.node, "handle": draft.handle, "workspace": str(draft.folder)}
        parents = {"parents": [merged.parent, merged.other], "ancestor": merged.ancestor}
        print_json({**named, **parents, "conflicts": list(merged.conflicts)})
        return
    name = handle_name(draft.handle)
    declare.echo(f"{name} {draft.folder}")
    for conflict in merged.conflicts:
        say(f"conflict: {conflict}")
    say(f"{'resolve them' if merged.conflicts else 'look at it'}, then run: loopty run {name}")
