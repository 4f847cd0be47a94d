"""The directory for temporary files."""

# Without pathlib: tempfile works with texts, too.
# ruff: noqa: PTH100, PTH109, PTH112
from __future__ import annotations

import os

_VARIABLES = ("TMPDIR", "TEMP", "TMP")
_USUAL = ("/tmp", "/var/tmp", "/usr/tmp")


def temporary_top() -> str:
    """The directory that Python's `tempfile` would choose.

    That writes a file to each candidate to try it, and a kill at this instant would leave the file there.
    """
    for name in (*map(os.environ.get, _VARIABLES), *_USUAL):
        if name and os.path.isdir(path := os.path.abspath(name)) and os.access(path, os.W_OK | os.X_OK):
            return path
    return os.getcwd()
