"""Only vectors of the same source are compared, and each is asked for once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from loopty.domain.ids import NodeId
from loopty.proposers.code.similarity import Similarity

ONE, TWO = NodeId("1.1"), NodeId("1.2")


class Vectors:
    """Gives the vectors of a test, and records the texts."""

    def __init__(self, give: Callable[[str], list[float] | None]) -> None:
        self.give = give
        self.asked: list[str] = []

    async def __call__(self, texts: Sequence[str]) -> list[list[float]] | None:
        self.asked += texts
        vectors = [vector for text in texts if (vector := self.give(text)) is not None]
        return vectors if len(vectors) == len(texts) else None


async def test_the_closest_node_is_found_and_every_text_is_embedded_once() -> None:
    vectors = Vectors(lambda text: [1.0, 0.0] if "a" in text else [0.6, 0.8])
    similarity = Similarity(vectors)
    first = await similarity.closest(["ab"], {ONE: ["b"], TWO: ["a"]})
    assert first
    assert (first.node, first.similarity) == (TWO, pytest.approx(1.0))
    again = await similarity.closest(["b"], {ONE: ["ab"], TWO: ["a"]})
    assert again
    assert again.similarity == pytest.approx(0.6)
    assert sorted(vectors.asked) == ["a", "ab", "b"]


async def test_parallel_questions_do_not_pay_for_the_same_text_twice() -> None:
    vectors = Vectors(lambda text: [1.0, float(len(text))])

    async def slowly(texts: Sequence[str]) -> list[list[float]] | None:
        await asyncio.sleep(0)
        return await vectors(texts)

    similarity = Similarity(slowly)
    await asyncio.gather(*(similarity.closest([own], {ONE: ["a"], TWO: ["b"]}) for own in ("c", "d", "e")))
    assert sorted(vectors.asked) == ["a", "b", "c", "d", "e"]


async def test_changes_are_as_similar_as_their_least_similar_texts() -> None:
    similarity = Similarity(Vectors(lambda text: [1.0, 0.0] if "a" in text else [0.6, 0.8]))
    closest_node = await similarity.closest(["a", "b"], {ONE: ["a", "a"]})
    assert closest_node
    assert closest_node.similarity == pytest.approx(0.6)


async def test_without_vectors_there_is_no_answer_and_they_are_asked_for_again_later() -> None:
    vectors = Vectors(lambda _: None)
    similarity = Similarity(vectors)
    assert await similarity.closest(["a"], {ONE: ["b"]}) is None
    vectors.give = lambda _: [1.0]
    assert await similarity.closest(["a"], {ONE: ["b"]})


async def test_vectors_of_another_length_are_not_compared_and_the_old_ones_are_dropped() -> None:
    vectors = Vectors(lambda _: [1.0, 0.0])
    similarity = Similarity(vectors)
    assert await similarity.closest(["a"], {ONE: ["b"]})
    vectors.give = lambda _: [1.0, 0.0, 0.0]
    assert await similarity.closest(["c"], {ONE: ["b"]}) is None
    assert await similarity.closest(["c"], {ONE: ["b"]})
    assert vectors.asked == ["a", "b", "c", "c", "b"]


async def test_n_grams_decide_while_a_model_gives_no_vectors_and_are_never_compared_with_its_own(
    world: Any, block: Callable[..., str]
) -> None:
    vectors = Vectors(lambda text: [1.0, 0.0] if "* y" in text else [0.0, 1.0])
    long = (
        "def area(x):\n"
        + "".join(f"    {word} = lookup(x, y)\n" for word in "abcdefghijklmnop")
        + "    return p\n"
    )
    world.try_edits({"src/main.py": long}, 0.5)
    world.try_edits({"src/main.py": "def area(x):\n    y = x * y\n    return y + 7\n"}, 0.4)
    proposer = world.proposer(embed=vectors)

    far = block("    y = x * 2", "    z = total(x * y)")
    assert "almost the same as @3 (similarity 1.000)" in (await world.get_refusal(proposer, far, far)).reason

    vectors.give = lambda _: None
    await world.get_proposal(proposer, block("    y = x * 2", "    w = whole(x * y)"))
    near = f"src/main.py\n```\n{long.replace('return p', 'return  p  or  a')}```\n"
    assert "almost the same as @2" in (await world.get_refusal(proposer, near, near)).reason

    vectors.give = lambda text: [1.0, 0.0] if "* y" in text else [0.0, 1.0]
    other = block("    y = x * 2", "    v = more(x * y)")
    assert "almost the same as @3 (similarity 1.000)" in (await world.get_refusal(proposer, other, other)).reason
