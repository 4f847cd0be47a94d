"""`loopty init --agent`: the user's coding agent writes the benchmark, and is told what the proof of it found."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from loopty.cli.output import say, say_paragraph
from loopty.domain.errors import Misuse
from loopty.git.repository import Repository
from loopty.kit.contents import write_atomically
from loopty.kit.foreign_text import one_line
from loopty.sandboxes.installations import repository_environments
from loopty.show.terminal import printable_line

if TYPE_CHECKING:
    from loopty.features.setup.skeleton import Skeleton

_SECONDS = 1200.0
_MOST_ROUNDS = 3
_PROMPT = """\
Write the benchmark {path}. It is begun: its first lines are your task. Read the code of this repository first, run
what you write with `{command}`, and change it until it works. Edit {path} alone: no other file is taken.

loopty then proves it: it slows the code down, and the number has to grow in proportion; it adds a comment, and the
number has to stay; it plants mistakes, and the check has to fail. So nearly all of the measured time has to be in
the code of the repository, and the check has to compare results of many kinds of inputs.
"""
_AGAIN = """
An earlier version of {path} is in place. loopty's proof of it said:

{problem}

Change it so that this holds.
"""


class BenchmarkAuthor:
    """Has an agent write the file, once more for each proof that fails."""

    def __init__(
        self, agent: str, repository: Repository, files: Sequence[str], begun: Skeleton, unsafe: bool
    ) -> None:
        self.command = begun.command
        self._agent = agent
        self._repository = repository
        self._files = [file for file in files if file != begun.path]
        self._path = begun.path
        self._text = begun.text
        self._unsafe = unsafe
        self._rounds = 0

    @property
    def may_write_again(self) -> bool:
        return self._rounds < _MOST_ROUNDS

    def write(self, problem: str, asks: bool) -> None:
        """Have the file written, show it, and put it into the repository. Raises Misuse where there is none."""
        from loopty.features.agents.one_session import agent_choice, let_agent_write

        self._rounds += 1
        top = self._repository.top
        prompt = _PROMPT.format(path=self._path, command=self.command)
        if problem:
            prompt += _AGAIN.format(path=self._path, problem=problem)
        say_paragraph(
            f"{one_line(self._agent, 60)} writes {self._path}, in the sandbox, "
            f"for at most {_SECONDS / 60:g} minutes"
        )
        ignored = self._repository.working_tree.paths_that_git_ignores()
        self._text = let_agent_write(
            agent_choice(self._agent, _SECONDS),
            prompt,
            top,
            self._files,
            (self._path, self._text),
            environments=tuple(one.folder for one in repository_environments(top, ignored)),
            unsafe=self._unsafe,
        )
        click.echo("\n".join(map(printable_line, self._text.splitlines())), err=True)
        if asks and not click.confirm(f"Use this as {self._path}?", default=True, err=True):
            say("nothing was written")
            sys.exit(1)
        path = top / self._path
        if path.parent.is_symlink():
            raise Misuse(f"{path.parent} is a link, which loopty does not follow: make it a folder")
        write_atomically(path.parent, path.name, self._text.encode())
