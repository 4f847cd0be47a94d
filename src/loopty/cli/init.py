"""`loopty init`: write the task file and prove the wiring."""

from __future__ import annotations

import sys
from typing import TypeVar

import click

from loopty.cli.optimize import UNSAFE
from loopty.cli.output import here, say

T = TypeVar("T")
DIRECTIONS = click.Choice(["max", "min"])


@click.command("init")
@click.option("--command", "benchmark", metavar="LINE", help="The benchmark: a shell line run in the repository.")
@click.option("--write", multiple=True, metavar="GLOB", help="What may be changed; repeatable.")
@click.option("--statement", metavar="TEXT", help="What is to be improved, in words.")
@click.option("--direction", type=DIRECTIONS, help="Whether more or less score is better.")
@click.option("--timeout", type=float, metavar="SECONDS", help="Wall clock of one trial.  [default: 60]")
@click.option("--attempts", type=int, metavar="N", help="How many experiments.  [default: 100]")
@click.option("--force", is_flag=True, help="Overwrite the loopty.toml that is there.")
@click.option("--no-check", is_flag=True, help="Only write the file; run nothing.")
@UNSAFE
def command(
    benchmark: str | None,
    write: tuple[str, ...],
    statement: str | None,
    direction: str | None,
    timeout: float | None,
    attempts: int | None,
    force: bool,
    no_check: bool,
    unsafe: bool,
) -> None:
    """Write a commented loopty.toml and prove the wiring with one checked run.

    Asks for what the flags leave out, when there is a terminal to ask on.
    """
    from loopty.domain.access import TASK_FILE
    from loopty.domain.errors import Misuse
    from loopty.taskfile import read
    from loopty.taskfile.template import InitAnswers, render_task_file
    from loopty.workspaces.repository import Repository

    repository = Repository.open(here())
    repository.head()  # before anything is asked or written: without a commit there is nothing to start from
    path = repository.top / TASK_FILE
    if path.is_dir():
        raise Misuse(f"{path} is a directory: the task file goes there")
    if path.exists() and not force:
        raise Misuse(f"there is a {TASK_FILE} already: edit it, or start over with --force")
    answers = InitAnswers(
        command=benchmark or _needed("Benchmark command (a shell line run in the repository)", "--command"),
        write=write or tuple(_needed("What may be changed (files or globs, spaces between)", "--write").split()),
        statement=_asked("What is to be improved", "") if statement is None else statement,
        direction=direction or _asked("Is more score better, or less", "max", DIRECTIONS),
        timeout_seconds=_asked("Timeout of one trial in seconds", 60.0) if timeout is None else timeout,
        attempts=_asked("How many experiments", 100) if attempts is None else attempts,
    )
    text = render_task_file(answers)
    read.parse(text)
    path.write_text(text)
    say(f"wrote {path.name}")
    if not no_check:
        _check(unsafe)


def _asked(question: str, default: T, kind: click.ParamType[T] | None = None) -> T:
    """The user's answer, of the default's type; without a terminal the default."""
    if not sys.stdin.isatty():
        return default
    answer: T = click.prompt(question, default=default, type=kind, err=True)
    return answer


def _needed(question: str, flag: str) -> str:
    """The user's answer; without a terminal a word on the flag that is missing."""
    from loopty.domain.errors import Misuse

    if not sys.stdin.isatty():
        raise Misuse(f"{flag} is missing, and there is no terminal to ask on")
    return str(click.prompt(question, err=True))


def _check(unsafe: bool) -> None:
    from loopty.campaign import by_hand
    from loopty.campaign.campaign import Campaign

    campaign = Campaign.open(here())
    outcome = by_hand.checked_baseline(campaign, unsafe)
    missing = by_hand.wrong_with(campaign, outcome)
    if missing:
        say(f"the checked run failed: {missing}")
        say("mend the benchmark or loopty.toml, then: loopty run 1 --check")
        sys.exit(1)
    scores = ", ".join(f"{name} {value:g}" for name, value in outcome.metrics.items())
    say(f"the checked run passed in {outcome.seconds:.2f} s: {scores}")
    say("next: loopty optimize")
