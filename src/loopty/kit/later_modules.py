"""Standard modules that are imported at their first use: others import them at once and seldom use them.

asyncio imports `ssl` for connections that a verb does not have, and `inspect` for messages: half of its own time.
"""

from __future__ import annotations

import sys
from threading import Lock
from types import ModuleType
from typing import Any


def import_later(*names: str) -> None:
    """Let the next import of these modules, and every other, be their first use, unless they are there already."""
    for name in names:
        if name not in sys.modules:
            sys.modules[name] = _LaterModule(name)


class _LaterModule(ModuleType):
    """Stands for a module until something of it is asked for; then it has all that the module has."""

    def __getattr__(self, name: str) -> Any:
        module = _import_now(self)
        self.__dict__.update(module.__dict__)
        return getattr(module, name)


_LOCK = Lock()
"""Of the table of modules; nothing is imported under it, because other threads import, too."""


def _import_now(stands_for: ModuleType) -> ModuleType:
    from importlib import import_module

    name = stands_for.__name__
    with _LOCK:
        if sys.modules.get(name) is stands_for:
            del sys.modules[name]
    return import_module(name)
