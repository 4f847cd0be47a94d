"""The files of the benchmark: those that the task or its commands name, and what these load."""

from __future__ import annotations

import functools
import hashlib
import itertools
import re
import shlex
import warnings
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from pathlib import PurePosixPath

from loopty.domain.access import is_clean_path
from loopty.domain.task import Task
from loopty.git.objects import DIRECTORY, REGULAR_FILES, TreeEntry
from loopty.git.repository import Repository
from loopty.kit.paths import anchor, anchors, matches


class BenchmarkFiles:
    """Which files belong to the benchmark: no proposal may change them, and a digest names their state."""

    def __init__(self, repository: Repository, task: Task) -> None:
        self._repository = repository
        self._task = task
        self._named_in_command = frozenset(
            name for command in task.benchmark.commands for name in _paths_in_command(command)
        )
        self._named_in_gates = frozenset(name for gate in task.gates for name in _paths_in_command(gate.command))
        self._modules = frozenset(
            f"{name.replace('.', '/')}{end}"
            for command in task.benchmark.commands
            for name in _modules_in_command(command)
            for end in (".py", "/__main__.py")
        )

    def includes(self, path: str) -> bool:
        """Say whether the path is part of the benchmark: by the task, or else because its command names it.

        A path that the command names, and that `write` names as closely, is the candidate itself. A path that a
        gate names and that no proposal may write belongs to the benchmark, too. The held-out split of audits does
        not.
        """
        if matches(path, self._task.audit.files):
            return False
        if _names_for_path(self._named_in_gates, path) and not matches(path, self._task.access.write):
            return True
        if self._task.benchmark.files:
            return matches(path, self._task.benchmark.files)
        names = _names_for_path(self._named_in_command, path)
        return bool(names) and not any(
            matches(path, [pattern]) and len(anchor(pattern)) >= len(names[0])
            for pattern in self._task.access.write
        )

    def is_program(self, path: str) -> bool:
        """Say whether the benchmark's command, but no gate, names this file: nothing is measured without it."""
        if path in self._named_in_gates or path not in self._named_in_command | self._modules:
            return False
        return self.includes(path) or not matches(path, self._task.access.write)

    def is_run_by(self, line: str, commit: str) -> bool:
        """Say whether a shell line measures: it has the benchmark's command, or names a program of it."""
        if self._task.benchmark.isolated:
            return False
        words = " ".join(line.split())
        commands = (one if isinstance(one, str) else shlex.join(one) for one in self._task.benchmark.commands)
        if any(" ".join(command.split()) in words for command in commands):
            return True
        names = sorted(self._named_in_command | self._modules)
        found = self._repository.entries(commit, names) if names else {}
        return any(
            self.is_program(path) and _mentions(line, path)
            for path, entry in found.items()
            if entry.mode in REGULAR_FILES
        )

    def includes_or_loads(self, path: str, commit: str) -> bool:
        """Say whether the path is a file of the benchmark, or one that these files load."""
        return self.includes(path) or path in self._imports(commit)

    @functools.lru_cache(maxsize=16)  # noqa: B019 - one for each process
    def _imports(self, commit: str) -> frozenset[str]:
        """Find the visible files that the benchmark's own files load and no proposal may write.

        A task that names its files names all of them.
        """
        task = self._task
        if task.benchmark.files:
            return frozenset()
        paths = CommitFiles(self._repository, commit)

        def follows(path: str) -> bool:
            return (
                paths[path].mode in REGULAR_FILES
                and task.access.is_visible(path)
                and not matches(path, (*task.access.write, *task.audit.files))
            )

        starts = [path for path, entry in self._files_by_name(commit).items() if entry.mode in REGULAR_FILES]
        commands = (*task.benchmark.commands, *(gate.command for gate in task.gates))
        modules = [name for command in commands for name in _modules_in_command(command)]
        named = {path for name in modules for path in module_files(name, ".", paths) if follows(path)}
        return frozenset(named) | files_of_imports(
            (*starts, *named), paths, lambda path: self._repository.text(commit, path), follows
        )

    def digest(self, commit: str) -> str:
        """Compute a digest of the benchmark's files: when it changes, old results are not comparable any more."""
        lines = [f"{path} {entry.mode} {entry.blob}" for path, entry in self.files(commit).items()]
        return hashlib.sha256("\n".join(sorted(lines)).encode(errors="surrogateescape")).hexdigest()

    def has_any(self, commit: str) -> bool:
        """Say whether any file is known to be part of the benchmark, and so protected from proposals."""
        return bool(self.files(commit))

    def files(self, commit: str) -> dict[str, TreeEntry]:
        """Return the benchmark's own files, and those that they load."""
        imports = self._repository.entries(commit, sorted(self._imports(commit)))
        return {**self._files_by_name(commit), **imports}

    def _files_by_name(self, commit: str) -> dict[str, TreeEntry]:
        files = self._task.benchmark.files
        directories = anchors(files) if files else tuple(sorted(self._named_in_command))
        everywhere = files and not directories
        directories = () if everywhere else (*directories, *sorted(self._named_in_gates))
        listing = self._repository.files(commit, directories) if directories or everywhere else {}
        return {path: entry for path, entry in listing.items() if self.includes(path)}


def _names_for_path(names: frozenset[str], path: str) -> list[str]:
    """List the names that cover this path: its own and those of the directories above it, the closest first."""
    return [name for name in (path, *folders_above(path)) if name in names] if names else []


def _paths_in_command(command: str | tuple[str, ...]) -> frozenset[str]:
    """Find the words of the command that may be files of the repository."""
    words = _shell_words(command) if isinstance(command, str) else command
    return frozenset(path for word in words if is_clean_path(path := word.removeprefix("./")))


def _mentions(line: str, path: str) -> bool:
    """Say whether a shell line names a file, by its path or as a module."""
    name = PurePosixPath(path)
    module = name.parent.name if name.name == "__main__.py" else name.stem
    loads = rf"|(?:-m|import|from)\s+[\w.]*\b{re.escape(module)}\b" if name.suffix == ".py" else ""
    return bool(re.search(rf"(?<![\w.-]){re.escape(name.name)}(?![\w-]){loads}", line))


def _modules_in_command(command: str | tuple[str, ...]) -> list[str]:
    """List the modules that the command runs with `python -m`."""
    words = _shell_words(command) if isinstance(command, str) else command
    pairs = itertools.pairwise(words)
    return [name for option, name in pairs if option == "-m" and name.replace(".", "").isidentifier()]


def _shell_words(line: str) -> Sequence[str]:
    try:
        return shlex.split(line)
    except ValueError:  # a shell line that only the shell can read
        return line.split()


# They are found in the text, without running anything. Not found: names that are computed, search paths that a
# program or a variable sets, and what a build tool reads. A benchmark that does such things names its files
# itself.


_MAX_FILES = 500
_SCRIPT = r"(?m)^\s*(?:source|\.)\s+[\"']?(?:\$\(dirname[^)]*\)/|\$\{?\w+\}?/)?([\w./-]+)"
_CALL = r"(?<![\w./-])\.?/?((?:[\w-]+/)*[\w-]+\.(?:sh|py|js|mjs|cjs))(?![\w./-])"
_JAVASCRIPT = r"""(?:require\(|import\(|from|import)\s*["'](\.{1,2}/[^"']+)["']"""
_JAVASCRIPT_ENDS = ("", ".js", ".mjs", ".cjs", ".ts", ".json", "/index.js", "/index.ts")

MayFollow = Callable[[str], bool]
ReadText = Callable[[str], str | None]


def files_of_imports(
    starts: Iterable[str], paths: Container[str], text: ReadText, follows: MayFollow
) -> frozenset[str]:
    """Find the files among `paths` that the starts load, directly or through others.

    `follows` says whether a file may belong to the benchmark; what others load is not looked at.
    """
    waiting, found = [path for path in starts if path in paths], set[str]()
    seen = set(waiting)
    while waiting and len(found) < _MAX_FILES:
        path = waiting.pop()
        for loaded in _files_of(path, text(path) or "", paths):
            if loaded not in seen and follows(loaded):
                seen.add(loaded)
                found.add(loaded)
                waiting.append(loaded)
    return frozenset(found)


def direct_imports(starts: Iterable[str], paths: Container[str], text: ReadText) -> frozenset[str]:
    """Find the files among `paths` that the starts load themselves."""
    return frozenset(loaded for path in starts for loaded in _files_of(path, text(path) or "", paths))


def module_files(module: str, folder: str, paths: Container[str]) -> Iterator[str]:
    """Yield the files of a module and of the packages around it, from one folder."""
    base = PurePosixPath(folder, *module.split("."))
    for place in (base, *base.parents):
        if str(place) in (".", folder) or not place.is_relative_to(folder):
            break
        yield from (name for name in (f"{place}.py", f"{place}/__init__.py") if name in paths)


def _files_of(path: str, text: str, paths: Container[str]) -> Iterator[str]:
    folder = str(PurePosixPath(path).parent)
    end = PurePosixPath(path).suffix
    if end == ".py":
        yield from _python_imports(path, folder, text, paths)
    elif end in (".js", ".mjs", ".cjs", ".ts"):
        for name in re.findall(_JAVASCRIPT, text):
            yield from (
                other for end in _JAVASCRIPT_ENDS if (other := _path_from(folder, f"{name}{end}")) in paths
            )
    elif end in (".sh", ".bash") or text.startswith(("#!/bin/sh", "#!/bin/bash", "#!/usr/bin/env")):
        for name in (*re.findall(_SCRIPT, text), *re.findall(_CALL, text)):
            yield from (other for start in (".", folder) if (other := _path_from(start, name)) in paths)


def _python_imports(path: str, folder: str, text: str, paths: Container[str]) -> Iterator[str]:
    import ast  # here, because reading verbs load this module

    if PurePosixPath(path).name.startswith(("test_", "bench_", "conftest")) or path.endswith("_test.py"):
        # pytest loads these by itself, from every folder above a test.
        above = [str(parent) for parent in PurePosixPath(path).parents]
        yield from (name for parent in above if (name := _path_from(parent, "conftest.py")) in paths)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _absolute(alias.name, folder, paths)
        elif isinstance(node, ast.ImportFrom) and node.level:
            start = str(PurePosixPath(path).parents[min(node.level, len(PurePosixPath(path).parents)) - 1])
            for alias in node.names:
                yield from module_files(".".join(filter(None, (node.module, alias.name))), start, paths)
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield from _absolute(f"{node.module}.{alias.name}", folder, paths)


def _absolute(module: str, folder: str, paths: Container[str]) -> Iterator[str]:
    """Yield a module from the folder of the script, or from the top, as with `python -m` and in tests."""
    for start in dict.fromkeys((folder, ".")):
        yield from module_files(module, start, paths)


def _path_from(folder: str, name: str) -> str:
    """Return the path of a name from a folder; an impossible one if it leads outside."""
    parts: list[str] = []
    for part in (*PurePosixPath(folder).parts, *PurePosixPath(name).parts):
        if part == "..":
            if not parts:
                return ""
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)


class CommitFiles:
    """Files, links and submodules by path; only the directories on the way to a path are read."""

    def __init__(self, repository: Repository, commit: str) -> None:
        self._repository = repository
        self._commit = commit

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str) and self._find(path) is not None

    def __getitem__(self, path: str) -> TreeEntry:
        entry = self._find(path)
        if entry is None:
            raise KeyError(path)
        return entry

    def _find(self, path: str) -> TreeEntry | None:
        entry = self._repository.entries(self._commit, [path]).get(path)
        return entry if entry and entry.mode != DIRECTORY else None


def folders_above(path: str) -> list[str]:
    """List the folders of this path, the closest first, without the top. The path is as git writes it."""
    folders = []
    while path := path.rpartition("/")[0]:
        folders.append(path)
    return folders
