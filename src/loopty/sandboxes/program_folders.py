"""What a sandbox must show for a program of the user to start: the program with its packages, and no more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from loopty.sandboxes.installations import installation_of, steps_to
from loopty.sandboxes.virtual_environment import interpreter_installations, is_virtual_environment

_PACKAGES = "node_modules"


def program_folders(program: Path, home: Path) -> Iterator[Path]:
    """The folders and files that this program needs, link by link, wherever it is installed.

    For programs that the user chose: a task file cannot name a path here.
    """
    for step in steps_to(program):
        if (packages := _outermost_packages(step)) is not None:
            yield packages
        elif (environment := next(filter(is_virtual_environment, step.parents), None)) is not None:
            yield environment
            yield from interpreter_installations(environment, home)
        else:
            yield installation_of(step, home) or step


def _outermost_packages(path: Path) -> Path | None:
    """The outermost folder of npm packages around this path: packages load others beside them."""
    return next((above for above in reversed(path.parents) if above.name == _PACKAGES), None)
