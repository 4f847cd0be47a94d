"""What a session does before its first trial, as one line on a terminal that disappears again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TextIO

from loopty.report.columns import cut
from loopty.report.control_codes import control_code
from loopty.report.outlet import Outlet
from loopty.report.terminal import Terminal

_COLUMNS = 79


class SetUpLine:
    """Shows one step at a time; without a terminal, nothing."""

    def __init__(self, out: TextIO, env: Mapping[str, str]) -> None:
        self._is_shown = out.isatty() and env.get("TERM") != "dumb"
        self._out, self._terminal = Outlet(out), Terminal.for_stream(out, env)

    def show(self, step: str) -> None:
        """Show this step instead of the one before."""
        if self._is_shown:
            self.erase()
            self._out.write(self._terminal.render(self._terminal.paint(cut(f"{step} …", _COLUMNS), "dim")))

    def erase(self) -> None:
        """Erase the line, so that something else can be printed."""
        if self._is_shown:
            self._out.write(f"{control_code('1G')}{control_code('K')}")
