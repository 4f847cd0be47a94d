"""A TOML file that a user wrote: its data, and its faults with their lines."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

from loopty.domain.errors import Misuse
from loopty.taskfile.positions import KeyPositions
from loopty.taskfile.schema import Checker


def read_text(path: Path, name: str) -> str:
    """What is in the file. Raises OSError, and Misuse for what is no text."""
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise Misuse(f"{name}:{line}: holds bytes that are no UTF-8: save the file as UTF-8") from None


def parse_toml(text: str, name: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also for numbers and nesting beyond Python's bounds
        raise Misuse(f"{name} is not valid TOML: {error}") from None


def raise_faults(checker: Checker, text: str, name: str) -> None:
    """Raise Misuse when there are faults: every one, with its line."""
    if checker.faults:
        lines = KeyPositions(text)
        told = sorted((lines.line_of(fault.path), fault.key, fault.message) for fault in checker.faults)
        raise Misuse("\n".join(f"{name}:{line}: {key} {message}" for line, key, message in told))
