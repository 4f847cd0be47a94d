"""Which objects of a repository exist, and which of them others reach."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from loopty.kit.atomic_file import write_atomically
from loopty.kit.deflate import deflate
from loopty.kit.temporary_top import temporary_top
from loopty.workspaces.git_command import GitCommand, git_argv
from loopty.workspaces.git_session import GitError
from loopty.workspaces.pack_file import NewObject


class ObjectGraph:
    """The objects of a repository and what they name."""

    def __init__(self, git: GitCommand, folder: Path) -> None:
        """`folder` has the objects."""
        self._git = git
        self._folder = folder

    def objects_that_exist(self, names: Iterable[str]) -> list[str]:
        """Those of these objects that exist."""
        question = "".join(f"{name}\n" for name in dict.fromkeys(names)).encode()
        lines = self._git.run("cat-file", "--batch-check", stdin=question).splitlines() if question else []
        return [line.split()[0] for line in lines if not line.endswith(" missing")]

    def reachable(self, commits: Iterable[str], everything_except: Sequence[str] = ()) -> Iterator[str]:
        """What these commits reach: commits, trees and blobs. An object that is missing reaches nothing.

        With `everything_except`, also what refs, reflogs, indexes and working trees reach, without these refs.
        """
        tips = "".join(f"{commit}\n" for commit in commits).encode()
        more = (*(f"--exclude={ref}" for ref in everything_except), "--all", "--reflog", "--indexed-objects")
        options = ("--objects", "--no-object-names", "--missing=allow-any", "--stdin")
        argv = git_argv("rev-list", *options, *(more if everything_except else ()))
        self._git.show_all_objects()
        with tempfile.TemporaryFile(dir=temporary_top()) as question:
            question.write(tips)
            question.seek(0)
            env = {**self._git.env, "GIT_NO_LAZY_FETCH": "1"}
            with subprocess.Popen(
                argv,
                stdin=question,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=env,
                cwd=self._git.git_dir,
            ) as child:
                assert child.stdout
                assert child.stderr
                for line in child.stdout:
                    yield line.decode().strip()
                message = child.stderr.read().decode(errors="replace").strip()
        if child.returncode:
            raise GitError("rev-list", message)

    def loose_object(self, name: str) -> Path:
        """Where git keeps an object that is in no pack."""
        return self.folder() / name[:2] / name[2:]

    def write_loose(self, item: NewObject) -> None:
        """Write an object as git does: a read-only file, as a whole, flushed to disk when the system chooses.

        An object that exists is overwritten with itself: that is rare, and checking would cost more.
        """
        raw = f"{item.kind} {len(item.content)}\0".encode() + item.content
        write_atomically(f"{self._folder}/{item.name[:2]}", item.name[2:], deflate(raw, 1), mode=0o444)

    def folder(self) -> Path:
        """Where git keeps the objects of this repository."""
        return self._folder
