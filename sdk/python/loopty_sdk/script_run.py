"""Run a script of another tool in this process, as if it had been started by itself."""

from __future__ import annotations

import os
import runpy
import sys
import traceback

_MOST_PARENTS = 4


def run_script(path: str, *arguments: str) -> str:
    """Run the script; returns the error that ended it, or nothing. Its exit code is ignored.

    Its folder comes first among the places of modules. Folders above come last: examples of a repository import
    each other by their path from its top.
    """
    real = os.path.abspath(path)  # noqa: PTH100
    folder = os.path.dirname(real)  # noqa: PTH120
    sys.path.insert(0, folder)
    for _ in range(_MOST_PARENTS):
        folder = os.path.dirname(folder)  # noqa: PTH120
        sys.path.append(folder)
    sys.argv = [path, *arguments]
    try:
        runpy.run_path(real, run_name="__main__")
    except SystemExit as end:
        return end.code if isinstance(end.code, str) else ""
    except Exception as error:  # noqa: BLE001 - told as the reason
        traceback.print_exc()
        return f"{type(error).__name__}: {error}"
    finally:
        sys.stdout.flush()
    return ""
