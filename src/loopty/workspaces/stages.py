"""Stages: the folders and mounts of a trial, which hold the node's files, its input and its output."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from loopty.domain.ids import NodeId
from loopty.domain.launch import Mount, SandboxError
from loopty.domain.task import Rig
from loopty.domain.trial import Pool
from loopty.engine.protocols import Stage, Trial
from loopty.git.objects import PathChange, TreeEntry
from loopty.git.repository import Repository
from loopty.kit.records import replace
from loopty.kit.safe_folder import SafeFolder, UnsafePath, keep_open
from loopty.record.history import History
from loopty.record.trials import Trials, trial_token
from loopty.workspaces.bytecode import SDK_FOLDER, Bytecode, BytecodeSources, files_in_limits
from loopty.workspaces.exports import SealedExports
from loopty.workspaces.node_files import NodeFiles
from loopty.workspaces.overlay import overlay_mounts
from loopty.workspaces.rebuildable_folders import BuildCaches, RebuildableFolders
from loopty.workspaces.seals import HostPaths, Seal, Signature
from loopty.workspaces.state_folder import StateFolder

TREE = "/loopty/tree"
BENCHMARK = "/loopty/benchmark"
INBOX = "/loopty/in"
OUTBOX = "/loopty/out"

_INSIDE = ("traces", "checkpoint", "artifacts")
"""The folders in an outbox that a benchmark fills."""
_IN_USE: set[str] = set()
"""The names of the folders that this process uses now: one before it may have had the same pid."""


def results_folder(state: StateFolder, trial: Trial) -> SafeFolder:
    """Return where a trial's files are kept: the node's folder for a search trial, a folder in it for others.

    Audits are kept separately. Of a proposal's tune trials only the newest is kept.
    """
    if trial.pool is Pool.AUDIT:
        return state.audit_folder(trial.node.id, trial.number)
    folder = state.node_folder(trial.node.id)
    if trial.pool is Pool.CHECK:
        return folder.below("checks", time.strftime("%Y%m%dT%H%M%S"))
    if trial.pool is Pool.TUNE:
        return folder.below("tune")
    return folder if trial.pool.rules.searches else folder.below(f"{trial.pool}-{trial.number}")


class Stages:
    """Makes the stage of each trial."""

    def __init__(
        self,
        repository: Repository,
        state: StateFolder,
        rig: Rig,
        files: NodeFiles,
        trial_owner: tuple[int, int] | None,
        environments: Sequence[str] = (),
        machine: str = "",
        sdk: Mount | None = None,
        bytecode: Bytecode | None = None,
        folds: bool = True,
        hides_all: bool = False,
        with_programs: bool = True,
    ) -> None:
        """`environments` are folders of the repository that git ignores and every trial sees, read-only.

        `machine` is its fingerprint, `sdk` shows the SDK to trials; `bytecode` is None where no interpreter is
        known that could compile. Without `folds`, all that a trial leaves is in its folder. `hides_all`: the tree
        has no hidden file, not even the benchmark's, because it runs what a proposer asks for; without
        `with_programs` it has no program of the benchmark either.
        """
        self._repository = repository
        self._state = state
        self._rig = rig
        self._files = files
        self._trial_owner = trial_owner
        self._trial_user = trial_owner[0] if trial_owner else None
        self._preparation_lock = threading.Lock()  # the umask belongs to the process, and one export is enough
        self._mounts = HostPaths(state.top, (*rig.benchmark.mounts, *environments), "benchmark.mounts")
        self._data = HostPaths(state.top, rig.benchmark.data, "benchmark.data")
        self._caches = BuildCaches(state.caches, rig.benchmark.caches, machine, self._trial_user)
        self._sdk = sdk
        self._bytecode = bytecode
        self._folds = folds
        self._hides_all = hides_all
        self._with_programs = with_programs
        self._exports = SealedExports(repository, state, rig, files.benchmark, self._mounts, self._data)
        self._compiled: dict[str, SafeFolder] = {}
        """The byte code of the SDK and of frozen files, by commit."""
        self._to_compile: dict[str, BytecodeSources] = {}
        self._signatures_at_start: dict[SafeFolder, Signature] = {}
        """The benchmark's signature when a trial began, by the trial's folder."""

    @contextmanager
    def stage(self, trial: Trial) -> Iterator[Stage]:
        """Everything that the trial needs on disk. Nothing of it is left afterwards; results stay in the node's.

        Raises SandboxError when the benchmark has changed since it was frozen.
        """
        trial_folder = self._trial_folder(trial)
        results = results_folder(self._state, trial)
        if not self._folds_results(trial):
            results.make()
        kept = contextlib.ExitStack()
        try:
            with self._preparation_lock, _readable_for_trials():
                self._make_folder(trial_folder, json.dumps(dict(trial.node.params)).encode())
                kept.enter_context(keep_open(trial_folder))
                stage = self._prepare(trial, trial_folder, results)
            own, *data = self._exports.seals[trial.root.commit]
            signature = own.signature()
            if change := _find_change(own, signature, data):
                raise SandboxError(change)
            self._signatures_at_start[trial_folder] = signature
            yield stage
        finally:
            self._signatures_at_start.pop(trial_folder, None)
            kept.close()
            with self._preparation_lock, _readable_for_trials():
                _remove_folder(trial_folder)
            # What a trial of the search leaves is copied with the verdict, if the node is kept.
            if trial.pool not in (Pool.AUDIT, Pool.TUNE) and not trial.pool.rules.searches:
                self._copy_for_people(trial.node.id, results)

    def find_tampering(self, trial: Trial) -> str | None:
        """Say what changed in the benchmark of a staged trial, with the remedy, or return None."""
        if (seals := self._exports.seals.get(trial.root.commit)) is None:
            return None  # only its sources were shown so far
        own, *data = seals
        signature = own.signature()
        if change := _find_change(own, signature, data):
            return change
        if self._signatures_at_start.get(self._trial_folder(trial), signature) != signature:
            return f"the benchmark in {own.root} was changed and restored while the trial ran"
        return None

    def has_bytecode(self, trial: Trial) -> bool:
        """Say whether the frozen files of the trial's baseline have byte code, or can have none."""
        commit = trial.root.commit
        if self._bytecode is None or self._sdk is None or commit in self._compiled:
            return True
        with self._preparation_lock, _readable_for_trials():
            origin = self._exports.origin_of_frozen_files(commit)
            if (entry := self._bytecode.recall(origin)) is None:
                sources = self._bytecode.sources(self._exports.frozen_python_files(commit))
                if (entry := self._bytecode.find(sources, origin)) is None:
                    self._to_compile[commit] = sources
                    return False
            self._compiled[commit] = entry
            return True

    @contextmanager
    def stage_of_sources(self, trial: Trial) -> Iterator[Stage]:
        """Open a stage that shows the files to compile, and nothing else of the repository."""
        folder = self._trial_folder(trial)
        try:
            with self._preparation_lock, _readable_for_trials():
                self._make_folder(folder, b"{}")
                stage = self._prepare_sources(trial, folder)
            yield stage
        finally:
            with self._preparation_lock, _readable_for_trials():
                _remove_folder(folder)

    def _prepare_sources(self, trial: Trial, folder: SafeFolder) -> Stage:
        commit, top = trial.root.commit, self._benchmark_top
        sources = self._to_compile[commit]
        shown = self._exports.sources(commit, frozenset(sources.files), folder.below("sources"))
        self._to_compile[commit] = replace(sources, files=files_in_limits(shown, sources.files))
        inbox, outbox, boxes = self._boxes(folder)
        mounts = (*self._sdk_mounts(commit), Mount(shown.path_for_programs(), top), *self._mounts.mounts(top))
        return Stage((*mounts, *boxes), inbox, outbox, results_folder(self._state, trial))

    def files_to_compile(self, trial: Trial) -> Mapping[str, Sequence[str]]:
        """List the files that an open stage shows, by the folder in which a trial sees them."""
        if self._sdk is None or (sources := self._to_compile.get(trial.root.commit)) is None:
            return {}
        return {self._sdk.target: sources.sdk, self._benchmark_top: sources.files}

    def save_bytecode(self, trial: Trial, compiled: SafeFolder) -> None:
        """Keep what the compiler wrote for these files, and show it to the next trials of the run."""
        sources = self._to_compile[trial.root.commit]
        with self._preparation_lock, _readable_for_trials():
            if self._bytecode is not None and (entry := self._bytecode.save(sources, compiled)) is not None:
                self._compiled[trial.root.commit] = entry

    @property
    def _benchmark_top(self) -> str:
        return BENCHMARK if self._rig.benchmark.isolated else TREE

    def sweep(self, refresh: Callable[[], History]) -> None:
        """Remove what dead processes left of trials, exports and caches."""
        trials = self._state.trials
        for rebuildable in (self._state.exports, self._state.caches):
            RebuildableFolders(rebuildable).sweep()
        # List the folders first, then read the history: a trial is recorded before its directory is made.
        if not (folders := trials.names()):
            return
        running = {trial_token(run, name) for run in refresh().runs.values() for name in Trials.of(run).running}
        for name in folders:
            # A check is not recorded, but its process is alive; a trial may run where its process is not visible.
            pid, _, token = name.partition("-")
            is_alive = name in _IN_USE if pid == str(os.getpid()) else _is_alive(pid)
            if token not in running and not is_alive:
                trials.remove(name)

    def _copy_for_people(self, node: NodeId, results: SafeFolder) -> None:
        """Copy what a trial left into the working tree, at the same place below the node's folder."""
        inside = results.steps[len(self._state.node_folder(node).steps) :]
        try:
            results.copy_into(self._state.node_copy(node).below(*inside).make())
        except UnsafePath as error:
            raise SandboxError(str(error)) from None
        except OSError:
            # A copy that cannot be written must not cost the result. The verdict, written next to it, says why.
            return

    def _prepare(self, trial: Trial, trial_folder: SafeFolder, results: SafeFolder) -> Stage:
        inbox, outbox, boxes = self._boxes(trial_folder)
        sdk = self._sdk_mounts(trial.root.commit)
        tree = (*sdk, *self._tree_mounts(trial, trial_folder.below("tree")), *self._mounts.mounts(TREE))
        caches, root = trial_folder.below("caches"), trial.root.commit

        def fill() -> list[Mount]:
            return self._caches.mounts(root, caches, TREE, self._hand_over)

        save = (lambda: self._caches.save(root, caches)) if trial.node.id == trial.root.id else None

        def empty_outbox() -> None:
            self._prepare_again(lambda: self._empty(outbox))

        if not self._rig.benchmark.isolated:
            data = self._data.mounts(TREE)
            if self._hides_all:
                data = [mount for mount in data if not self._exports.hides_in(mount.target, TREE)]
            mounts = (*tree, *data, *fill(), *boxes)
            again = lambda: self._prepare_again(fill)  # noqa: E731
            keep = (
                functools.partial(self._files.keep_result, trial.node.id) if self._folds_results(trial) else None
            )
            return Stage(
                mounts=mounts,
                inbox=inbox,
                outbox=outbox,
                folder=results,
                candidate=(),
                empty_scratch=again,
                empty_outbox=empty_outbox,
                save_caches=save,
                keep=keep,
            )
        export = Mount(self._exports.benchmark(root, self._compiled.get(root)).path_for_programs(), BENCHMARK)
        benchmark = (*sdk, export, *self._mounts.mounts(BENCHMARK), *self._data.mounts(BENCHMARK), *boxes)
        area = trial_folder.below("scratch")
        candidate = (*tree, *self._scratch_mounts(area), *fill(), *(boxes[:1] if trial.node.params else ()))

        def empty() -> None:
            area.remove_all()
            self._scratch_mounts(area)
            fill()

        again = lambda: self._prepare_again(empty)  # noqa: E731
        return Stage(
            mounts=benchmark,
            inbox=inbox,
            outbox=outbox,
            folder=results,
            candidate=candidate,
            empty_scratch=again,
            empty_outbox=empty_outbox,
            save_caches=save,
        )

    def _make_folder(self, folder: SafeFolder, parameters: bytes) -> None:
        """Make the folder of a trial: an inbox with the parameters, and an outbox that the benchmark fills."""
        _IN_USE.add(folder.name)
        folder.remove_all()  # a process may have died before it recorded anything
        folder.below("in").write_files({"params.json": parameters})
        with folder.below("out").handle(make=True) as outbox:
            self._fill(outbox)

    def _empty(self, outbox: SafeFolder) -> None:
        """Leave nothing in an outbox but its folders, before the next launch of the same trial."""
        with outbox.handle() as handle:
            for name in os.listdir(handle):  # noqa: PTH208
                outbox.remove(name)
            self._fill(handle)

    def _fill(self, outbox: int) -> None:
        """Make the folders of an empty outbox, and let the user of the trials write to them."""
        for name in _INSIDE:
            os.mkdir(name, dir_fd=outbox)
            if self._trial_owner:
                os.chown(name, *self._trial_owner, dir_fd=outbox, follow_symlinks=False)
        if self._trial_owner:
            os.fchown(outbox, *self._trial_owner)

    def _boxes(self, trial_folder: SafeFolder) -> tuple[SafeFolder, SafeFolder, tuple[Mount, Mount]]:
        """Return the folders for files to and from a trial, and what shows them to it."""
        inbox = trial_folder.below("in")
        outbox = trial_folder.below("out").written_by(self._trial_user)
        # Made just now, step by step: nobody else can have put a link there.
        return inbox, outbox, (Mount(inbox.shown_path, INBOX), Mount(outbox.shown_path, OUTBOX, writable=True))

    def _folds_results(self, trial: Trial) -> bool:
        """Say whether a small result goes to where discarded nodes are kept: then most nodes need no folder."""
        return self._folds and trial.pool.rules.searches and not self._rig.benchmark.isolated

    def _prepare_again(self, prepare: Callable[[], object]) -> None:
        with self._preparation_lock, _readable_for_trials():
            prepare()

    def _trial_folder(self, trial: Trial) -> SafeFolder:
        # The candidate can read this path among its mounts, so it must not tell which trial it is.
        return self._state.trials.below(f"{os.getpid()}-{trial.token}")

    def _tree_mounts(self, trial: Trial, area: SafeFolder) -> list[Mount]:
        """Mount the node's files: the export of the run's baseline, with the node's changes as an overlay."""
        root, node = trial.root, trial.node
        compiled = None if self._hides_all else self._compiled.get(root.commit)  # of hidden files, too
        export = self._exports.tree(root.commit, compiled)
        hidden = self._hidden_changes(root.commit)
        if node.tree == root.tree and not hidden:
            return [Mount(export.path_for_programs(), TREE)]
        changes = hidden + [
            change
            for change in self._repository.changes(root.commit, node.commit)
            if self._exports.is_shown(change.path, root.commit)
        ]
        # Read-only, like the export itself: nothing changes a node's source after its commit.
        return overlay_mounts(export, changes, self._content, area, TREE)

    def _hidden_changes(self, commit: str) -> list[PathChange]:
        return self._exports.without_hidden(commit, self._with_programs) if self._hides_all else []

    def _sdk_mounts(self, commit: str) -> list[Mount]:
        """Mount the SDK, with its byte code if it is compiled."""
        if self._sdk is None or (compiled := self._compiled.get(commit)) is None:
            return [] if self._sdk is None else [self._sdk]
        try:
            return [Mount(compiled.below(SDK_FOLDER).path_for_programs(), self._sdk.target)]
        except FileNotFoundError:
            return [self._sdk]  # somebody has removed it

    def package_mounts(self, trial: Trial) -> tuple[Mount, ...]:
        """Mount packages for the benchmark, out of reach of candidates: the SDK, environments, mounts."""
        return (*self._sdk_mounts(trial.root.commit), *self._mounts.mounts(self._benchmark_top))

    def _content(self, entry: TreeEntry) -> bytes:
        # Not a checkout: a candidate may have written `.gitattributes`, and a blob passes no filter.
        return self._repository.blob(entry.blob)

    def _scratch_mounts(self, area: SafeFolder) -> list[Mount]:
        """Directories that the candidate's launches share; nested ones are made inside their parent."""
        mounts: dict[str, SafeFolder] = {}
        for path in sorted(os.path.normpath(scratch) for scratch in self._rig.benchmark.scratch):
            target = f"{TREE}/{path}"
            parent = next((mounted for mounted in mounts if target.startswith(f"{mounted}/")), None)
            if parent is None:
                mounts[target] = area.below(str(len(mounts))).written_by(self._trial_user).make()
                self._hand_over(mounts[target])
                continue
            folder = mounts[parent]
            for part in Path(target).relative_to(parent).parts:
                folder = folder.below(part)
                self._hand_over(folder.make())
        return [Mount(folder.path_for_programs(), target, writable=True) for target, folder in mounts.items()]

    def _hand_over(self, *folders: SafeFolder) -> None:
        if self._trial_owner:
            for folder in folders:
                with folder.handle() as descriptor:
                    os.fchown(descriptor, *self._trial_owner)


@contextmanager
def _readable_for_trials() -> Iterator[None]:
    """Set the umask so that the user of the trials can read all files made in this block."""
    before = os.umask(0o022)
    try:
        yield
    finally:
        os.umask(before)


def _find_change(own: Seal, signature: Signature, data: Sequence[Seal]) -> str | None:
    """Say what changed in a benchmark with this signature or in its data, with the remedy, or return None."""
    if name := own.first_change(signature):
        return f"the benchmark's {name} was changed: remove {own.root}, and it is rebuilt from the commit"
    for seal in data:
        if (name := seal.first_change()) is not None:
            path = seal.root / name
            return f"the benchmark's data {path} was changed: restore it, or start a new run with it"
    return None


def _remove_folder(folder: SafeFolder) -> None:
    folder.remove_all()
    _IN_USE.discard(folder.name)


def _is_alive(pid: str) -> bool:
    return Path("/proc", pid).exists()
