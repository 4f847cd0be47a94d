"""Verbs by group: what `--help` lists, names of before, and hints."""

import pytest
from click.testing import CliRunner

from loopty.cli.click_group import loopty
from loopty.cli.verbs import EVERY_DAY, GROUPS, OLD_NAMES, VERBS


def output(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(loopty, words)
    assert done.exit_code == code, done.output
    return done.output


def test_help_lists_what_is_typed_every_day_and_a_line_for_each_group():
    text = output("--help")
    for name in (*EVERY_DAY, *GROUPS):
        assert f"\n  {name} " in text
    assert "\n  optimize" not in text
    assert "hook" not in text
    assert text == output("help") == output()


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_alone_lists_its_verbs(group):
    text = output(group)
    assert text == output(group, "--help") == output("help", group)
    for verb, what in GROUPS[group].verbs.items():
        assert f"{verb} " in text
        assert what.help.split()[0] in text


@pytest.mark.parametrize(("old", "new"), OLD_NAMES.items())
def test_a_name_from_before_the_groups_is_the_same_verb(old, new):
    assert new in VERBS
    older, newer = (output("help", *words).partition("\n\n") for words in ([old], new.split()))
    assert older[0].startswith(f"Usage: loopty {old} ")
    assert older[2] == newer[2]


@pytest.mark.parametrize(
    ("words", "hint"),
    [
        (("acept",), "did you mean `loopty node approve`?"),
        (("aprove",), "did you mean `loopty node approve`?"),
        (("statsu",), "did you mean `loopty status`?"),
        (("gate", "ad"), "did you mean `loopty gate add`?"),
        (("export", "best"), "did you mean `loopty export node best`?"),
        (("export", "--trials", "x.csv"), "trials is a verb, no option: `loopty export trials`"),
        (("export", "--zzz"), "No such option"),
        (("draft", "zzz"), "`loopty draft --help` lists the verbs"),
    ],
)
def test_a_misspelt_verb_gets_a_hint(words, hint):
    assert hint in output(*words, code=2)


def test_a_node_and_options_of_a_run_exclude_each_other():
    assert "are for a run" in str(CliRunner().invoke(loopty, ["run", "--check", "--new-run"]).exception)
