"""What was tried before is recognised before a trial is paid for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from loopty.domain.pool import Pool
from loopty.domain.proposal import Objection
from loopty.proposers.code.ngrams import cosine, ngram_vectors
from loopty.proposers.code.normal_form import normalise

Block = Callable[..., str]

TABLE = """\
def area(x):
    cache = {}
    for index in range(x):
        cache[index] = lookup(index)
    total = sum(cache.values())
    return total + 7
"""


@pytest.mark.parametrize(
    ("path", "one", "other"),
    [
        ("a.py", "x = 1\n", "x = 1  # one\n\n\n"),
        ("a.py", "x = 1\n", "# one\r\nx = 1\r\n"),
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
def test_what_a_compiler_or_a_reader_sees_makes_a_difference(path: str, one: str, other: str) -> None:
    assert normalise(one, path) != normalise(other, path)


async def test_texts_are_alike_by_what_is_in_them() -> None:
    renamed = TABLE.replace("cache", "memo")
    table, spaced, changed, other, nothing = await ngram_vectors(
        [TABLE, TABLE.replace("    ", "\t"), renamed, "while True:\n    send(request)\n" * 5, ""]
    )
    assert cosine(table, spaced) == pytest.approx(1.0)
    assert 0.5 < cosine(table, changed) < 0.97
    assert abs(cosine(table, other)) < 0.3
    assert cosine(table, nothing) < 0.3
    assert cosine([0.0], [0.0]) == 0.0


async def test_a_change_of_comments_alone_is_refused_after_it_was_fed_back(world: Any, block: Block) -> None:
    reply = block("    y = x * 2", "    # twice\n    y = x * 2")
    refusal = await world.refused(world.proposer(), reply, reply)
    assert refusal.objection is Objection.DUPLICATE
    assert refusal.reason == "only comments or white space of 1 would change"
    assert "Try something else." in world.said()


async def test_what_an_earlier_node_is_but_for_comments_is_refused_and_the_node_named(
    world: Any, block: Block
) -> None:
    world.tried({"src/main.py": "def area(x):\n    y = x * 3\n    return y + 7\n"}, 0.5)
    reply = block("    y = x * 2", "    y = x * 3  # more")
    refusal = await world.refused(world.proposer(), reply, reply)
    assert refusal.objection is Objection.DUPLICATE
    assert refusal.reason == "but for comments and white space it is the same as 1.1"


async def test_the_way_to_an_earlier_node_does_not_matter(world: Any, block: Block) -> None:
    world.tried({"src/main.py": "A = 1\n", "src/other.py": "LIMIT = 20\n"}, 0.5)
    world.tried({"src/main.py": "A = 1\n"}, 2.0)
    reply = block("LIMIT = 10", "LIMIT = 20", "src/other.py")
    assert "same as 1.1" in (await world.refused(world.proposer(), reply, reply)).reason
    back = "src/main.py\n```\ndef area(x):\n    y = x * 2\n\n    return y + 7\n```\n"
    assert "same as 1" in (await world.refused(world.proposer(), back, back)).reason


async def test_a_proposer_made_anew_knows_what_was_tried(world: Any, block: Block) -> None:
    first = await world.proposed(world.proposer(), block("    y = x * 2", "    y = x * 3"))
    world.ended(world.added(first), 0.5)
    same = block("    y = x * 2", "    y = x * 3 ")
    assert "same as 1.1" in (await world.refused(world.proposer(), same, same)).reason


async def test_other_pools_are_other_searches(world: Any, block: Block) -> None:
    world.tried({"src/main.py": "def area(x):\n    y = x * 3\n    return y + 7\n"}, 0.5, pool=Pool.CONTROL)
    await world.proposed(world.proposer(), block("    y = x * 2", "    y = x * 3  # more"))


async def test_what_is_all_but_the_same_as_a_sibling_is_refused(world: Any) -> None:
    longer = TABLE * 5
    world.tried({"src/main.py": longer}, 0.5)
    almost = f"src/main.py\n```\n{longer.replace('return total', 'return totals', 1)}```\n"
    refusal = await world.refused(world.proposer(), almost, almost)
    assert refusal.objection is Objection.DUPLICATE
    assert "all but the same as 1.1" in refusal.reason
    await world.proposed(world.proposer(similarity=1.0), almost)


async def test_another_number_is_another_experiment(world: Any) -> None:
    longer = TABLE * 5
    world.tried({"src/main.py": longer}, 0.5)
    await world.proposed(world.proposer(), f"src/main.py\n```\n{longer.replace('+ 7', '+ 8', 1)}```\n")


async def test_what_failed_may_be_tried_again_with_a_small_difference(world: Any) -> None:
    longer = TABLE * 5
    world.tried({"src/main.py": longer}, None)
    mended = f"src/main.py\n```\n{longer.replace('return total', 'return totals', 1)}```\n"
    await world.proposed(world.proposer(), mended)


async def test_vectors_may_come_from_elsewhere_and_each_change_is_asked_for_once(world: Any, block: Block) -> None:
    asked: list[str] = []

    async def embed(texts: Sequence[str]) -> list[list[float]]:
        asked.extend(texts)
        return [[1.0, 0.0] if "* y" in text else [0.0, 1.0] for text in texts]

    world.tried({"src/main.py": "def area(x):\n    y = x * y\n    return y + 7\n"}, 0.5)
    proposer = world.proposer(embed=embed)
    same = block("    y = x * 2", "    z = x * y")
    refusal = await world.refused(proposer, same, same)
    assert "all but the same as 1.1 (similarity 1.000)" in refusal.reason
    await world.proposed(proposer, block("    y = x * 2", "    y = x - y"))
    assert len(asked) == 4, "what goes once, and what comes once for each change, however often it is proposed"
    assert all(text.startswith("src/main.py\n") for text in asked)


async def test_a_rewrite_of_a_long_file_is_compared_by_what_comes_and_not_by_what_goes_alone(world: Any) -> None:
    parent = "".join(f"former_{'x' * index} = lookup(former)\n" for index in range(300))
    world.tried({"src/main.py": parent}, 2.0)
    world.tried({"src/main.py": "one = first(attempt)\n"}, 0.5, parent="1.1")
    await world.proposed(world.proposer(), "src/main.py\n```\nanother = quite(different(thing))\n```\n")
