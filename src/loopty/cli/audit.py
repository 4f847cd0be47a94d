"""`loopty audit`: score nodes on the held-out split."""

from __future__ import annotations

import sys

from loopty.cli import declare
from loopty.cli.output import (
    NO_SANDBOX,
    NodeArgument,
    columns,
    here,
    here_with_trust,
    json_option,
    print_json,
    run_option,
    say,
    terminal,
    trust_option,
    unsafe_option,
)
from loopty.domain.ids import NodeId


@declare.command("audit")
@declare.argument("nodes", type=NodeArgument(), nargs=-1)
@declare.option("--list", "only_list", is_flag=True, help="List past audits without running one.")
@run_option
@json_option
@trust_option
@unsafe_option
def command(
    nodes: tuple[NodeId, ...], only_list: bool, run: int | None, as_json: bool, trust: bool, unsafe: bool
) -> None:
    """Score nodes on the held-out split of [audit], which the search never sees. Default: the best node.

    If the baseline has no score on the split yet, it is scored first. Every look at the split is counted. Exits
    with 1 when a node gives no score or is flagged, for example for overfitting.
    """
    from loopty.kit import codec
    from loopty.report.audits_text import audits_text

    campaign = here() if only_list else here_with_trust(trust)
    if only_list:
        rows, raises_doubt = campaign.audits(nodes[0].run if nodes else run), False
    else:
        if unsafe:
            say(NO_SANDBOX)
        report = campaign.audit(nodes, run, unsafe)
        rows, raises_doubt = report.rows, report.raises_doubt
    if as_json:
        print_json([{**codec.plain(row), "gap": row.gap, "flags": codec.plain(row.flags)} for row in rows])
    else:
        declare.echo(audits_text(rows, columns(), terminal()))
    sys.exit(1 if raises_doubt else 0)
