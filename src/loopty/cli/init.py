"""`loopty init`: find out how the repository is measured, write the task file, and prove it."""

from __future__ import annotations

import itertools
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from loopty.cli.init_questions import DIRECTIONS, Questions
from loopty.cli.output import here, json_option, print_json, say, say_paragraph, unsafe_option
from loopty.cli.time_span import TimeSpan
from loopty.kit.records import replace

if TYPE_CHECKING:
    from loopty.campaign.proven_task import ProvenTask
    from loopty.taskfile.task_draft import TaskDraft


@click.command("init")
@click.option(
    "--command",
    "benchmark",
    metavar="LINE",
    help="The benchmark: a shell command, run in the repository.  [default: what the repository seems to have]",
)
@click.option(
    "--write",
    multiple=True,
    metavar="GLOB",
    help="Files that proposals may change; repeatable. Not needed with --param.",
)
@click.option(
    "--param",
    multiple=True,
    metavar="SPEC",
    help="A parameter to search: lr=float:1e-4:1:log, n=int:1:9 or k=categorical:a,b; repeatable.",
)
@click.option("--gate", multiple=True, metavar="LINE", help="A command that candidates must pass; repeatable.")
@click.option(
    "--metric", multiple=True, metavar="NAME", help="Metric to judge by, most important first; repeatable."
)
@click.option("--statement", metavar="TEXT", help="What to improve, in words.")
@click.option(
    "--direction",
    type=DIRECTIONS,
    help="Whether a higher or a lower score is better.  [default: as the name of the score says]",
)
@click.option(
    "--timeout",
    type=float,
    metavar="SECONDS",
    help="Time limit of one trial.  [default: ten times the checked run]",
)
@click.option(
    "--within",
    type=TimeSpan(),
    metavar="TIME",
    help="Time for all checks together, as 90s or 30m: what takes too long gives way to a part of it.  "
    "[default: 10m, and up to 20m on a busy machine]",
)
@click.option("--attempts", type=int, metavar="N", help="Number of experiments.  [default: 100]")
@click.option("--device", multiple=True, metavar="NAME", help="Device that trials may use, as gpu; repeatable.")
@click.option("--yes", is_flag=True, help="Accept what loopty proposes, without questions.")
@click.option("--force", is_flag=True, help="Overwrite an existing loopty.toml.")
@click.option("--no-check", is_flag=True, help="Write the file without running the benchmark.")
@click.option(
    "--probe",
    is_flag=True,
    help="Measure what a trial uses, so that loopty chooses how many run at once.",
)
@json_option
@unsafe_option
def command(
    benchmark: str | None,
    write: tuple[str, ...],
    param: tuple[str, ...],
    gate: tuple[str, ...],
    metric: tuple[str, ...],
    statement: str | None,
    direction: str | None,
    timeout: float | None,
    within: float | None,
    attempts: int | None,
    device: tuple[str, ...],
    yes: bool,
    force: bool,
    no_check: bool,
    probe: bool,
    as_json: bool,
    unsafe: bool,
) -> None:
    """Write a commented loopty.toml, and prove it by running the benchmark.

    Looks at the repository for a benchmark, its sources and its tests, and proposes what to run. When the checked
    run fails and the cause is known, it changes the task file and tries again. Asks on a terminal, unless --yes.
    Exits with 1 when the checked run fails, and when it finds neither a benchmark nor tests.
    """
    from importlib.util import find_spec

    from loopty.campaign.check_time import CheckTime, usual_seconds
    from loopty.campaign.draft_checks import DraftChecks
    from loopty.campaign.init_lock import lock_init
    from loopty.campaign.task_prover import TaskProver
    from loopty.cli.init_result import print_doubt, print_failed, print_nothing_found, print_proven
    from loopty.domain.access import TASK_FILE
    from loopty.domain.errors import Misuse
    from loopty.domain.objective import Direction, Metric
    from loopty.domain.score_names import direction_of
    from loopty.kit.machine_load import processes_per_core
    from loopty.report.init_text import doubt_text
    from loopty.taskfile import read
    from loopty.taskfile.folder_tasks import folder_tasks
    from loopty.taskfile.glob_matches import require_matches
    from loopty.taskfile.param_flags import parse_parameter
    from loopty.taskfile.proposal_text import (
        is_scored_elsewhere,
        nothing_to_change,
        nothing_to_measure,
        other_line,
        scored_by_itself,
    )
    from loopty.taskfile.task_draft import GateDraft
    from loopty.taskfile.task_proposal import (
        propose_task,
        propose_tasks,
        tasks_to_try,
        with_proposer,
        without_evaluators,
    )
    from loopty.taskfile.template import render_task_file, write_task_file
    from loopty.workspaces.repository import Repository
    from loopty.workspaces.repository_facts import repository_facts
    from loopty.workspaces.state_folder import StateFolder

    repository = Repository.open(Path.cwd())
    repository.head()  # before any question: without a commit there is nothing to start from
    path = repository.top / TASK_FILE
    if path.is_dir():
        raise Misuse(f"{path} is a directory: the task file goes there")
    if path.exists() and not force:
        raise Misuse(f"there is already a {TASK_FILE}: edit it, or start over with --force")
    files = [file for file in repository.working_tree.paths() if file != TASK_FILE]
    parameters = dict(map(parse_parameter, param))
    questions = Questions(yes)
    facts = repository_facts(repository.top, files)
    proposed = folder_tasks(repository.top, files, Path.cwd()) or propose_tasks(facts)
    found = tasks_to_try(facts, proposed)
    if not (benchmark or found):
        # Of the task of another tool, loading the program measures nothing.
        resort = ("", "") if is_scored_elsewhere(facts) else other_line(proposed, ())
        print_nothing_found(nothing_to_measure(facts), resort, as_json)
        if not questions.has_terminal:
            sys.exit(1)
    line = benchmark or questions.require(
        "Benchmark command (a shell line run in the repository)",
        "--command",
        found[0].command if found else "",
    )
    draft = next((one for one in proposed if one.command == line), None) or propose_task(facts, line)
    is_write_given = bool(write)
    if not write and not parameters:
        if not (draft.write or questions.has_terminal):
            raise Misuse(nothing_to_change(facts, line))
        globs = questions.require("Files that may be changed (paths or globs)", "--write", shlex.join(draft.write))
        write = _words(globs)
    require_matches(write, files)
    goal = questions.ask("What should improve", draft.statement) if statement is None else statement
    gates = tuple(GateDraft(f"gate-{count}" if count > 1 else "gate", one) for count, one in enumerate(gate, 1))
    if not gates and draft.gates and questions.is_open:
        answer = questions.ask("Command that candidates must pass (- for none)", draft.gates[0].command)
        gates = (replace(draft.gates[0], command=answer),) if answer.strip() not in ("", "-") else ()
    better = direction or (questions.direction(draft.direction) if no_check else draft.direction)
    draft = replace(
        without_evaluators(draft, facts) if is_write_given else draft,
        write=write,
        devices=device,
        parameters=parameters,
        statement=goal,
        direction=better,
        metrics=tuple(Metric(name, Direction(direction or direction_of(name) or better)) for name in metric),
        gates=gates,
        timeout_seconds=draft.timeout_seconds if timeout is None else timeout,
        attempts=questions.ask("Number of experiments", 100) if attempts is None else attempts,
    )
    draft = with_proposer(draft, has_samplers=find_spec("optuna") is not None)
    if direction:
        draft = replace(draft, notes={**draft.notes, "direction": "--direction says so"})
    read.parse(render_task_file(draft))
    lock_init(StateFolder.of(repository.folders))
    if no_check:
        write_task_file(path.parent, draft)
        here().trust(only_task_file=True)  # what the user has just written, the user allows
        say(f"wrote {path.name}")
        if as_json:
            print_json({"task_file": str(path), "command": draft.command, "write": draft.write})
        return
    # Only what nobody chose may be replaced by another benchmark of the repository.
    others = found[1:] if yes and benchmark is None else []
    drafts = [draft, *(_with_answers(other, draft, timeout is not None, is_write_given) for other in others)]
    former = path.read_bytes() if path.exists() else None
    checks = DraftChecks(here, repository.top, unsafe)
    patience = processes_per_core()
    time = CheckTime(usual_seconds(patience) if within is None else within)
    retry = _line_to_start_over(sys.argv[1:])
    prover = TaskProver(checks, say_paragraph, questions.consent, patience, time, retry)
    given = {"timeout_seconds": timeout is not None, "direction": direction is not None}
    proven = prover.prove_first(drafts, frozenset(name for name, is_given in given.items() if is_given))
    if proven.check.problem is not None:
        print_failed(proven, path, other_line(proposed, [one.command for one in drafts]), as_json)
        sys.exit(1)
    if proven.doubt and not questions.has_terminal:
        _restore(path, former)
        print_doubt(proven, f"{retry} --direction min", as_json)
        sys.exit(1)
    if questions.has_terminal and (proven.doubt or not proven.why_direction):
        name, value = proven.score
        say_paragraph(doubt_text(proven.doubt) if proven.doubt else f"the score is {name} {value:g}")
        proven = prover.with_direction(proven, questions.direction("min" if proven.doubt else proven.direction))
    if probe:
        proven = prover.with_profile(proven)
    print_proven(proven, path, scored_by_itself(facts, proven.draft.command, write), as_json)
    if is_write_given:
        _warn_of_unloaded_files(write, proven, unsafe)
    if proven.draft.profile:
        from loopty.domain.round_size import AttemptFigures
        from loopty.executors.this_capacity import this_capacity

        task = read.load(repository.top)
        size = task.round_size(this_capacity())
        depth = task.round_depth(AttemptFigures(task.profile.seconds), task.pools.attempts)
        say_paragraph(f"width {size.width}: {size.reason}")
        say_paragraph(f"depth {depth.depth}: {depth.reason}")


def _restore(path: Path, former: bytes | None) -> None:
    """Leave the task file as it was before."""
    from loopty.kit.atomic_file import write_atomically

    if former is None:
        path.unlink(missing_ok=True)
    else:
        write_atomically(path.parent, path.name, former)


def _with_answers(other: TaskDraft, draft: TaskDraft, is_limit_given: bool, is_write_given: bool) -> TaskDraft:
    """Another benchmark of the repository, with what the user said."""
    if why := draft.notes.get("direction"):
        other = replace(other, direction=draft.direction, notes={**other.notes, "direction": why})
    return replace(
        other,
        devices=draft.devices,
        parameters=draft.parameters,
        metrics=draft.metrics,
        timeout_seconds=draft.timeout_seconds if is_limit_given else other.timeout_seconds,
        attempts=draft.attempts,
        proposer=draft.proposer,
        write=draft.write if is_write_given else other.write,
        gates=other.gates if all(gate.is_proposed for gate in draft.gates) else draft.gates,
    )


def _words(answer: str) -> tuple[str, ...]:
    """The words of an answer; a name with a space is quoted, as in a shell."""
    try:
        return tuple(shlex.split(answer))
    except ValueError:
        return tuple(answer.split())  # a quote that is a part of a name


def _line_to_start_over(words: Sequence[str]) -> str:
    """The line that the user gave, so that it starts over and asks nothing; without its limit of time."""
    if not words or words[0] != "init":
        return "loopty init --yes --force"  # another program called it
    kept = [
        word
        for before, word in itertools.pairwise(words)
        if "--within" not in (before, word) and not word.startswith("--within=") and word != "--json"
    ]
    more = [word for word in ("--yes", "--force") if word not in kept]
    return shlex.join(["loopty", "init", *kept, *more])


def _warn_of_unloaded_files(patterns: Sequence[str], proven: ProvenTask, unsafe: bool) -> None:
    """Say which of the files that proposals may change have no effect on the score."""
    from loopty.campaign.unloaded_files import unloaded_patterns

    for pattern in unloaded_patterns(here().context, patterns, proven.check.outcome, unsafe):
        say_paragraph(
            f"warning: the benchmark gives the same score with nonsense in {pattern}: it does not load it, so no "
            "change of it can help; name the files that it loads with --write, or let it load this one"
        )
