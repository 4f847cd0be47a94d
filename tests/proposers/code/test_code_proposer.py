"""Batches, retries and resumed replies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from loopty.domain.errors import Exhausted
from loopty.domain.ids import NodeId
from loopty.domain.model import Outage, Reply, Usage
from loopty.domain.proposal import Objection
from loopty.domain.trial import Pool
from loopty.kit.records import replace
from loopty.record.calls import Spend
from loopty.record.nodes import Proposals
from loopty.record.trials import TrialCounts

Block = Callable[..., str]


def several(*bodies: str) -> str:
    numbered = enumerate(bodies, start=1)
    return "".join(f"=== PROPOSAL {n}: idea {n} ===\n{body}\n" for n, body in numbered) + "=== END ===\n"


@pytest.fixture
def three(block: Block) -> str:
    return several(*(block("    y = x * 2", f"    y = x * {factor}") for factor in (3, 4, 5)))


async def test_one_call_gives_several_proposals_that_are_taken_one_by_one(world: Any, three: str) -> None:
    proposer = world.proposer(batch=3)
    first = await world.get_proposal(proposer, three)
    assert "Give 3 proposals" in world.last_prompt()
    world.end(world.add(first), 9.0)
    second = await world.get_proposal(proposer)
    world.end(world.add(second), 2.0)
    third = await world.get_proposal(proposer)
    world.add(third)
    assert [proposal.remaining_in_reply for proposal in (first, second, third)] == [2, 1, 0]
    assert [proposal.summary for proposal in (first, second, third)] == ["idea 1", "idea 2", "idea 3"]
    assert {proposal.parent for proposal in (first, second, third)} == {NodeId("1")}, (
        "the node that the call was about"
    )
    assert len({proposal.calls for proposal in (first, second, third)}) == 1
    assert not Spend.of(world.recorder.history.runs[1]).unread
    assert len(world.role_model.prompts) == 1


async def test_a_new_proposer_continues_with_the_replies_already_paid_for(world: Any, three: str) -> None:
    world.add(await world.get_proposal(world.proposer(batch=3), three))
    resumed = world.proposer("rewrite", batch=3)
    second = await world.get_proposal(resumed)
    assert (second.operator, second.summary, second.remaining_in_reply) == ("diff", "idea 2", 1)
    world.add(second)
    third = await world.get_proposal(world.proposer(batch=3))
    assert (third.summary, third.remaining_in_reply) == ("idea 3", 0)


async def test_a_reply_is_read_again_when_its_process_died_before_the_proposal_was_recorded(
    world: Any, three: str
) -> None:
    lost = await world.get_proposal(world.proposer(batch=3), three)
    again = await world.get_proposal(world.proposer(batch=3))
    assert replace(again, parent_reason=lost.parent_reason, arm_reason=lost.arm_reason) == lost


async def test_later_proposals_of_a_crossover_name_the_other_node_too(world: Any, block: Block) -> None:
    world.try_edits({"src/main.py": "def area(x):\n    return x\n"}, 3.0)
    world.try_edits({"src/other.py": "LIMIT = 20\n"}, 2.0)
    replies = several(*(block("    return x", f"    return x + {number}") for number in (1, 2)))
    world.add(await world.get_proposal(world.proposer("crossover", batch=2), replies))
    assert (await world.get_proposal(world.proposer(batch=2))).inspirations == ("1.2",)


async def test_a_lost_reply_is_refused_and_no_longer_unread(world: Any, three: str) -> None:
    world.add(await world.get_proposal(world.proposer(batch=3), three))
    world.role_model.archive.clear()
    refusal = await world.get_refusal(world.proposer(batch=3))
    assert refusal.objection is Objection.REPLY
    assert "is gone" in refusal.reason
    assert not Spend.of(world.recorder.history.runs[1]).unread


async def test_replies_of_other_pools_and_other_proposers_are_left_alone(world: Any, block: Block) -> None:
    await world.ask_for_another("src/main.py", "tpe", Pool.ATTEMPT)
    await world.ask_for_another("src/main.py", "diff", Pool.CONTROL)
    proposal = await world.get_proposal(world.proposer(), block("    y = x * 2", "    y = x * 3"))
    assert len(Spend.of(world.recorder.history.runs[1]).unread) == 3
    assert proposal.remaining_in_reply == 0


async def test_parallel_questions_never_get_the_same_proposal(world: Any, three: str, block: Block) -> None:
    proposer = world.proposer(batch=3, width=4)
    assert proposer.width == 4
    world.add(await world.get_proposal(proposer, three))
    world.role_model.replies = [block("    y = x * 2", "    y = x * 6"), block("    y = x * 2", "    y = x * 7")]
    answers = await asyncio.gather(*(proposer.propose(world.ask()) for _ in range(4)))
    texts = [answer.edits["src/main.py"] for answer in answers]
    assert [text.split("* ")[1][0] for text in texts] == ["4", "5", "6", "7"]


async def test_a_change_of_a_forbidden_file_is_corrected_after_one_retry(world: Any, block: Block) -> None:
    bad = block("print('score')", "print('cheat')", "evaluate.py")
    good = block("    y = x * 2", "    y = x * 3")
    proposal = await world.get_proposal(world.proposer(), bad, good)
    assert len(proposal.calls) == 2
    assert len(set(proposal.calls)) == 2
    turns = world.role_model.prompts[-1].messages
    assert turns[1].text == bad
    assert "may not change evaluate.py (writable: src/**)" in turns[2].text
    world.add(proposal)
    assert not Spend.of(world.recorder.history.runs[1]).unread


@pytest.mark.parametrize(
    ("path", "content"),
    [("evaluate.py", "print('score')"), ("secret/answers.txt", "forty-two"), ("loopty.toml", "seed = 1")],
)
async def test_a_change_that_stays_forbidden_is_refused_and_costs_no_attempt(
    world: Any, block: Block, path: str, content: str
) -> None:
    bad = block(content, "x", path)
    refusal = await world.get_refusal(world.proposer(), bad, bad)
    assert refusal.objection is Objection.FORBIDDEN
    assert path in refusal.reason
    assert len(refusal.calls) == 2
    run = world.recorder.history.runs[1]
    assert Proposals.of(run, Pool.ATTEMPT).refused == 1
    assert TrialCounts.of(run, Pool.ATTEMPT).started == 0
    assert not Spend.of(run).unread


@pytest.mark.parametrize("path", ["../outside.py", "/etc/passwd", ".git/config", "src/../evaluate.py", "new.py"])
async def test_no_file_is_created_outside_the_writable_paths(world: Any, path: str) -> None:
    for reply in (f"{path}\n```\nx = 1\n```\n", f"```diff\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n```\n"):
        refusal = await world.get_refusal(world.proposer(), reply, reply)
        assert refusal.objection is Objection.FORBIDDEN, refusal.reason


async def test_a_change_that_does_not_match_is_retried_with_the_closest_lines(world: Any, block: Block) -> None:
    bad = block("def area(x):\n    y = x * 99\n    return y + 7", "pass")
    refusal = await world.get_refusal(world.proposer(), bad, bad)
    assert refusal.objection is Objection.APPLY
    assert "SEARCH is not in the file" in refusal.reason
    objection = world.role_model.prompts[-1].messages[-1].text
    assert "The closest lines of the file are:\n<data-" in objection, "loopty's words are no data, the lines are"
    assert "def area(x):\n    y = x * 2\n    return y + 7\n</data-" in objection


async def test_python_with_a_syntax_error_costs_no_trial_and_is_retried(world: Any, block: Block) -> None:
    broken, sound = block("    y = x * 2", "    y = (x * 3"), block("    y = x * 2", "    y = x * 3")
    proposal = await world.get_proposal(world.proposer(), broken, sound)
    assert len(proposal.calls) == 2
    assert "is not valid Python after the change: line" in world.last_prompt()


async def test_a_reply_without_a_change_is_refused_as_unreadable(world: Any) -> None:
    refusal = await world.get_refusal(world.proposer(), "I am sorry.", "")
    assert (refusal.objection, refusal.reason) == (Objection.REPLY, "the reply holds no change")


async def test_an_unusable_proposal_beside_a_usable_one_is_refused_without_another_call(
    world: Any, block: Block
) -> None:
    reply = several(block("nowhere", "x"), block("    y = x * 2", "    y = x * 3"), block("nothing", "x"))
    proposer = world.proposer(batch=3)
    assert (await world.get_refusal(proposer, reply)).remaining_in_reply == 2
    world.add(await world.get_proposal(proposer))
    last = await world.get_refusal(proposer)
    assert (last.objection, last.remaining_in_reply) == (Objection.APPLY, 0)
    assert len(world.role_model.prompts) == 1
    assert not Spend.of(world.recorder.history.runs[1]).unread


async def test_a_batch_without_a_usable_proposal_is_replaced_as_a_whole(
    world: Any, block: Block, three: str
) -> None:
    proposer = world.proposer(batch=3)
    first = await world.get_proposal(proposer, several(*[block("nowhere", "x")] * 3), three)
    assert first.remaining_in_reply == 2
    world.add(first)
    assert (await world.get_proposal(proposer)).summary == "idea 2"
    assert list(Spend.of(world.recorder.history.runs[1]).unread) == [first.calls[-1]]


async def test_only_the_complete_proposals_of_a_cut_reply_are_used(world: Any, three: str, block: Block) -> None:
    cut = Reply(three[: three.rindex("=======")], Usage(1, 1), whole=False)
    proposer = world.proposer(batch=3)
    first = await world.get_proposal(proposer, cut)
    assert first.remaining_in_reply == 1
    world.add(first)
    world.add(await world.get_proposal(proposer))
    short = Reply(block("    y = x * 2", "    y = x * 6"), Usage(1, 1), whole=False)
    refusal = await world.get_refusal(proposer, short, short)
    assert refusal.objection is Objection.REPLY
    assert "cut off" in refusal.reason
    assert "Be shorter." in world.last_prompt()


async def test_a_cap_that_forbids_the_retry_gives_a_refusal(world: Any, block: Block) -> None:
    refusal = await world.get_refusal(world.proposer(), block("nowhere", "x"), Exhausted("the tokens are spent"))
    assert refusal.objection is Objection.APPLY
    assert len(refusal.calls) == 1


async def test_after_an_outage_during_the_retry_the_refusal_is_recorded_later(world: Any, block: Block) -> None:
    proposer = world.proposer()
    with pytest.raises(Outage):
        await world.get_answer(proposer, block("nowhere", "x"), Outage("no answer"))
    refusal = await world.get_refusal(proposer)
    assert refusal.objection is Objection.APPLY
    assert not Spend.of(world.recorder.history.runs[1]).unread


async def test_the_description_of_a_change_is_one_clean_line(world: Any, block: Block) -> None:
    heading = "=== PROPOSAL 1: \x1b[31mred\x1b[0m \u202eand " + "long " * 100 + "===\n"
    proposal = await world.get_proposal(world.proposer(), heading + block("    y = x * 2", "    y = x * 3"))
    assert proposal.summary.isprintable()
    assert proposal.summary.startswith("red and long")
    assert len(proposal.summary) <= 160


async def test_a_change_without_a_description_says_which_files_it_changes(world: Any, block: Block) -> None:
    proposal = await world.get_proposal(world.proposer(), block("    y = x * 2", "    y = x * 3"))
    assert proposal.summary == "changes src/main.py: y = x * 3"
