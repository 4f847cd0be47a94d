"""When the ladder climbs, steps down and comes back, with the recorded reason."""

import pytest

from loopty.domain.errors import Crowded, Exhausted, Misuse
from loopty.domain.model import ModelFault, Outage
from loopty.domain.proposal import Objection, Proposal, Refusal, RungChange
from loopty.domain.space import Parameter, ParameterKind, Space
from loopty.domain.task import Pools
from loopty.domain.trial import Verdict
from loopty.models.scripted_model import ScriptedModel
from loopty.proposers.ladder import Ladder, LadderOptions, Rung
from loopty.proposers.parameters.llm_parameters import ParametersOptions, ParametersProposer
from loopty.proposers.parameters.points import GridOptions, GridProposer, RandomProposer
from loopty.record.nodes import NodeAdded, ProposalRefused
from loopty.record.search_summary import RungChanged

from ..engine.conftest import SPACE, Bench
from .desk import Desk, Plain, make_role_model, reply_with


class Fixed:
    """Always gives the same answer or raises the same error; a proposal is a new point each time."""

    def __init__(self, name, answer="point", width=None):
        self.name = name
        self.answer = answer
        if width:
            self.width = width

    async def propose(self, ask):
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer == "point":
            return Proposal(self.name, ask.root.id, "", {"x": ask.position / 1000})
        return self.answer


def ladder(*proposers, patience=2, **options):
    rungs = [Rung(proposer, patience, proposer.name) for proposer in proposers]
    return Ladder(rungs, LadderOptions((), **options))


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


async def drive(desk, proposer, times, verdict=Verdict.DISCARDED):
    """Ask the proposer and record its answer, this many times; the answers in short."""
    short = []
    for _ in range(times):
        answer = await proposer.propose(desk.ask())
        desk.records(answer, verdict=verdict)
        short.append(
            f"to {answer.name}" if isinstance(answer, RungChange) else getattr(answer, "operator", answer)
        )
    return short


async def test_proposals_pass_through_unchanged(desk) -> None:
    first = Fixed("first")
    assert await ladder(first, Fixed("second")).propose(desk.ask()) == await first.propose(desk.ask())


async def test_it_climbs_when_a_rung_runs_out_of_patience_and_starts_again_after_the_last(
    desk,
) -> None:
    rungs = ladder(Fixed("a"), Fixed("b"), Fixed("c"))
    assert await drive(desk, rungs, 9) == ["a", "a", "to b", "b", "b", "to c", "c", "c", "to a"]
    reasons = [item.event.reason for item in desk.bench.ledger.read() if isinstance(item.event, RungChanged)]
    assert reasons[0] == "trials on a without an improvement: 2"


async def test_without_a_cycle_it_stays_on_the_last_rung(desk) -> None:
    assert await drive(desk, ladder(Fixed("a"), Fixed("b"), cycle=False), 9) == ["a", "a", "to b", *["b"] * 6]


async def test_a_single_rung_has_nowhere_to_go(desk) -> None:
    assert await drive(desk, ladder(Fixed("a")), 5) == ["a"] * 5


async def test_each_rung_has_its_own_patience(desk) -> None:
    rungs = Ladder([Rung(Fixed("a"), 1, "a"), Rung(Fixed("b"), 3, "b")], LadderOptions(()))
    assert await drive(desk, rungs, 7) == ["a", "to b", "b", "b", "b", "to a", "a"]


async def test_an_improvement_resets_the_patience_of_a_rung(desk) -> None:
    rungs = ladder(Fixed("a"), Fixed("b"))
    assert await drive(desk, rungs, 1) == ["a"]
    assert await drive(desk, rungs, 1, Verdict.KEPT) == ["a"]
    assert await drive(desk, rungs, 3) == ["a", "a", "to b"]


async def test_running_trials_do_not_count_against_the_patience(desk) -> None:
    rungs = ladder(Fixed("a"), Fixed("b"))
    assert await drive(desk, rungs, 3) == ["a", "a", "to b"]
    running = [desk.starts(await rungs.propose(desk.ask())) for _ in range(3)]
    answer = await rungs.propose(desk.ask())
    assert isinstance(answer, Proposal)
    for node in running:
        desk.ends(node, -1.0)
    assert await rungs.propose(desk.ask()) == RungChange(0, "a", "trials on b without an improvement: 2")


async def test_a_new_process_continues_on_the_same_rung(desk) -> None:
    answers = [(await drive(desk, ladder(Fixed("a"), Fixed("b"), Fixed("c")), 1))[0] for _ in range(9)]
    assert answers == ["a", "a", "to b", "b", "b", "to c", "c", "c", "to a"]


async def test_a_ladder_with_fewer_rungs_than_before_is_on_its_last_one(desk) -> None:
    await drive(desk, ladder(Fixed("a"), Fixed("b"), Fixed("c")), 7)
    assert await drive(desk, ladder(Fixed("a"), Fixed("b")), 1) == ["b"]


async def test_it_climbs_when_a_rung_has_nothing_left(desk) -> None:
    rungs = ladder(Fixed("a", Exhausted("all 3 points are tried")), Fixed("b"))
    assert await rungs.propose(desk.ask()) == RungChange(1, "b", "a has nothing left: all 3 points are tried")


async def test_a_spent_cap_leads_to_the_highest_rung_below_that_is_not_empty(desk) -> None:
    poor = Exhausted("512 more tokens would pass the limit of 100")
    rungs = ladder(Fixed("a"), Fixed("b"), Fixed("c", poor), Fixed("d", poor))
    await drive(desk, rungs, 6)
    assert await drive(desk, rungs, 4) == ["to d", "to b", "b", "b"]
    assert await drive(desk, rungs, 6) == ["to a", "a", "a", "to b", "b", "b"], "the others are not asked again"


async def test_empty_rungs_are_asked_again_after_a_new_best_node(desk) -> None:
    dry = Fixed("b", Exhausted("nothing to change"))
    rungs = ladder(Fixed("a"), dry)
    assert await drive(desk, rungs, 6) == ["a", "a", "to b", "to a", "a", "a"]
    dry.answer = "point"
    assert await drive(desk, rungs, 1, Verdict.KEPT) == ["a"]
    assert await drive(desk, rungs, 4) == ["a", "a", "to b", "b"]


async def test_it_is_exhausted_when_all_rungs_are(desk) -> None:
    rungs = ladder(*(Fixed(name, Exhausted(f"no {name}s")) for name in "abc"))
    await drive(desk, rungs, 2)
    with pytest.raises(Exhausted, match="a has nothing left: no as; b has nothing left: no bs; c has"):
        await rungs.propose(desk.ask())


async def test_a_rung_that_will_have_a_proposal_soon_is_waited_for(desk) -> None:
    with pytest.raises(Crowded):
        await ladder(Fixed("a", Crowded("calls in flight")), Fixed("b")).propose(desk.ask())


async def test_a_rung_without_a_proposal_for_now_causes_no_step(desk) -> None:
    assert await ladder(Fixed("a", None), Fixed("b")).propose(desk.ask()) is None


async def test_in_an_outage_it_steps_down_and_climbs_again_later(desk) -> None:
    model = Fixed("b", Outage("the provider is down"))
    rungs = ladder(Fixed("a"), model)
    assert await drive(desk, rungs, 4) == ["a", "a", "to b", "to a"]
    assert desk.step_reasons()[-1] == "b cannot be asked: the provider is down"
    model.answer = "point"
    assert await drive(desk, rungs, 4) == ["a", "a", "to b", "b"]


async def test_an_outage_on_the_lowest_rung_or_above_empty_ones_is_an_outage(desk) -> None:
    down = Outage("the provider is down")
    with pytest.raises(Outage):
        await ladder(Fixed("a", down), Fixed("b")).propose(desk.ask())
    rungs = ladder(Fixed("a", Exhausted("all tried")), Fixed("b", down))
    assert await drive(desk, rungs, 1) == ["to b"]
    with pytest.raises(Outage):
        await rungs.propose(desk.ask())


async def test_it_steps_down_when_proposals_fail_in_a_row_and_climbs_again_later(desk) -> None:
    model = Fixed("b", Refusal("b", "does not apply", Objection.APPLY))
    rungs = ladder(Fixed("a"), model, fallback=3)
    assert await drive(desk, rungs, 7) == ["a", "a", "to b", "b", "b", "b", "to a"]
    assert desk.step_reasons()[-1] == "proposals refused in a row on b: 3"
    assert await drive(desk, rungs, 3) == ["a", "a", "to b"]


async def test_a_rung_that_fails_twice_in_a_row_is_skipped_until_a_new_best_node(desk) -> None:
    model = Fixed("b", Refusal("b", "does not apply", Objection.APPLY))
    rungs = ladder(Fixed("a"), model, fallback=1)
    assert await drive(desk, rungs, 9) == ["a", "a", "to b", "b", "to a", "a", "a", "to b", "b"]
    assert await drive(desk, rungs, 6) == ["to a", *["a"] * 5], "it stays below, also in a new process"
    assert await drive(desk, ladder(Fixed("a"), model, fallback=1), 3) == ["a"] * 3
    assert await drive(desk, rungs, 1, Verdict.KEPT) == ["a"]
    assert await drive(desk, rungs, 3) == ["a", "a", "to b"]


async def test_one_usable_proposal_resets_the_count_of_failures(desk) -> None:
    model = Fixed("b", Refusal("b", "does not apply", Objection.APPLY))
    rungs = ladder(Fixed("a"), model, fallback=1)
    assert await drive(desk, rungs, 8) == ["a", "a", "to b", "b", "to a", "a", "a", "to b"]
    model.answer = "point"
    assert await drive(desk, rungs, 1) == ["b"]
    model.answer = Refusal("b", "does not apply", Objection.APPLY)
    assert await drive(desk, rungs, 5) == ["b", "to a", "a", "a", "to b"], "the count starts again"


async def test_a_broader_rung_is_next_when_the_one_between_is_skipped(desk) -> None:
    model = Fixed("b", Refusal("b", "no JSON", Objection.REPLY))
    rungs = ladder(Fixed("a"), model, Fixed("c"), fallback=1)
    await drive(desk, rungs, 10)
    assert await drive(desk, rungs, 4) == ["a", "a", "to c", "c"]


async def test_the_lowest_rung_steps_up_when_it_fails(desk) -> None:
    rungs = ladder(Fixed("a", Refusal("a", "the same as 1", Objection.DUPLICATE)), Fixed("b"), fallback=2)
    assert await drive(desk, rungs, 4) == ["a", "a", "to b", "b"]


async def test_it_never_steps_forever_without_a_trial(desk) -> None:
    """Refusals add up until the loop ends the search, or the ladder is exhausted."""
    refused = Refusal("a", "no", Objection.REPLY)
    rungs = ladder(Fixed("a", refused), Fixed("b", refused), Fixed("c", Exhausted("spent")), fallback=1)
    steps = [answer for answer in await drive(desk, rungs, 80) if answer.startswith("to ")]
    assert len(steps) < 10


def test_its_width_is_the_width_of_its_narrowest_rung() -> None:
    assert ladder(Fixed("a", width=4), Fixed("b", width=2)).width == 2
    assert ladder(Fixed("a", width=4), Fixed("b")).width == 1


def test_it_needs_rungs_and_no_two_that_would_count_each_others_turns() -> None:
    with pytest.raises(Misuse, match="needs rungs"):
        Ladder([], LadderOptions(()))
    grids = [GridProposer(SPACE, GridOptions(points)) for points in (2, 3)]
    with pytest.raises(Misuse, match="two rungs of kind 'grid'"):
        ladder(*grids)
    ladder(Fixed("llm-code"), Fixed("llm-code"))


async def test_in_the_loop_every_step_is_recorded_with_its_reason(tmp_path) -> None:
    run = Bench(lambda trial: -abs(trial.node.params["x"] - 0.93), pools=Pools(attempts=14))
    model = ScriptedModel(
        [
            reply_with({"x": 0.9}, {"x": 0.8}, {"x": 0.81}),
            *["I do not know"] * 4,
            ModelFault("the key is gone", transient=False),
            reply_with({"x": 0.93}),
        ]
    )
    role_model = make_role_model(run.recorder, tmp_path, model)
    with_model = ParametersProposer(SPACE, role_model, Plain(), ParametersOptions())
    run.proposer = Ladder(
        [
            Rung(GridProposer(SPACE, GridOptions(points=3)), 9, "grid"),
            Rung(RandomProposer(Space({"x": Parameter(ParameterKind.FLOAT, 0.0, 0.4)})), 2, "random"),
            Rung(with_model, 2, "llm-parameters"),
        ],
        LadderOptions((), fallback=2),
    )
    finish = await run.drive()
    assert "14 attempt trials" in finish.reason
    happened = []
    for item in run.ledger.read():
        match item.event:
            case NodeAdded(operator=operator):
                happened.append(operator)
            case ProposalRefused(operator=operator, objection=objection):
                happened.append(f"{operator} refused: {objection}")
            case RungChanged(name=name, reason=reason):
                happened.append(f"to {name}: {reason}")
    assert happened == [
        "baseline",
        "grid",
        "grid refused: duplicate",
        "grid",
        "to random: grid has nothing left: the grid's 3 points are all tried",
        "random",
        "random",
        "to llm-parameters: trials on random without an improvement: 2",
        "llm-parameters",
        "llm-parameters",
        "llm-parameters",
        "to grid: trials on llm-parameters without an improvement: 2",
        "to random: grid has nothing left: the grid's 3 points are all tried",
        "random",
        "random",
        "to llm-parameters: trials on random without an improvement: 2",
        "llm-parameters refused: reply",
        "llm-parameters refused: reply",
        "to random: proposals refused in a row on llm-parameters: 2",
        "random",
        "random",
        "to llm-parameters: trials on random without an improvement: 2",
        "to random: llm-parameters cannot be asked: scripted:script: the key is gone",
        "random",
        "random",
        "to llm-parameters: trials on random without an improvement: 2",
        "llm-parameters",
    ]
    assert len(model.prompts) == 7
