"""A machine as results see it: two results are comparable only under the same fingerprint."""

from __future__ import annotations

import json
from collections.abc import Mapping

from loopty.kit.records import Record
from loopty.kit.short_digest import sha256


class Machine(Record):
    """The known facts about a machine and about the tools that trials find on it."""

    facts: Mapping[str, str]

    @property
    def fingerprint(self) -> str:
        """A digest of the facts, in any order: 12 hexadecimal characters."""
        return sha256(json.dumps(dict(self.facts), sort_keys=True).encode()).hexdigest()[:12]


def differences(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """The facts in which two machines differ, a line each."""
    return [
        f"{name}: {one.get(name, 'unknown')}, now {other.get(name, 'unknown')}"
        for name in {**one, **other}
        if one.get(name) != other.get(name)
    ]
