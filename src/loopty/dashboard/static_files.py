"""The built page: its files, read from one folder whose names are known beforehand."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

from loopty.kit.records import Record

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
_CLONE = STATIC.parents[3]
_INSTALL_AGAIN = "install loopty again, without LOOPTY_WITHOUT_PAGE in the environment"
_MISSING = """<!doctype html><html lang="en"><meta charset="utf-8"><title>loopty</title>
<p>The dashboard's page is not built: {remedy}, then load this address again.</p></html>
"""


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
        if name in self._files:
            return self._files[name]
        if name != "index.html" and "." in name.rpartition("/")[2]:
            return None
        return self._files.get("index.html") or _explanation()

    def is_built(self) -> bool:
        return (self._folder / "index.html").exists()

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


def page_remedy() -> str:
    """Return how to get the page where it is not built."""
    return f"run `make page` in {_CLONE}" if _is_clone() else _INSTALL_AGAIN


def _explanation() -> StaticFile:
    """Return the page that says that there is none. It does not tell strangers where the clone is."""
    remedy = "run <code>make page</code> in the clone of loopty" if _is_clone() else _INSTALL_AGAIN
    return StaticFile(_MISSING.format(remedy=remedy).encode(), b"", _TYPES[".html"], is_lasting=False)


def _is_clone() -> bool:
    return (_CLONE / "page/build.mjs").exists()
