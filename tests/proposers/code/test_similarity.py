"""Vectors are compared with those of the same source alone, and asked for once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from loopty.domain.ids import NodeId
from loopty.proposers.code.similarity import Similarity

ONE, TWO = NodeId("1.1"), NodeId("1.2")


class Vectors:
    """Gives what a test says, and remembers what was asked."""

    def __init__(self, give: Callable[[str], list[float] | None]) -> None:
        self.give = give
        self.asked: list[str] = []

    async def __call__(self, texts: Sequence[str]) -> list[list[float]] | None:
        self.asked += texts
        given = [vector for text in texts if (vector := self.give(text)) is not None]
        return given if len(given) == len(texts) else None


async def test_the_closest_is_found_and_every_text_is_asked_for_once() -> None:
    vectors = Vectors(lambda text: [1.0, 0.0] if "a" in text else [0.6, 0.8])
    likeness = Similarity(vectors)
    first = await likeness.closest(["ab"], {ONE: ["b"], TWO: ["a"]})
    assert first
    assert (first.node, first.similarity) == (TWO, pytest.approx(1.0))
    again = await likeness.closest(["b"], {ONE: ["ab"], TWO: ["a"]})
    assert again
    assert again.similarity == pytest.approx(0.6)
    assert sorted(vectors.asked) == ["a", "ab", "b"]


async def test_those_who_ask_at_the_same_time_do_not_pay_for_the_same_text_twice() -> None:
    vectors = Vectors(lambda text: [1.0, float(len(text))])

    async def slowly(texts: Sequence[str]) -> list[list[float]] | None:
        await asyncio.sleep(0)
        return await vectors(texts)

    likeness = Similarity(slowly)
    await asyncio.gather(*(likeness.closest([own], {ONE: ["a"], TWO: ["b"]}) for own in ("c", "d", "e")))
    assert sorted(vectors.asked) == ["a", "b", "c", "d", "e"]


async def test_changes_are_as_alike_as_the_parts_that_differ_most() -> None:
    likeness = Similarity(Vectors(lambda text: [1.0, 0.0] if "a" in text else [0.6, 0.8]))
    found = await likeness.closest(["a", "b"], {ONE: ["a", "a"]})
    assert found
    assert found.similarity == pytest.approx(0.6)


async def test_without_vectors_nothing_is_said_and_later_they_are_asked_for_again() -> None:
    vectors = Vectors(lambda _: None)
    likeness = Similarity(vectors)
    assert await likeness.closest(["a"], {ONE: ["b"]}) is None
    vectors.give = lambda _: [1.0]
    assert await likeness.closest(["a"], {ONE: ["b"]})


async def test_vectors_of_another_length_are_not_compared_and_the_old_ones_forgotten() -> None:
    vectors = Vectors(lambda _: [1.0, 0.0])
    likeness = Similarity(vectors)
    assert await likeness.closest(["a"], {ONE: ["b"]})
    vectors.give = lambda _: [1.0, 0.0, 0.0]
    assert await likeness.closest(["c"], {ONE: ["b"]}) is None
    assert await likeness.closest(["c"], {ONE: ["b"]})
    assert vectors.asked == ["a", "b", "c", "c", "b"]


async def test_while_a_model_gives_no_vectors_n_grams_decide_and_are_never_compared_with_its_own(
    world: Any, block: Callable[..., str]
) -> None:
    vectors = Vectors(lambda text: [1.0, 0.0] if "* y" in text else [0.0, 1.0])
    long = (
        "def area(x):\n"
        + "".join(f"    {word} = lookup(x, y)\n" for word in "abcdefghijklmnop")
        + "    return p\n"
    )
    world.tried({"src/main.py": long}, 0.5)
    world.tried({"src/main.py": "def area(x):\n    y = x * y\n    return y + 7\n"}, 0.4)
    proposer = world.proposer(embed=vectors)

    far = block("    y = x * 2", "    z = total(x * y)")
    assert "all but the same as 1.2 (similarity 1.000)" in (await world.refused(proposer, far, far)).reason

    vectors.give = lambda _: None
    await world.proposed(proposer, block("    y = x * 2", "    w = whole(x * y)"))
    near = f"src/main.py\n```\n{long.replace('return p', 'return  p  or  a')}```\n"
    assert "all but the same as 1.1" in (await world.refused(proposer, near, near)).reason

    vectors.give = lambda text: [1.0, 0.0] if "* y" in text else [0.0, 1.0]
    other = block("    y = x * 2", "    v = more(x * y)")
    assert "all but the same as 1.2 (similarity 1.000)" in (await world.refused(proposer, other, other)).reason
