"""`loopty init`: write the task file and prove the wiring."""

from __future__ import annotations

import sys

import click

from loopty.cli.optimize import UNSAFE
from loopty.cli.output import here, say


@click.command("init")
@click.option("--command", "benchmark", metavar="LINE", help="The benchmark: a shell line run in the repository.")
@click.option("--write", multiple=True, metavar="GLOB", help="What may be changed; repeatable.")
@click.option("--statement", metavar="TEXT", help="What is to be improved, in words.")
@click.option("--direction", type=click.Choice(["max", "min"]), help="Whether more or less score is better.")
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
    from loopty.core.access import TASK_FILE
    from loopty.core.errors import Misuse
    from loopty.taskfile import read
    from loopty.taskfile.template import Answers, written
    from loopty.workspaces.repository import Repository

    path = Repository.around(here()).top / TASK_FILE
    if path.exists() and not force:
        raise Misuse(f"there is a {TASK_FILE} already: edit it, or start over with --force")
    answers = Answers(
        command=benchmark or _asked("Benchmark command (a shell line run in the repository)", "--command"),
        write=write or tuple(_asked("What may be changed (files or globs, spaces between)", "--write").split()),
        statement=statement if statement is not None else _asked("What is to be improved", None, ""),
        direction=direction or _asked("Is more score better, or less (max/min)", None, "max"),
        timeout_seconds=timeout or float(_asked("Timeout of one trial in seconds", None, "60")),
        attempts=attempts or int(_asked("How many experiments", None, "100")),
    )
    text = written(answers)
    read.parse(text)
    path.write_text(text)
    say(f"wrote {path.name}")
    if not no_check:
        _check(unsafe)


def _asked(question: str, flag: str | None, default: str | None = None) -> str:
    """The user's answer; without a terminal the default, or a word on the flag that is missing."""
    from loopty.core.errors import Misuse

    if sys.stdin.isatty():
        return str(click.prompt(question, default=default, err=True))
    if default is not None:
        return default
    raise Misuse(f"{flag} is missing, and there is no terminal to ask on")


def _check(unsafe: bool) -> None:
    from loopty.assemble import Workshop
    from loopty.cli import by_hand

    workshop = Workshop.open(here())
    outcome = by_hand.checked_baseline(workshop, unsafe)
    missing = workshop.task.objective.missing(outcome.metrics) if outcome.finished else outcome.reason
    if missing:
        say(f"the checked run failed: {missing}")
        say("mend the benchmark or loopty.toml, then: loopty run 1 --check")
        sys.exit(1)
    scores = ", ".join(f"{name} {value:g}" for name, value in outcome.metrics.items())
    say(f"the checked run passed in {outcome.seconds:.2f} s: {scores}")
    say("next: loopty optimize")
