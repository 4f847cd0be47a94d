"""An addition that is a file of its own: a plug-in, for hosts whose hooks are programs inside them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from loopty.domain.errors import Misuse
from loopty.kit.records import Record

_FOLDER = Path(__file__).parent / "plugins"
_OWN_LINE = "// Written by `loopty install`"


class PluginEntry(Record):
    """A plug-in that comes with loopty. `program` is loopty's command, as a list of words."""

    path: Path
    source: str
    """The name of the file that is shipped."""
    program: Sequence[str]

    def text_with(self, text: str) -> str:
        if text and not text.startswith(_OWN_LINE):
            raise Misuse(f"{self.path} is not a plug-in of loopty's: move it, then try again")
        return self.snippet()

    def text_without(self, text: str) -> str:
        return "" if text.startswith(_OWN_LINE) else text

    def snippet(self) -> str:
        shipped = (_FOLDER / self.source).read_text(encoding="utf-8")
        return shipped.replace("__PROGRAM__", json.dumps([*self.program]))
