"""What `loopty init` asks the user."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, TypeVar

import click

from loopty.cli.output import say_paragraph

if TYPE_CHECKING:
    from loopty.causes.cause import Cause

T = TypeVar("T")
DIRECTIONS = click.Choice(["max", "min"])


class Questions:
    """Asks the user; with --yes or without a terminal it takes what is proposed."""

    def __init__(self, yes: bool) -> None:
        self._yes = yes
        self.has_terminal = sys.stdin.isatty() and not yes

    @property
    def is_open(self) -> bool:
        """Whether proposals may become part of the task: the user sees them, or has accepted them."""
        return self._yes or self.has_terminal

    def ask(self, question: str, default: T, kind: click.ParamType[T] | None = None) -> T:
        """The user's answer, of the default's type."""
        if not self.has_terminal:
            return default
        answer: T = click.prompt(question, default=default, type=kind, err=True)
        return answer

    def direction(self, default: str) -> str:
        """Which values of the score are better."""
        return self.ask("Is a higher or a lower score better?", default, DIRECTIONS)

    def require(self, question: str, flag: str, proposal: str) -> str:
        """The user's answer; an error that names the missing option where nobody can be asked."""
        from loopty.domain.errors import Misuse

        if self._yes and proposal:
            return proposal
        if not self.has_terminal:
            remedy = f"; loopty proposes {proposal!r}, which --yes accepts" if proposal else ""
            raise Misuse(f"{flag} is missing, and there is no terminal to ask on{remedy}")
        return str(click.prompt(question, default=proposal or None, err=True))

    def consent(self, cause: Cause) -> bool:
        """Whether a remedy that lets trials see more than the repository may be applied."""
        from loopty.causes.cause import Reach

        if not self.has_terminal:
            return self._yes and cause.reach is not Reach.OUTSIDE
        say_paragraph(f"{cause.sentence}; {cause.remedy}")
        return click.confirm("Do this?", err=True)
