"""Checks plain data against a dataclass and reports every fault at once, each with its key and a remedy."""

from __future__ import annotations

import dataclasses
import sys
import types
import typing
from collections.abc import Callable, Collection, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from loopty.kit.records import Record, field_types, is_record
from loopty.taskfile.removed_names import replacement

if TYPE_CHECKING:
    from loopty.taskfile.positions import KeyPath

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
        fields = {field.name: field for field in dataclasses.fields(kind)}
        self.check_keys(data, {**dict.fromkeys(also_known), **fields}, path)
        values: dict[str, Any] = {}
        for name, field in fields.items():
            if name in data:
                values[name] = self.read_value(hints[name], data[name], (*path, name), field.metadata)
            elif field.default is field.default_factory is dataclasses.MISSING:
                doc = field.metadata.get("doc", "").rstrip(".")
                values[name] = self.add_fault((*path, name), f"is missing: {doc[:1].lower()}{doc[1:]}")
        return typing.cast(T, WRONG) if WRONG in values.values() else cls(**values)

    def check_keys(self, data: Mapping[str, Any], known: Mapping[str, Any], path: KeyPath) -> None:
        """Note a fault for every unknown key, with the closest known one."""
        for name in data:
            if name in known:
                continue
            if remedy := replacement(path, name):
                self.add_fault(path, remedy)
            else:
                import difflib

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
            if value in known:
                return hint(value)
            remedy = replacement(path, value)
            return self.add_fault(path, remedy or f"must be one of {', '.join(known)}")
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
