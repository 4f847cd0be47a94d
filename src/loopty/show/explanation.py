"""A failed trial, explained: its error, its log, and the known cause with its remedy."""

from __future__ import annotations

import itertools
import json
from enum import StrEnum
from typing import Any

from loopty.kit.records import Record

SettingValue = str | int | float | bool | tuple[str, ...]


class Reach(StrEnum):
    """How far the settings of a remedy let trials reach; nobody may widen it but the user."""

    REPOSITORY = "repository"
    """Nothing but the repository and its own environments."""
    TOOLCHAIN = "toolchain"
    """Programs and libraries that are installed on this machine."""
    OUTSIDE = "outside"
    """Other files of this machine, or the network."""


class Setting(Record):
    """One line of loopty.toml."""

    table: str
    """`benchmark`, `limits`, `objective.metrics`, or `gates.NAME` for the gate of that name."""
    key: str
    value: SettingValue

    @property
    def line(self) -> str:
        return f"{self.key} = {toml_value(self.value)}"

    @property
    def place(self) -> str:
        """Say where in loopty.toml the line belongs."""
        if self.table.startswith("gates."):
            return f"the gate {self.table.removeprefix('gates.')}"
        return f"[[{self.table}]]" if "." in self.table else f"[{self.table}]"


class Cause(Record):
    """Why a trial failed, in one sentence, and what to do about it."""

    name: str
    """The rule that found it."""
    sentence: str
    settings: tuple[Setting, ...] = ()
    """What to write into loopty.toml."""
    shell: str = ""
    """What to run in a shell, where that helps, too: beside settings, it does what they say."""
    advice: str = ""
    """What to do where no exact line can be known."""
    reach: Reach = Reach.REPOSITORY
    """What the settings open to trials."""
    is_guess: bool = False
    """Whether the settings change what is measured, which is the user's to decide."""

    @property
    def remedy(self) -> str:
        """Say what to do, in one line that holds what to paste."""
        parts = [
            f"in loopty.toml, under {place}: {'; '.join(item.line for item in items)}"
            for place, items in itertools.groupby(self.settings, key=lambda item: item.place)
        ]
        parts += [f"{'or ' if self.settings else ''}run: {self.shell}"] if self.shell else []
        parts += [self.advice] if self.advice else []
        return "; ".join(parts)


def toml_value(value: SettingValue) -> str:
    """Format the value as TOML. JSON strings, numbers and lists of strings are valid TOML."""
    if isinstance(value, float):
        return repr(value)  # also what JSON does not have, as nan
    plain = list(value) if isinstance(value, tuple) else value
    return json.dumps(plain, ensure_ascii=False).replace("\x7f", "\\u007f")


class Explanation(Record):
    """What is known about a failure."""

    lines: tuple[str, ...]
    """The lines of the output around the error."""
    log: str
    """The path of the whole output; empty where there is none."""
    cause: Cause | None = None
    """The known cause, for failures of the user's own code."""

    def plain(self) -> dict[str, Any]:
        """Return the explanation for programs."""
        data: dict[str, Any] = {"lines": list(self.lines), "log": self.log}
        if self.cause:
            settings = [
                {"table": item.table, "key": item.key, "value": item.value, "line": item.line}
                for item in self.cause.settings
            ]
            data["cause"] = {
                "name": self.cause.name,
                "sentence": self.cause.sentence,
                "remedy": self.cause.remedy,
                "settings": settings,
                "shell": self.cause.shell,
            }
        return data
