"""Import what verbs use, for a process that runs many of them."""

from __future__ import annotations

import importlib
import pkgutil

_ROOMS = (
    *("kit", "domain", "record", "judge", "engine", "causes", "views", "ledgers", "executors", "workspaces"),
    *("sandboxes", "evaluators", "taskfile", "report", "campaign", "cli"),
)
_NOT_THESE = ("loopty.cli.main", "loopty.sandboxes.probe_script")


def import_verbs() -> None:
    """Import every verb and the rooms that it uses, without the libraries of models and samplers."""
    for room in _ROOMS:
        package = importlib.import_module(f"loopty.{room}")
        for module in pkgutil.walk_packages(package.__path__, f"loopty.{room}."):
            if module.name not in _NOT_THESE:
                importlib.import_module(module.name)
    from loopty.domain.task import Task
    from loopty.kit.codec import prepare
    from loopty.kit.dataclass_methods import compile_constructors
    from loopty.kit.later_pattern import compile_patterns
    from loopty.record.families import prepare_events
    from loopty.record.node_record import Node
    from loopty.record.run_record import Run

    compile_constructors()
    compile_patterns()
    prepare_events()
    for kind in (Run, Node, Task):
        prepare(kind)
