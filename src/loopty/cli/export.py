"""`loopty export`: a node as an artifact, and the trials of a run for other programs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from loopty.cli import declare
from loopty.cli.output import NodeArgument, here, json_option, print_json, run_option
from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId

if TYPE_CHECKING:
    from loopty.campaign.campaign import Campaign


@declare.command("export")
@declare.argument("node", type=NodeArgument(), required=False)
@declare.option(
    "--to",
    type=declare.kind_of_click("Path", path_type=Path),
    help="Where to write it. Default: .git/loopty/artifacts.",
)
@declare.option("--force", is_flag=True, help="Replace an artifact that is already there.")
@declare.option(
    "--trials",
    type=declare.kind_of_click("Path", path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Write all trials of the run as a table: FILE.csv, or FILE.parquet.",
)
@declare.option(
    "--mlflow", metavar="URI", help="Send the trials to MLflow: http://host:5000 or sqlite:///mlflow.db."
)
@declare.option("--wandb", metavar="PROJECT", help="Send the trials to Weights & Biases.")
@declare.option("--offline", is_flag=True, help="With --wandb: only write its files here, for `wandb sync` later.")
@declare.option(
    "--otlp", metavar="URL", help="Send trials and model calls as spans to an OpenTelemetry collector."
)
@run_option
@json_option
def command(
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
    history. `loopty replay` measures it again on any machine. Exporting the same node twice gives the same bytes.

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
        declare.echo(f"{place} has {count:,} {what}")


def _pack(campaign: Campaign, node: NodeId, to: Path | None, force: bool, as_json: bool) -> None:
    artifact = campaign.export(node, to, force)
    if as_json:
        handle = campaign.history.handle(node)
        print_json({"node": node, "handle": handle, "path": str(artifact.path), "digest": artifact.digest})
    else:
        declare.echo(f"{artifact.path} holds {campaign.history.name(node)}, digest {artifact.digest[:12]}")
