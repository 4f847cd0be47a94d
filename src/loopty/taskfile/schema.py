"""Plain data checked against a dataclass: every fault at once, each with its key and a remedy."""

from __future__ import annotations

import dataclasses
import difflib
import enum
import sys
import types
import typing
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")
Path = tuple[str | int, ...]

WRONG: Any = object()
"""Stands for a value that was faulty; never leaves this room."""


@dataclass(frozen=True, slots=True)
class Fault:
    """Something wrong with the task file."""

    path: Path
    message: str

    @property
    def key(self) -> str:
        return ".".join(map(str, self.path)) or "the task"


class Checker:
    """Collects faults while values are built."""

    def __init__(self) -> None:
        self.faults: list[Fault] = []

    def add_fault(self, path: Path, message: str) -> Any:
        self.faults.append(Fault(path, message))
        return WRONG

    def read_table(self, cls: Callable[..., T], data: Any, path: Path, also_known: Collection[str] = ()) -> T:
        """The dataclass that this table describes; WRONG when something in it is faulty.

        `beside` are keys that the table may have in the file as well, for a key that is misspelt.
        """
        kind = typing.cast(type, cls)
        if not isinstance(data, Mapping):
            return typing.cast(T, self.add_fault(path, "must be a table"))
        hints = typing.get_type_hints(kind)
        fields = {field.name: field for field in dataclasses.fields(kind)}
        self.check_keys(data, {**dict.fromkeys(also_known), **fields}, path)
        values: dict[str, Any] = {}
        for name, field in fields.items():
            if name in data:
                values[name] = self.read_value(hints[name], data[name], (*path, name), field.metadata)
            elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
                doc = field.metadata.get("doc", "").rstrip(".")
                values[name] = self.add_fault((*path, name), f"is missing: {doc[:1].lower()}{doc[1:]}")
        return typing.cast(T, WRONG) if WRONG in values.values() else cls(**values)

    def check_keys(self, data: Mapping[str, Any], known: Mapping[str, Any], path: Path) -> None:
        for name in data:
            if name not in known:
                close = difflib.get_close_matches(name, known, n=1)
                hint = f"did you mean '{close[0]}'?" if close else f"known here: {', '.join(known)}"
                self.add_fault((*path, name), f"is no known key; {hint}")

    def read_value(self, hint: Any, value: Any, path: Path, checks: Mapping[str, Any]) -> Any:
        """The value as its type wants it."""
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

    def _convert(self, hint: Any, value: Any, path: Path) -> Any:
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
        if dataclasses.is_dataclass(hint):
            return self.read_table(typing.cast(Callable[..., Any], hint), value, path)
        return self._convert_scalar(hint, value, path)

    def _convert_union(self, hints: tuple[Any, ...], value: Any, path: Path) -> Any:
        """The first alternative that takes the value, the value's own type before the others."""
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

    def _convert_scalar(self, hint: Any, value: Any, path: Path) -> Any:
        if issubclass(hint, enum.Enum):
            known = [member.value for member in hint]
            return hint(value) if value in known else self.add_fault(path, f"must be one of {', '.join(known)}")
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if hint is float and number and abs(value) <= sys.float_info.max:
            return float(value)
        if (hint is int and number and isinstance(value, int)) or (
            hint in (str, bool) and isinstance(value, hint)
        ):
            return value
        names = {float: "a finite number", int: "a whole number", str: "text", bool: "true or false"}
        return self.add_fault(path, f"must be {names[hint]}, not {value!r}")

    def _check_globs(self, patterns: tuple[str, ...], path: Path) -> Any:
        for pattern in patterns:
            if pattern.startswith(("/", "~")) or ".." in pattern.split("/") or not pattern:
                return self.add_fault(path, f"holds {pattern!r}: paths are relative to the repository's top")
        return patterns


def _example(hint: Any) -> str:
    return '"…"' if hint is str else "…"
