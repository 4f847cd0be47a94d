"""Reads a TOML file that a user wrote and reports its faults with their lines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from loopty.domain.errors import Misuse
from loopty.taskfile.schema import Checker


def read_text(path: Path, name: str) -> str:
    """The text of the file. Raises OSError, and Misuse when the file is not UTF-8."""
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise Misuse(f"{name}:{line}: holds bytes that are not UTF-8: save the file as UTF-8") from None


def parse_toml(text: str, name: str) -> dict[str, Any]:
    """The data in a TOML text. Raises Misuse when the text is not TOML."""
    import tomllib  # here: most verbs find the data of the task file in the cache

    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError covers huge numbers, RecursionError deep nesting
        raise Misuse(f"{name} is not valid TOML: {error}") from None


def raise_faults(checker: Checker, text: str, name: str) -> None:
    """Raise Misuse with every fault and its line; do nothing when there is no fault."""
    if checker.faults:
        from loopty.taskfile.positions import KeyPositions

        positions = KeyPositions(text)
        faults = sorted((positions.line_of(fault.path), fault.key, fault.message) for fault in checker.faults)
        raise Misuse("\n".join(f"{name}:{line}: {key} {message}" for line, key, message in faults))
