"""The built page: its files, read from one folder whose names are known beforehand."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

from loopty.kit.dataclass import Record, dataclass

STATIC = Path(__file__).parent / "static"
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
    ".json": "application/json",
    ".webmanifest": "application/manifest+json",
    ".txt": "text/plain; charset=utf-8",
}
_HASHED = re.compile(r"-[A-Za-z0-9]{8,}\.[a-z0-9]+\Z")
_PACKED = (".html", ".js", ".css", ".svg", ".json")
_MISSING = b"""<!doctype html><meta charset="utf-8"><title>loopty</title>
<p>The page is not built here: run <code>make page</code> (it needs Node), or install a wheel of loopty.</p>
"""


@dataclass(frozen=True, slots=True)
class StaticFile(Record):
    """A file of the page as it is sent."""

    content: bytes
    packed: bytes
    """With gzip; empty where that is of no use."""
    kind: str
    is_lasting: bool
    """Whether its name changes with its content."""


class StaticFiles:
    """All files of the page. A path is only ever looked up among their names, so none leads out of the folder."""

    def __init__(self, folder: Path = STATIC) -> None:
        self._folder = folder
        self._files: dict[str, StaticFile] = {}
        self._read_at = 0.0

    def find(self, path: str) -> StaticFile | None:
        """The file at this path of the address; other paths of the page itself are its start."""
        self._refresh()
        name = path.lstrip("/") or "index.html"
        found = self._files.get(name)
        if found is None and "." not in name.rpartition("/")[2]:
            found = self._files.get("index.html")
            if found is None:
                return StaticFile(_MISSING, b"", _TYPES[".html"], is_lasting=False)
        return found

    def _refresh(self) -> None:
        try:
            changed_at = (self._folder / "index.html").stat().st_mtime
        except OSError:
            return
        if changed_at != self._read_at:
            self._files = dict(map(self._read, (path for path in self._folder.rglob("*") if path.is_file())))
            self._read_at = changed_at

    def _read(self, path: Path) -> tuple[str, StaticFile]:
        content = path.read_bytes()
        packed = gzip.compress(content, 6, mtime=0) if path.suffix in _PACKED else b""
        kind = _TYPES.get(path.suffix, "application/octet-stream")
        is_lasting = _HASHED.search(path.name) is not None
        return path.relative_to(self._folder).as_posix(), StaticFile(content, packed, kind, is_lasting)
