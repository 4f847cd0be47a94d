"""The plug-ins that a task file can name, with the options of each. Nothing heavy is imported."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class NoOptions:
    """The options of plug-ins that have none."""


@dataclass(frozen=True, slots=True)
class Plugins:
    """The kinds of one role: the name of each, and where the dataclass with its options is (`module:name`)."""

    kinds: Mapping[str, str]
    default: Callable[[bool], str]
    """The kind when the task file names none; takes whether the task has parameters."""
    default_options: Callable[[bool], Mapping[str, Any]] = field(default=lambda _: {})
    """The options when the task file has no table for the role; takes whether the task has parameters."""
    needs_space: tuple[str, ...] = ()
    """The kinds that work only on a task with parameters."""


_NO_OPTIONS = "loopty.taskfile.plugins:NoOptions"
_SAMPLERS = ("random", "tpe", "gp", "cmaes", "qmc", "nsga2")
_PROPOSERS = {
    "mutate": "loopty.proposers.mutate:MutateOptions",
    "grid": "loopty.proposers.grid:GridOptions",
    "llm-parameters": "loopty.proposers.parameters.parameters_options:ParametersOptions",
    "llm-code": "loopty.proposers.code.code_options:CodeOptions",
    "ladder": "loopty.proposers.ladder:LadderOptions",
    **dict.fromkeys(_SAMPLERS, _NO_OPTIONS),
}

PROPOSERS = Plugins(
    _PROPOSERS,
    default=lambda has_space: "random" if has_space else "mutate",
    needs_space=("grid", "llm-parameters", *_SAMPLERS),
)
CONTROLS = Plugins(
    {"random": _NO_OPTIONS, "mutate": "loopty.proposers.mutate:MutateOptions"},
    default=lambda has_space: "random" if has_space else "mutate",
    default_options=lambda has_space: {} if has_space else {"parents": "root"},
    needs_space=("random",),
)
PRUNERS = Plugins(
    {
        "none": _NO_OPTIONS,
        "median": "loopty.pruners.median:MedianPruner",
        "halving": "loopty.pruners.halving:HalvingPruner",
        "patience": "loopty.pruners.patience:PatiencePruner",
    },
    default=lambda _: "none",
)


def options_class(plugins: Plugins, kind: str) -> Callable[..., Any]:
    """The dataclass with the options of this kind."""
    module, _, name = plugins.kinds[kind].partition(":")
    options: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return options


EXTERNAL_ROLES = ("proposer", "control")
"""Roles that other packages can fill, through the entry point groups `loopty.proposer` and `loopty.control`."""


def external_plugin(role: str, kind: str) -> Callable[..., Any] | None:
    """The plug-in of this role and kind that another package provides, or None."""
    from importlib.metadata import entry_points

    entry_point = next(iter(entry_points(group=f"loopty.{role}", name=kind)), None)
    return entry_point.load() if entry_point else None
