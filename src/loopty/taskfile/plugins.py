"""The plug-ins that a task file can name, and the options that each of them owns. Nothing heavy is imported."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class NoOptions:
    """For plug-ins that have none."""


@dataclass(frozen=True, slots=True)
class Plugins:
    """The kinds of one role: a word, and where the dataclass with its options is (`module:name`)."""

    kinds: Mapping[str, str]
    default: Callable[[bool], str]
    """The kind when the task file names none, given whether the task has parameters."""
    default_options: Callable[[bool], Mapping[str, Any]] = field(default=lambda _: {})
    needs_space: tuple[str, ...] = ()


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
    """The dataclass of this kind's options."""
    module, _, name = plugins.kinds[kind].partition(":")
    made: Callable[..., Any] = getattr(importlib.import_module(module), name)
    return made


EXTERNAL_ROLES = ("proposer", "control")
"""Roles that other packages may fill, through the entry point groups `loopty.proposer` and `loopty.control`."""


def external_plugin(role: str, kind: str) -> Callable[..., Any] | None:
    """The plug-in of this role and name that another package brings."""
    from importlib.metadata import entry_points

    found = next(iter(entry_points(group=f"loopty.{role}", name=kind)), None)
    return found.load() if found else None
