"""The files of commits as trials see them, laid out once and sealed: the tree, and the benchmark's own files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from loopty.domain.rig import Rig
from loopty.kit import codec
from loopty.kit.safe_folder import SafeFolder
from loopty.workspaces.benchmark_files import BenchmarkFiles
from loopty.workspaces.exports import export_commit
from loopty.workspaces.host_paths import HostPaths
from loopty.workspaces.repository import Repository
from loopty.workspaces.seals import Seal, current_seal, load_or_make_seal
from loopty.workspaces.state_folder import StateFolder


class SealedExports:
    """The exports of one process. The benchmark in them and its data on the host are sealed when they are made."""

    def __init__(
        self,
        repository: Repository,
        state: StateFolder,
        rig: Rig,
        benchmark: BenchmarkFiles,
        mounts: HostPaths,
        data: HostPaths,
    ) -> None:
        self._repository = repository
        self._state = state
        self._rig = rig
        self._benchmark = benchmark
        self._mounts = mounts
        self._data = data
        self._held_out = HostPaths(state.top, rig.audit.data, "audit.data")
        self._exports: dict[str, SafeFolder] = {}
        self.seals: dict[str, tuple[Seal, ...]] = {}
        """Of the benchmark's own files, then of its data, by commit."""

    def tree(self, commit: str) -> SafeFolder:
        """The files of a commit that trials see; the benchmark's files only if it is not isolated."""
        if commit not in self._exports:
            isolated = self._rig.benchmark.isolated
            self._exports[commit] = self._make_export(
                commit, lambda path: self.is_shown(path, commit), {} if isolated else self._data.mount_points()
            )
            if not isolated:
                benchmark_files = [
                    path
                    for path in self._repository.files(commit)
                    if self._benchmark.includes_or_loads(path, commit)
                ]
                self._seal(commit, self._exports[commit], benchmark_files)
        return self._exports[commit]

    def benchmark(self, commit: str, bytecode: SafeFolder | None) -> SafeFolder:
        """The benchmark's own files of a commit with their byte code, and nothing else."""
        name = f"{commit}, the benchmark"
        known = name if bytecode is None else f"{name}, {bytecode.name}"
        if known not in self._exports:
            self._exports[known] = self._make_export(
                commit,
                lambda path: self._benchmark.includes_or_loads(path, commit),
                self._data.mount_points(),
                name,
                bytecode,
            )
            self._seal(commit, self._exports[known], None)
        return self._exports[known]

    def is_shown(self, path: str, commit: str) -> bool:
        """Whether this file is in the tree of a trial."""
        if self._held_out.includes(path):
            return False
        is_own = self._benchmark.includes_or_loads(path, commit)
        if self._rig.benchmark.isolated and (is_own or self._data.includes(path)):
            return False
        return is_own or self._rig.access.is_visible(path)

    def _make_export(
        self,
        commit: str,
        is_shown: Callable[[str], bool],
        covering_points: Mapping[str, bool],
        part: str = "",
        bytecode: SafeFolder | None = None,
    ) -> SafeFolder:
        rig, benchmark = self._rig, self._rig.benchmark
        points = tuple(sorted({*benchmark.scratch, *benchmark.caches, *self._mounts.paths_inside}))
        isolation = (benchmark.isolated, benchmark.data, part, "with imports")
        rules = codec.text([rig.access, rig.audit, benchmark.files, benchmark.commands, isolation])
        exports, read_only = self._state.exports, bool(part)
        return export_commit(
            self._repository, commit, rules, is_shown, points, exports, covering_points, read_only, bytecode
        )

    def _seal(self, commit: str, export: SafeFolder, files: Sequence[str] | None) -> None:
        """Seal the benchmark: its files in this export and its data on the host."""
        own = load_or_make_seal(export.path_for_programs(), files, self._state.seals.file(export.name))
        self.seals[commit] = (own, *map(current_seal, self._data.sources()))
