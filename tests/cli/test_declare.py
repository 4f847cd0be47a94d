"""A plain command line means here what it means to click, and every other is left to click."""

from __future__ import annotations

import click
import pytest

from loopty.cli import declare
from loopty.cli.verbs import VERBS, verb_place
from loopty.kit.by_name import by_name

DECLARED = [verb for verb in VERBS if isinstance(by_name(verb_place(verb)), declare.Verb)]


@declare.command("sample")
@declare.argument("first", type=declare.Kind("word", lambda word: word.upper()))
@declare.argument("rest", nargs=-1)
@declare.option("-m", "--message", default="by hand", show_default=True)
@declare.option("--param", "params", multiple=True)
@declare.option("--count", type=int)
@declare.option("--share", default=0.5)
@declare.option("--top", type=declare.kind_of_click("IntRange", min=1), default=1)
@declare.option("--dry-run", is_flag=True)
def sample(**_values):
    """Do something."""


def click_values(command, words):
    return command.for_click().make_context("sample", list(words)).params


@pytest.mark.parametrize(
    "line",
    [
        "a",
        "a b c",
        "a --dry-run b",
        "--message hello a",
        "-m hello a",
        "a --message=hello=you",
        "a --param x=1 --param y=2",
        "a --count 3 --share 0.25",
        "a --count 3 --count 4",
    ],
)
def test_a_plain_line_has_the_values_that_click_gives(line):
    words = line.split()
    assert sample.values(words) == click_values(sample, words)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "--help",
        "a -h",
        "a --unknown",
        "a --count three",
        "a --count",
        "a --message --dry-run",
        "a --dry-run=1",
        "a -mhello",
        "a -m=hello",
        "a -- -b",
        "a --top 2",
    ],
)
def test_what_is_not_plain_is_left_to_click(line):
    assert sample.call_for(line.split()) is None


def test_click_writes_the_help_of_a_declared_verb():
    text = sample.for_click().get_help(click.Context(sample.for_click(), info_name="sample"))
    assert "Usage: sample [OPTIONS] FIRST [REST]..." in text
    assert "[default: by hand]" in text
    assert "Do something." in text


@pytest.mark.parametrize("verb", DECLARED)
def test_a_verb_without_words_is_read_alike(verb):
    command = by_name(verb_place(verb))
    values = command.values([])
    if values is None:
        with pytest.raises(click.UsageError):
            click_values(command, [])
    else:
        assert values == click_values(command, [])


def test_the_verbs_of_a_loop_are_declared():
    assert {"new", "run", "status", "best", "show", "diff", "tree", "drop"} <= set(DECLARED)
