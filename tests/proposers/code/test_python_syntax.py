"""A program whose changed statements alone are parsed is judged like one that is parsed as a whole."""

import random
import sysconfig
from pathlib import Path

import pytest

from loopty.proposers.code import new_files
from loopty.proposers.code.new_files import PythonSyntax

PROGRAM = '''"""Words."""
from __future__ import annotations
import os; import sys

LIMIT = (
    1,
    2); OTHER = 3

@staticmethod
def first(x):
    if x:
        return 1
    return """a
b
"""

class Second:
    field = 1

    async def method(self):
        return await self.field

for number in range(3):
    print(number)
else:
    pass
'''


LINES = ["else:", "    x", "x = 1", '"""', "(", ")", "@f", "\\", "if x:", "    pass", "# c", "", "x; y"]


def is_valid(text: str) -> bool:
    return not new_files._error(text)


@pytest.fixture
def parsed(monkeypatch):
    """The texts that were parsed."""
    texts = []
    parse = new_files._error

    def note(text):
        texts.append(text)
        return parse(text)

    monkeypatch.setattr(new_files, "_error", note)
    return texts


def test_only_the_changed_statements_are_parsed(parsed):
    syntax = PythonSyntax()
    assert syntax.new_error(PROGRAM, PROGRAM.replace("return 1", "return 2")) == ""
    assert syntax.new_error(PROGRAM, PROGRAM.replace("return 1", "return 3")) == ""
    parsed.clear()
    assert syntax.new_error(PROGRAM, PROGRAM.replace("return 1", "return 4")) == ""
    (part,) = parsed
    assert part.startswith("@staticmethod\ndef first(x):")
    assert "class" not in part


def test_a_program_like_a_known_one_is_not_parsed_as_a_whole(parsed):
    syntax = PythonSyntax()
    for number in (2, 3):
        syntax.new_error(PROGRAM, PROGRAM.replace("return 1", f"return {number}"))
    child = PROGRAM.replace("OTHER = 3", "OTHER = 4\nMORE = 5")
    parsed.clear()
    assert syntax.new_error(child, child.replace("print(number)", "print(-number)")) == ""
    assert all(len(part) < len(PROGRAM) / 4 for part in parsed)


def test_an_error_has_its_place_in_the_whole_text():
    syntax = PythonSyntax()
    for _ in range(3):
        assert syntax.new_error(PROGRAM, PROGRAM.replace("return 1", "return ]")).startswith("line 12: ")
    assert syntax.new_error(PROGRAM, f"{PROGRAM}global LIMIT\n").startswith("line 27: ")


def test_a_name_that_is_assigned_before_an_old_global_statement_is_an_error():
    syntax = PythonSyntax()
    program = f"{PROGRAM}global late\nlate = 1\n"
    for _ in range(3):
        assert not syntax.new_error(program, program.replace("OTHER = 3", "OTHER = 4"))
        assert "global" in syntax.new_error(program, program.replace("OTHER = 3", "late = 3"))


def test_a_program_that_was_not_valid_before_may_stay_so():
    syntax = PythonSyntax()
    for _ in range(3):
        assert syntax.new_error("x = (\n", "x = [\n") == ""
        assert syntax.new_error("", "def f(:\n")


def changed(rng: random.Random, lines: list[str]) -> list[str]:
    new, at = list(lines), rng.randrange(len(lines) + 1)
    match rng.randrange(6):
        case 0:
            del new[at : at + rng.randrange(1, 4)]
        case 1:
            new[at:at] = rng.choices(lines, k=rng.randrange(1, 4))
        case 2:
            words = [
                "else:",
                "    x",
                "x = 1",
                '"""',
                "(",
                ")",
                "@f",
                "\\",
                "if x:",
                "    pass",
                "# c",
                "",
                "x; y",
            ]
            new[at:at] = rng.choices(words, k=rng.randrange(1, 3))
        case 3:
            new[at:at] = ["global LIMIT", "nonlocal x", "return 1", "yield", "await x"][: rng.randrange(6)]
        case 4 if at < len(new):
            new[at] = new[at][: rng.randrange(len(new[at]) + 1)]
        case _ if at < len(new):
            new[at] = f" {new[at]}"
    return new


@pytest.mark.parametrize("seed", range(6))
def test_any_change_is_judged_as_by_python(seed):
    rng, syntax = random.Random(seed), PythonSyntax()
    programs = [PROGRAM] + [
        text
        for path in rng.sample(sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")), 6)
        if len(text := path.read_text(errors="replace")) < 40_000 and is_valid(text)
    ]
    refused = 0
    for program in programs:
        for _ in range(120):
            text = "\n".join(changed(rng, program.split("\n")))
            error = syntax.new_error(program, text)
            assert bool(error) == (not is_valid(text)), (seed, error)
            refused += bool(error)
    assert refused > 50


@pytest.mark.parametrize("seed", range(6))
def test_the_statements_of_programs_that_descend_from_another_are_those_that_python_finds(seed):
    rng, syntax = random.Random(seed), PythonSyntax()
    program = PROGRAM
    for _ in range(400):
        text = "\n".join(changed(rng, program.split("\n")))
        error = syntax.new_error(program, text)
        assert bool(error) == (not is_valid(text)), (seed, error)
        for known, lines in syntax._statements.items():
            assert lines == new_files._statement_lines(known)
        if not error and len(text) < 3_000 and rng.random() < 0.5:
            program = text


def test_a_change_that_goes_on_in_the_next_statement_is_seen():
    syntax = PythonSyntax()
    for _ in range(3):
        assert not syntax.new_error(PROGRAM, PROGRAM.replace("OTHER = 3", "OTHER = 4"))
        assert syntax.new_error(PROGRAM, PROGRAM.replace("import sys\n\n", "import sys \\\n"))
