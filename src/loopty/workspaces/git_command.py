"""One git command at a time, with explicit directories, without hooks and fsmonitor."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO, Protocol
from weakref import WeakSet

from loopty.domain.errors import Misuse
from loopty.workspaces.git_folders import SAFE_CONFIG, environment_without_git
from loopty.workspaces.git_session import GitError, GitSession

END_OF_OPTIONS = "--end-of-options"
"""Before every value that a record or a person gives: what follows is never read as an option."""
_NO_USER_CONFIG = {
    "GIT_CONFIG_GLOBAL": os.devnull,
    "GIT_CONFIG_SYSTEM": os.devnull,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
}
"""For a stranger's repository: its `.gitattributes` may name programs, but only the user's files define them."""
LOOPTY = "loopty <loopty@localhost>"
"""The author of what loopty commits."""
_IDENTITY = {
    "GIT_AUTHOR_NAME": "loopty",
    "GIT_AUTHOR_EMAIL": "loopty@localhost",
    "GIT_COMMITTER_NAME": "loopty",
    "GIT_COMMITTER_EMAIL": "loopty@localhost",
}
_WITHOUT_OBJECTS = ("config", "ls-files", "check-ignore")
"""Commands that look at no object."""
_PROTOCOLS = "GIT_ALLOW_PROTOCOL"
"""Limits how git fetches, whatever a configuration allows: in a partial clone it fetches what is missing."""


class Packer(Protocol):
    """Has objects that wait for a pack."""

    @property
    def git_dir(self) -> Path: ...

    def pack_waiting(self) -> None:
        """Let git see them. Raises Misuse where that cannot be done."""
        ...


PACKERS: WeakSet[Packer] = WeakSet()
"""Those of this process: a command may need what another part of the process has added."""


class GitCommand:
    """Runs git in subprocesses for one git directory.

    In the repository of a stranger (`is_own` false) git knows none of the user's programs, so none can be chosen.
    """

    def __init__(self, git_dir: Path, is_own: bool = True) -> None:
        self.git_dir = git_dir
        self.settings = ""
        """The configuration as it was last listed."""
        self.env = {
            **environment_without_git(os.environ),
            **({} if is_own else _NO_USER_CONFIG),
            **_IDENTITY,
            "GIT_DIR": str(git_dir),
            "GIT_TERMINAL_PROMPT": "0",
            _PROTOCOLS: "" if is_own else "file",
            "LC_ALL": "C.UTF-8",
        }

    def show_all_objects(self) -> None:
        """Let git see the objects of this process that wait for a pack. Commands that need objects begin with it.

        Raises Misuse where those of this git directory cannot be packed.
        """
        for packer in tuple(PACKERS):
            try:
                packer.pack_waiting()
            except Misuse:
                if packer.git_dir == self.git_dir:
                    raise

    def allow_servers(self) -> None:
        """Let git fetch from the servers that the repository's configuration names."""
        self.env.pop(_PROTOCOLS)

    def open_session(self, *args: str, config: Iterable[str] = ()) -> GitSession:
        """A git process that stays open; it starts with the first question."""
        return GitSession(git_argv(*args, config=config), self.env, self.git_dir)

    def run(self, *args: str, **options: object) -> str:
        """The output of a git command as text. Raises GitError."""
        return self.run_bytes(*args, **options).decode(errors="surrogateescape")  # type: ignore[arg-type]

    def run_bytes(
        self,
        *args: str,
        stdin: bytes = b"",
        env: Mapping[str, str] | None = None,
        cwd: Path | None = None,
        into: IO[bytes] | None = None,
        config: Iterable[str] = (),
    ) -> bytes:
        """The output of a git command, empty where it goes `into` a file. Raises GitError."""
        if args[0] not in _WITHOUT_OBJECTS:
            self.show_all_objects()
        result = subprocess.run(
            git_argv(*args, config=config),
            input=stdin,
            stdout=into or subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**self.env, **(env or {})},
            cwd=cwd or self.git_dir,
            umask=0o022,
            process_group=0,  # Ctrl-C is for the loop, which lets running commands finish
        )
        if result.returncode:
            raise GitError(args[0], result.stderr.decode(errors="replace").strip(), result.returncode)
        return result.stdout or b""


def git_argv(*args: str, config: Iterable[str] = ()) -> list[str]:
    """The command line of git with these arguments."""
    return ["git", *SAFE_CONFIG, *(part for setting in config for part in ("-c", setting)), *args]
