"""Which words of the goal a benchmark does not check, as a verifier says it."""

import json

import pytest

from loopty.domain.ids import NodeId
from loopty.domain.model import Outage
from loopty.proposers.verifiers.goal_review import Gap, review_goal
from loopty.testing.fakes import ScriptedRoleModel

GAP = {"goal": "in real time", "gap": "use samples of the future", "mend": "give the samples one by one"}
FILES = {"evaluate.py": "score = compare(run(samples), truth)\n", "filter.py": "def run(samples): ...\n"}


async def review(*replies):
    model = ScriptedRoleModel(*replies)
    found = await review_goal(model, "Filter in real time.", "No lookups.", FILES, NodeId("1"), 4_000)
    return found, model


async def test_the_verifier_sees_goal_rules_evaluator_and_program_and_names_gaps():
    found, model = await review(json.dumps({"reasoning": "it sees all", "gaps": [GAP]}))
    assert found == (Gap(**GAP),)
    text = model.prompts[0].messages[0].text
    assert text.index("Filter in real time.") < text.index("No lookups.") < text.index("evaluate.py")
    assert "def run(samples)" in text


async def test_no_gap_is_an_answer_and_two_unreadable_replies_are_an_outage():
    found, _ = await review(json.dumps({"reasoning": "all is checked", "gaps": []}))
    assert found == ()
    with pytest.raises(Outage, match="could not be read"):
        await review("nonsense", json.dumps({"reasoning": "x", "gaps": [{"goal": "only"}]}))
