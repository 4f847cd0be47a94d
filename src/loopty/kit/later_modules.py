"""Standard modules that are imported at their first use: others import them at once and seldom use them.

asyncio imports `ssl` for connections that a verb does not have, and `inspect` for messages: half of its own time.
"""

from __future__ import annotations

import sys
from _thread import allocate_lock
from importlib import import_module

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType
    from typing import Any
else:
    ModuleType = type(sys)


def import_later(*names: str) -> None:
    """Let the next import of these modules, and every other, be their first use, unless they are there already."""
    for name in names:
        if name not in sys.modules:
            sys.modules[name] = _LaterModule(name)


def import_functions_later(package: str, module: str, *functions: str) -> None:
    """The same for a module that others import these functions from: the first call of one is its first use."""
    name = f"{package}.{module}"
    if name not in sys.modules:
        later = sys.modules[name] = _LaterModule(name, functions)
        setattr(import_module(package), module, later)


class _LaterModule(ModuleType):
    """Stands for a module until something of it is asked for; then it has all that the module has."""

    def __init__(self, name: str, functions: tuple[str, ...] = ()) -> None:
        super().__init__(name)
        self.__dict__.update((each, _later_function(self, each)) for each in functions)

    def __getattr__(self, name: str) -> Any:
        if name == "__path__":  # whoever imports something from a module asks whether it is a package
            raise AttributeError(name)
        module = _import_now(self)
        self.__dict__.update(module.__dict__)
        return getattr(module, name)


def _later_function(module: _LaterModule, name: str) -> Callable[..., Any]:
    return lambda *args, **kwargs: getattr(_import_now(module), name)(*args, **kwargs)


_LOCK = allocate_lock()
"""Of the table of modules; nothing is imported under it, because other threads import, too."""


def _import_now(stands_for: ModuleType) -> ModuleType:
    name = stands_for.__name__
    with _LOCK:
        if sys.modules.get(name) is stands_for:
            del sys.modules[name]
    return import_module(name)
