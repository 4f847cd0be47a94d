"""A trial's place on disk: its view of the node's files, what it is told, and where it answers."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from loopty.domain.launch import Mount, SandboxError
from loopty.domain.pool import Pool
from loopty.domain.rig import Rig
from loopty.engine.protocols import Stage, Trial
from loopty.kit import codec
from loopty.record.history import History
from loopty.record.trials import Trials, trial_parts
from loopty.workspaces.exports import export_commit
from loopty.workspaces.git_objects import TreeEntry
from loopty.workspaces.host_paths import HostPaths
from loopty.workspaces.node_files import NodeFiles
from loopty.workspaces.overlay import overlay_mounts
from loopty.workspaces.repository import Repository
from loopty.workspaces.seals import Seal, Signature, current_seal, load_or_make_seal
from loopty.workspaces.state_folder import StateFolder
from loopty.workspaces.tree_removal import remove_tree

TREE = "/loopty/tree"
BENCHMARK = "/loopty/benchmark"
INBOX = "/loopty/in"
OUTBOX = "/loopty/out"


def results_folder(state: StateFolder, trial: Trial) -> Path:
    """Where what a trial left is kept: the node's folder for the one that decides, inside it for those that look.

    Audits are apart.
    """
    if trial.pool is Pool.AUDIT:
        return state.audit_folder(trial.node.id, trial.number)
    folder = state.node_folder(trial.node.id)
    if trial.pool is Pool.CHECK:
        return folder / "checks" / time.strftime("%Y%m%dT%H%M%S")
    return folder if trial.pool.rules.searches else folder / f"{trial.pool}-{trial.number}"


class Stages:
    """Makes the stage of each trial."""

    def __init__(
        self,
        repository: Repository,
        state: StateFolder,
        rig: Rig,
        files: NodeFiles,
        trial_owner: tuple[int, int] | None,
    ) -> None:
        self._repository = repository
        self._state = state
        self._rig = rig
        self._files = files
        self._trial_owner = trial_owner
        self._preparation_lock = threading.Lock()  # the mask belongs to the process; and one export is enough
        self._mounts = HostPaths(state.top, rig.benchmark.mounts, "benchmark.mounts")
        self._data = HostPaths(state.top, rig.benchmark.data, "benchmark.data")
        self._held_out = HostPaths(state.top, rig.audit.data, "audit.data")
        self._exports: dict[str, Path] = {}
        self._seals: dict[str, tuple[Seal, ...]] = {}
        self._signatures_at_start: dict[Path, Signature] = {}
        """How the benchmark looked when a trial began, by the trial's place."""

    @contextmanager
    def stage(self, trial: Trial) -> Iterator[Stage]:
        """Everything that the trial needs; its directory is gone afterwards, what is kept is in the node's.

        Raises SandboxError when the benchmark is not what it was when it was frozen.
        """
        place = self._trial_folder(trial)
        remove_tree(place)  # left by a process that died before it recorded anything
        folder = results_folder(self._state, trial)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            with self._preparation_lock, _readable_for_trials():
                stage = self._prepare(trial, place, folder)
            if changed := self.find_tampering(trial):
                raise SandboxError(changed)
            self._signatures_at_start[place] = self._seals[trial.root.commit][0].signature()
            yield stage
        finally:
            self._signatures_at_start.pop(place, None)
            remove_tree(place)

    def find_tampering(self, trial: Trial) -> str | None:
        """What of the benchmark of a staged trial is not what it was, with the remedy, or None."""
        own, *data = self._seals[trial.root.commit]
        if name := own.first_change():
            return f"the benchmark's {name} was changed: remove {own.root}, it is made anew from the commit"
        if self._signatures_at_start.get(self._trial_folder(trial), own.signature()) != own.signature():
            return f"the benchmark in {own.root} was changed and put back while the trial ran"
        for seal in data:
            if (name := seal.first_change()) is not None:
                place = seal.root / name
                return f"the benchmark's data {place} was changed: put it back, or start a new run with it"
        return None

    def sweep(self, refreshed: Callable[[], History]) -> None:
        """Remove what trials and exports of dead processes left behind."""
        for making in self._state.exports.glob("making-*"):
            if not _is_alive(making.name.split("-")[2]):
                remove_tree(making)
        if not self._state.trials.is_dir():
            return
        # Look first, ask then: a trial is recorded before its directory is made.
        left = list(self._state.trials.iterdir())
        flying = {
            self._state.trial_folder(*trial_parts(name)).name
            for run in refreshed().runs.values()
            for name in Trials.of(run).running
        }
        for place in left:
            if place.name not in flying and not _is_live_check(place.name):
                remove_tree(place)

    def _prepare(self, trial: Trial, place: Path, folder: Path) -> Stage:
        inbox, outbox = place / "in", place / "out"
        inbox.mkdir(parents=True)
        (inbox / "params.json").write_text(json.dumps(dict(trial.node.params)))
        (outbox / "traces").mkdir(parents=True)
        (outbox / "checkpoint").mkdir()
        self._hand_over(outbox, outbox / "traces", outbox / "checkpoint")
        told = (Mount(inbox, INBOX), Mount(outbox, OUTBOX, writable=True))
        tree = (*self._tree_mounts(trial, place / "tree"), *self._mounts.mounts(TREE))
        if not self._rig.benchmark.isolated:
            return Stage((*tree, *self._data.mounts(TREE), *told), inbox, outbox, folder)
        frozen = Mount(self._benchmark_export(trial.root.commit), BENCHMARK)
        benchmark = (frozen, *self._mounts.mounts(BENCHMARK), *self._data.mounts(BENCHMARK), *told)
        return Stage(benchmark, inbox, outbox, folder, (*tree, *self._scratch_mounts(place / "scratch")))

    def _trial_folder(self, trial: Trial) -> Path:
        if trial.pool is Pool.CHECK:
            return self._state.trials / f"check-{os.getpid()}-{trial.node.id.name}"
        return self._state.trial_folder(trial.node.id, trial.number)

    def _tree_mounts(self, trial: Trial, area: Path) -> list[Mount]:
        """The node's files: the frozen export of the run's baseline, with the node's changes over it."""
        root, node = trial.root, trial.node
        export = self._tree_export(root.commit)
        if node.tree == root.tree:
            return [Mount(export, TREE)]
        changes = [
            change for change in self._repository.changes(root.commit, node.commit) if self._is_shown(change.path)
        ]
        return overlay_mounts(export, changes, self._content, area, TREE)

    def _tree_export(self, commit: str) -> Path:
        """What trials see of a commit; of the benchmark only where the candidate is not apart from it."""
        if commit not in self._exports:
            apart = self._rig.benchmark.isolated
            self._exports[commit] = self._make_export(
                commit, self._is_shown, {} if apart else self._data.mount_points()
            )
            if not apart:
                known = [path for path in self._repository.files(commit) if self._files.is_benchmark_file(path)]
                self._seal(commit, self._exports[commit], known)
        return self._exports[commit]

    def _benchmark_export(self, commit: str) -> Path:
        """The benchmark's own files of a commit, and nothing else."""
        name = f"{commit}, the benchmark"
        if name not in self._exports:
            self._exports[name] = self._make_export(
                commit, self._files.is_benchmark_file, self._data.mount_points(), name
            )
            self._seal(commit, self._exports[name], None)
        return self._exports[name]

    def _make_export(
        self, commit: str, shown: Callable[[str], bool], covered: Mapping[str, bool], part: str = ""
    ) -> Path:
        rig, benchmark = self._rig, self._rig.benchmark
        points = tuple(sorted({*benchmark.scratch, *self._mounts.paths_inside}))
        apart = (benchmark.isolated, benchmark.data, part)
        rules = codec.text([rig.access, rig.audit, benchmark.files, benchmark.command, apart])
        exports, protected = self._state.exports, bool(part)
        return export_commit(self._repository, commit, rules, shown, points, exports, covered, protected)

    def _seal(self, commit: str, place: Path, files: Sequence[str] | None) -> None:
        """Remember what the benchmark is made of: its files here, and its data on the host."""
        own = load_or_make_seal(place, files, self._state.folder / "seals" / place.name)
        self._seals[commit] = (own, *map(current_seal, self._data.sources()))

    def _is_shown(self, path: str) -> bool:
        """Whether the tree of a trial has this file."""
        if self._held_out.includes(path):
            return False
        if self._rig.benchmark.isolated and (self._files.is_benchmark_file(path) or self._data.includes(path)):
            return False
        return self._files.is_benchmark_file(path) or self._rig.access.is_visible(path)

    def _content(self, entry: TreeEntry) -> bytes:
        return self._repository.blob(entry.blob)

    def _scratch_mounts(self, area: Path) -> list[Mount]:
        """Directories that the candidate's launches share; those inside another are made in it."""
        mounts: list[Mount] = []
        for path in sorted(os.path.normpath(scratch) for scratch in self._rig.benchmark.scratch):
            above = next((mount for mount in mounts if f"{TREE}/{path}".startswith(f"{mount.target}/")), None)
            if above is None:
                mounts.append(Mount(area / str(len(mounts)), f"{TREE}/{path}", writable=True))
                mounts[-1].source.mkdir(parents=True)
                self._hand_over(mounts[-1].source)
                continue
            inside = above.source
            for part in Path(TREE, path).relative_to(above.target).parts:
                inside /= part
                inside.mkdir(exist_ok=True)
                self._hand_over(inside)
        return mounts

    def _hand_over(self, *folders: Path) -> None:
        if self._trial_owner:
            for folder in folders:
                os.chown(folder, *self._trial_owner)


@contextmanager
def _readable_for_trials() -> Iterator[None]:
    """What is made meanwhile can be read by the user that trials run as, whatever our own mask is."""
    before = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(before)


def _is_live_check(name: str) -> bool:
    """Whether this is the directory of a wiring check whose process still lives."""
    return name.startswith("check-") and _is_alive(name.split("-")[1])


def _is_alive(pid: str) -> bool:
    return Path("/proc", pid).exists()
