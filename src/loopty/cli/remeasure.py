"""`loopty remeasure`: judge nodes again that lost only against a withdrawn one."""

from __future__ import annotations

import sys

from loopty.cli import declare
from loopty.cli.output import NodeArgument, here, json_option, print_json, run_option, say, unsafe_option
from loopty.domain.ids import NodeId


@declare.command("remeasure")
@declare.argument("node", type=NodeArgument(), required=False)
@run_option
@json_option
@unsafe_option
def command(node: NodeId | None, run: int | None, as_json: bool, unsafe: bool) -> None:
    """Judge NODE, or every node that lost only against a withdrawn one, against the present best.

    Each withdrawal gives a node one more judgement. All other verdicts are final: the same code is not measured
    until it is lucky. Exits with 1 when it was stopped before the last verdict.
    """
    judged = here().remeasure(node, run, unsafe)
    if as_json:
        from loopty.kit import codec

        print_json(codec.plain(judged))
    elif not judged:
        say("no node waits to be judged again")
    else:
        for each in judged:
            declare.echo(f"{each.name} {each.verdict or 'stopped'}: {each.reason}")
    sys.exit(1 if any(each.verdict is None for each in judged) else 0)
