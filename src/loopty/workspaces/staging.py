"""A trial's place on disk: its view of the node's files, what it is told, and where it answers."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from loopty.core.errors import Misuse
from loopty.core.history import History
from loopty.core.launch import Mount
from loopty.core.outcome import Pool
from loopty.core.parts import Stage, Trial
from loopty.core.records import trial_parts
from loopty.core.task import Task
from loopty.kit import codec
from loopty.workspaces.export import exported
from loopty.workspaces.files import Files
from loopty.workspaces.graft import grafted
from loopty.workspaces.removal import removed
from loopty.workspaces.repository import Entry, Repository
from loopty.workspaces.state import State

TREE = "/loopty/tree"
INBOX = "/loopty/in"
OUTBOX = "/loopty/out"


class Stages:
    """Makes the stage of each trial."""

    def __init__(
        self,
        repository: Repository,
        state: State,
        task: Task,
        files: Files,
        trial_owner: tuple[int, int] | None,
    ) -> None:
        self._repository = repository
        self._state = state
        self._task = task
        self._files = files
        self._trial_owner = trial_owner
        self._one_at_a_time = threading.Lock()  # the mask belongs to the process; and one export is enough
        self._exports: dict[str, Path] = {}

    @contextmanager
    def stage(self, trial: Trial) -> Iterator[Stage]:
        """Everything that the trial needs; its directory is gone afterwards, what is kept is in the node's."""
        place = self._place(trial)
        removed(place)  # left by a process that died before it recorded anything
        folder = self._folder(trial)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with self._one_at_a_time, _readable():
                stage = self._set(trial, place, folder)
            yield stage
        finally:
            removed(place)

    def sweep(self, refreshed: Callable[[], History]) -> None:
        """Remove what trials and exports of dead processes left behind."""
        for making in self._state.exports.glob("making-*"):
            if not _alive(making.name.split("-")[2]):
                removed(making)
        if not self._state.trials.is_dir():
            return
        # Look first, ask then: a trial is recorded before its directory is made.
        left = list(self._state.trials.iterdir())
        flying = {
            self._state.trial(*trial_parts(name)).name for run in refreshed().runs.values() for name in run.flights
        }
        for place in left:
            if place.name not in flying and not _checking(place.name):
                removed(place)

    def _set(self, trial: Trial, place: Path, folder: Path) -> Stage:
        inbox, outbox = place / "in", place / "out"
        inbox.mkdir(parents=True)
        (inbox / "params.json").write_text(json.dumps(dict(trial.node.params)))
        (outbox / "traces").mkdir(parents=True)
        (outbox / "checkpoint").mkdir()
        self._hand_over(outbox, outbox / "traces", outbox / "checkpoint")
        tree = self._tree(trial, place / "tree")
        mounts = (*tree, *self._host_mounts(), Mount(inbox, INBOX), Mount(outbox, OUTBOX, writable=True))
        return Stage(mounts, inbox, outbox, folder)

    def _place(self, trial: Trial) -> Path:
        if trial.pool is Pool.CHECK:
            return self._state.trials / f"check-{os.getpid()}-{trial.node.id.name}"
        return self._state.trial(trial.node.id, trial.number)

    def _folder(self, trial: Trial) -> Path:
        """The node's folder for the trial that decides; one inside it for those that only look."""
        folder = self._state.node(trial.node.id)
        if trial.pool is Pool.CHECK:
            return folder / "checks" / time.strftime("%Y%m%dT%H%M%S")
        return folder / f"replay-{trial.number}" if trial.pool is Pool.REPLAY else folder

    def _tree(self, trial: Trial, area: Path) -> list[Mount]:
        """The node's files: the frozen export of the run's baseline, with the node's changes over it."""
        root, node = trial.root, trial.node
        export = self._export(root.commit)
        if node.tree == root.tree:
            return [Mount(export, TREE)]
        changes = [
            change for change in self._repository.changes(root.commit, node.commit) if self._shown(change.path)
        ]
        return grafted(export, changes, self._content, area, TREE)

    def _export(self, commit: str) -> Path:
        if commit not in self._exports:
            points = tuple(sorted({*self._task.benchmark.scratch, *self._mounted_inside()}))
            rules = codec.text([self._task.access, self._task.benchmark.files, self._task.benchmark.command])
            self._exports[commit] = exported(
                self._repository, commit, rules, self._shown, points, self._state.exports
            )
        return self._exports[commit]

    def _shown(self, path: str) -> bool:
        return self._files.of_benchmark(path) or self._task.access.visible(path)

    def _content(self, entry: Entry) -> bytes:
        return self._repository.blob(entry.blob)

    def _mounted_inside(self) -> list[str]:
        """The host paths named from the repository's top: they appear at the same place in the tree."""
        return [path for path in self._mounted() if not path.startswith(("/", "../"))]

    def _mounted_outside(self) -> list[Path]:
        """The other host paths: they appear where they are on the host."""
        outside = (path for path in self._mounted() if path.startswith(("/", "../")))
        return [Path(os.path.normpath(self._state.top / path)) for path in outside]

    def _mounted(self) -> list[str]:
        return [os.path.normpath(Path(mount).expanduser()) for mount in self._task.benchmark.mounts]

    def _host_mounts(self) -> list[Mount]:
        top = self._state.top
        inside = [Mount((top / path).resolve(), f"{TREE}/{path}") for path in self._mounted_inside()]
        outside = [Mount(path.resolve(), str(path)) for path in self._mounted_outside()]
        for mount in (*inside, *outside):
            if not mount.source.exists():
                raise Misuse(f"benchmark.mounts names {mount.source}, which is not there")
        return [*inside, *outside]

    def _hand_over(self, *folders: Path) -> None:
        if self._trial_owner:
            for folder in folders:
                os.chown(folder, *self._trial_owner)


@contextmanager
def _readable() -> Iterator[None]:
    """What is made meanwhile can be read by the user that trials run as, whatever our own mask is."""
    before = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(before)


def _checking(name: str) -> bool:
    """Whether this is the directory of a wiring check whose process still lives."""
    return name.startswith("check-") and _alive(name.split("-")[1])


def _alive(pid: str) -> bool:
    return Path("/proc", pid).exists()
