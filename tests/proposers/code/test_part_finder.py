"""Parts of earlier changes as proposals, over a real repository and a real history."""

from __future__ import annotations

from typing import Any

from loopty.domain.ids import NodeId
from loopty.domain.pool import Pool
from loopty.domain.proposal import Objection, Proposal
from loopty.proposers.code.node_texts import TextCache
from loopty.proposers.code.part_finder import PartFinder
from loopty.record.node_record import Node
from loopty.record.part_trials import PartTrials
from loopty.record.proposals import refuse_proposal

PROGRAM = "a = 1\n\nb = 2\n\nc = 3\n\nd = 4\n"


def with_values(**values: int) -> str:
    text = PROGRAM
    for name, value in values.items():
        before = next(line for line in PROGRAM.split("\n") if line.startswith(f"{name} ="))
        text = text.replace(before, f"{name} = {value}")
    return text


async def next_part(world: Any) -> Proposal:
    """The next proposal of a new proposer, which always tries a part where there is one."""
    return await world.get_proposal(world.proposer("part"))


async def try_part(world: Any, score: float | None) -> Node:
    return world.end(world.add(await next_part(world)), score)


def text_of(proposal: Proposal) -> object:
    (text,) = proposal.edits.values()
    return text


def make_world(world_of: Any) -> Any:
    return world_of({"src/main.py": PROGRAM, "evaluate.py": "print('score')\n"})


def try_values(world: Any, score: float | None, parent: str = "1", **values: int) -> Node:
    return world.try_edits({"src/main.py": with_values(**values)}, score, parent=parent)


async def test_a_part_of_a_change_that_was_not_kept_is_tried_alone(world_of: Any) -> None:
    world = make_world(world_of)
    try_values(world, 0.9, a=10, c=30)
    proposal = await next_part(world)
    assert (proposal.operator, proposal.parent, proposal.inspirations) == ("part:alone", "1", ("1.1",))
    assert text_of(proposal) == with_values(a=10)
    assert proposal.summary == "part 1 of 2 of @2: src/main.py, line 1"
    assert proposal.calls == ()
    assert "expected gain -0.05, by what @2 and its parts did" in proposal.arm_reason
    world.add(proposal)
    assert text_of(await next_part(world)) == with_values(c=30)


async def test_a_part_of_a_kept_change_is_left_out(world_of: Any) -> None:
    world = make_world(world_of)
    try_values(world, 1.6, a=10, c=30, d=40)
    proposal = await next_part(world)
    assert (proposal.operator, proposal.parent) == ("part:without", "1.1")
    assert text_of(proposal) == with_values(c=30, d=40)
    assert proposal.summary == "@2 without part 1 of 3: src/main.py, line 1"


async def test_what_the_measured_parts_did_says_what_to_expect_of_the_others(world_of: Any) -> None:
    world = make_world(world_of)
    try_values(world, 0.9, a=10, c=30)
    try_values(world, 0.98, b=20, d=40)
    assert (await try_part(world, 0.985)).inspirations == ("1.2",)  # -0.01 a part, against -0.05
    proposal = await next_part(world)
    assert "expected gain -0.005" in proposal.arm_reason
    # The first part of 1.1 loses more than both: so the second one may gain.
    world.add(proposal)
    assert (await try_part(world, 0.5)).inspirations == ("1.1",)
    proposal = await next_part(world)
    assert text_of(proposal) == with_values(c=30)
    assert "expected gain +0.4" in proposal.arm_reason


async def test_a_part_is_put_into_the_best_node_whatever_came_in_between(world_of: Any) -> None:
    world = make_world(world_of)
    try_values(world, 0.9, a=10, c=30)
    world.try_edits({"src/main.py": "import math\n" + with_values(a=11)}, 2.0)
    proposal = await next_part(world)
    assert (proposal.operator, proposal.parent) == ("part:alone", "1.2")
    # The first part of 1.1 does not fit: the best node has another line there. 1.2 itself has two parts.
    assert text_of(proposal) == "import math\n" + with_values(a=11, c=30)


async def test_a_part_that_is_in_the_tree_already_is_passed_over(world_of: Any) -> None:
    world = make_world(world_of)
    try_values(world, 0.9, a=10, c=30)
    try_values(world, 0.8, a=10)
    assert text_of(await next_part(world)) == with_values(c=30)


def has_part(world: Any) -> bool:
    finder, ask = PartFinder(TextCache(world.files.text), lambda *_: None), world.ask()
    return finder.find(ask, ask.best) is not None


async def test_after_two_parts_that_failed_a_change_is_left_alone(world_of: Any) -> None:
    world = make_world(world_of)
    try_values(world, 0.9, a=10, b=20, c=30)
    assert (await try_part(world, None)).outcome is not None
    assert (await try_part(world, None)).outcome is not None
    assert not has_part(world)


def test_changes_of_one_part_of_many_or_of_whole_files_are_not_taken_apart(world_of: Any) -> None:
    names = "abcdefghijklmnopq"
    lines = [f"{name} = 1\n\n" for name in names]
    world = world_of({"src/main.py": "".join(lines), "evaluate.py": "print('score')\n"})
    changed = [line.replace("1", "2") for line in lines]
    world.try_edits({"src/main.py": "".join(changed)}, 0.9)
    world.try_edits({"src/main.py": "".join([*changed[:1], *lines[1:]])}, 0.8)
    world.try_edits({"src/main.py": "".join([*changed[:2], *lines[2:]]), "src/new.py": "A = 1\n"}, 0.7)
    assert not has_part(world)
    world.try_edits({"src/main.py": "".join([*changed[:16], *lines[16:]])}, 0.6)
    assert has_part(world)


async def test_a_part_that_breaks_the_syntax_is_not_tried(world_of: Any) -> None:
    program = "def area(x):\n    return x\n\na = 1\n"
    world = world_of({"src/main.py": program, "evaluate.py": "print('score')\n"})
    changed = "def area(x):\n    if x:\n        return x\n\na = 1\nif a:\n    a = 2\n"
    world.try_edits({"src/main.py": changed}, 0.9)
    proposal = await next_part(world)
    assert text_of(proposal) == changed.replace("\nif a:\n    a = 2", "")
    broken = "def area(x, (\n    return x\n\na = )\n"
    assert "is not valid Python" in await refusal_of(world, broken)


async def refusal_of(world: Any, text: str) -> str:
    reply = f"src/main.py\n```python\n{text}```\n"
    return (await world.get_refusal(world.proposer("rewrite"), reply, reply)).reason


async def test_after_a_refusal_another_part_is_tried_until_there_is_a_new_node(world_of: Any) -> None:
    world = make_world(world_of)
    try_values(world, 0.9, a=10, c=30, d=40)
    first = await next_part(world)
    refused = refuse_proposal(1, Pool.ATTEMPT, first.as_refusal("the same as 1.7", Objection.DUPLICATE))
    world.recorder.record(lambda _: [refused])
    assert text_of(await next_part(world)) == with_values(c=30)
    world.recorder.record(lambda _: [refused] * 2)
    assert not has_part(world)
    try_values(world, 0.1, b=20)
    assert text_of(await next_part(world)) == with_values(a=10)


async def test_the_record_knows_which_parts_were_tried(world_of: Any) -> None:
    world = make_world(world_of)
    try_values(world, 0.9, a=10, c=30)
    node = await try_part(world, 0.95)
    trials = PartTrials.of(world.recorder.history.runs[1], Pool.ATTEMPT)
    assert trials == PartTrials({NodeId("1.1"): (node.id,)}, 0)
