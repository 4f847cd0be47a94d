"""A run: one set of criteria, and the parts that the event families keep about it."""

from __future__ import annotations

from collections.abc import Mapping
from operator import attrgetter
from typing import Any, TypeVar

from loopty.domain.ids import NodeId
from loopty.domain.objective import Objective
from loopty.domain.pool import Pool
from loopty.kit import codec
from loopty.kit.dataclass import dataclass, field, replace
from loopty.kit.dataclass_methods import fields_of, is_dataclass

R = TypeVar("R", bound="RunPart")
P = TypeVar("P", bound="PoolPart")
T = TypeVar("T")
_LONG = 16


@dataclass(frozen=True, slots=True)
class Run:
    """What is known about one run. Each event family keeps its own part: see RunPart and PoolPart."""

    number: int
    criteria: str
    objective: Objective
    seed: int
    why: str
    started_at: float
    benchmark: str = ""
    data: str = ""
    criteria_parts: Mapping[str, str] = field(default_factory=dict)
    secret: str = field(default="", repr=False)
    """What the order within pairs is drawn from."""
    parts: Mapping[str, Any] = field(default_factory=dict)
    """By the name of the part's class. In a saved page, plain data, from which `of` builds the part."""
    pools: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """By pool, then by the name of the part's class."""

    @property
    def root(self) -> NodeId:
        """The baseline."""
        return NodeId(str(self.number))

    def with_part(self, part: RunPart) -> Run:
        return replace(self, parts={**self.parts, type(part).__name__: part})

    def with_pool_part(self, pool: Pool, part: PoolPart) -> Run:
        parts = {**self.pools.get(pool, {}), type(part).__name__: part}
        return replace(self, pools={**self.pools, pool: parts})


class RunPart:
    """What one event family keeps about a run: a frozen dataclass whose fields all have defaults."""

    __slots__ = ()

    @classmethod
    def of(cls: type[R], run: Run) -> R:
        return _part(cls, run.parts)


class PoolPart:
    """What one event family keeps about one pool of a run: a frozen dataclass whose fields all have defaults."""

    __slots__ = ()

    @classmethod
    def of(cls: type[P], run: Run, pool: Pool) -> P:
        return _part(cls, run.pools.get(pool, {}))


def _part(cls: type[T], parts: Mapping[str, Any]) -> T:
    """The part of this class. Reading verbs load only the families whose parts they ask for."""
    part = parts.get(cls.__name__)
    if isinstance(part, dict) and isinstance(parts, dict):
        part = parts[cls.__name__] = codec.build(cls, part)
    return part or cls()


_HEAD = attrgetter(*(field.name for field in fields_of(Run) if field.name not in ("parts", "pools")))


class RunPages:
    """Writes runs as the ledger saves them. Parts are values that never change, so each is encoded once."""

    def __init__(self) -> None:
        self._head: tuple[tuple[Any, ...], str] = ((), "")
        """What a run has besides its parts, which hardly ever changes, and the text of it."""
        self._texts: dict[int, tuple[Any, str]] = {}
        """The texts of the last page, with the parts that they encode, by the parts' identity."""
        self._entries: dict[tuple[type, str], dict[str, tuple[Any, str]]] = {}
        """The texts of the entries of long mappings, by part and field: a thousand workers change one by one."""

    def text(self, run: Run) -> str:
        """The run as one line of JSON: the same as `codec.text`."""
        known, self._texts = self._texts, {}

        def encode(part: Any) -> str:
            entry = known.get(id(part))
            entry = entry if entry and entry[0] is part else (part, self._part_text(part))
            self._texts[id(part)] = entry
            return entry[1]

        def encode_parts(parts: Mapping[str, Any]) -> str:
            return ",".join(f'"{name}":{encode(part)}' for name, part in parts.items())

        if (head := _HEAD(run)) != self._head[0]:
            self._head = head, codec.text(replace(run, parts={}, pools={}))[1:-1]
        texts = [self._head[1]]
        if run.parts:
            texts.append(f'"parts":{{{encode_parts(run.parts)}}}')
        if run.pools:
            pools = ",".join(f'"{pool}":{{{encode_parts(parts)}}}' for pool, parts in run.pools.items())
            texts.append(f'"pools":{{{pools}}}')
        return f"{{{','.join(texts)}}}"

    def _part_text(self, part: Any) -> str:
        """The same as `codec.text`; of a long mapping to frozen values, only new entries are encoded."""
        if not isinstance(part, RunPart):
            return codec.text(part)
        fields = codec.stated_fields(part)
        if not any(_is_long(item) for _, item in fields):
            return codec.text(part)
        texts = (
            f'"{name}":{self._mapping_text((type(part), name), item) if _is_long(item) else codec.text(item)}'
            for name, item in fields
        )
        return f"{{{','.join(texts)}}}"

    def _mapping_text(self, place: tuple[type, str], mapping: Mapping[str, Any]) -> str:
        known, entries = self._entries.get(place, {}), {}
        for key, value in mapping.items():
            entry = known.get(key)
            if entry is None or entry[0] is not value:
                entry = value, f"{codec.text(str(key))}:{codec.text(value)}"
            entries[key] = entry
        self._entries[place] = entries
        return f"{{{','.join(text for _, text in entries.values())}}}"


def _is_long(item: Any) -> bool:
    """Whether this is a mapping to dataclasses with so many entries that it pays to know their texts."""
    return isinstance(item, dict) and len(item) >= _LONG and is_dataclass(type(next(iter(item.values()))))
