"""Imports modules with fewer questions to the file system, for verbs that import four hundred.

Python looks for each module in several forms, and builds the names of its files with general functions: that takes
twice as long as what is done here. A module without valid byte code is left to Python.
"""

from __future__ import annotations

import _imp
import atexit
import marshal
import os
import sys
from _frozen_importlib import ModuleSpec
from _frozen_importlib_external import MAGIC_NUMBER, SourceFileLoader

from loopty.kit.kept_code import KeptCode, ModuleCode, times_and_size

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import CodeType, ModuleType

_STANDARD = f"{os.path.dirname(os.__file__)}/"  # noqa: PTH120
_ENDING = f".{sys.implementation.cache_tag}.pyc"
_HEADER_BYTES = 16
_CHECKED_BY_TIME = bytes(4)
_LARGEST = 0xFFFFFFFF


def import_quickly(package: ModuleType, kept: KeptCode) -> None:
    """Let modules be found here first: those of this package and of the standard library.

    Their code is that which was kept, else that in their own files, which is kept at the exit of Python.
    """
    finder = _Finder(package, kept, is_standard_first=_is_standard_first())
    sys.meta_path.insert(0, finder)
    atexit.register(finder.keep)


class _Finder:
    def __init__(self, package: ModuleType, kept: KeptCode, *, is_standard_first: bool) -> None:
        self._prefix = f"{package.__name__}."
        self._kept = kept
        self._is_standard_first = is_standard_first
        self._left_to_python: dict[str, None] = {}

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        is_own = name.startswith(self._prefix) and bool(path)
        if not is_own and not self._is_standard_first:
            return None
        found = self._kept.find(name)
        if found is None and is_own and path:
            found = _read_module(path[0], name.rpartition(".")[2])
            if found is not None:
                self._kept.add(name, found)
        if found is None:
            self._left_to_python[name] = None
            return None
        loader = _Loader(name, found.source, found.code)
        spec = ModuleSpec(name, loader, origin=found.source, is_package=found.is_package)
        spec.has_location = True
        spec.cached = found.compiled  # else Python works it out, which takes as long as reading the file
        if found.is_package:
            spec.submodule_search_locations = [found.source.rpartition("/")[0]]
        return spec

    def keep(self) -> None:
        """Keep the code of what was read, modules of the standard library included."""
        for name in self._left_to_python:
            spec = getattr(sys.modules.get(name), "__spec__", None)
            if spec is not None and type(spec.loader) is SourceFileLoader and _is_standard(spec):
                found = _valid_code(
                    spec.origin, spec.cached, is_package=spec.submodule_search_locations is not None
                )
                if found is not None:
                    self._kept.add(name, found)
        self._kept.save()


def _is_standard_first() -> bool:
    """Whether a module of the standard library is never found elsewhere, as it is when a script is run."""
    try:
        return "PYTHONPATH" not in os.environ and sys.path[0] not in ("", os.getcwd())  # noqa: PTH109
    except OSError:  # the current folder was removed
        return False


def _is_standard(spec: ModuleSpec) -> bool:
    origin = spec.origin or ""
    return origin.startswith(_STANDARD) and "site-packages" not in origin and spec.cached is not None


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
    _imp._fix_co_filename(code, source)  # type: ignore[attr-defined] # it may have been compiled elsewhere
    return ModuleCode(code, source, compiled, is_package, times_and_size(status))
