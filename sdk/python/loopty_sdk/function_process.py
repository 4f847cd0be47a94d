"""How the process that answers calls of a function is started."""

from __future__ import annotations

import os
import sys

from .sessions import Session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_SERVER = os.path.join(os.path.dirname(__file__), "serve.py")  # noqa: PTH118, PTH120 - pathlib is slow to import
# Stands for the same file in a sandbox: the candidate sees another file system, and loopty knows the path there.
_SERVER_IN_SANDBOX = "loopty:serve"


class FunctionProcess:
    """The interpreter, the import root and the limits of a function's process."""

    def __init__(
        self,
        target: str,
        root: str | None,
        python: str | None,
        memory_mb: int | None,
        start_seconds: float,
        env: Mapping[str, str] | None,
    ) -> None:
        if not all(target.rpartition(":")):
            raise ValueError(f"{target!r} does not name a function: write it as 'program.py:solve'")
        self._target = target
        self._root = root
        self._python = python or _own_python()
        self._memory_mb = memory_mb
        self._env = env
        self.start_seconds = start_seconds

    def start_session(self) -> Session:
        """Start the process; nothing of the candidate is loaded yet."""
        server = _SERVER_IN_SANDBOX if os.environ.get("LOOPTY_CANDIDATE") else _SERVER
        roots = () if self._root is None else (self._root,)
        command = (self._python, "-I", "-B", server, self._target, *roots)
        return Session(command, self.start_seconds, self._memory_mb, self._env, name=self._target)


def _own_python() -> str:
    """This interpreter, as the candidate sees it: one that is mounted beside the benchmark is beside it, too."""
    python = sys.executable or "python3"
    here = os.getcwd()  # noqa: PTH109 - pathlib is slow to import
    return python[len(here) + 1 :] if python.startswith(f"{here}/") else python
