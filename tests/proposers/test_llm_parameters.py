"""A model that chooses parameters: its prompts, its replies, and that no reply is lost or paid twice."""

import asyncio
import json
import random

import pytest

from loopty.domain.errors import Exhausted
from loopty.domain.model import ModelFault, Outage, Prompt, Reply, Usage
from loopty.domain.proposal import Objection, Proposal, Refusal
from loopty.domain.space import Parameter, ParameterKind, Space
from loopty.domain.task import Pools
from loopty.domain.trial import Pool, Verdict
from loopty.kit.foreign_text import FENCED_IS_DATA
from loopty.models.scripted_model import ScriptedModel
from loopty.proposers.parameters.llm_parameters import ParametersOptions, ParametersProposer
from loopty.record.calls import CallSettled, Spend
from loopty.record.nodes import Proposals
from loopty.record.trials import TrialCounts
from loopty.record.verdicts import Incumbents
from loopty.testing.fakes import ScriptedRoleModel
from loopty.testing.proposer_suite import ProposerConformance

from ..engine.conftest import Bench
from .desk import Desk, Plain, make_role_model, reply_with

SPACE = Space(
    {
        "x": Parameter(ParameterKind.FLOAT, 0.0, 1.0),
        "method": Parameter(ParameterKind.CATEGORICAL, default="a", choices=("a", "b")),
        "depth": Parameter(ParameterKind.INT, 1, 3, when={"method": "b"}),
    }
)


def make_proposer(desk, width=1, **options):
    return ParametersProposer(SPACE, desk.role_model, Plain(), ParametersOptions(**options), width)


@pytest.fixture
def desk(tmp_path):
    return lambda *replies, pools=None: Desk(tmp_path, replies, pools)


class TestConformance(ProposerConformance):
    """With a model whose reply depends on the prompt alone."""

    @pytest.fixture
    def make(self):
        def proposer(space):
            role_model = ScriptedRoleModel(lambda prompt: reply_with(space.sample(random.Random(repr(prompt)))))
            return ParametersProposer(space, role_model, Plain(), ParametersOptions())

        return proposer


async def test_the_prompt_has_the_task_the_space_and_the_tried_points(desk) -> None:
    desk = desk(reply_with({"x": 0.25, "method": "b", "depth": 3}, reason="deeper"))
    desk.try_point({"x": 0.75, "method": "a"}, 7.0, Verdict.KEPT)
    desk.try_point({"x": 0.9, "method": "a"}, None, reason="out of memory")
    proposal = await make_proposer(desk).propose(desk.ask())
    assert proposal == Proposal(
        "llm-parameters",
        desk.root.id,
        "x=0.25, method=b, depth=3: deeper",
        {"x": 0.25, "method": "b", "depth": 3},
        calls=proposal.calls,
    )
    (prompt,) = desk.model.prompts
    (turn,) = prompt.messages
    for words in (
        "Make it better.",
        "`depth`: int from 1 to 3",
        "exists only while",
        '@2 | score 7 | {"x": 0.75, "method": "a"}',
        "out of memory",
        "4 configurations",
        "first `reason`, a sentence",
    ):
        assert words in turn.text
    assert FENCED_IS_DATA in prompt.system
    assert prompt.schema["properties"]["proposals"]["items"]["properties"]["parameters"]["properties"][
        "method"
    ] == {
        "type": "string",
        "enum": ["a", "b"],
    }


async def test_one_call_gives_several_proposals_and_a_new_process_takes_the_rest(desk) -> None:
    desk = desk(reply_with(*({"x": x} for x in (0.1, 0.2, 0.3))), reply_with({"x": 0.4}))
    taken = []
    for _ in range(4):
        proposal = await make_proposer(desk).propose(desk.ask())
        taken.append((proposal.params["x"], proposal.remaining_in_reply, len(desk.model.prompts)))
        desk.records(proposal)
    assert taken == [(0.1, 2, 1), (0.2, 1, 1), (0.3, 0, 1), (0.4, 0, 2)]
    assert not Spend.of(desk.run).unread
    assert len({node.calls for node in desk.history.nodes(1, Pool.ATTEMPT) if node.calls}) == 2


async def test_a_reply_paid_for_before_a_kill_is_used_after_it(desk) -> None:
    desk = desk(reply_with({"x": 0.1}, {"x": 0.2}))
    lost = await make_proposer(desk).propose(desk.ask())  # the process dies before the loop records it
    again = await make_proposer(desk).propose(desk.ask())
    assert again == lost
    assert len(desk.model.prompts) == 1


async def test_after_a_kill_between_the_two_calls_neither_is_paid_again(desk) -> None:
    desk = desk("no idea", reply_with({"x": 0.1}))
    first = await make_proposer(desk).propose(desk.ask())
    assert len(Spend.of(desk.run).unread) == 2
    again = await make_proposer(desk).propose(desk.ask())
    assert again == first
    assert len(first.calls) == 2 == len(desk.model.prompts)
    desk.records(again)
    assert not Spend.of(desk.run).unread


async def test_replies_to_other_operators_and_pools_are_left_alone(desk) -> None:
    desk = desk(reply_with({"x": 0.1}), reply_with({"x": 0.2}), reply_with({"x": 0.3}))
    await desk.role_model.ask(Prompt("", ()), "code:diff", desk.root.id, Pool.ATTEMPT)
    await desk.role_model.ask(Prompt("", ()), "llm-parameters", desk.root.id, Pool.CONTROL)
    proposal = await make_proposer(desk).propose(desk.ask())
    assert proposal.params["x"] == 0.3
    desk.records(proposal)
    assert len(Spend.of(desk.run).unread) == 2


@pytest.mark.parametrize("taken", [0, 1])
async def test_a_reply_that_is_no_longer_saved_is_not_unread_any_more(desk, tmp_path, taken) -> None:
    desk = desk(reply_with({"x": 0.1}, {"x": 0.2}), reply_with({"x": 0.3}))
    for _ in range(taken):
        desk.records(await make_proposer(desk).propose(desk.ask()))
    if not taken:
        await desk.role_model.ask(Prompt("", ()), "llm-parameters", desk.root.id, Pool.ATTEMPT)
    for file in tmp_path.iterdir():
        file.unlink()
    answers = []
    while not any(isinstance(answer, Proposal) for answer in answers):
        answers.append(await make_proposer(desk).propose(desk.ask()))
        desk.records(answers[-1])
    assert answers[-1].params["x"] == 0.3
    assert len(answers) == 1 + taken
    assert not Spend.of(desk.run).unread


GARBAGE = [
    "I am sorry, I cannot help with that.",
    "",
    "{",
    '{"proposals": []}',
    '{"proposals": [{"parameters": {"x": NaN}}]}',
    '{"proposals": [{"parameters": {"learning rate": 3}}]}',
    '{"proposals": "x = 0.3"}',
    "x: 0.3\nmethod: b",
    "[" * 5000,
    '{"a":' * 500,
    '\x00\x1b[2J{"proposals": [',
    '{"proposals": [{"parameters": {"x": {"$ref": "#"}}}]}',
    "null",
    '"' + "a" * 10_000,
]


@pytest.mark.parametrize("garbage", GARBAGE)
async def test_after_garbage_the_model_gets_one_retry_with_the_faults(desk, garbage) -> None:
    desk = desk(garbage, reply_with({"x": 0.125}))
    proposal = await make_proposer(desk).propose(desk.ask())
    assert proposal.params == {"x": 0.125, "method": "a"}
    assert len(proposal.calls) == 2
    _, reply, objection = desk.model.prompts[1].messages
    assert reply.text == (garbage.strip()[:8000] or "(nothing)"), "an endless reply is not sent back whole"
    assert objection.text.startswith("None of this can be tried:\n- ")
    desk.records(proposal)
    assert not Spend.of(desk.run).unread, "the unusable reply is not unread"


@pytest.mark.parametrize("garbage", GARBAGE)
async def test_garbage_twice_is_a_refusal_that_costs_no_attempt(desk, garbage) -> None:
    desk = desk(garbage, garbage)
    refusal = await make_proposer(desk).propose(desk.ask())
    assert isinstance(refusal, Refusal)
    assert refusal.objection in (Objection.REPLY, Objection.FORBIDDEN)
    assert refusal.reason
    assert len(refusal.reason) <= 600
    assert len(refusal.calls) == 2
    desk.records(refusal)
    assert not Spend.of(desk.run).unread
    assert TrialCounts.of(desk.run, Pool.ATTEMPT).started == 0


async def test_a_tried_or_running_point_is_not_proposed_again(desk) -> None:
    desk = desk(
        reply_with({"x": 0.5, "method": "a"}, {"x": 0.25}, {"x": 1}),
        reply_with({"x": 0.25}),
        reply_with({"x": "0.25", "depth": 2}),
    )
    desk.try_point({"x": 0.5, "method": "a"}, 1.0)
    desk.adds(Proposal("hand", desk.root.id, "", {"x": 0.25, "method": "a"}))
    answers = []
    for _ in range(4):
        answers.append(await make_proposer(desk).propose(desk.ask()))
        desk.records(answers[-1])
    assert [getattr(answer, "objection", None) for answer in answers] == [
        Objection.DUPLICATE,
        Objection.DUPLICATE,
        None,
        Objection.DUPLICATE,
    ]
    assert answers[2].params == {"x": 1.0, "method": "a"}
    assert "same as @3" in answers[3].reason
    assert len(answers[3].calls) == 2
    assert "is the same as @3" in desk.model.prompts[-1].messages[-1].text


async def test_new_best_code_is_tuned_next(desk) -> None:
    desk = desk(reply_with({"x": 0.5}), reply_with({"x": 0.7}))
    code = desk.try_point({"x": 0.5, "method": "a"}, 5.0, Verdict.KEPT, tree="better")
    desk.records(Refusal("other", "no use"))
    proposal = await make_proposer(desk, batch=1).propose(desk.ask())
    assert proposal.parent == code
    assert proposal.params["x"] == 0.7, "x = 0.5 was tried with this code, so the model was asked again"


async def test_parallel_questions_share_one_reply(desk) -> None:
    desk = desk(reply_with(*({"x": x} for x in (0.1, 0.2, 0.3))), reply_with({"x": 0.4}))
    proposer = make_proposer(desk, width=4)
    assert proposer.width == 4
    answers = await asyncio.gather(*(proposer.propose(desk.ask(ahead)) for ahead in range(4)))
    assert sorted(answer.params["x"] for answer in answers) == [0.1, 0.2, 0.3, 0.4]
    assert len(desk.model.prompts) == 2
    for answer in reversed(answers):
        desk.records(answer)
    assert not Spend.of(desk.run).unread


async def test_parallel_questions_do_not_refuse_the_same_reply_twice(desk) -> None:
    desk = desk("no", "idea", reply_with({"x": 0.4}))
    proposer = make_proposer(desk, width=2)
    answers = await asyncio.gather(proposer.propose(desk.ask()), proposer.propose(desk.ask(1)))
    assert isinstance(answers[0], Refusal)
    assert answers[1].params["x"] == 0.4


async def test_an_unusable_reply_before_an_outage_is_retried_after_it(desk) -> None:
    desk = desk("no idea", ModelFault("the key is wrong", transient=False), reply_with({"x": 0.125}))
    proposer = make_proposer(desk)
    with pytest.raises(Outage):
        await proposer.propose(desk.ask())
    proposal = await proposer.propose(desk.ask())
    assert (proposal.params["x"], len(proposal.calls)) == (0.125, 2)
    assert [turn.text for turn in desk.model.prompts[2].messages[1:2]] == ["no idea"]
    desk.records(proposal)
    assert not Spend.of(desk.run).unread


async def test_an_outage_and_a_spent_cap_are_raised(desk) -> None:
    down = desk(ModelFault("the key is wrong", transient=False))
    with pytest.raises(Outage, match="the key is wrong"):
        await make_proposer(down).propose(down.ask())
    poor = desk(reply_with({"x": 0.1}), pools=Pools(tokens=10))
    with pytest.raises(Exhausted, match="tokens"):
        await make_proposer(poor).propose(poor.ask())


async def test_a_model_finds_the_best_of_a_run_within_the_loop(tmp_path) -> None:
    """Calls are counted in the ledger, refused proposals cost no attempt, and every batch is used up."""
    run = Bench(lambda trial: -abs(trial.node.params["x"] - 0.3), pools=Pools(attempts=6), width=3)

    def closing_in(prompt):
        lines = [line.split(" | ") for line in prompt.messages[0].text.splitlines() if " | score " in line]
        best = min((json.loads(line[2])["x"] for line in lines), key=lambda x: abs(x - 0.3))
        near = 0.1 ** len(model.prompts)  # new at every call, also while the last points are being tried
        return reply_with({"x": best}, {"x": round(0.3 - near, 6)}, {"x": round(0.3 + near, 6)})

    model = ScriptedModel(closing_in)
    role_model = make_role_model(run.recorder, tmp_path, model)
    run.proposer = ParametersProposer(SPACE, role_model, Plain(), ParametersOptions(batch=3), width=2)
    finish = await run.drive()
    assert "6 attempt trials" in finish.reason
    best = run.history[Incumbents.of(run.run, Pool.ATTEMPT).best]
    assert best.params["x"] == pytest.approx(0.3, abs=0.02)
    assert Proposals.of(run.run, Pool.ATTEMPT).refused
    settled = [item.event for item in run.ledger.read() if isinstance(item.event, CallSettled)]
    assert len(settled) == len(model.prompts)
    assert TrialCounts.of(run.run, Pool.ATTEMPT).started == 6


async def test_a_reply_that_was_cut_off_tells_which_key_to_raise(desk) -> None:
    desk = desk(*2 * [Reply('{"proposals": [{"reason": "a long', Usage(10, 77), whole=False)])
    refusal = await make_proposer(desk).propose(desk.ask())
    assert isinstance(refusal, Refusal)
    assert "cut off after 77 tokens: raise max_output_tokens of the model" in refusal.reason
