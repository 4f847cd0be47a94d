"""Imports modules with fewer questions to the file system and fewer steps, for verbs that import three hundred.

Python looks for each module in several forms and places, builds the names of its files with general functions,
and holds a lock of each module meanwhile: that takes twice as long as what is done here. Only modules of one
package and of the standard library are imported here, and only while there is one thread; all others, and those
without valid byte code, are left to Python.
"""

from __future__ import annotations

import _thread
import marshal
import os
import sys
from collections.abc import Callable
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import MAGIC_NUMBER
from types import CodeType, ModuleType
from typing import Any

_ENDING = f".{sys.implementation.cache_tag}.pyc"
_HEADER_BYTES = 16
_CHECKED_BY_TIME = bytes(4)
_LARGEST = 0xFFFFFFFF
_LEFT_TO_PYTHON = frozenset(("distutils", "importlib", *sys.builtin_module_names))
"""Of the standard library: parts of it are frozen, or stand in for others."""


def import_quickly(package: ModuleType) -> None:
    """Let the modules of this package and of the standard library be imported here."""
    # Every import of a module that is not there yet comes by here.
    python: Any = sys.modules["_frozen_importlib"]
    python._find_and_load = _QuickImport(package.__name__, python._find_and_load).find_and_load


class _QuickImport:
    def __init__(self, package: str, ordinary: Callable[[str, Any], ModuleType]) -> None:
        self._ordinary = ordinary
        self._tops = (sys.stdlib_module_names | {package}) - _LEFT_TO_PYTHON
        self._standard = os.path.dirname(os.__file__)  # noqa: PTH120

    def find_and_load(self, name: str, import_module: Callable[[str], object]) -> ModuleType:
        """The module, which is imported if it is not there."""
        # Another thread may be in the middle of an import, and only Python's own way waits for it.
        if name.partition(".")[0] not in self._tops or name in sys.modules or _thread._count():
            return self._ordinary(name, import_module)
        parent, _, last = name.rpartition(".")
        folder = self._standard
        if parent:
            if parent not in sys.modules:
                import_module(parent)
                if name in sys.modules:
                    return sys.modules[name]
            places = getattr(sys.modules[parent], "__path__", None)
            if not places:
                return self._ordinary(name, import_module)
            folder = places[0]
        found = _module_and_code(name, parent, folder, last)
        if found is None:
            return self._ordinary(name, import_module)
        module = _execute(name, *found)
        if parent:
            setattr(sys.modules[parent], last, module)
        return module


def _module_and_code(name: str, parent: str, folder: str, last: str) -> tuple[ModuleType, CodeType] | None:
    """A new module with all that Python sets in it, and what is to be executed in it."""
    source, cached = f"{folder}/{last}.py", f"{folder}/__pycache__/{last}{_ENDING}"
    code = _valid_code(source, cached)
    is_package = code is None
    if is_package:
        folder = f"{folder}/{last}"
        source, cached = f"{folder}/__init__.py", f"{folder}/__pycache__/__init__{_ENDING}"
        code = _valid_code(source, cached)
    if code is None:
        return None
    loader = SourceFileLoader(name, source)
    spec = ModuleSpec(name, loader, origin=source, is_package=is_package)
    spec.has_location, spec.cached = True, cached
    module = ModuleType(name)
    module.__dict__.update(
        __loader__=loader,
        __package__=name if is_package else parent,
        __spec__=spec,
        __file__=source,
        __cached__=cached,
    )
    if is_package:
        spec.submodule_search_locations = module.__dict__["__path__"] = [folder]
    return module, code


def _execute(name: str, module: ModuleType, code: CodeType) -> ModuleType:
    """Execute the code in the module; returns what is to stand for it, which may be another one."""
    spec: Any = module.__spec__
    spec._initializing = True  # then an import in a circle says what it is
    sys.modules[name] = module
    try:
        exec(code, module.__dict__)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    finally:
        spec._initializing = False
    return sys.modules[name]


def _valid_code(source: str, cached: str) -> CodeType | None:
    """The byte code of this source, where it is there and of this text; by the same rule as Python's."""
    try:
        status = os.stat(source)  # noqa: PTH116
        with open(cached, "rb", buffering=0) as file:  # noqa: PTH123
            content = file.read()
    except OSError:
        return None
    figures = (int(status.st_mtime), status.st_size)
    of_source = b"".join((figure & _LARGEST).to_bytes(4, "little") for figure in figures)
    if content[:_HEADER_BYTES] != MAGIC_NUMBER + _CHECKED_BY_TIME + of_source:
        return None
    code: CodeType = marshal.loads(memoryview(content)[_HEADER_BYTES:])
    return code
