"""A failed trial, explained: its error, its log, and the known cause with its remedy."""

from __future__ import annotations

from typing import Any

from loopty.causes.cause import Cause
from loopty.kit.records import Record


class Explanation(Record):
    """What is known about a failure."""

    lines: tuple[str, ...]
    """The lines of the output around the error."""
    log: str
    """The path of the whole output; empty where there is none."""
    cause: Cause | None = None
    """The known cause, for failures of the user's own code."""

    def plain(self) -> dict[str, Any]:
        """The explanation for programs."""
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
