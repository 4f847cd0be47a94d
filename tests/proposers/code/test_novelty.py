"""A change that was tried before is recognised before anybody pays for a trial."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from loopty.domain.proposal import Objection
from loopty.domain.trial import Pool
from loopty.proposers.code.novelty import normalise

Block = Callable[..., str]


@pytest.mark.parametrize(
    ("path", "one", "other"),
    [
        ("a.py", "x = 1\n", "x = 1  # one\n\n\n"),
        ("a.py", "x = 1\n", "# one\r\nx = 1\r\n"),
        ("a.py", "def f():\n    return (1)\n", 'def f():\n    """One."""\n    return 1\n    print(2)\n'),
        ("a.c", "int x; /* a\nb */\n", "  int x;  // c\n"),
        ("a.js", "let x;\n", "/** doc */\nlet x;\n"),
        ("a.f90", "x = 1\n", "x = 1 ! one\n"),
        ("a.unknown", "a b\n", "a b  \n"),
    ],
)
def test_comments_and_white_space_make_no_difference(path: str, one: str, other: str) -> None:
    assert normalise(one, path) == normalise(other, path)


@pytest.mark.parametrize(
    ("path", "one", "other"),
    [
        ("a.py", "if x:\n    a()\n    b()\n", "if x:\n    a()\nb()\n"),
        ("a.py", "s = 'a  # b'\n", "s = 'a'\n"),
        ("a.py", "# cython: boundscheck=False\nx = 1\n", "x = 1\n"),
        ("a.py", 'def f():\n    """1"""\nprint(f.__doc__)\n', 'def f():\n    """2"""\nprint(f.__doc__)\n'),
        ("a.py", "x = alpha\n", "x = beta\n"),
        ("a.pyx", "# cython: boundscheck=False\nx = 1\n", "x = 1\n"),
        ("a.c", "#pragma omp parallel\nf();\n", "f();\n"),
        ("a.c", "#include <a.h>\nf();\n", "f();\n"),
        ("a.f90", "!$omp parallel\nx = 1\n", "x = 1\n"),
        ("a.go", "//go:noinline\nfunc f() {}\n", "func f() {}\n"),
        ("a.js", "class A { x = 1 }\n", "class A {\n  #x = 1\n}\n"),
        ("prompt.md", "# Answer shortly\ntext\n", "# Answer at length\ntext\n"),
    ],
)
def test_text_that_a_compiler_or_a_reader_sees_makes_a_difference(path: str, one: str, other: str) -> None:
    assert normalise(one, path) != normalise(other, path)


async def test_a_change_of_comments_alone_is_refused_after_a_retry(world: Any, block: Block) -> None:
    reply = block("    y = x * 2", "    # twice\n    y = x * 2")
    refusal = await world.get_refusal(world.proposer(), reply, reply)
    assert refusal.objection is Objection.DUPLICATE
    assert refusal.reason == "it would change nothing that runs in @1"
    assert "Try something else." in world.last_prompt()


async def test_a_change_that_equals_an_earlier_node_apart_from_comments_is_refused_with_its_name(
    world: Any, block: Block
) -> None:
    world.try_edits({"src/main.py": "def area(x):\n    y = x * 3\n    return y + 7\n"}, 0.5)
    reply = block("    y = x * 2", "    y = x * 3  # more")
    refusal = await world.get_refusal(world.proposer(), reply, reply)
    assert refusal.objection is Objection.DUPLICATE
    assert refusal.reason == "in all that runs it is the same as @2"


async def test_the_path_to_an_earlier_node_does_not_matter(world: Any, block: Block) -> None:
    world.try_edits({"src/main.py": "A = 1\n", "src/other.py": "LIMIT = 20\n"}, 0.5)
    world.try_edits({"src/main.py": "A = 1\n"}, 2.0)
    reply = block("LIMIT = 10", "LIMIT = 20", "src/other.py")
    assert "same as @2" in (await world.get_refusal(world.proposer(), reply, reply)).reason
    back = "src/main.py\n```\ndef area(x):\n    y = x * 2\n\n    return y + 7\n```\n"
    assert "same as @1" in (await world.get_refusal(world.proposer(), back, back)).reason


async def test_a_new_proposer_knows_the_earlier_changes(world: Any, block: Block) -> None:
    first = await world.get_proposal(world.proposer(), block("    y = x * 2", "    y = x * 3"))
    world.end(world.add(first), 0.5)
    same = block("    y = x * 2", "    y = x * 3 ")
    assert "same as @2" in (await world.get_refusal(world.proposer(), same, same)).reason


async def test_other_pools_are_other_searches(world: Any, block: Block) -> None:
    world.try_edits({"src/main.py": "def area(x):\n    y = x * 3\n    return y + 7\n"}, 0.5, pool=Pool.CONTROL)
    await world.get_proposal(world.proposer(), block("    y = x * 2", "    y = x * 3  # more"))
