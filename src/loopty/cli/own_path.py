"""Says where loopty is, for users who call it by its path: messages name it as `loopty`."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from loopty.cli.output import say


def say_own_path() -> None:
    """Say how to call loopty where it was called by a path, and a shell would not find it by its name."""
    program = Path(sys.argv[0])
    if len(program.parts) > 1 and program.name == "loopty" and shutil.which("loopty") is None:
        say(f"loopty is not on your PATH; call it as {os.path.normpath(program.absolute())}")
