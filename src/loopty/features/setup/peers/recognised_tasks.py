"""The table of other tools: what recognises a folder of each, in the order in which they are tried."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from loopty.domain.errors import Misuse
from loopty.features.setup.peers.autoresearch import autoresearch_task, pi_autoresearch_task
from loopty.features.setup.peers.coral import coral_task
from loopty.features.setup.peers.gepa import gepa_task
from loopty.features.setup.peers.openevolve import openevolve_task
from loopty.features.setup.peers.others import aide_task, evo_task, harbor_task, optuna_task
from loopty.features.setup.peers.peer_task import PeerTask, TaskFolder
from loopty.features.setup.peers.shinka import shinka_task
from loopty.features.setup.proposal_text import in_folder
from loopty.kit.contents import write_atomically
from loopty.kit.records import replace

_ADAPTERS: tuple[Callable[[TaskFolder], PeerTask | None], ...] = (
    evo_task,
    openevolve_task,
    shinka_task,
    pi_autoresearch_task,
    autoresearch_task,
    coral_task,
    harbor_task,
    gepa_task,
    aide_task,
    optuna_task,
)


def recognised_task(folder: Path, files: Sequence[str]) -> PeerTask | None:
    """Recognise the task of another tool in a folder, of whose files the paths are given; None if it is none."""
    place = TaskFolder(folder, tuple(files))
    return next((task for adapter in _ADAPTERS if (task := adapter(place))), None)


def task_here(top: Path, files: Sequence[str], start: Path) -> PeerTask | None:
    """Recognise the task of the folder `start`; its draft is as the top of the repository has it."""
    top, start = top.resolve(), start.resolve()
    if start == top or not start.is_relative_to(top):
        return recognised_task(top, files)
    folder = start.relative_to(top).as_posix()
    inside = [path.removeprefix(f"{folder}/") for path in files if path.startswith(f"{folder}/")]
    found = recognised_task(start, inside)
    return found and below_top(found, folder)


def below_top(task: PeerTask, folder: str) -> PeerTask:
    """Return a task of a folder as it is from the top of its repository."""
    new_files = {f"{folder}/{name}": text for name, text in task.new_files.items()}
    form = task.isolation
    if form and form.draft:
        form = replace(form, draft=in_folder(form.draft, folder))
    return replace(task, draft=in_folder(task.draft, folder), new_files=new_files, isolation=form)


def write_new_files(top: Path, task: PeerTask) -> None:
    """Write the files that the task needs and the folder lacks. Raises Misuse where something is in the way."""
    paths = {top.resolve() / name: text for name, text in task.new_files.items()}
    for path in paths:
        # Names and links of a repository may be hostile: nothing is written elsewhere, nor over a file.
        if path.parent.resolve() != path.parent or path.parent.is_file() or os.path.lexists(path):
            raise Misuse(f"{path} is needed, and a link or a file is in its place: move that away")
    for path, text in paths.items():
        write_atomically(path.parent, path.name, text.encode())
