"""The files of the benchmark: those that the task or its commands name, and what these load."""

from __future__ import annotations

import functools
import hashlib
import itertools
import shlex
from collections.abc import Sequence

from loopty.domain.access import is_clean_path
from loopty.domain.task import Task
from loopty.kit import globs
from loopty.workspaces.commit_files import CommitFiles
from loopty.workspaces.folders_above import folders_above
from loopty.workspaces.git_objects import REGULAR_FILES, TreeEntry
from loopty.workspaces.repository import Repository


class BenchmarkFiles:
    """Which files belong to the benchmark: no proposal may change them, and a digest names their state."""

    def __init__(self, repository: Repository, task: Task) -> None:
        self._repository = repository
        self._task = task
        self._named_in_command = frozenset(
            name for command in task.benchmark.commands for name in _paths_in_command(command)
        )
        self._named_in_gates = frozenset(name for gate in task.gates for name in _paths_in_command(gate.command))

    def includes(self, path: str) -> bool:
        """Whether the path is part of the benchmark: as the task says, else because its command names it.

        A path that the command names, and that `write` names as closely, is the candidate itself. A path that a
        gate names and that no proposal may write belongs to the benchmark, too. The held-out split of audits does
        not.
        """
        if globs.matches(path, self._task.audit.files):
            return False
        if _names_for_path(self._named_in_gates, path) and not globs.matches(path, self._task.access.write):
            return True
        if self._task.benchmark.files:
            return globs.matches(path, self._task.benchmark.files)
        names = _names_for_path(self._named_in_command, path)
        return bool(names) and not any(
            globs.matches(path, [pattern]) and len(globs.anchor(pattern)) >= len(names[0])
            for pattern in self._task.access.write
        )

    def includes_or_loads(self, path: str, commit: str) -> bool:
        """Whether the path is a file of the benchmark, or one that these files load."""
        return self.includes(path) or path in self._imports(commit)

    @functools.lru_cache(maxsize=16)  # noqa: B019 - one for each process
    def _imports(self, commit: str) -> frozenset[str]:
        """The visible files that the benchmark's own files load and no proposal may write.

        A task that names its files names all of them.
        """
        from loopty.workspaces.benchmark_imports import files_of_imports, module_files

        task = self._task
        if task.benchmark.files:
            return frozenset()
        paths = CommitFiles(self._repository, commit)

        def follows(path: str) -> bool:
            return (
                paths[path].mode in REGULAR_FILES
                and task.access.is_visible(path)
                and not globs.matches(path, (*task.access.write, *task.audit.files))
            )

        starts = [path for path, entry in self._files_by_name(commit).items() if entry.mode in REGULAR_FILES]
        commands = (*task.benchmark.commands, *(gate.command for gate in task.gates))
        modules = [name for command in commands for name in _modules_in_command(command)]
        named = {path for name in modules for path in module_files(name, ".", paths) if follows(path)}
        return frozenset(named) | files_of_imports(
            (*starts, *named), paths, lambda path: self._repository.text(commit, path), follows
        )

    def digest(self, commit: str) -> str:
        """A digest of the benchmark's files: when it changes, old results are no longer comparable."""
        lines = [f"{path} {entry.mode} {entry.blob}" for path, entry in self.files(commit).items()]
        return hashlib.sha256("\n".join(sorted(lines)).encode(errors="surrogateescape")).hexdigest()

    def has_any(self, commit: str) -> bool:
        """Whether any file is known to be part of the benchmark, and so protected from proposals."""
        return bool(self.files(commit))

    def files(self, commit: str) -> dict[str, TreeEntry]:
        """The benchmark's own files, and those that they load."""
        imports = self._repository.entries(commit, sorted(self._imports(commit)))
        return {**self._files_by_name(commit), **imports}

    def _files_by_name(self, commit: str) -> dict[str, TreeEntry]:
        files = self._task.benchmark.files
        directories = globs.anchors(files) if files else tuple(sorted(self._named_in_command))
        everywhere = files and not directories
        directories = () if everywhere else (*directories, *sorted(self._named_in_gates))
        listing = self._repository.files(commit, directories) if directories or everywhere else {}
        return {path: entry for path, entry in listing.items() if self.includes(path)}


def _names_for_path(names: frozenset[str], path: str) -> list[str]:
    """The names that cover this path: its own and those of the directories above it, the closest first."""
    return [name for name in (path, *folders_above(path)) if name in names] if names else []


def _paths_in_command(command: str | tuple[str, ...]) -> frozenset[str]:
    """The words of the command that may be files of the repository."""
    words = _shell_words(command) if isinstance(command, str) else command
    return frozenset(path for word in words if is_clean_path(path := word.removeprefix("./")))


def _modules_in_command(command: str | tuple[str, ...]) -> list[str]:
    """The modules that the command runs with `python -m`."""
    words = _shell_words(command) if isinstance(command, str) else command
    pairs = itertools.pairwise(words)
    return [name for option, name in pairs if option == "-m" and name.replace(".", "").isidentifier()]


def _shell_words(line: str) -> Sequence[str]:
    try:
        return shlex.split(line)
    except ValueError:  # a shell line that only the shell can read
        return line.split()
