"""The packages that Python files import when they are loaded, found in their text, without running anything."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterable, Iterator
from pathlib import PurePosixPath

Imports = tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...]
"""Modules, each with the names that are imported from it, and with those that are used as its attributes."""

_MODULE_ENDS = (".py", ".so", ".pyc", ".pyd")


def package_imports(texts: Iterable[tuple[str, str]]) -> Imports:
    """What files import that are given by the package in which they are, or an empty text, and their text.

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
    """The names under which files of a repository can be imported, from any folder that is no package itself."""
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
    """The statements of a file, and those inside `try` and `with`, which run as well."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.Try | ast.With):
            yield from _statements(statement.body)


def _attributes_by_name(tree: ast.AST) -> dict[str, dict[str, None]]:
    """The attributes that are looked up on each plain name of a file."""
    found: dict[str, dict[str, None]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            found.setdefault(node.value.id, {})[node.attr] = None
    return found
