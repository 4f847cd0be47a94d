"""What a warm process imports for a benchmark, found in the text of its files, and which modules of the repository
it must leave alone.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from loopty.domain.access import is_clean_path
from loopty.git.objects import REGULAR_FILES
from loopty.git.repository import Repository
from loopty.workspaces.benchmark_files import files_of_imports, module_files
from loopty.workspaces.node_files import NodeFiles

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
        """List the names under which the benchmark can import files that it sees."""
        return module_names(
            path
            for path in self._repository.files(commit)
            if not self._isolated or self._files.benchmark.includes_or_loads(path, commit)
        )

    def imports(self, commit: str, arguments: Sequence[str]) -> Imports:
        """List the packages that a command of the benchmark imports, without those that the repository has."""
        own = self.names(commit) | {_OWN}
        found = package_imports(self._texts(commit, arguments))
        if arguments[0] == "-m":
            found = ((_MODULE_RUNNER, (), ()), *found)
        return tuple(entry for entry in found if entry[0].partition(".")[0] not in own)

    def _texts(self, commit: str, arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Yield the files that a command loads, each with the package in which it is: the SDK's, or none."""
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


Imports = tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]
"""Modules, each with the names that are imported from it, and with those that are used as its attributes."""

_MODULE_ENDS = (".py", ".so", ".pyc", ".pyd")


def package_imports(texts: Iterable[tuple[str, str]]) -> Imports:
    """Find what files import. Each is given by its package, or an empty text, and by its text.

    Only statements that run whenever the file is loaded, and none inside a condition: nothing may be imported that
    the files themselves would not import.
    """
    names: dict[str, dict[str, None]] = {}
    attributes: dict[str, dict[str, None]] = {}
    for package, text in texts:
        for module, imported, used in _imports_of(text, package):
            names.setdefault(module, {}).update(dict.fromkeys(imported))
            attributes.setdefault(module, {}).update(dict.fromkeys(used))
    return tuple((module, tuple(names[module]), tuple(attributes[module])) for module in names)


def module_names(paths: Iterable[str]) -> frozenset[str]:
    """List the names under which a repository's files can be imported, from any folder that is no package."""
    files = [PurePosixPath(path) for path in paths if path.endswith(_MODULE_ENDS)]
    packages = {path.parent for path in files if path.name == "__init__.py"}
    found = set()
    for path in files:
        if path.parent not in packages:
            found.add(path.name.partition(".")[0])
        # A folder can be imported, too, also one without `__init__.py`.
        found |= {folder.name for folder in (path.parent, *path.parent.parents) if folder.parent not in packages}
    return frozenset(found - {""})


def _imports_of(text: str, package: str) -> Iterator[tuple[str, Iterable[str], Iterable[str]]]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    used = _attributes_by_name(tree)
    for statement in _statements(tree.body):
        if isinstance(statement, ast.Import):
            for alias in statement.names:
                name = alias.asname or alias.name
                yield alias.name, (), used.get(name, ()) if "." not in name else ()
        elif isinstance(statement, ast.ImportFrom):
            module = ".".join(filter(None, (package if statement.level else "", statement.module)))
            if module and statement.level <= bool(package):
                yield module, [alias.name for alias in statement.names if alias.name != "*"], ()


def _statements(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """Yield the statements of a file, and those inside `try` and `with`, which run as well."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.Try | ast.With):
            yield from _statements(statement.body)


def _attributes_by_name(tree: ast.AST) -> dict[str, dict[str, None]]:
    """Map each plain name of a file to the attributes that are looked up on it."""
    found: dict[str, dict[str, None]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found.setdefault(node.value.id, {})[node.attr] = None
    return found
