"""What a warm process imports for a benchmark, and which modules of the repository it must leave alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path, PurePosixPath

from loopty.domain.access import is_clean_path
from loopty.workspaces.benchmark_imports import files_of_imports, module_files
from loopty.workspaces.git_objects import REGULAR_FILES
from loopty.workspaces.node_files import NodeFiles
from loopty.workspaces.package_imports import Imports, module_names, package_imports
from loopty.workspaces.repository import Repository

_SDK = "loopty_sdk"
_MODULE_RUNNER = "runpy"
"""What every interpreter imports for `-m`."""
_OWN = "loopty"
"""A warm process has modules of loopty itself while it starts, so it shares none of that name."""


class WarmPackages:
    """Reads the frozen files of a benchmark for the packages that they import."""

    def __init__(self, repository: Repository, files: NodeFiles, sdk: Path, isolated: bool) -> None:
        """`sdk` is the folder of the SDK on the host."""
        self._repository = repository
        self._files = files
        self._sdk = sdk
        self._isolated = isolated

    def names(self, commit: str) -> frozenset[str]:
        """The names under which the benchmark can import files that it sees."""
        return module_names(
            path
            for path in self._repository.files(commit)
            if not self._isolated or self._files.benchmark.includes_or_loads(path, commit)
        )

    def imports(self, commit: str, arguments: Sequence[str]) -> Imports:
        """The packages that a command of the benchmark imports, without those that the repository has."""
        own = self.names(commit) | {_OWN}
        found = package_imports(self._texts(commit, arguments))
        if arguments[0] == "-m":
            found = ((_MODULE_RUNNER, (), ()), *found)
        return tuple(entry for entry in found if entry[0].partition(".")[0] not in own)

    def _texts(self, commit: str, arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
        """The files that a command loads, each with the package in which it is: the SDK's, or none."""
        paths = self._repository.files(commit)
        module = arguments[1] if arguments[0] == "-m" else ""
        if module.startswith(f"{_SDK}."):
            file = self._sdk / f"{module.removeprefix(f'{_SDK}.')}.py"
            if file.parent == self._sdk and file.is_file():
                yield _SDK, file.read_text(encoding="utf-8")

        def is_frozen(path: str) -> bool:
            return paths[path].mode in REGULAR_FILES and self._files.benchmark.includes_or_loads(path, commit)

        named = (word.removeprefix("./") for word in arguments if is_clean_path(word.removeprefix("./")))
        starts = [*named, *(module_files(module, ".", paths) if module else ())]
        starts = [path for path in starts if path in paths and is_frozen(path)]
        loaded = files_of_imports(starts, paths, lambda path: self._files.text(commit, path), is_frozen)
        for path in (*starts, *sorted(loaded)):
            if PurePosixPath(path).suffix == ".py":
                yield "", self._files.text(commit, path) or ""
