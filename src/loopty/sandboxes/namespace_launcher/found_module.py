"""The module that all copies of a warm process run, found and read once.

A copy would look through folders, read the file and make its byte code, each time the same.
"""

# For Python 3.9 and newer.
from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec
    from types import CodeType


class FoundModule:
    """A module that `python -m` would find."""

    def __init__(self, name: str, spec: ModuleSpec, code: CodeType) -> None:
        self._found = name, spec, code

    def hand_over(self) -> None:
        """Let the next search of `python -m` find it, and no other: a traceback is as it always is then."""
        import runpy

        search = runpy._get_module_details  # type: ignore[attr-defined]

        def find(*_words: object) -> tuple[str, ModuleSpec, CodeType]:
            runpy._get_module_details = search  # type: ignore[attr-defined]
            return self._found

        runpy._get_module_details = find  # type: ignore[attr-defined]


def find_module(words: tuple[str, ...]) -> FoundModule | None:
    """The module of a command, if it is in a package that this process has imported, and no package itself.

    Any other may be a file of the trial. What is wrong with a module is left to the command to say.
    """
    name = words[1] if len(words) > 1 and words[0] == "-m" else ""
    package = sys.modules.get(name.rpartition(".")[0])
    if package is None or getattr(package, "__file__", None) is None or name in sys.modules:
        return None
    from importlib.util import find_spec

    try:
        spec = find_spec(name)
        if spec is None or spec.loader is None or spec.submodule_search_locations is not None:
            return None
        code = spec.loader.get_code(name)  # type: ignore[attr-defined]
    except Exception:  # noqa: BLE001 - as any import
        return None
    return FoundModule(name, spec, code) if code is not None else None
