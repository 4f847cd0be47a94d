"""`loopty abort`: end work before its result."""

from __future__ import annotations

from loopty.cli import declare
from loopty.cli.output import here, json_option, print_json


@declare.command("abort")
@declare.argument("name", metavar="TICKET|NODE")
@declare.option("--why", default="", metavar="TEXT", help="The reason.")
@json_option
def command(name: str, why: str, as_json: bool) -> None:
    """End a ticket of an agent, or the ticket of a node; a draft is given up.

    What runs for it is stopped. The node keeps its files and can be submitted again.
    """
    done = here().abort(name, why)
    if as_json:
        print_json({"done": done})
    else:
        declare.echo(done)
