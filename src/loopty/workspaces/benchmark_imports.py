"""The files that a benchmark's own files load: Python imports, sourced shell files, local modules of JavaScript.

They are found in the text, without running anything. Not found: names that are computed, search paths that a
program or a variable sets, and what a build tool reads. A benchmark that does such things names its files itself.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator
from pathlib import PurePosixPath

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
    """The files among `paths` that the starts load, directly or through others.

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
    """The files among `paths` that the starts load themselves."""
    return frozenset(loaded for path in starts for loaded in _files_of(path, text(path) or "", paths))


def module_files(module: str, folder: str, paths: Container[str]) -> Iterator[str]:
    """The files of a module and of the packages around it, from one folder."""
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
    import warnings

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
    """A module from the folder of the script, or from the top, as with `python -m` and in tests."""
    for start in dict.fromkeys((folder, ".")):
        yield from module_files(module, start, paths)


def _path_from(folder: str, name: str) -> str:
    """The path of a name from a folder; an impossible one where it leads outside."""
    parts: list[str] = []
    for part in (*PurePosixPath(folder).parts, *PurePosixPath(name).parts):
        if part == "..":
            if not parts:
                return ""
            parts.pop()
        elif part != ".":
            parts.append(part)
    return "/".join(parts)
