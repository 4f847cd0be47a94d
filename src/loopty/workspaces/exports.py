"""Exports: the visible files of a commit with its submodules, laid out once, frozen, and sealed with the
benchmark's own files.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath

from loopty.domain.access import is_clean_path
from loopty.domain.errors import Misuse
from loopty.domain.task import Rig
from loopty.git.folders import GitFolders
from loopty.git.objects import REGULAR_FILES, SUBMODULE, PathChange, TreeEntry
from loopty.git.repository import Repository
from loopty.kit import codec, paths
from loopty.kit.contents import sha256
from loopty.kit.records import Record
from loopty.kit.safe_folder import SafeFolder, UnsafePath
from loopty.workspaces.benchmark_files import BenchmarkFiles
from loopty.workspaces.bytecode import bytecode_of, copy_into_export, is_bytecode
from loopty.workspaces.rebuildable_folders import making_name
from loopty.workspaces.seals import HostPaths, Seal, current_seal, load_or_make_seal
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
        """Return the files of a commit that trials see; the benchmark's and byte code only if not isolated."""
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
        """Return the benchmark's own files of a commit with their byte code, and nothing else."""
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
        """Map a commit's Python files that the benchmark sees and no proposal may write to their digests.

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
        """Name the commit and all that decides which of its files these are, without a look at the files."""
        return codec.text([commit, self._rig, self._mounts.paths_inside])

    def sources(self, commit: str, names: frozenset[str], place: SafeFolder) -> SafeFolder:
        """Only these files of a commit, laid out below `place`."""
        return self._make_export(commit, names.__contains__, {}, "sources", None, place)

    def is_shown(self, path: str, commit: str) -> bool:
        """Say whether this file is in the tree of a trial."""
        # A commit's own byte code could hide what a candidate changes in the source beside it.
        if self._held_out.includes(path) or is_bytecode(path):
            return False
        is_own = self._benchmark.includes_or_loads(path, commit)
        if self._rig.benchmark.isolated and (is_own or self._data.includes(path)):
            return False
        return is_own or self._rig.access.is_visible(path)

    def without_hidden(self, commit: str, with_programs: bool) -> list[PathChange]:
        """List the changes that take hidden files, the benchmark's too, and keys out of the tree of a commit.

        Without programs, the tree has nothing by which the benchmark could run either.
        """
        return [
            PathChange(path, entry, None)
            for path, entry in self._repository.files(commit).items()
            if (
                self._rig.access.is_hidden_from_tries(path)
                or (not with_programs and self._benchmark.is_program(path))
            )
            and self.is_shown(path, commit)
        ]

    def hides_in(self, place: str, top: str) -> bool:
        """Say whether what is mounted here in the tree is hidden, or something in it."""
        access, path = self._rig.access, place.removeprefix(f"{top}/")
        return access.is_hidden(path) or any(paths.anchor(rule).startswith(f"{path}/") for rule in access.hidden)

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
            repository=self._repository,
            commit=commit,
            rules=rules,
            is_visible=is_shown,
            mount_points=points,
            exports=exports,
            covering_points=covering_points,
            read_only=read_only,
            bytecode=bytecode,
        )

    def _seal(self, commit: str, export: SafeFolder, files: Sequence[str] | None) -> None:
        """Seal the benchmark: its files in this export and its data on the host."""
        own = load_or_make_seal(export.path_for_programs(), files, self._state.seals.file(export.name))
        self.seals[commit] = (own, *map(current_seal, self._data.sources()))


def export_commit(
    repository: Repository,
    commit: str,
    rules: str,
    is_visible: Callable[[str], bool],
    mount_points: tuple[str, ...],
    exports: SafeFolder,
    covering_points: Mapping[str, bool] | None = None,
    read_only: bool = False,
    bytecode: SafeFolder | None = None,
) -> SafeFolder:
    """Make the directory of the export if it does not exist yet. Any number of processes may do so together.

    `rules` is a text of everything that decides what is visible, so that an existing export is found without
    looking at the files. `covering_points` are further mount points, which may cover files of the commit, and
    whether each is a directory. In a `read_only` export no file can be written; the modes are set before anybody
    sees the export, because even a change of mode would look like tampering to a running trial. `bytecode` is the
    byte code of its files.
    """
    submodules = list(submodules_of(repository, commit))
    points = [*mount_points, *(f"{point}:{is_folder}" for point, is_folder in (covering_points or {}).items())]
    # By its tree: each check of `init` makes a commit of its own, and most of them have the same files.
    parts = [repository.tree(commit), rules, *points, *(inner.path for inner in submodules)]
    parts += [bytecode.name] if bytecode else []
    key = sha256("\0".join(parts).encode()).hexdigest()[:24]
    final = exports.below(key)
    if final.exists():
        return final
    listing = repository.files(commit)
    visible = [path for path in listing if is_visible(path)]
    building = exports.below(making_name(key)).make()
    try:
        # Once for all trials: with 50,000 files a working tree for each would take ten seconds.
        repository.check_out(commit, visible, building.path_for_programs())
        for submodule in submodules:
            # From its objects: a checkout would run the submodule's own filters.
            write_submodule(submodule, is_visible, building)
        for point in mount_points:
            if any(_is_file(listing, ancestor) for ancestor in (point, *map(str, PurePosixPath(point).parents))):
                raise Misuse(
                    f"{point} must be a directory of the trial (scratch, mounts), but the commit has a file there"
                )
            _make_mount_point(building, point, is_folder=True)
        for point, is_folder in (covering_points or {}).items():
            _make_mount_point(building, point, is_folder)
        if bytecode:
            copy_into_export(bytecode, building)
        _set_one_time(building)
        if read_only:
            _make_read_only(building)
        exports.rename(building.name, key)
    except OSError:
        if not final.exists():  # otherwise another process was faster, which is just as good
            raise
    finally:
        building.remove_all()
    return final


def _is_file(listing: Mapping[str, TreeEntry], path: str) -> bool:
    return path in listing and listing[path].mode != SUBMODULE


def _set_one_time(root: SafeFolder) -> None:
    """Give every file the same time: git keeps none, and make would build anew what a release has as built.

    In a checkout `configure` may be younger or older than `configure.ac` by chance, and then wants autoconf.
    """
    now = time.time_ns()
    with root.handle() as top:
        for _, _, files, folder in os.fwalk(".", dir_fd=top):
            for name in files:
                os.utime(name, ns=(now, now), dir_fd=folder, follow_symlinks=False)


def _make_read_only(root: SafeFolder) -> None:
    """Make every file read-only; directories stay writable, so that the export can be removed."""
    with root.handle() as top:
        for _, _, files, folder in os.fwalk(".", dir_fd=top):
            for name in files:
                mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
                if not stat.S_ISLNK(mode):
                    os.chmod(name, mode & 0o7555, dir_fd=folder)


def _make_mount_point(root: SafeFolder, point: str, is_folder: bool) -> None:
    """Make a directory or an empty file at this path. Raises Misuse where the commit has a link on the way."""
    *above, name = PurePosixPath(point).parts
    try:
        folder = root.below(*above)
        if is_folder:
            folder.below(name).make()
        elif not folder.file(name).exists():
            folder.file(name).write(b"")
    except UnsafePath:
        raise Misuse(f"{point} must be mounted into the trial, but the commit has a link there") from None


# A submodule may come from a stranger, and so may its configuration. So nothing of it runs: objects are read, no
# filter is applied, and nothing is fetched. Its git directory must lie in the repository.


_LINK = "120000"
_DEEPEST = 8
_LARGEST_POINTER = 4096


class CheckedOutSubmodule(Record):
    """A submodule that is checked out, at the commit that its parent records."""

    path: str
    """From the top of the outermost repository."""
    commit: str
    repository: Repository


def submodules_of(repository: Repository, commit: str, depth: int = 0) -> Iterator[CheckedOutSubmodule]:
    """Yield a commit's checked-out submodules, with those inside them; the others stay empty folders."""
    if depth > _DEEPEST or not repository.entries(commit, [".gitmodules"]):
        return
    for path, entry in repository.files(commit).items():
        if entry.mode != SUBMODULE or not is_clean_path(path):
            continue
        if (folders := _folders(repository, path)) is None:
            continue
        inner = Repository(folders)
        if not inner.has_commit(entry.blob):
            raise Misuse(
                f"the submodule {path} does not have its recorded commit {entry.blob[:12]}: run "
                f"`git submodule update --init --recursive`"
            )
        yield CheckedOutSubmodule(path, entry.blob, inner)
        for deeper in submodules_of(inner, entry.blob, depth + 1):
            yield CheckedOutSubmodule(f"{path}/{deeper.path}", deeper.commit, deeper.repository)


def write_submodule(submodule: CheckedOutSubmodule, is_visible: Callable[[str], bool], into: SafeFolder) -> None:
    """Write the visible files of a submodule below the folder of an export."""
    repository = submodule.repository
    for path, entry in repository.files(submodule.commit).items():
        whole = f"{submodule.path}/{path}"
        if not is_clean_path(path) or not is_visible(whole):
            continue
        *above, name = whole.split("/")
        folder = into.below(*above).make()
        if entry.mode == SUBMODULE:
            folder.below(name).make()
        elif entry.mode == _LINK:
            with folder.handle() as descriptor:
                os.symlink(repository.blob(entry.blob), name, dir_fd=descriptor)
        elif entry.mode in REGULAR_FILES:
            with os.fdopen(folder.file(name).open(os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as file:
                os.fchmod(file.fileno(), 0o755 if entry.mode == REGULAR_FILES[1] else 0o644)
                file.write(repository.blob(entry.blob))


def _folders(repository: Repository, path: str) -> GitFolders | None:
    """Find where a submodule is; None if it is not checked out. Raises Misuse for a git directory elsewhere."""
    top = repository.top / path
    git_dir = top / ".git"
    try:
        if git_dir.is_file():
            with git_dir.open("rb") as file:
                pointer = os.fsdecode(file.read(_LARGEST_POINTER)).removeprefix("gitdir:").strip()
            git_dir = top / pointer
        real = git_dir.resolve()
        if not (real / "HEAD").is_file():
            return None
    except (OSError, ValueError):
        return None
    inside = (repository.folders.common_dir.resolve(), Path(repository.top).resolve())
    if not any(real.is_relative_to(folder) for folder in inside):
        raise Misuse(
            f"the git directory of the submodule {path} is {real}, outside the repository: move it inside with "
            f"`git submodule absorbgitdirs`, or remove {path}/.git"
        )
    return GitFolders(top, real, real)
