"""The plug-ins that a task file can name: one line each in the tables below. Nothing heavy is imported."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from loopty.domain.errors import Misuse
from loopty.kit.by_name import by_name
from loopty.kit.records import Record, replace
from loopty.kit.tables import Table

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


class NoOptions(Table):
    """For plug-ins without options."""


class Plugin(Record):
    """Where a plug-in is, as `module:name`."""

    options: str
    """The dataclass with its options."""
    make: str = ""
    """The function that makes it from its options and services; empty where the dataclass is the plug-in."""
    needs_space: bool = False
    """Whether the task must have parameters."""

    def load_options(self) -> type[Any]:
        loaded: type[Any] = by_name(self.options)
        return loaded

    def load_make(self) -> Callable[..., Any]:
        loaded: Callable[..., Any] = by_name(self.make)
        return loaded


class Plugins(Record):
    """The kinds of one role."""

    kinds: Mapping[str, Plugin]
    default: Callable[[bool], str]
    """The kind when the task file names none, given whether the task has parameters."""


_NO_OPTIONS = "loopty.taskfile.plugins:NoOptions"
_SAMPLER = Plugin(_NO_OPTIONS, "loopty.proposers.parameters.optuna_samplers:make_proposer", needs_space=True)
_RANDOM = Plugin(_NO_OPTIONS, "loopty.proposers.parameters.points:make_random", needs_space=True)
_MUTATE = Plugin("loopty.proposers.mutate:MutateOptions", "loopty.proposers.mutate:make_proposer")
_MUTATE_CONTROL = replace(_MUTATE, options="loopty.proposers.mutate:MutateControlOptions")

PROPOSERS = Plugins(
    {
        "mutate": _MUTATE,
        "grid": Plugin(
            "loopty.proposers.parameters.points:GridOptions", "loopty.proposers.parameters.points:make_grid", True
        ),
        "llm-parameters": Plugin(
            "loopty.proposers.parameters.llm_parameters:ParametersOptions",
            "loopty.proposers.parameters.llm_parameters:make_proposer",
            needs_space=True,
        ),
        "llm-code": Plugin(
            "loopty.proposers.code.options:CodeOptions", "loopty.proposers.code.code_proposer:make_proposer"
        ),
        "agent": Plugin(
            "loopty.features.agents.options:AgentOptions", "loopty.features.agents.proposer:make_proposer"
        ),
        "ladder": Plugin("loopty.proposers.ladder:LadderOptions", "loopty.proposers.ladder:make_proposer"),
        "random": _RANDOM,
        "tpe": Plugin(_NO_OPTIONS, "loopty.proposers.parameters.tpe:make_proposer", needs_space=True),
        "gp": _SAMPLER,
        "cmaes": _SAMPLER,
        "qmc": _SAMPLER,
        "nsga2": _SAMPLER,
    },
    default=lambda has_space: "random" if has_space else "mutate",
)
CONTROLS = Plugins(
    {"random": _RANDOM, "mutate": _MUTATE_CONTROL},
    default=lambda has_space: "random" if has_space else "mutate",
)
PRUNERS = Plugins(
    {
        "none": Plugin(_NO_OPTIONS),
        "median": Plugin("loopty.proposers.pruners:MedianPruner"),
        "halving": Plugin("loopty.proposers.pruners:HalvingPruner"),
        "patience": Plugin("loopty.proposers.pruners:PatiencePruner"),
        "extrapolation": Plugin("loopty.proposers.pruners:ExtrapolationPruner"),
    },
    default=lambda _: "none",
)
SELECTORS = {
    "best": Plugin("loopty.proposers.selectors.choices:BestSelector"),
    "root": Plugin("loopty.proposers.selectors.choices:RootSelector"),
    "pareto": Plugin("loopty.proposers.selectors.choices:ParetoSelector"),
    "islands": Plugin("loopty.proposers.selectors.choices:IslandsSelector"),
    "map-elites": Plugin("loopty.proposers.selectors.choices:MapElitesSelector"),
    "restart": Plugin("loopty.proposers.selectors.choices:RestartSelector"),
}

EXTERNAL_ROLES = ("proposer", "control")
"""Roles that other packages may fill, through the entry point groups `loopty.proposer` and `loopty.control`."""


class ExternalPlugin(Record):
    """A ProposerPlugin (`loopty.proposers.services`) that another package brings."""

    loaded: Any

    @property
    def needs_space(self) -> bool:
        return bool(self.loaded.needs_space)

    def load_options(self) -> type[Any]:
        options: type[Any] = self.loaded.options
        return options

    def load_make(self) -> Callable[..., Any]:
        make: Callable[..., Any] = self.loaded.make
        return make


def find_plugin(role: str, plugins: Plugins, kind: str) -> Plugin | ExternalPlugin | None:
    """Find the plug-in of this kind, in the table or in another package, or return None."""
    if kind in plugins.kinds:
        return plugins.kinds[kind]
    found = _entry_point(role, kind) if role in EXTERNAL_ROLES else None
    if found is None:
        return None
    loaded = found.load()
    if not all(hasattr(loaded, name) for name in ("options", "make", "needs_space")):
        raise Misuse(
            f"the entry point '{kind}' of loopty.{role} loads {found.value}, which is no ProposerPlugin: "
            "see `loopty.proposers.services`"
        )
    return ExternalPlugin(loaded)


def find_selector(kind: object) -> Plugin | None:
    """Find the selector of this kind, in the table or in others' entry points `loopty.selector`, or None."""
    if not isinstance(kind, str) or kind in SELECTORS:
        return SELECTORS[kind] if isinstance(kind, str) else None
    found = _entry_point("selector", kind)
    if found and not hasattr(found.load(), "select"):
        raise Misuse(
            f"the entry point '{kind}' of loopty.selector loads {found.value}, which is no Selector: "
            "see `loopty.engine.protocols`"
        )
    return Plugin(found.value) if found else None


def _entry_point(role: str, kind: str) -> EntryPoint | None:
    return next(iter(entry_points(group=f"loopty.{role}", name=kind)), None)
