"""The abilities of a stream, and what may reach it."""

from __future__ import annotations

import io
from typing import TextIO

import pytest

from loopty.show.terminal import SafeStream, Terminal, diff_text, safe_text


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


def test_only_own_colours_are_escape_sequences() -> None:
    below = screen()
    stream = SafeStream.over(below)
    painted = Terminal(colour=True).paint("good \x1b[31mbad\x1b[0m", "good")
    stream.write(painted + "\x1b[2J\u202e\n")
    stream.flush()
    shown = below.buffer.getvalue().decode()
    assert shown == "\x1b[32mgood \\x1b[31mbad\\x1b[0m\x1b[0m\\x1b[2J\\u202e\n"


def test_a_patch_cannot_forge_colours() -> None:
    patch = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-old\n+\x1b[8mnew\x1b[0m\r\n"
    shown = safe_text(diff_text(patch, Terminal(colour=True)))
    assert "\x1b[32m+\\x1b[8mnew\\x1b[0m\\r\x1b[0m\n" in shown
    assert "\x1b[1m--- a/x" in shown
    assert "\x1b[31m-old" in shown
