"""The abilities of a stream."""

from __future__ import annotations

import io
from typing import TextIO

import pytest

from loopty.report.terminal import Terminal


class Screen(io.TextIOWrapper):
    def isatty(self) -> bool:
        return True


def screen(encoding: str = "utf-8") -> TextIO:
    return Screen(io.BytesIO(), encoding)


@pytest.mark.parametrize(
    ("env", "colour"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_colour_can_be_turned_off(env: dict[str, str], colour: bool) -> None:
    assert Terminal.for_stream(screen(), env).colour is colour


def test_a_pipe_gets_no_colour() -> None:
    assert not Terminal.for_stream(io.StringIO(), {}).colour


@pytest.mark.parametrize(("encoding", "unicode"), [("UTF-8", True), ("ascii", False), ("latin-1", False)])
def test_only_utf8_gets_unicode(encoding: str, unicode: bool) -> None:
    assert Terminal.for_stream(screen(encoding), {}).unicode is unicode


def test_characters_beyond_ascii_are_replaced() -> None:
    assert Terminal(unicode=False).render("● 長") == "o ?"
