"""`loopty apply`: a node's change on the user's own branch, and its parameters in the user's own file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from loopty.cli import declare
from loopty.cli.output import NodeArgument, here, json_option, print_integrity, print_json, say, say_control
from loopty.domain.ids import NodeId

if TYPE_CHECKING:
    from loopty.campaign.campaign import Campaign


@declare.command("apply")
@declare.argument("node", type=NodeArgument(), required=False)
@declare.option("--branch", metavar="NAME", help="Name of the new branch. Default: loopty-best-@N.")
@declare.option("--patch", is_flag=True, help="Apply the change to your working tree instead.")
@declare.option("--force", is_flag=True, help="Move the branch if it already exists.")
@declare.option(
    "--to",
    type=declare.kind_of_click("Path", path_type=Path),
    metavar="FILE",
    help="Only the parameters: write them to this JSON file. Default: parameters_file of loopty.toml.",
)
@declare.option(
    "--env", is_flag=True, help="Only the parameters: print them as shell assignments (PARAM_LR=0.03)."
)
@json_option
def command(
    node: NodeId | None,
    branch: str | None,
    patch: bool,
    force: bool,
    to: Path | None,
    env: bool,
    as_json: bool,
) -> None:
    """Bring a node's change to a branch of yours, or to your working tree. Default: the best node.

    The branch holds the whole change against the run's baseline as one commit: on top of your HEAD, or on top of
    the baseline if HEAD has other versions of the changed files. Your working tree, index and HEAD stay as they
    are; only --patch writes to the working tree, and only if the whole change applies.

    The parameters of a node that changes no file are written to the JSON file that loopty.toml names as
    parameters_file, or to --to; without either they are printed.
    """
    campaign = here()
    node = node or campaign.find_node("best")
    found = campaign.node(node)
    if node == campaign.best(node.run):
        say_control(campaign, node.run)
    if env:
        from loopty.report.shell_text import shell_assignments

        declare.echo(shell_assignments(found.params))
        return
    root = campaign.node(str(node.run))
    is_edited = found.commit != root.commit
    if to or (found.params != root.params and not is_edited and not branch and not patch):
        _apply_params(campaign, node, to, as_json)
        return
    if found.params != root.params:
        say(f"its parameters are not part of the code: loopty apply {found.name} --to FILE (or --env) has them")
    if patch:
        _patch(campaign, node, as_json)
        return
    made = campaign.make_branch(node, branch, force)
    if as_json:
        integrity = found.outcome.integrity if found.outcome else None
        result = {
            "node": node,
            "handle": found.handle,
            "branch": made.branch,
            "commit": made.commit,
            "integrity": integrity,
        }
        print_json({**result, "params": dict(found.params)})
        return
    declare.echo(f"branch {made.branch} holds {found.name}")
    print_integrity(found.outcome)
    say(f"look: git diff {made.onto[:12]} {made.branch}   take: git merge {made.branch}")


def _patch(campaign: Campaign, node: NodeId, as_json: bool) -> None:
    campaign.patch_working_tree(node)
    found = campaign.node(node)
    if as_json:
        print_json({"node": node, "handle": found.handle, "applied": "working tree"})
        return
    declare.echo(f"{found.name} applied to the working tree")
    print_integrity(found.outcome)


def _apply_params(campaign: Campaign, node: NodeId, to: Path | None, as_json: bool) -> None:
    made, found = campaign.write_params(node, to), campaign.node(node)
    if as_json:
        path = str(made.path) if made.path else None
        print_json({"node": node, "handle": found.handle, "params": dict(made.params), "path": path})
    elif made.path is None:
        declare.echo(json.dumps(dict(made.params), indent=2, ensure_ascii=False))
        say(f'write them: loopty apply {found.name} --to FILE, or parameters_file = "params.json" in loopty.toml')
    else:
        from loopty.report.closing_text import params_text

        declare.echo(f"{made.path} has the parameters of {found.name}: {params_text(made.params)}")
