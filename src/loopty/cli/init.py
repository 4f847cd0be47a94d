"""`loopty init`: find out how the repository is measured, write the task file, and prove it."""

from __future__ import annotations

import itertools
import os
import shlex
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from loopty.cli.init_agent import BenchmarkAuthor
from loopty.cli.init_output import (
    begun_benchmark,
    print_failed,
    print_insensitive,
    print_nothing_found,
    print_proven,
    write_skeleton,
)
from loopty.cli.output import (
    here,
    json_option,
    print_json,
    say,
    say_paragraph,
    unsafe_option,
)
from loopty.cli.time_span import TimeSpan
from loopty.domain.access import TASK_FILE
from loopty.domain.errors import Misuse
from loopty.domain.objective import Direction, Metric, direction_of
from loopty.kit.records import replace
from loopty.show.explanation import Reach
from loopty.workspaces.state_folder import StateFolder

if TYPE_CHECKING:
    from loopty.features.setup.proven_task import ProvenTask
    from loopty.features.setup.task_draft import TaskDraft
    from loopty.show.explanation import Cause


T = TypeVar("T")
DIRECTIONS = click.Choice(["max", "min"])


class Questions:
    """Asks the user; with --yes or without a terminal it takes what is proposed."""

    def __init__(self, yes: bool) -> None:
        self._yes = yes
        self.has_terminal = sys.stdin.isatty() and not yes

    @property
    def is_open(self) -> bool:
        """Say whether proposals may join the task: the user sees them, or has accepted them."""
        return self._yes or self.has_terminal

    def ask(self, question: str, default: T, kind: click.ParamType[T] | None = None) -> T:
        """Return the user's answer, of the default's type."""
        if not self.has_terminal:
            return default
        answer: T = click.prompt(question, default=default, type=kind, err=True)
        return answer

    def direction(self, default: str) -> str:
        """Ask which values of the score are better."""
        return self.ask("Is a higher or a lower score better?", default, DIRECTIONS)

    def require(self, question: str, flag: str, proposal: str) -> str:
        """Return the user's answer; an error that names the missing option if no one can be asked."""
        if self._yes and proposal:
            return proposal
        if not self.has_terminal:
            remedy = f"; loopty proposes {proposal!r}, which --yes accepts" if proposal else ""
            raise Misuse(f"{flag} is missing, and there is no terminal to ask on{remedy}")
        return str(click.prompt(question, default=proposal or None, err=True))

    def accepts(self, problem: str) -> bool:
        """Ask whether a task is wanted all the same; nobody who cannot be asked wants it."""
        if not self.has_terminal:
            return False
        say_paragraph(problem)
        return click.confirm("Use this task all the same?", default=False, err=True)

    def consent(self, cause: Cause) -> bool:
        """Ask whether a remedy that lets trials see more than the repository may be applied."""
        if not self.has_terminal:
            return self._yes and cause.reach is not Reach.OUTSIDE
        say_paragraph(f"{cause.sentence}; {cause.remedy}")
        return click.confirm("Do this?", err=True)


@click.command("init")
@click.argument("folder", required=False, type=click.Path(exists=True, file_okay=False, path_type=Path))
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
    "[default: 10m]",
)
@click.option("--attempts", type=int, metavar="N", help="Number of experiments.  [default: 100]")
@click.option("--device", multiple=True, metavar="NAME", help="Device that trials may use, as gpu; repeatable.")
@click.option("--yes", is_flag=True, help="Accept what loopty proposes, without questions.")
@click.option("--force", is_flag=True, help="Overwrite an existing loopty.toml.")
@click.option(
    "--unproven",
    is_flag=True,
    help="Plant no changes to prove that the score is about the editable files.",
)
@click.option(
    "--skeleton",
    is_flag=True,
    help="Write the beginning of a benchmark, for you or your coding agent to fill in, and end.",
)
@click.option(
    "--agent",
    metavar="NAME",
    help="Let this coding agent write the benchmark: codex, claude, … or a command that reads the file "
    "$LOOPTY_PROMPT_FILE. Its login pays.",
)
@click.option("--no-check", is_flag=True, help="Write the file without running the benchmark.")
@json_option
@unsafe_option
def init_verb(
    folder: Path | None,
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
    unproven: bool,
    skeleton: bool,
    agent: str | None,
    no_check: bool,
    as_json: bool,
    unsafe: bool,
) -> None:
    """Write a commented loopty.toml, and prove it by running the benchmark.

    FOLDER, by default the current one, may hold a task of another tool (OpenEvolve, ShinkaEvolve, GEPA, CORAL,
    autoresearch, evo, AIDE, Optuna), which is wired as it is. Otherwise it
    looks at the repository for a benchmark, its sources and its tests, and proposes what to run. When the checked
    run fails and the cause is known, it changes the task file and tries again. Asks on a terminal, unless --yes.
    Exits with 1 when the checked run fails, and when it finds neither a benchmark nor tests.
    """
    from loopty.features.setup.draft_checks import DraftChecks, lock_init
    from loopty.features.setup.installed_folders import environment_folders
    from loopty.features.setup.peers.finished_task import finished_task
    from loopty.features.setup.peers.recognised_tasks import task_here, write_new_files
    from loopty.features.setup.proposal_text import (
        folder_tasks,
        installed_text,
        nothing_to_change,
        nothing_to_measure,
        other_line,
        scored_by_itself,
    )
    from loopty.features.setup.prover import WITHIN_SECONDS, CheckTime, TaskProver
    from loopty.features.setup.repository_facts import repository_facts
    from loopty.features.setup.task_draft import GateDraft, parse_parameter, require_matches
    from loopty.features.setup.task_proposal import (
        isolated_gate,
        propose_task,
        propose_tasks,
        tasks_to_try,
        with_proposer,
        without_evaluators,
    )
    from loopty.features.setup.template import render_task_file, restore_task_file, write_task_file
    from loopty.git.repository import Repository
    from loopty.taskfile import read

    if folder:
        os.chdir(folder)
    repository = Repository.open(Path.cwd())
    repository.head()  # before any question: without a commit there is nothing to start from
    path = repository.top / TASK_FILE
    if path.is_dir():
        raise Misuse(f"{path} is a directory: the task file goes there")
    if agent and benchmark:
        raise Misuse("--agent writes the benchmark that --command names: leave one of them out")
    if path.exists() and not (force or skeleton):
        raise Misuse(f"there is already a {TASK_FILE}: edit it, or start over with --force")
    if folders := environment_folders(repository.working_tree.untracked_paths()):
        repository.working_tree.ignore_here(folders)
        say_paragraph(installed_text(folders))
    files = [file for file in repository.working_tree.paths() if file != TASK_FILE]
    parameters = dict(map(parse_parameter, param))
    questions = Questions(yes)
    facts = repository_facts(repository.top, files)
    author = None
    if skeleton or agent:
        begun = begun_benchmark(repository.top, facts, force)
        if not agent:
            write_skeleton(repository.top, begun, as_json)
            return
        if not questions.is_open:
            raise Misuse("there is no terminal to show the benchmark on: --yes accepts what the agent writes")
        author = BenchmarkAuthor(agent, repository, files, begun, unsafe)
        author.write("", questions.has_terminal)
        benchmark, files = begun.command, [*files, begun.path]
        direction = direction or "min"  # what it was asked to report is a time
        facts = repository_facts(repository.top, files)
    peer = None if benchmark else task_here(repository.top, files, Path.cwd())
    if peer:
        say_paragraph(peer.sentence)
        if peer.refusal:
            raise Misuse(f"this task of {peer.tool} cannot be wired as it is: {peer.refusal}")
        write_new_files(repository.top, peer)
        files += peer.new_files
    proposed = [peer.draft] if peer else folder_tasks(repository.top, files, Path.cwd()) or propose_tasks(facts)
    found = tasks_to_try(facts, proposed)
    if not (benchmark or found):
        # Of the task of another tool, loading the program measures nothing.
        print_nothing_found(nothing_to_measure(facts), as_json)
        if not questions.has_terminal:
            sys.exit(1)
    line = benchmark or questions.require(
        "Benchmark command (a shell line run in the repository)",
        "--command",
        found[0].command if found else "",
    )
    draft = next((one for one in proposed if one.command == line), None) or propose_task(facts, line)
    is_write_given = bool(write)
    parameters = parameters or dict(draft.parameters)
    if not write and not parameters:
        if not (draft.write or questions.has_terminal):
            raise Misuse(nothing_to_change(facts, line))
        globs = questions.require("Files that may be changed (paths or globs)", "--write", shlex.join(draft.write))
        write = _words(globs)
    require_matches(write, files)
    goal = questions.ask("What should improve", draft.statement) if statement is None else statement
    gates = tuple(GateDraft(f"gate-{count}" if count > 1 else "gate", one) for count, one in enumerate(gate, 1))
    if not gates and draft.gates and questions.is_open and not peer:
        answer = questions.ask("Command that candidates must pass (- for none)", draft.gates[0].command)
        gates = (replace(draft.gates[0], command=answer),) if answer.strip() not in ("", "-") else ()
    elif peer and not gates:
        gates = draft.gates
    if draft.isolated:
        gates = tuple(isolated_gate(one, facts) for one in gates)
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
        attempts=questions.ask("Number of experiments", draft.attempts) if attempts is None else attempts,
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
    again = shlex.join(["loopty", "init", "--yes", "--force", "--command", line])
    retry = again if author else _line_to_start_over(sys.argv[1:])
    given = {"timeout_seconds": timeout is not None or peer, "direction": direction is not None or peer}
    try:
        while True:
            time = CheckTime(WITHIN_SECONDS if within is None else within)
            prover = TaskProver(checks, say_paragraph, questions.consent, time, retry, proves=not unproven)
            proven = prover.prove_first(drafts, frozenset(name for name, is_given in given.items() if is_given))
            problem = proven.check.problem or proven.problem
            if not (problem and author and author.may_write_again):
                break
            say_paragraph(f"{proven.draft.command}: {problem}")
            author.write(problem, questions.has_terminal)
    except KeyboardInterrupt:
        restore_task_file(path.parent, former)
        raise
    if proven.check.problem is not None:
        # Where the first took all the time, the others were not tried.
        tried = [proven.draft] if proven.is_out_of_time else drafts
        print_failed(proven, path, other_line(proposed, [one.command for one in tried]), as_json)
        sys.exit(1)
    if proven.problem and not questions.accepts(proven.problem):
        restore_task_file(path.parent, former)
        print_insensitive(proven, other_line(proposed, [one.command for one in drafts]), as_json)
        sys.exit(1)
    if peer:
        written, said = finished_task(peer, proven, lambda one: checks.run(one).result)
        checks.write(written)
        proven = replace(proven, draft=written)
        if said:
            say_paragraph(said)
    if questions.has_terminal and not proven.why_direction:
        name, value = proven.score
        say_paragraph(f"the score is {name} {value:g}")
        proven = prover.with_direction(proven, questions.direction(proven.direction))
    if is_write_given:
        _warn_of_unloaded_files(write, proven, unsafe)
    other, _ = other_line(proposed, [proven.draft.command])
    print_proven(proven, path, scored_by_itself(facts, proven.draft.command, write), other, as_json)


def _with_answers(other: TaskDraft, draft: TaskDraft, is_limit_given: bool, is_write_given: bool) -> TaskDraft:
    """Return another benchmark of the repository, with what the user said."""
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
    """Split an answer into words; a name with a space is quoted, as in a shell."""
    try:
        return tuple(shlex.split(answer))
    except ValueError:
        return tuple(answer.split())  # a quote that is a part of a name


def _line_to_start_over(words: Sequence[str]) -> str:
    """Repeat the line that the user gave, so that it starts over and asks nothing; without its limit of time."""
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
    from loopty.features.setup.edited_tree import EditedTree, unloaded_patterns

    for pattern in unloaded_patterns(EditedTree(here().context, unsafe), patterns, proven.check.outcome):
        say_paragraph(
            f"warning: the benchmark gives the same score with nonsense in {pattern}: it does not load it, so no "
            "change of it can help; name the files that it loads with --write, or let it load this one"
        )
