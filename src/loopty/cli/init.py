"""`loopty init`: write the task file and run the benchmark once."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TypeVar

import click

from loopty.cli.output import here, print_explanation, say, unsafe_option
from loopty.cli.own_path import say_own_path

T = TypeVar("T")
DIRECTIONS = click.Choice(["max", "min"])


@click.command("init")
@click.option(
    "--command", "benchmark", metavar="LINE", help="The benchmark: a shell command, run in the repository."
)
@click.option("--write", multiple=True, metavar="GLOB", help="Files that proposals may change; repeatable.")
@click.option("--statement", metavar="TEXT", help="What to improve, in words.")
@click.option("--direction", type=DIRECTIONS, help="Whether a higher or a lower score is better.")
@click.option("--timeout", type=float, metavar="SECONDS", help="Time limit of one trial.  [default: 60]")
@click.option("--attempts", type=int, metavar="N", help="Number of experiments.  [default: 100]")
@click.option("--force", is_flag=True, help="Overwrite an existing loopty.toml.")
@click.option("--no-check", is_flag=True, help="Write the file without running the benchmark.")
@unsafe_option
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
    """Write a commented loopty.toml, and run the benchmark once to check it.

    Asks for missing options if there is a terminal. Exits with 1 when the checked run fails.
    """
    from loopty.domain.access import TASK_FILE
    from loopty.domain.errors import Misuse
    from loopty.taskfile import read
    from loopty.taskfile.template import InitAnswers, render_task_file
    from loopty.workspaces.repository import Repository

    repository = Repository.open(Path.cwd())
    repository.head()  # before any question: without a commit there is nothing to start from
    path = repository.top / TASK_FILE
    if path.is_dir():
        raise Misuse(f"{path} is a directory: the task file goes there")
    if path.exists() and not force:
        raise Misuse(f"there is already a {TASK_FILE}: edit it, or start over with --force")
    answers = InitAnswers(
        command=benchmark or _require("Benchmark command (a shell line run in the repository)", "--command"),
        write=write or tuple(_require("Files that may be changed (paths or globs)", "--write").split()),
        statement=_ask("What should improve", "") if statement is None else statement,
        direction=direction or _ask("Is a higher or a lower score better?", "max", DIRECTIONS),
        timeout_seconds=_ask("Time limit of one trial in seconds", 60.0) if timeout is None else timeout,
        attempts=_ask("Number of experiments", 100) if attempts is None else attempts,
    )
    text = render_task_file(answers)
    read.parse(text)
    path.write_text(text)
    say(f"wrote {path.name}")
    here().trust(only_task_file=True)  # what the user has just written, the user allows
    if not no_check:
        _check(unsafe)


def _ask(question: str, default: T, kind: click.ParamType[T] | None = None) -> T:
    """The user's answer, of the default's type; without a terminal the default."""
    if not sys.stdin.isatty():
        return default
    answer: T = click.prompt(question, default=default, type=kind, err=True)
    return answer


def _require(question: str, flag: str) -> str:
    """The user's answer; without a terminal an error that names the missing option."""
    from loopty.domain.errors import Misuse

    if not sys.stdin.isatty():
        raise Misuse(f"{flag} is missing, and there is no terminal to ask on")
    return str(click.prompt(question, err=True))


def _check(unsafe: bool) -> None:
    campaign = here()
    result = campaign.check(unsafe=unsafe)
    if result.problem:
        say(f"the checked run failed: {result.problem}")
        print_explanation(result.explanation)
        say("fix the benchmark or loopty.toml, then retry: loopty run 1 --check")
        sys.exit(1)
    scores = ", ".join(f"{name} {value:g}" for name, value in result.outcome.metrics.items())
    say(f"the checked run passed in {result.outcome.seconds:.2f} s: {scores}")
    say("next: loopty optimize")
    say_own_path()
