"""Skips tests whose programs are missing or do not run here, and says which."""

import pytest

from loopty.kit.installation import working_program


def needs(name: str, path: str | None = None) -> pytest.MarkDecorator:
    """A mark that skips a test without this program."""
    return pytest.mark.skipif(working_program(name, path) is None, reason=reason(name))


def require(name: str, path: str | None = None) -> str:
    """The path of this program; without it, the test is skipped."""
    found = working_program(name, path)
    if found is None:
        pytest.skip(reason(name))
    return found


def reason(name: str) -> str:
    return f"{name} is not installed, or does not run"
