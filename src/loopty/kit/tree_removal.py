"""Removes a directory with everything below it, by handles, whatever its depth and modes."""

from __future__ import annotations

import errno
import os
import subprocess

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove_tree(name: str, folder: int) -> None:
    """Remove this directory of an open folder. A link below it is removed, and never followed."""
    try:
        _remove(name, folder)
    except (OSError, RecursionError):
        # Directories nested thousands deep exceed Python's recursion limit and the kernel's longest path;
        # rm walks by descriptors. Directories that deny access to their own owner are opened first.
        here = f"/proc/{os.getpid()}/fd/{folder}"
        subprocess.run(["chmod", "-R", "u+rwX", "--", f"./{name}"], cwd=here, capture_output=True)
        subprocess.run(["rm", "-rf", "--", f"./{name}"], cwd=here, capture_output=True)


def _remove(name: str, folder: int) -> None:
    """Remove an empty directory, as most are, without a look into it."""
    try:
        os.rmdir(name, dir_fd=folder)
        return
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
    inside = os.open(name, _DIRECTORY, dir_fd=folder)
    try:
        with os.scandir(inside) as found:
            entries = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in found]
        for entry, is_directory in entries:
            if is_directory:
                _remove(entry, inside)
            else:
                os.unlink(entry, dir_fd=inside)
    finally:
        os.close(inside)
    os.rmdir(name, dir_fd=folder)
