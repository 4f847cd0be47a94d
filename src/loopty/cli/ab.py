"""`loopty ab`: compare task files as arms, on the same budget."""

from __future__ import annotations

from pathlib import Path

import click

from loopty.cli.output import columns, json_option, print_json, say, terminal, trust_option, unsafe_option
from loopty.kit.records import as_dict


@click.command("ab")
@click.option(
    "--arm",
    "arms",
    type=click.Path(path_type=Path),
    multiple=True,
    required=True,
    metavar="FILE",
    help="A TOML file that is laid over loopty.toml; give two or more, the first is the one to beat.",
)
@click.option(
    "--task",
    "tasks",
    type=click.Path(path_type=Path),
    multiple=True,
    metavar="DIR",
    help="A repository with a loopty.toml; several may be given. Default: this one.",
)
@click.option(
    "--seeds",
    type=click.IntRange(min=1),
    default=5,
    show_default=True,
    metavar="N",
    help="Searches of each arm on each task.",
)
@click.option(
    "--budget",
    default="40 attempts",
    show_default=True,
    metavar="AMOUNT",
    help="For each search: `40 attempts`, `600 seconds`, `200k tokens` or `2.50 usd`.",
)
@click.option("--show", "only_show", is_flag=True, help="Show how far it has come, and run nothing.")
@trust_option
@unsafe_option
@json_option
def command(
    arms: tuple[Path, ...],
    tasks: tuple[Path, ...],
    seeds: int,
    budget: str,
    only_show: bool,
    trust: bool,
    unsafe: bool,
    as_json: bool,
) -> None:
    """Compare task files as arms: the same repositories, seeds and budget, in turns.

    Each search has its own copy of the repository, as it was committed last. Differences are paired by task and
    seed. Ctrl-C stops it; the same command goes on, also with more seeds.
    """
    from loopty.campaign.arm_runs import parse_budget
    from loopty.campaign.campaign import Campaign

    runs = Campaign().ab(arms, seeds, parse_budget(budget), tasks)
    if not only_show:
        runs.run(say, trust, unsafe)
    found = runs.report()
    if as_json:
        print_json(as_dict(found))
        return
    from loopty.report.arms_text import arms_text

    state = "" if found.is_complete else ", not complete"
    head = f"{found.searches} searches of {found.budget.amount:g} {found.budget.unit} each{state}"
    click.echo(arms_text(head, found.rows, columns(), terminal()))
