"""Imports the modules of a package with fewer questions to the file system, for verbs that import two hundred.

Python looks for each module in several forms, and builds the names of its files with general functions: that takes
twice as long as what is done here. A module without valid byte code is left to Python.
"""

from __future__ import annotations

import marshal
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import MAGIC_NUMBER
from types import CodeType, ModuleType

from loopty.kit.kept_code import KeptCode, ModuleCode

_ENDING = f".{sys.implementation.cache_tag}.pyc"
_HEADER_BYTES = 16
_CHECKED_BY_TIME = bytes(4)
_LARGEST = 0xFFFFFFFF


def import_quickly(package: ModuleType, kept: KeptCode) -> None:
    """Let the modules of this package be found here first: in the code that was kept, else in their own files."""
    sys.meta_path.insert(0, _Finder(package, kept))


class _Finder:
    def __init__(self, package: ModuleType, kept: KeptCode) -> None:
        self._prefix = f"{package.__name__}."
        self._kept = kept

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        if not name.startswith(self._prefix) or not path:
            return None
        found = self._kept.find(name)
        if found is None:
            found = _read_module(path[0], name.rpartition(".")[2])
            if found is None:
                return None
            self._kept.add(name, found)
        loader = _Loader(name, found.source, found.code)
        spec = ModuleSpec(name, loader, origin=found.source, is_package=found.is_package)
        spec.has_location = True
        spec.cached = found.compiled  # else Python works it out, which takes as long as reading the file
        if found.is_package:
            spec.submodule_search_locations = [found.source.rpartition("/")[0]]
        return spec


class _Loader(SourceFileLoader):
    """Executes code that was read already, once: to load the module again, Python makes another one."""

    def __init__(self, name: str, source: str, code: CodeType) -> None:
        super().__init__(name, source)
        self._code: list[CodeType] = [code]

    def exec_module(self, module: ModuleType) -> None:
        exec(self._code.pop(), module.__dict__)


def _read_module(folder: str, name: str) -> ModuleCode | None:
    """The module or the package of this name in a folder, where it has valid byte code."""
    module = _valid_code(f"{folder}/{name}.py", f"{folder}/__pycache__/{name}{_ENDING}", is_package=False)
    if module is not None:
        return module
    inner = f"{folder}/{name}"
    return _valid_code(f"{inner}/__init__.py", f"{inner}/__pycache__/__init__{_ENDING}", is_package=True)


def _valid_code(source: str, compiled: str, *, is_package: bool) -> ModuleCode | None:
    """The byte code of this source, where it is there and of this text; by the same rule as Python's."""
    try:
        status = os.stat(source)  # noqa: PTH116
        with open(compiled, "rb", buffering=0) as file:  # noqa: PTH123
            content = file.read()
    except OSError:
        return None
    figures = (int(status.st_mtime), status.st_size)
    of_source = b"".join((figure & _LARGEST).to_bytes(4, "little") for figure in figures)
    if content[:_HEADER_BYTES] != MAGIC_NUMBER + _CHECKED_BY_TIME + of_source:
        return None
    code: CodeType = marshal.loads(memoryview(content)[_HEADER_BYTES:])
    return ModuleCode(code, source, compiled, is_package, status.st_mtime_ns, status.st_size)
