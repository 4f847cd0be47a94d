"""The compiled launcher in a folder of its own, so that tests neither need nor change the user's."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

from loopty.sandboxes.launcher_program_file import build_program


@contextlib.contextmanager
def use_compiled_launcher(folder: Path) -> Iterator[bool]:
    """Launchers that start meanwhile use a program built here; whether there is one, which needs a compiler."""
    folder.chmod(0o700)
    with mock.patch("loopty.sandboxes.launcher_program_file.user_cache", return_value=folder):
        yield build_program()
