"""`loopty apply`, `branch`, `pr`, `export`: a node's change for the user's own branch, and results for others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from loopty.cli.output import (
    NodeArgument,
    confirm_weak,
    echo,
    here,
    json_option,
    print_integrity,
    print_json,
    run_option,
    say,
    say_control,
    write_for_user,
)
from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.show.figures import shell_assignments

if TYPE_CHECKING:
    from loopty.campaign.campaign import Campaign


@click.command("apply")
@click.argument("node", type=NodeArgument(), required=False)
@click.option("--branch", metavar="NAME", help="Name of the new branch. Default: loopty-best-@N.")
@click.option("--patch", is_flag=True, help="Apply the change to your working tree instead.")
@click.option("--force", is_flag=True, help="Move the branch if it already exists.")
@click.option(
    "--to",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Only the parameters: write them to this JSON file. Default: parameters_file of loopty.toml.",
)
@click.option("--env", is_flag=True, help="Only the parameters: print them as shell assignments (PARAM_LR=0.03).")
@json_option
def apply_verb(
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
        echo(shell_assignments(found.params))
        return
    root = campaign.node(str(node.run))
    is_edited = found.commit != root.commit
    if to or (found.params != root.params and not is_edited and not branch and not patch):
        _apply_params(campaign, node, to, as_json)
        return
    if found.params != root.params:
        say(f"its parameters are not part of the code: loopty apply {found.name} --to FILE (or --env) has them")
    confirm_weak(found)
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
    echo(f"branch {made.branch} holds {found.name}")
    print_integrity(found.outcome)
    say(f"look: git diff {made.onto[:12]} {made.branch}   take: git merge {made.branch}")


def _patch(campaign: Campaign, node: NodeId, as_json: bool) -> None:
    campaign.patch_working_tree(node)
    found = campaign.node(node)
    if as_json:
        print_json({"node": node, "handle": found.handle, "applied": "working tree"})
        return
    echo(f"{found.name} applied to the working tree")
    print_integrity(found.outcome)


def _apply_params(campaign: Campaign, node: NodeId, to: Path | None, as_json: bool) -> None:
    made, found = campaign.write_params(node, to), campaign.node(node)
    if as_json:
        path = str(made.path) if made.path else None
        print_json({"node": node, "handle": found.handle, "params": dict(made.params), "path": path})
    elif made.path is None:
        echo(json.dumps(dict(made.params), indent=2, ensure_ascii=False))
        say(f'write them: loopty apply {found.name} --to FILE, or parameters_file = "params.json" in loopty.toml')
    else:
        from loopty.show.closing_text import params_text

        echo(f"{made.path} has the parameters of {found.name}: {params_text(made.params)}")


@click.command("branch")
@click.argument("node", type=NodeArgument())
@click.option("--name", metavar="NAME", help="Name of the branch. Default: loopty- and its path.")
@click.option("--force", is_flag=True, help="Move the branch if it already exists.")
@json_option
def branch_verb(node: NodeId, name: str | None, force: bool, as_json: bool) -> None:
    """Make a git branch of a node: its exact files, as they were measured.

    loopty keeps the commits of nodes under refs/loopty/, so that your list of branches stays yours.
    `git config loopty.branches true` gives every new node a branch.

    To bring a change to your own branch, use `loopty apply`.
    """
    campaign = here()
    made = campaign.make_node_branch(node, name, force)
    if as_json:
        handle = campaign.history.handle(node)
        print_json({"node": node, "handle": handle, "branch": made.branch, "commit": made.commit})
        return
    echo(f"branch {made.branch} is at {made.commit}")
    say(f"look: git log -p {made.branch}   remove: git branch -D {made.branch}")


@click.command("pr")
@click.argument("node", type=NodeArgument(), required=False)
@click.option("--branch", metavar="NAME", help="Name of the new branch. Default: loopty-best-@N.")
@click.option("--force", is_flag=True, help="Move the branch if it already exists.")
@click.option(
    "--to",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write the text to this file. Default: it is printed.",
)
@json_option
def pr_verb(node: NodeId | None, branch: str | None, force: bool, to: Path | None, as_json: bool) -> None:
    """Prepare a pull request: a branch with a node's whole change, and a text that says what it is worth.

    The text says what changed, by how much with its interval, how that was verified, what it cost, and what was
    tried and did not help. Nothing is pushed: that is yours to do. Default: the best node.
    """
    from loopty.show.documents import markdown_text
    from loopty.show.run_summary import summary_document

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
        echo(text, nl=False)
    print_integrity(found.outcome)
    say(f"branch {made.branch} holds the change; push it: git push -u origin {made.branch}")
    if to:
        say(f"{to} has the text; its first line is the title")


@click.command("export")
@click.argument("node", type=NodeArgument(), required=False)
@click.option(
    "--to",
    type=click.Path(path_type=Path),
    help="Where to write it. Default: .git/loopty/artifacts.",
)
@click.option("--force", is_flag=True, help="Replace an artifact that is already there.")
@click.option(
    "--trials",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write all trials of the run as a table: FILE.csv, or FILE.parquet.",
)
@click.option(
    "--mlflow", metavar="URI", help="Send the trials to MLflow: http://host:5000 or sqlite:///mlflow.db."
)
@click.option("--wandb", metavar="PROJECT", help="Send the trials to Weights & Biases.")
@click.option("--offline", is_flag=True, help="With --wandb: only write its files here, for `wandb sync` later.")
@click.option("--otlp", metavar="URL", help="Send trials and model calls as spans to an OpenTelemetry collector.")
@run_option
@json_option
def export_verb(
    node: NodeId | None,
    to: Path | None,
    force: bool,
    trials: Path | None,
    mlflow: str | None,
    wandb: str | None,
    offline: bool,
    otlp: str | None,
    run: int | None,
    as_json: bool,
) -> None:
    """Pack a node as an artifact: a tarball if --to ends in .tar.gz, else a folder. Or export the trials of a run.

    The artifact holds the whole change as a patch, the parameters, the metrics with their samples, the machine,
    the digests of benchmark and data, the task file, and a git bundle of the baseline and the node, without your
    history. `loopty measure replay` measures it again on any machine. Exporting the same node twice gives the same bytes.

    Trials go to a table (--trials), to MLflow, to Weights & Biases or to an OpenTelemetry collector. A table has a
    row for each trial and a column for each parameter and metric. MLflow gets each trial once, however often you
    export.
    """
    campaign = here()
    places = [place for place in (trials, mlflow, wandb, otlp) if place]
    if bool(node) == bool(places) or len(places) > 1:
        raise Misuse("name one thing: a NODE to pack, or --trials, --mlflow, --wandb or --otlp for all trials")
    if node:
        _pack(campaign, node, to, force, as_json)
        return
    export = campaign.trial_export(run)
    if trials:
        count, place = export.write_table(trials), str(trials)
    elif mlflow:
        count, place = export.send_to_mlflow(mlflow), mlflow
    elif wandb:
        count, place = export.send_to_wandb(wandb, offline), wandb
    else:
        assert otlp
        count, place = export.send_spans(otlp), otlp
    if as_json:
        print_json({"count": count, "to": place})
    else:
        what = "spans" if otlp else "new trials" if mlflow else "trials"
        echo(f"{place} has {count:,} {what}")


def _pack(campaign: Campaign, node: NodeId, to: Path | None, force: bool, as_json: bool) -> None:
    artifact = campaign.export(node, to, force)
    if as_json:
        handle = campaign.history.handle(node)
        print_json({"node": node, "handle": handle, "path": str(artifact.path), "digest": artifact.digest})
    else:
        echo(f"{artifact.path} holds {campaign.history.name(node)}, digest {artifact.digest[:12]}")
