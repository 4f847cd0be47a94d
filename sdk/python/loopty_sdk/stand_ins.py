"""Stand-ins for what evaluators of other tools import, where these tools are not installed.

They are written from the interfaces alone. A package that is installed is always used instead.
"""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

_PLACES = {
    "openevolve.evaluation_result": (("EvaluationResult", "openevolve_task"),),
    "shinka.core": (("run_shinka_eval", "shinka_task"),),
    "shinka.core.wrap_eval": (("run_shinka_eval", "shinka_task"),),
    "gepa.optimize_anything": (("", "gepa_settings"),),
    "coral.grader": (("TaskGrader", "coral_task"), ("ScoreBundle", "coral_task")),
    "coral.grader.task_grader": (("TaskGrader", "coral_task"),),
    "coral.types": (("ScoreBundle", "coral_task"), ("Score", "coral_task")),
}
"""Module → its names, each with the module here that has it; the empty name stands for all."""
_PACKAGES = {name.rpartition(".")[0] for name in _PLACES}


def offer_stand_ins() -> None:
    """Let imports find the stand-ins, after everything that is installed."""
    if _Finder not in sys.meta_path:
        sys.meta_path.append(_Finder)


class _Finder:
    """Finds the modules of tools that are not installed."""

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        if name not in _PLACES and name not in _PACKAGES:
            return None
        if "." not in name:
            sys.stderr.write(f"{name} is not installed: loopty stands in for what its evaluators import\n")
        return ModuleSpec(name, _Finder, is_package=name in _PACKAGES)  # type: ignore[arg-type]

    @staticmethod
    def create_module(_spec: ModuleSpec) -> None:
        """Let the interpreter make it."""

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        from importlib import import_module

        for name, place in _PLACES.get(module.__name__, ()):
            source = import_module(f".{place}", __package__)
            names = (name,) if name else source.__all__
            for one in names:
                setattr(module, one, getattr(source, one))
