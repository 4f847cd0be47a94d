"""`loopty export trials`, `mlflow`, `wandb`, `otlp`: the trials of a run for other programs."""

from __future__ import annotations

from pathlib import Path

import click

from loopty.cli.output import echo, here, json_option, print_json, run_option


@click.command("trials")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@run_option
@json_option
def trials_verb(file: Path, run: int | None, as_json: bool) -> None:
    """Write all trials of a run as a table: FILE.csv, or FILE.parquet.

    It has a row for each trial and a column for each parameter and metric.
    """
    _print(here().trial_export(run).write_table(file), "trials", str(file), as_json)


@click.command("mlflow")
@click.argument("uri")
@run_option
@json_option
def mlflow_verb(uri: str, run: int | None, as_json: bool) -> None:
    """Send the trials to MLflow at URI: http://host:5000 or sqlite:///mlflow.db.

    MLflow gets each trial once, however often you export.
    """
    _print(here().trial_export(run).send_to_mlflow(uri), "new trials", uri, as_json)


@click.command("wandb")
@click.argument("project")
@click.option("--offline", is_flag=True, help="Only write its files here, for `wandb sync` later.")
@run_option
@json_option
def wandb_verb(project: str, offline: bool, run: int | None, as_json: bool) -> None:
    """Send the trials to a PROJECT of Weights & Biases."""
    _print(here().trial_export(run).send_to_wandb(project, offline), "trials", project, as_json)


@click.command("otlp")
@click.argument("url")
@run_option
@json_option
def otlp_verb(url: str, run: int | None, as_json: bool) -> None:
    """Send trials and model calls as spans to the OpenTelemetry collector at URL."""
    _print(here().trial_export(run).send_spans(url), "spans", url, as_json)


def _print(count: int, what: str, place: str, as_json: bool) -> None:
    if as_json:
        print_json({"count": count, "to": place})
    else:
        echo(f"{place} has {count:,} {what}")
