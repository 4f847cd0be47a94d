"""`loopty init`: find out how the repository is measured, write the task file, and prove it."""

from __future__ import annotations

import itertools
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from loopty.cli.output import columns, here, json_option, print_explanation, print_json, say, unsafe_option
from loopty.cli.own_path import say_own_path
from loopty.cli.time_span import TimeSpan
from loopty.kit.dataclass import replace

if TYPE_CHECKING:
    from loopty.campaign.proven_task import ProvenTask
    from loopty.causes.cause import Cause
    from loopty.taskfile.task_draft import TaskDraft

T = TypeVar("T")
DIRECTIONS = click.Choice(["max", "min"])


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
@click.option("--direction", type=DIRECTIONS, help="Whether a higher or a lower score is better.")
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
    Exits with 1 when the checked run fails.
    """
    from importlib.util import find_spec

    from loopty.campaign.check_time import CheckTime, usual_seconds
    from loopty.campaign.draft_checks import DraftChecks
    from loopty.campaign.init_lock import lock_init
    from loopty.campaign.task_prover import TaskProver
    from loopty.domain.access import TASK_FILE
    from loopty.domain.errors import Misuse
    from loopty.domain.objective import Direction, Metric
    from loopty.kit.machine_load import processes_per_core
    from loopty.taskfile import read
    from loopty.taskfile.folder_tasks import folder_tasks
    from loopty.taskfile.glob_matches import require_matches
    from loopty.taskfile.param_flags import parse_parameter
    from loopty.taskfile.task_draft import GateDraft
    from loopty.taskfile.task_proposal import (
        last_resort_line,
        nothing_to_measure,
        propose_task,
        propose_tasks,
        with_proposer,
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
    if not (benchmark or proposed or questions.has_terminal):
        raise Misuse(nothing_to_measure())
    line = benchmark or questions.require(
        "Benchmark command (a shell line run in the repository)",
        "--command",
        proposed[0].command if proposed else "",
    )
    draft = next((one for one in proposed if one.command == line), None) or propose_task(facts, line)
    is_write_given = bool(write)
    if not write and not parameters:
        globs = questions.require("Files that may be changed (paths or globs)", "--write", shlex.join(draft.write))
        write = _words(globs)
    require_matches(write, files)
    goal = questions.ask("What should improve", draft.statement) if statement is None else statement
    assumed = draft.direction
    better = direction or questions.ask("Is a higher or a lower score better?", draft.direction, DIRECTIONS)
    gates = tuple(GateDraft(f"gate-{count}" if count > 1 else "gate", one) for count, one in enumerate(gate, 1))
    if not gates and draft.gates and questions.is_open:
        answer = questions.ask("Command that candidates must pass (- for none)", draft.gates[0].command)
        gates = (replace(draft.gates[0], command=answer),) if answer.strip() not in ("", "-") else ()
    draft = replace(
        draft,
        write=write,
        parameters=parameters,
        statement=goal,
        direction=better,
        metrics=tuple(Metric(name, Direction(better)) for name in metric),
        gates=gates,
        timeout_seconds=draft.timeout_seconds if timeout is None else timeout,
        attempts=questions.ask("Number of experiments", 100) if attempts is None else attempts,
    )
    draft = with_proposer(draft, has_samplers=find_spec("optuna") is not None)
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
    others = proposed[1:] if yes and benchmark is None else []
    drafts = [draft, *(_with_answers(other, draft, timeout is not None) for other in others)]
    checks = DraftChecks(here, repository.top, unsafe)
    patience = processes_per_core()
    time = CheckTime(usual_seconds(patience) if within is None else within)
    retry = _line_to_start_over(sys.argv[1:])
    prover = TaskProver(checks, _say_paragraph, questions.consent, patience, time, retry)
    given = {"timeout_seconds": timeout is not None, "direction": better != assumed or direction is not None}
    proven = prover.prove_first(drafts, frozenset(name for name, is_given in given.items() if is_given))
    if probe and proven.check.problem is None:
        proven = prover.with_profile(proven)
    if is_write_given and proven.check.problem is None:
        _warn_of_unloaded_files(write, proven, unsafe)
    say(f"wrote {path.name}")
    if proven.draft.profile:
        from loopty.domain.round_size import AttemptFigures
        from loopty.executors.this_capacity import this_capacity

        task = read.load(repository.top)
        size = task.round_size(this_capacity())
        depth = task.round_depth(AttemptFigures(task.profile.seconds), task.pools.attempts)
        _say_paragraph(f"width {size.width}: {size.reason}")
        _say_paragraph(f"depth {depth.depth}: {depth.reason}")
    # Where nobody chose, what is left to measure was among the drafts.
    load_line = "" if others or proven.draft.last_resort else last_resort_line(facts)
    _print_result(proven, path, load_line, as_json, is_asked=direction is not None or questions.has_terminal)
    sys.exit(1 if proven.check.problem else 0)


class Questions:
    """Asks the user; with --yes or without a terminal it takes what is proposed."""

    def __init__(self, yes: bool) -> None:
        self._yes = yes
        self.has_terminal = sys.stdin.isatty() and not yes

    @property
    def is_open(self) -> bool:
        """Whether proposals may become part of the task: the user sees them, or has accepted them."""
        return self._yes or self.has_terminal

    def ask(self, question: str, default: T, kind: click.ParamType[T] | None = None) -> T:
        """The user's answer, of the default's type."""
        if not self.has_terminal:
            return default
        answer: T = click.prompt(question, default=default, type=kind, err=True)
        return answer

    def require(self, question: str, flag: str, proposal: str) -> str:
        """The user's answer; an error that names the missing option where nobody can be asked."""
        from loopty.domain.errors import Misuse

        if self._yes and proposal:
            return proposal
        if not self.has_terminal:
            remedy = f"; loopty proposes {proposal!r}, which --yes accepts" if proposal else ""
            raise Misuse(f"{flag} is missing, and there is no terminal to ask on{remedy}")
        return str(click.prompt(question, default=proposal or None, err=True))

    def consent(self, cause: Cause) -> bool:
        """Whether a remedy that lets trials see more than the repository may be applied."""
        from loopty.causes.cause import Reach

        if not self.has_terminal:
            return self._yes and cause.reach is not Reach.OUTSIDE
        _say_paragraph(f"{cause.sentence}; {cause.remedy}")
        return click.confirm("Do this?", err=True)


def _with_answers(other: TaskDraft, draft: TaskDraft, is_limit_given: bool) -> TaskDraft:
    """Another benchmark of the repository, with what the user said."""
    return replace(
        other,
        parameters=draft.parameters,
        metrics=draft.metrics,
        timeout_seconds=draft.timeout_seconds if is_limit_given else other.timeout_seconds,
        attempts=draft.attempts,
        proposer=draft.proposer,
        write=draft.write,
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


def _say_paragraph(text: str) -> None:
    from loopty.report.init_text import paragraph

    say(paragraph(text, columns()))


def _print_result(proven: ProvenTask, path: Path, load_line: str, as_json: bool, is_asked: bool) -> None:
    """Print what was proven; `load_line` is what is left to try where nothing was.

    `is_asked` says whether the user decided which direction is better.
    """
    from loopty.agents.agent_table import agents_on
    from loopty.report.figures import figure
    from loopty.report.init_text import TESTS_TEXT, agents_text, direction_text, noise_text, proposer_text

    check, draft, noise = proven.check, proven.draft, proven.noise
    is_last_resort = check.problem is not None and bool(load_line)
    if as_json:
        more = {"line": load_line} if is_last_resort else {}
        print_json({"task_file": str(path), **_plain(proven), **more})
    if check.problem:
        _say_paragraph(f"the checked run failed: {check.problem}")
        print_explanation(check.explanation)
        say("fix the benchmark or loopty.toml, then retry: loopty run 1 --check")
        if is_last_resort:
            say(f"or begin with how long it takes to load or to build: {load_line}")
        return
    if draft.last_resort:
        _say_last_resort(proven)
    scores = ", ".join(f"{name} {figure(value)}" for name, value in list(check.outcome.metrics.items())[:4])
    better = direction_text(draft.direction, is_known=is_asked or proven.has_direction)
    _say_paragraph(f"the checked run passed in {check.outcome.seconds:.2f} s: {scores} ({better})")
    if draft.times_the_tests:
        _say_paragraph(TESTS_TEXT)
    if noise:
        _say_paragraph(noise_text(noise.metric, noise.values, noise.percent, draft.is_cpu_time))
    _say_paragraph(proposer_text(draft.proposer))
    if draft.write and (agents := agents_on()):
        _say_paragraph(agents_text(agents))
    say("next: loopty optimize")
    say_own_path()


def _warn_of_unloaded_files(patterns: Sequence[str], proven: ProvenTask, unsafe: bool) -> None:
    """Say which of the files that proposals may change have no effect on the score."""
    from loopty.campaign.unloaded_files import unloaded_patterns

    for pattern in unloaded_patterns(here().context, patterns, proven.check.outcome, unsafe):
        _say_paragraph(
            f"warning: the benchmark gives the same score with nonsense in {pattern}: it does not load it, so no "
            "change of it can help; name the files that it loads with --write, or let it load this one"
        )


def _say_last_resort(proven: ProvenTask) -> None:
    """Say that the benchmark is not what anybody wants to improve, and how to get a better one."""
    from loopty.report.init_text import last_resort_text

    if failed := proven.instead_of:
        _say_paragraph(f"what the repository has could not be proven: {failed.check.problem}")
        print_explanation(failed.check.explanation)
    _say_paragraph(last_resort_text(proven.draft.last_resort, is_only_one=proven.instead_of is None))


def _plain(proven: ProvenTask) -> dict[str, object]:
    """The result for programs."""
    from loopty.agents.agent_table import agents_on
    from loopty.kit import codec
    from loopty.report.init_text import proposer_text

    check, draft, noise = proven.check, proven.draft, proven.noise
    return {
        "ok": check.problem is None,
        "reason": check.problem or "",
        "command": draft.command,
        "result": draft.result,
        "write": list(draft.write),
        "gates": [one.command for one in draft.gates],
        "scratch": list(draft.scratch),
        "mounts": list(draft.mounts),
        "timeout_seconds": draft.timeout_seconds,
        "direction": draft.direction,
        "last_resort": _plain_last_resort(proven) if draft.last_resort else None,
        "changes": [codec.plain(change) for change in proven.changes],
        "check": codec.plain(check.outcome),
        "noise": {"metric": noise.metric, "values": list(noise.values), "percent": noise.percent}
        if noise
        else None,
        "profile": codec.plain(draft.profile) if draft.profile else None,
        "proposer": {"kind": draft.proposer, "about": proposer_text(draft.proposer)},
        "agents": agents_on(),
        **({"explanation": check.explanation.plain()} if check.explanation else {}),
    }


def _plain_last_resort(proven: ProvenTask) -> dict[str, object]:
    """What is measured for want of something better, and why."""
    failed = proven.instead_of.check if proven.instead_of else None
    explanation = failed.explanation.plain() if failed and failed.explanation else None
    return {
        "measures": proven.draft.last_resort,
        "instead_of": proven.instead_of.draft.command if proven.instead_of else "",
        "reason": (failed.problem or "") if failed else "",
        **({"explanation": explanation} if explanation else {}),
    }
