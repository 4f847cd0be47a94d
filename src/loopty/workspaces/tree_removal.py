"""Removes what a trial has written: follows no link, and copes with any depth and any mode."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path


def remove_tree(folder: Path) -> None:
    """Remove the folder and everything below it, if it exists; of a link only the link."""
    if folder.is_symlink():
        folder.unlink()  # `chmod -R` below would follow it
        return
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        return
    except (OSError, RecursionError):
        # Directories nested thousands deep exceed Python's recursion limit and the kernel's longest path; rm walks
        # by descriptors. Directories that deny access to their own owner are made accessible first.
        subprocess.run(["chmod", "-R", "u+rwX", "--", folder], capture_output=True)
        subprocess.run(["rm", "-rf", "--", folder], capture_output=True)
