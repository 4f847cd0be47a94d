"""`loopty new`: a node made by hand."""

from __future__ import annotations

from loopty.cli import declare
from loopty.cli.output import NodeArgument, here, json_option, print_json, say
from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId, handle_name


@declare.command("new")
@declare.option("--parent", type=NodeArgument(), help="The node to change. Default: the best node.")
@declare.option("-m", "--message", default="by hand", show_default=True, help="The change, in words.")
@declare.option("--param", "params", multiple=True, metavar="NAME=VALUE", help="Set a parameter; repeatable.")
@declare.option("--sparse", is_flag=True, help="Only the files that you may change: fast in a large repository.")
@json_option
def command(parent: NodeId | None, message: str, params: tuple[str, ...], sparse: bool, as_json: bool) -> None:
    """Make a node by hand: a folder with its files to edit.

    Prints the node's name and the folder: a whole tree, read-only where no change is allowed, in which tests, a
    profiler and an editor work. Edit it, try it with `loopty try NODE -- COMMAND`, then run `loopty run NODE`, or
    give it up with `loopty drop NODE`.
    """
    text = message.encode(errors="surrogateescape").decode(errors="replace")  # a shell may pass any bytes
    draft = here().new(parent, text, dict(map(_name_and_value, params)), sparse)
    if as_json:
        workspace = {"workspace": str(draft.folder), "files": draft.files}
        print_json({"node": draft.node, "handle": draft.handle, **workspace})
        return
    count, name = len(draft.files), handle_name(draft.handle)
    declare.echo(f"{name} {draft.folder}")
    say(f"{name} is a draft: edit {count} file{'s' * (count != 1)} there, then run: loopty run {name}")


def _name_and_value(pair: str) -> tuple[str, str]:
    name, equals, value = pair.partition("=")
    if not equals:
        raise Misuse(f"--param {pair}: write NAME=VALUE")
    return name, value
