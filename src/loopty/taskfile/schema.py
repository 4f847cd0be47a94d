"""Checks a TOML file of a user against dataclasses: every fault at once, with its line and a remedy."""

from __future__ import annotations

import contextlib
import difflib
import json
import re
import sys
import tomllib
import types
import typing
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from loopty.domain.errors import Misuse
from loopty.kit.records import NODEFAULT, Record, field_types, fields_of, is_record
from loopty.taskfile.spellings import OLDER, spelled_out

_HEADER = r"^\s*(\[\[?)\s*([^\]]+?)\s*\]\]?\s*(#.*)?$"
_KEY = r"^\s*((?:[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|\"[^\"]*\"))*)\s*="

KeyPath = tuple[str | int, ...]
"""The keys and list indices that lead to a value."""


class KeyPositions:
    """The line number of every key. A key inside an inline table has the line of that table."""

    def __init__(self, text: str) -> None:
        self._lines: dict[KeyPath, int] = {(): 1}
        counts: dict[KeyPath, int] = {}
        table: KeyPath = ()
        for number, line in enumerate(text.split("\n"), start=1):
            if header := re.match(_HEADER, line):
                table = _parts(header[2])
                if header[1] == "[[":
                    counts[table] = counts.get(table, -1) + 1
                    table = (*table, counts[table])
                self._enter(table, number)
            elif key := re.match(_KEY, line):
                self._enter((*table, *_parts(key[1])), number)

    def _enter(self, path: KeyPath, number: int) -> None:
        """Note the line of a key, and of the tables above it that have no line yet."""
        for end in range(1, len(path) + 1):
            self._lines.setdefault(path[:end], number)

    def line_of(self, path: KeyPath) -> int:
        """Return the line of this key, or of the nearest table above it."""
        while path not in self._lines:
            path = path[:-1]
        return self._lines[path]


def _parts(dotted: str) -> KeyPath:
    first, *rest = (part.strip().strip("\"'") for part in dotted.split("."))
    return (OLDER.get(first, first), *rest)


T = TypeVar("T")

WRONG: Any = object()
"""Marks a faulty value; only `loopty.taskfile` sees it."""


class Fault(Record):
    """One fault in the task file."""

    path: KeyPath
    message: str

    @property
    def key(self) -> str:
        return ".".join(map(str, self.path)) or "the task"


class Checker:
    """Builds values from plain data and collects the faults in it."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []

    def add_fault(self, path: KeyPath, message: str) -> Any:
        """Note a fault and return WRONG, to use in place of the value."""
        self.faults.append(Fault(path, message))
        return WRONG

    def read_table(self, cls: Callable[..., T], data: Any, path: KeyPath, also_known: Collection[str] = ()) -> T:
        """Build the dataclass that this table describes; WRONG when the table has a fault.

        `also_known` are further keys that the table may have in the file; they are suggested for a misspelt key.
        """
        kind = typing.cast(type, cls)
        if not isinstance(data, Mapping):
            return typing.cast(T, self.add_fault(path, "must be a table"))
        hints = field_types(kind)
        fields = {field.name: field for field in fields_of(kind)}
        self.check_keys(data, {**dict.fromkeys(also_known), **fields}, path)
        values: dict[str, Any] = {}
        for name, field in fields.items():
            if name in data:
                values[name] = self.read_value(hints[name], data[name], (*path, name), field.facts)
            elif field.default is NODEFAULT:
                doc = field.facts.get("doc", "").rstrip(".")
                values[name] = self.add_fault((*path, name), f"is missing: {doc[:1].lower()}{doc[1:]}")
        return typing.cast(T, WRONG) if WRONG in values.values() else cls(**values)

    def check_keys(self, data: Mapping[str, Any], known: Mapping[str, Any], path: KeyPath) -> None:
        """Note a fault for every unknown key, with the closest known one."""
        for name in data:
            if name in known:
                continue
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean '{close[0]}'?" if close else f"known here: {', '.join(known)}"
            self.add_fault((*path, name), f"is not a known key; {hint}")

    def read_value(self, hint: Any, value: Any, path: KeyPath, checks: Mapping[str, Any]) -> Any:
        """Convert a value to its type and check it; WRONG when it has a fault."""
        built = self._convert(hint, value, path)
        if built is WRONG:
            return WRONG
        if "choices" in checks and built not in checks["choices"]:
            return self.add_fault(path, f"must be one of {', '.join(checks['choices'])}, not {value!r}")
        if "minimum" in checks and built is not None and built < checks["minimum"]:
            return self.add_fault(path, f"must be at least {checks['minimum']}, not {value!r}")
        if "above" in checks and built is not None and built <= checks["above"]:
            return self.add_fault(path, f"must be above {checks['above']}, not {value!r}")
        if "below" in checks and built is not None and built >= checks["below"]:
            return self.add_fault(path, f"must be below {checks['below']}, not {value!r}")
        if checks.get("filled") and not built:
            return self.add_fault(path, "must not be empty")
        if checks.get("glob"):
            return self._check_globs(built, path)
        return built

    def _convert(self, hint: Any, value: Any, path: KeyPath) -> Any:
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if origin in (typing.Union, types.UnionType):
            return self._convert_union(arguments, value, path)
        if origin is tuple:
            if not isinstance(value, list):
                return self.add_fault(path, f"must be a list, as in [{_example(arguments[0])}], not {value!r}")
            items = [self._convert(arguments[0], item, (*path, index)) for index, item in enumerate(value)]
            return WRONG if WRONG in items else tuple(items)
        if origin is not None and issubclass(origin, Mapping):
            if not isinstance(value, dict):
                return self.add_fault(path, "must be a table")
            pairs = {key: self._convert(arguments[1], item, (*path, key)) for key, item in value.items()}
            return WRONG if WRONG in pairs.values() else pairs
        if hint is Any:
            return value
        if is_record(hint):
            return self.read_table(typing.cast(Callable[..., Any], hint), value, path)
        return self._convert_scalar(hint, value, path)

    def _convert_union(self, hints: tuple[Any, ...], value: Any, path: KeyPath) -> Any:
        """Convert to the first type that accepts the value, trying the value's own type before the others."""
        probes = []
        for hint in sorted(hints, key=lambda hint: hint is not type(value)):
            if hint is type(None):
                continue
            probe = Checker()
            built = probe._convert(hint, value, path)
            if not probe.faults:
                return built
            probes.append(probe)
        self.faults += probes[0].faults
        return WRONG

    def _convert_scalar(self, hint: Any, value: Any, path: KeyPath) -> Any:
        if issubclass(hint, Enum):
            known = [member.value for member in hint]
            with contextlib.suppress(ValueError):
                return hint(value)
            return self.add_fault(path, f"must be one of {', '.join(known)}")
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if hint is float and number and abs(value) <= sys.float_info.max:
            return float(value)
        if (hint is int and number and isinstance(value, int)) or (
            hint in (str, bool) and isinstance(value, hint)
        ):
            return value
        names = {float: "a finite number", int: "a whole number", str: "text", bool: "true or false"}
        return self.add_fault(path, f"must be {names[hint]}, not {value!r}")

    def _check_globs(self, patterns: tuple[str, ...], path: KeyPath) -> Any:
        for pattern in patterns:
            if pattern.startswith(("/", "~")) or ".." in pattern.split("/") or not pattern:
                return self.add_fault(path, f"holds {pattern!r}: paths must be relative to the repository's top")
        return patterns


def _example(hint: Any) -> str:
    return '"…"' if hint is str else "…"


def read_text(path: Path, name: str) -> str:
    """Read the text of the file. Raises OSError, and Misuse when the file is not UTF-8."""
    try:
        return path.read_bytes().decode()
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise Misuse(f"{name}:{line}: holds bytes that are not UTF-8: save the file as UTF-8") from None


def parse_toml(text: str, name: str) -> dict[str, Any]:
    """Parse a TOML text. Raises Misuse when the text is not TOML."""
    try:
        data = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # ValueError covers huge numbers, RecursionError deep nesting
        raise Misuse(f"{name} is not valid TOML: {error}") from None
    return spelled_out(data, name)


def raise_faults(checker: Checker, text: str, name: str) -> None:
    """Raise Misuse with every fault and its line; do nothing when there is no fault."""
    if checker.faults:
        positions = KeyPositions(text)
        faults = sorted((positions.line_of(fault.path), fault.key, fault.message) for fault in checker.faults)
        raise Misuse("\n".join(f"{name}:{line}: {key} {message}" for line, key, message in faults))


def lay_over(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Lay the other's values over the base: tables are joined key by key, anything else is replaced.

    A table with another `kind` replaces the whole table: its options belong to its kind.
    """
    joined = dict(base)
    for key, value in over.items():
        known = joined.get(key)
        is_joined = isinstance(known, Mapping) and isinstance(value, Mapping)
        if is_joined and value.get("kind", known.get("kind")) == known.get("kind"):  # type: ignore[union-attr]
            joined[key] = lay_over(known, value)  # type: ignore[arg-type]
        else:
            joined[key] = value
    return joined


def toml_text(data: Mapping[str, Any]) -> str:
    """Format the data as TOML, a line for each key of the top."""
    return "".join(f"{_text(key)} = {_value(value)}\n" for key, value in data.items())


def _text(text: str) -> str:
    """Quote the text as a basic string of TOML: like JSON, with one more letter escaped."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{_text(key)} = {_value(item)}" for key, item in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_value, value)) + "]"
    raise Misuse(f"a task file holds {value!r}, which is no text, number, list or table: dates have no use there")
