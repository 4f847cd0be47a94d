"""The files of commits as trials see them, laid out once and sealed: the tree, and the benchmark's own files."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from loopty.domain.rig import Rig
from loopty.kit import codec, globs
from loopty.kit.safe_folder import SafeFolder
from loopty.workspaces.benchmark_files import BenchmarkFiles
from loopty.workspaces.bytecode import bytecode_of, is_bytecode
from loopty.workspaces.exports import export_commit
from loopty.workspaces.git_objects import REGULAR_FILES, PathChange
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

    def tree(self, commit: str, bytecode: SafeFolder | None) -> SafeFolder:
        """The files of a commit that trials see; the benchmark's and byte code only if it is not isolated."""
        isolated = self._rig.benchmark.isolated
        bytecode = None if isolated else bytecode
        known = commit if bytecode is None else f"{commit}, {bytecode.name}"
        if known not in self._exports:
            self._exports[known] = export = self._make_export(
                commit,
                lambda path: self.is_shown(path, commit),
                {} if isolated else self._data.mount_points(),
                "",
                bytecode,
            )
            if not isolated:
                files = list(self._benchmark.files(commit))
                self._seal(commit, export, [*files, *(bytecode_of(files, export) if bytecode else ())])
        return self._exports[known]

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

    def frozen_python_files(self, commit: str) -> dict[str, str]:
        """The Python files of a commit that the benchmark sees and no proposal may write, with their digests.

        Without what is on the host instead. Only these get byte code, so that no candidate starts later.
        """
        isolated, access = self._rig.benchmark.isolated, self._rig.access

        def is_frozen(path: str) -> bool:
            is_own = self._benchmark.includes_or_loads(path, commit)
            if isolated:
                return is_own and not self._held_out.includes(path)
            return self.is_shown(path, commit) and (is_own or not access.is_writable(path))

        return {
            path: entry.blob
            for path, entry in self._repository.files(commit).items()
            if path.endswith(".py")
            and entry.mode in REGULAR_FILES
            and not (self._data.includes(path) or self._mounts.includes(path))
            and is_frozen(path)
        }

    def origin_of_frozen_files(self, commit: str) -> str:
        """The commit and all that decides which of its files these are, without a look at the files."""
        return codec.text([commit, self._rig, self._mounts.paths_inside])

    def sources(self, commit: str, names: frozenset[str], place: SafeFolder) -> SafeFolder:
        """Only these files of a commit, laid out below `place`."""
        return self._make_export(commit, names.__contains__, {}, "sources", None, place)

    def is_shown(self, path: str, commit: str) -> bool:
        """Whether this file is in the tree of a trial."""
        # A commit's own byte code could hide what a candidate changes in the source beside it.
        if self._held_out.includes(path) or is_bytecode(path):
            return False
        is_own = self._benchmark.includes_or_loads(path, commit)
        if self._rig.benchmark.isolated and (is_own or self._data.includes(path)):
            return False
        return is_own or self._rig.access.is_visible(path)

    def without_hidden(self, commit: str) -> list[PathChange]:
        """What takes hidden files, the benchmark's too, and keys out of the tree of a commit."""
        return [
            PathChange(path, entry, None)
            for path, entry in self._repository.files(commit).items()
            if self._rig.access.is_hidden_from_tries(path) and self.is_shown(path, commit)
        ]

    def hides_in(self, place: str, top: str) -> bool:
        """Whether what is mounted here in the tree is hidden, or something in it."""
        access, path = self._rig.access, place.removeprefix(f"{top}/")
        return access.is_hidden(path) or any(globs.anchor(rule).startswith(f"{path}/") for rule in access.hidden)

    def _make_export(
        self,
        commit: str,
        is_shown: Callable[[str], bool],
        covering_points: Mapping[str, bool],
        part: str = "",
        bytecode: SafeFolder | None = None,
        place: SafeFolder | None = None,
    ) -> SafeFolder:
        rig, benchmark = self._rig, self._rig.benchmark
        points = tuple(sorted({*benchmark.scratch, *benchmark.caches, *self._mounts.paths_inside}))
        isolation = (benchmark.isolated, benchmark.data, part, "with imports, without byte code and keys")
        rules = codec.text([rig.access, rig.audit, benchmark.files, benchmark.commands, isolation])
        exports, read_only = place or self._state.exports, bool(part)
        return export_commit(
            self._repository, commit, rules, is_shown, points, exports, covering_points, read_only, bytecode
        )

    def _seal(self, commit: str, export: SafeFolder, files: Sequence[str] | None) -> None:
        """Seal the benchmark: its files in this export and its data on the host."""
        own = load_or_make_seal(export.path_for_programs(), files, self._state.seals.file(export.name))
        self.seals[commit] = (own, *map(current_seal, self._data.sources()))
