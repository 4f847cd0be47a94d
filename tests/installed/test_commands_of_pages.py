"""The commands that the README and the pages show can be typed where loopty is installed without an extra."""

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..clean_environment import Installed
from .conftest import UserPlace

TOP = Path(__file__).parents[2]
PAGES = [TOP / "README.md", *sorted(TOP.glob("docs/*.md"))]
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SPAN = re.compile(r"`(loopty [a-z][^`]*)`")

OPTIONS = """
import json, sys
import click
from loopty.cli.click_group import loopty

context = click.Context(loopty)

def options(command, others=()):
    names = [*command.list_commands(context), *others] if isinstance(command, click.Group) else []
    found = {name: options(command.get_command(context, name)) for name in names}
    return {"commands": found, "options": ["--help", *(name for each in command.params for name in each.opts)]}

json.dump(options(loopty, ["tool", "mcp"]), sys.stdout)
"""


def blocks_of(page: Path) -> Iterator[str]:
    """The commands of loopty in the blocks of a page, as they can be pasted."""
    for language, block in BLOCK.findall(page.read_text()):
        if language in ("", "bash", "sh", "console"):
            for command in re.split(r"\n| && ", block.replace("\\\n", " ")):
                if command.removeprefix("$ ").startswith("loopty "):
                    yield command.removeprefix("$ ").partition(" #")[0].rstrip()


def test_every_command_names_a_verb_and_its_options(installed: Installed) -> None:
    python = installed.venv / "bin/python"
    printed = subprocess.check_output([python, "-c", OPTIONS], env=installed.environment(), text=True)
    verbs = json.loads(printed)
    wrong = []
    for page in PAGES:
        for line in (*blocks_of(page), *SPAN.findall(page.read_text())):
            words = re.sub("'[^']*'", "TEXT", line).split()[1:]
            known = verbs["commands"].get(words[0])
            if known and known["commands"] and len(words) > 1:
                known = known["commands"].get(words[1])
            own = words[: words.index("--")] if "--" in words else words
            given = [re.split("[=\\]]", word.strip("[,."))[0] for word in own if word.startswith(("--", "[--"))]
            if not known or not set(given) <= set(known["options"]):
                wrong.append(f"{page.name}: {line}")
    assert wrong == []


ELSEWHERE = {
    "--on": "another machine",
    "--listen": "another machine",
    "postgresql:": "the extra `postgres`",
    "s3:": "a bucket",
    "--store": "a directory that machines share",
    "--fetch": "a network",
    "--arm": "task files",
    "audit": "a held-out split: test_verbs.py has one",
    "loopty evolve": "an evaluator: end_to_end/test_evolve.py has some",
    "dashboard": "an end: test_verbs.py asks it for a page",
    "evolve": "files of another tool: test_verbs.py has some",
    "replay": "a file from elsewhere",
}
"""Words of commands that need what is not here."""


@pytest.mark.parametrize("page", [page for page in PAGES if [*blocks_of(page)]], ids=lambda page: page.stem)
def test_what_a_page_shows_works_on_a_repository(place: UserPlace, page: Path) -> None:
    place.loopty("init", "--command", "python3 bench.py", "--write", "program.py", "--attempts", "2")
    place.loopty("run", "1")
    place.loopty("run", place.edited_draft(5))
    for line in dict.fromkeys(blocks_of(page)):
        if not any(word in line for word in ("loopty init", *ELSEWHERE)):
            place.loopty(*shlex.split(line)[1:])
