"""`loopty tree`: the tree of experiments."""

from __future__ import annotations

import itertools

from loopty.cli import declare
from loopty.cli.output import (
    NodeArgument,
    columns,
    here,
    json_option,
    print_json_text,
    run_option,
    say_failed_baseline,
    say_run_without_result,
    say_unreadable,
    terminal,
)
from loopty.domain.ids import NodeId
from loopty.domain.objective import score_metric
from loopty.kit.collection_pause import pause_collection

_LINES_AT_ONCE = 1000


@declare.command("tree")
@declare.argument("node", type=NodeArgument(), required=False)
@declare.option("--all", "everything", is_flag=True, help="Show every node, those of the control too.")
@declare.option("--controls", is_flag=True, help="Show the nodes of the control, too.")
@run_option
@json_option
def command(node: NodeId | None, everything: bool, controls: bool, run: int | None, as_json: bool) -> None:
    """Show the tree of experiments below NODE, or of the newest run.

    Each line has the node's score, its effect over its parent, and what it changed. The path to the best node runs
    down the left edge; what was tried at each step hangs beside it.

    In a large tree, only that path, the kept nodes and the newest nodes are shown, unless --all is given. --json
    prints every node, one per line.
    """
    campaign = here()
    top = campaign.node(node or str(campaign.newest_run(run))).id
    say_run_without_result(campaign, top.run, top.run if node else run)
    say_unreadable(campaign)
    if as_json:
        for each, page in campaign.history.pages():
            if each.is_within(top):
                print_json_text(page)
        return
    from loopty.report.tree_text import tree_lines
    from loopty.views.node_tree import LIMIT

    metrics = campaign.history.metrics(campaign.node(str(top.run)))
    with pause_collection():
        rows = campaign.tree(top, None if everything else LIMIT, controls or everything)
        lines = tree_lines(rows, columns(), terminal(), score_metric(metrics).name if metrics else "score")
        while part := list(itertools.islice(lines, _LINES_AT_ONCE)):
            declare.echo("\n".join(part))
    say_failed_baseline(campaign, top.run)
