"""The skills: short, complete, and true about the version and the verbs."""

import re

import pytest

from loopty.cli.verbs import GROUPS
from loopty.features.agents.hosts.installation import OWN_LINE, shipped_skills
from loopty.version import __version__

SKILLS = shipped_skills()


def test_there_are_five():
    assert {*SKILLS} == {
        f"loopty-{name}" for name in ("discover", "optimize", "subagent", "report", "infra-setup")
    }


@pytest.mark.parametrize("name", SKILLS)
def test_a_skill_has_at_most_500_words_and_names_itself_and_its_version(name):
    text = SKILLS[name]
    assert len(text.split()) <= 500
    head = text.split("---")[1]
    assert f"\nname: {name}\n" in head
    assert re.search(r"\ndescription: \S.{50,}", head)
    assert f"\n{OWN_LINE}{__version__}\n" in head
    assert "{version}" not in text
    assert "docs/" not in text, "the install brings no pages"


@pytest.mark.parametrize("name", SKILLS)
def test_a_skill_names_verbs_and_options_that_exist(name):
    import click

    from loopty.cli.click_group import loopty as all_verbs

    context = click.Context(all_verbs)
    for code in re.findall(r"`(loopty [^`]+)`", SKILLS[name]):
        verb, *rest = code.split()[1:]
        if verb == "--version":
            continue
        command = all_verbs.get_command(context, verb)
        if verb in GROUPS:
            command = command.get_command(context, rest[0])
        assert command, code
        options = {option for param in command.params for option in param.opts}
        assert {word for word in rest if word.startswith("--")} <= options, code
