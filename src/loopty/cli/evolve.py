"""`loopty evolve PROGRAM EVALUATOR`: make the task of two files, and run it."""

from __future__ import annotations

import os
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from loopty.cli.init_output import print_failed
from loopty.cli.output import here, json_option, say, say_paragraph, unsafe_option
from loopty.cli.run import drive
from loopty.domain.access import TASK_FILE
from loopty.domain.errors import Misuse
from loopty.kit.contents import write_atomically
from loopty.kit.records import replace

if TYPE_CHECKING:
    from loopty.domain.task import Task
    from loopty.features.setup.peers.peer_task import PeerTask
    from loopty.features.setup.task_draft import TaskDraft

_CHECK_SECONDS = 60.0
_FILE = click.Path(path_type=Path)


@click.command("evolve")
@click.argument("program", type=_FILE)
@click.argument("evaluator", type=_FILE)
@click.option(
    "--iterations", type=click.IntRange(1), metavar="N", help="Attempts in all.  [default: the config's, or 100]"
)
@click.option(
    "--config", type=_FILE, metavar="FILE", help="Settings of OpenEvolve or ShinkaEvolve.  [default: config.yaml]"
)
@click.option(
    "--model", metavar="MODEL", help="The model that proposes, as openai:gpt-5-mini. Without one: random edits."
)
@click.option(
    "--api-base",
    metavar="URL",
    help="A server with OpenAI's chat API.  [default: the config's, for a model named without provider]",
)
@click.option("--goal", metavar="TEXT", help="What to improve, in words.  [default: the config's system message]")
@click.option("--force", is_flag=True, help="Write loopty.toml anew, if there is one of another task.")
@click.option("--quiet", "-q", is_flag=True, help="Print only the result, no progress.")
@json_option
@unsafe_option
def evolve_verb(
    program: Path,
    evaluator: Path,
    iterations: int | None,
    config: Path | None,
    model: str | None,
    api_base: str | None,
    goal: str | None,
    force: bool,
    quiet: bool,
    as_json: bool,
    unsafe: bool,
) -> None:
    """Evolve PROGRAM against EVALUATOR, as tasks of OpenEvolve, ShinkaEvolve and GEPA have them.

    EVALUATOR is used as it is: a file with evaluate(program_path), a script that takes --program_path and
    --results_dir, or one that calls optimize_anything. If PROGRAM does not exist, the search starts from nothing.

    Writes loopty.toml at the top of the repository; without one it makes a repository of the folder of both files.
    The same command resumes; all other verbs work there, too.
    """
    from loopty.features.setup.peers.evolved_program import EvolvedFiles, task_in
    from loopty.features.setup.template import restore_task_file
    from loopty.git.folders import GitFolders
    from loopty.taskfile import read

    files = EvolvedFiles.find(program, evaluator)
    files.task(config)  # refused before anything is written
    is_made = files.make_repository()
    if is_made:
        say_paragraph(
            f"there is no git repository: made one in {files.folder}/.git, which you may remove afterwards"
        )
    top = GitFolders.find(files.folder).top
    peer = task_in(files, top, config and config.resolve())
    os.chdir(top)
    say_paragraph(peer.sentence)
    if files.is_new:
        say_paragraph(f"{files.program} is empty: the search starts from nothing but the goal")
        peer = peer.from_nothing()
    draft = _with_choices(peer, iterations, goal, model, api_base)
    if files.is_new and not draft.statement:
        raise Misuse("an empty program needs a goal: say with --goal what it has to do")
    known = read.load(top) if Path(TASK_FILE).exists() and not force else None
    if known:
        _require_same(known, draft, model)
        if iterations:
            _set_attempts(top, iterations)
    else:
        if files.is_new:
            (files.folder / files.program).touch()
        former = Path(TASK_FILE).read_bytes() if Path(TASK_FILE).exists() else None
        try:
            _write_task(peer, draft, top, as_json, unsafe, is_checked=not files.is_new)
        except BaseException:  # Ctrl-C and failed checks, too: what was not checked is no task to resume
            restore_task_file(top, former)
            raise
    drive(quiet=quiet, as_json=as_json, unsafe=unsafe)


def _with_choices(
    peer: PeerTask, iterations: int | None, goal: str | None, model: str | None, api_base: str | None
) -> TaskDraft:
    """Return the task with what the user chose; a model of the config is a proposal only."""
    draft = replace(peer.draft, attempts=iterations or peer.draft.attempts, statement=goal or peer.draft.statement)
    if model:
        server = api_base or ("" if ":" in model else draft.api_base)
        return replace(draft, proposer="llm-code", model=model, api_base=server)
    if api_base:
        raise Misuse("--api-base needs the name of a model: --model NAME")
    wanted = f"; the config asks for {draft.model}" if draft.model else ""
    say_paragraph(f"no --model: random edits, a demonstration and a control{wanted}")
    return draft


def _require_same(known: Task, draft: TaskDraft, model: str | None) -> None:
    """Raise Misuse where the task file is of another task, or names another model."""
    known_command = str(known.benchmark.command)
    if known_command != draft.command and not known_command.startswith(f"{draft.command} --"):
        raise Misuse(f"{TASK_FILE} is of another task ({known_command}): --force writes it anew")
    if model and model not in (known.roles.evolver.model, *known.roles.evolver.models):
        raise Misuse(f"{TASK_FILE} names another model: change it there, under [roles.evolver]")


def _set_attempts(top: Path, attempts: int) -> None:
    """Let the newest run make so many attempts; before the first one the file says so."""
    from loopty.taskfile import read
    from loopty.taskfile.model_tables import user_config_models

    if here().context.history.runs:
        here().budget({"attempts": attempts})
        return
    text = re.sub(r"(?m)^attempts *=.*", f"attempts = {attempts}", (top / TASK_FILE).read_text("utf-8"), count=1)
    if read.parse(text, user_config_models(os.environ)).pools.attempts != attempts:
        raise Misuse(f"{TASK_FILE} has no plain line for its attempts: write attempts = {attempts} under [budget]")
    write_atomically(top, TASK_FILE, text.encode())


def _write_task(
    peer: PeerTask, draft: TaskDraft, top: Path, as_json: bool, unsafe: bool, is_checked: bool
) -> None:
    """Write the task file, once the evaluator has scored the program as it is."""
    from loopty.features.setup.draft_checks import DraftChecks, lock_init
    from loopty.features.setup.peers.finished_task import finished_task
    from loopty.features.setup.prover import CheckTime, TaskProver
    from loopty.features.setup.template import render_task_file
    from loopty.git.repository import Repository
    from loopty.taskfile import read
    from loopty.taskfile.model_tables import user_config_models
    from loopty.workspaces.state_folder import StateFolder

    read.parse(render_task_file(draft), user_config_models(os.environ))
    lock_init(StateFolder.of(Repository.open(top).folders))
    checks = DraftChecks(here, top, unsafe)
    if not is_checked:
        checks.write(replace(draft, stages=()))
        return
    by_hand = ["loopty", "init", "--yes", "--command", draft.command, *(f"--write={path}" for path in draft.write)]
    again, time = shlex.join(by_hand), CheckTime(_CHECK_SECONDS)
    option = "evaluator.timeout in --config" if peer.tool == "OpenEvolve" else ""
    prover = TaskProver(checks, say_paragraph, lambda _: False, time, again, proves=False, limit_option=option)
    proven = prover.prove_first([draft], frozenset(("timeout_seconds", "direction")))
    if proven.check.problem is not None:
        print_failed(proven, None, (shlex.join(["loopty", *sys.argv[1:]]), again), as_json)
        sys.exit(1)
    written, said = finished_task(peer, proven, lambda one: checks.run(one).result)
    checks.write(written)
    if said:
        say_paragraph(said)
    say(f"wrote {TASK_FILE}; `loopty init --force` proves that the score is about the program")
