"""Batches, feedback, resuming: what becomes of replies."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from loopty.domain.errors import Exhausted
from loopty.domain.ids import NodeId
from loopty.domain.model import Outage, Reply, Usage
from loopty.domain.pool import Pool
from loopty.domain.proposal import Objection
from loopty.record.calls import Spend
from loopty.record.proposals import Proposals
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
    first = await world.proposed(proposer, three)
    assert "Give 3 proposals" in world.said()
    world.ended(world.added(first), 9.0)
    second = await world.proposed(proposer)
    world.ended(world.added(second), 2.0)
    third = await world.proposed(proposer)
    world.added(third)
    assert [proposal.remaining_in_reply for proposal in (first, second, third)] == [2, 1, 0]
    assert [proposal.summary for proposal in (first, second, third)] == ["idea 1", "idea 2", "idea 3"]
    assert {proposal.parent for proposal in (first, second, third)} == {NodeId("1")}, "what the call was about"
    assert len({proposal.calls for proposal in (first, second, third)}) == 1
    assert not Spend.of(world.recorder.history.runs[1]).unread
    assert len(world.line.prompts) == 1


async def test_a_proposer_made_anew_goes_on_with_the_replies_that_were_paid_for(world: Any, three: str) -> None:
    world.added(await world.proposed(world.proposer(batch=3), three))
    resumed = world.proposer("rewrite", batch=3)
    second = await world.proposed(resumed)
    assert (second.operator, second.summary, second.remaining_in_reply) == ("diff", "idea 2", 1)
    world.added(second)
    third = await world.proposed(world.proposer(batch=3))
    assert (third.summary, third.remaining_in_reply) == ("idea 3", 0)


async def test_a_reply_whose_process_died_before_the_ledger_knew_of_its_proposal_is_read_again(
    world: Any, three: str
) -> None:
    lost = await world.proposed(world.proposer(batch=3), three)
    again = await world.proposed(world.proposer(batch=3))
    assert again == lost


async def test_of_a_crossover_the_later_proposals_name_the_other_node_too(world: Any, block: Block) -> None:
    world.tried({"src/main.py": "def area(x):\n    return x\n"}, 3.0)
    world.tried({"src/other.py": "LIMIT = 20\n"}, 2.0)
    replies = several(*(block("    return x", f"    return x + {number}") for number in (1, 2)))
    world.added(await world.proposed(world.proposer("crossover", batch=2), replies))
    assert (await world.proposed(world.proposer(batch=2))).inspirations == ("1.2",)


async def test_a_reply_that_is_gone_is_refused_and_waits_no_more(world: Any, three: str) -> None:
    world.added(await world.proposed(world.proposer(batch=3), three))
    world.line.archive.clear()
    refusal = await world.refused(world.proposer(batch=3))
    assert refusal.objection is Objection.REPLY
    assert "is gone" in refusal.reason
    assert not Spend.of(world.recorder.history.runs[1]).unread


async def test_replies_of_other_pools_and_other_proposers_are_left_alone(world: Any, block: Block) -> None:
    await world.line_asks("src/main.py", "tpe", Pool.ATTEMPT)
    await world.line_asks("src/main.py", "diff", Pool.CONTROL)
    proposal = await world.proposed(world.proposer(), block("    y = x * 2", "    y = x * 3"))
    assert len(Spend.of(world.recorder.history.runs[1]).unread) == 3
    assert proposal.remaining_in_reply == 0


async def test_asked_several_times_at_once_no_proposal_is_given_twice(
    world: Any, three: str, block: Block
) -> None:
    proposer = world.proposer(batch=3, width=4)
    assert proposer.width == 4
    world.added(await world.proposed(proposer, three))
    world.line.replies = [block("    y = x * 2", "    y = x * 6"), block("    y = x * 2", "    y = x * 7")]
    answers = await asyncio.gather(*(proposer.propose(world.ask()) for _ in range(4)))
    texts = [answer.edits["src/main.py"] for answer in answers]
    assert [text.split("* ")[1][0] for text in texts] == ["4", "5", "6", "7"]


async def test_a_forbidden_file_is_fed_back_once_and_mended(world: Any, block: Block) -> None:
    bad = block("print('score')", "print('cheat')", "evaluate.py")
    good = block("    y = x * 2", "    y = x * 3")
    proposal = await world.proposed(world.proposer(), bad, good)
    assert len(proposal.calls) == 2
    assert len(set(proposal.calls)) == 2
    turns = world.line.prompts[-1].messages
    assert turns[1].text == bad
    assert "may not change evaluate.py (writable: src/**)" in turns[2].text
    world.added(proposal)
    assert not Spend.of(world.recorder.history.runs[1]).unread


@pytest.mark.parametrize(
    ("path", "content"),
    [("evaluate.py", "print('score')"), ("secret/answers.txt", "forty-two"), ("loopty.toml", "seed = 1")],
)
async def test_what_stays_forbidden_is_refused_and_costs_no_attempt(
    world: Any, block: Block, path: str, content: str
) -> None:
    bad = block(content, "x", path)
    refusal = await world.refused(world.proposer(), bad, bad)
    assert refusal.objection is Objection.FORBIDDEN
    assert path in refusal.reason
    assert len(refusal.calls) == 2
    run = world.recorder.history.runs[1]
    assert Proposals.of(run, Pool.ATTEMPT).refused == 1
    assert TrialCounts.of(run, Pool.ATTEMPT).started == 0
    assert not Spend.of(run).unread


@pytest.mark.parametrize("path", ["../outside.py", "/etc/passwd", ".git/config", "src/../evaluate.py", "new.py"])
async def test_no_file_is_made_outside_of_what_may_be_written(world: Any, path: str) -> None:
    for reply in (f"{path}\n```\nx = 1\n```\n", f"```diff\n--- /dev/null\n+++ b/{path}\n@@ -0,0 +1 @@\n+x\n```\n"):
        refusal = await world.refused(world.proposer(), reply, reply)
        assert refusal.objection is Objection.FORBIDDEN, refusal.reason


async def test_what_does_not_fit_is_fed_back_with_the_closest_lines(world: Any, block: Block) -> None:
    bad = block("def area(x):\n    y = x * 99\n    return y + 7", "pass")
    refusal = await world.refused(world.proposer(), bad, bad)
    assert refusal.objection is Objection.APPLY
    assert "SEARCH is not in the file" in refusal.reason
    assert "The closest lines of the file are:\ndef area(x):\n    y = x * 2\n    return y + 7" in world.said()


async def test_python_that_cannot_be_read_costs_no_trial_and_is_told(world: Any, block: Block) -> None:
    broken, sound = block("    y = x * 2", "    y = (x * 3"), block("    y = x * 2", "    y = x * 3")
    proposal = await world.proposed(world.proposer(), broken, sound)
    assert len(proposal.calls) == 2
    assert "is not valid Python after it: line" in world.said()


async def test_a_reply_without_a_change_is_refused_as_unreadable(world: Any) -> None:
    refusal = await world.refused(world.proposer(), "I am sorry.", "")
    assert (refusal.objection, refusal.reason) == (Objection.REPLY, "the reply holds no change")


async def test_beside_something_useful_what_cannot_be_used_is_refused_without_another_call(
    world: Any, block: Block
) -> None:
    reply = several(block("nowhere", "x"), block("    y = x * 2", "    y = x * 3"), block("nothing", "x"))
    proposer = world.proposer(batch=3)
    assert (await world.refused(proposer, reply)).remaining_in_reply == 2
    world.added(await world.proposed(proposer))
    last = await world.refused(proposer)
    assert (last.objection, last.remaining_in_reply) == (Objection.APPLY, 0)
    assert len(world.line.prompts) == 1
    assert not Spend.of(world.recorder.history.runs[1]).unread


async def test_a_batch_in_which_nothing_can_be_used_is_replaced_as_a_whole(
    world: Any, block: Block, three: str
) -> None:
    proposer = world.proposer(batch=3)
    first = await world.proposed(proposer, several(*[block("nowhere", "x")] * 3), three)
    assert first.remaining_in_reply == 2
    world.added(first)
    assert (await world.proposed(proposer)).summary == "idea 2"
    assert list(Spend.of(world.recorder.history.runs[1]).unread) == [first.calls[-1]]


async def test_of_a_reply_that_was_cut_off_only_what_is_complete_is_used(
    world: Any, three: str, block: Block
) -> None:
    cut = Reply(three[: three.rindex("=======")], Usage(1, 1), whole=False)
    proposer = world.proposer(batch=3)
    first = await world.proposed(proposer, cut)
    assert first.remaining_in_reply == 1
    world.added(first)
    world.added(await world.proposed(proposer))
    short = Reply(block("    y = x * 2", "    y = x * 6"), Usage(1, 1), whole=False)
    refusal = await world.refused(proposer, short, short)
    assert refusal.objection is Objection.REPLY
    assert "cut off" in refusal.reason
    assert "Be shorter." in world.said()


async def test_a_cap_that_leaves_no_feedback_gives_a_refusal(world: Any, block: Block) -> None:
    refusal = await world.refused(world.proposer(), block("nowhere", "x"), Exhausted("the tokens are spent"))
    assert refusal.objection is Objection.APPLY
    assert len(refusal.calls) == 1


async def test_an_outage_during_feedback_leaves_nothing_unsaid(world: Any, block: Block) -> None:
    proposer = world.proposer()
    with pytest.raises(Outage):
        await world.answered(proposer, block("nowhere", "x"), Outage("no answer"))
    refusal = await world.refused(proposer)
    assert refusal.objection is Objection.APPLY
    assert not Spend.of(world.recorder.history.runs[1]).unread


async def test_what_a_model_says_of_its_change_is_one_clean_line(world: Any, block: Block) -> None:
    told = "=== PROPOSAL 1: \x1b[31mred\x1b[0m \u202eand " + "long " * 100 + "===\n"
    proposal = await world.proposed(world.proposer(), told + block("    y = x * 2", "    y = x * 3"))
    assert proposal.summary.isprintable()
    assert proposal.summary.startswith("red and long")
    assert len(proposal.summary) <= 160


async def test_a_change_without_a_description_says_which_files_it_changes(world: Any, block: Block) -> None:
    proposal = await world.proposed(world.proposer(), block("    y = x * 2", "    y = x * 3"))
    assert proposal.summary == "changes src/main.py"
