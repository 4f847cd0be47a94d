"""One way to run the tests of a repository."""

from __future__ import annotations

from loopty.causes.absent_results import command_with_timer
from loopty.kit.records import Record


class RepositoryTests(Record):
    """The command that runs the tests, and what has to be done before."""

    line: str
    setup: str = ""
    """What has to be done before."""
    warm_up: str = ""
    """What builds the tests, so that their time does not have it."""
    writable_copy: bool = False
    """Whether the build writes beside the sources."""
    is_part: bool = False
    """Whether these are only some of the tests."""

    @property
    def gate_line(self) -> str:
        """Everything that the tests need, as one command."""
        return " && ".join(filter(None, (self.setup, self.line)))

    @property
    def line_with_timer(self) -> str:
        """The command whose score is the CPU time of the tests alone."""
        return command_with_timer(self.line, " && ".join(filter(None, (self.setup, self.warm_up))))
