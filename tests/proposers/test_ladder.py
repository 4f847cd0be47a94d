"""The ladder: when it climbs, steps down and comes back, with the reason on record."""

import pytest

from loopty.domain.errors import Crowded, Exhausted, Misuse
from loopty.domain.model import ModelFault, Outage
from loopty.domain.outcome import Verdict
from loopty.domain.proposal import Objection, Proposal, Refusal, RungChange
from loopty.domain.space import Parameter, ParameterKind, Space
from loopty.domain.task import Pools
from loopty.models.scripted_model import ScriptedModel
from loopty.proposers.grid import GridOptions, GridProposer
from loopty.proposers.ladder import Ladder, LadderOptions, Rung
from loopty.proposers.llm_parameters import ParametersProposer
from loopty.proposers.parameters.parameters_options import ParametersOptions
from loopty.proposers.random import RandomProposer
from loopty.record.nodes import NodeAdded
from loopty.record.proposals import ProposalRefused
from loopty.record.rungs import RungChanged

from ..engine.conftest import SPACE, Bench
from .desk import Desk, Plain, line_of, replied


class Says:
    """Gives one answer, or raises one error, as often as it is asked; a proposal is a new point each time."""

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


async def told(desk, proposer, times, verdict=Verdict.DISCARDED):
    """Ask and record so often; the answers in short."""
    short = []
    for _ in range(times):
        answer = await proposer.propose(desk.ask())
        desk.records(answer, verdict=verdict)
        short.append(
            f"to {answer.name}" if isinstance(answer, RungChange) else getattr(answer, "operator", answer)
        )
    return short


async def test_proposals_pass_through_unchanged(desk) -> None:
    first = Says("first")
    assert await ladder(first, Says("second")).propose(desk.ask()) == await first.propose(desk.ask())


async def test_it_climbs_when_a_rung_has_found_nothing_for_its_patience_and_starts_again_after_the_last(
    desk,
) -> None:
    rungs = ladder(Says("a"), Says("b"), Says("c"))
    assert await told(desk, rungs, 9) == ["a", "a", "to b", "b", "b", "to c", "c", "c", "to a"]
    reasons = [item.event.reason for item in desk.bench.ledger.read() if isinstance(item.event, RungChanged)]
    assert reasons[0] == "trials on a without an improvement: 2"


async def test_without_a_cycle_the_last_rung_goes_on(desk) -> None:
    assert await told(desk, ladder(Says("a"), Says("b"), cycle=False), 9) == ["a", "a", "to b", *["b"] * 6]


async def test_a_single_rung_has_nowhere_to_go(desk) -> None:
    assert await told(desk, ladder(Says("a")), 5) == ["a"] * 5


async def test_each_rung_has_its_own_patience(desk) -> None:
    rungs = Ladder([Rung(Says("a"), 1, "a"), Rung(Says("b"), 3, "b")], LadderOptions(()))
    assert await told(desk, rungs, 7) == ["a", "to b", "b", "b", "b", "to a", "a"]


async def test_an_improvement_gives_a_rung_its_patience_anew(desk) -> None:
    rungs = ladder(Says("a"), Says("b"))
    assert await told(desk, rungs, 1) == ["a"]
    assert await told(desk, rungs, 1, Verdict.KEPT) == ["a"]
    assert await told(desk, rungs, 3) == ["a", "a", "to b"]


async def test_trials_in_flight_may_still_be_an_improvement(desk) -> None:
    rungs = ladder(Says("a"), Says("b"))
    assert await told(desk, rungs, 3) == ["a", "a", "to b"]
    flying = [desk.starts(await rungs.propose(desk.ask())) for _ in range(3)]
    answer = await rungs.propose(desk.ask())
    assert isinstance(answer, Proposal)
    for node in flying:
        desk.ends(node, -1.0)
    assert await rungs.propose(desk.ask()) == RungChange(0, "a", "trials on b without an improvement: 2")


async def test_a_new_process_goes_on_from_the_same_rung(desk) -> None:
    answers = [(await told(desk, ladder(Says("a"), Says("b"), Says("c")), 1))[0] for _ in range(9)]
    assert answers == ["a", "a", "to b", "b", "b", "to c", "c", "c", "to a"]


async def test_a_ladder_that_has_lost_rungs_stands_on_its_last(desk) -> None:
    await told(desk, ladder(Says("a"), Says("b"), Says("c")), 7)
    assert await told(desk, ladder(Says("a"), Says("b")), 1) == ["b"]


async def test_it_climbs_when_a_rung_has_nothing_left(desk) -> None:
    rungs = ladder(Says("a", Exhausted("all 3 points are tried")), Says("b"))
    assert await rungs.propose(desk.ask()) == RungChange(1, "b", "a has nothing left: all 3 points are tried")


async def test_a_spent_cap_leads_to_the_highest_rung_below_that_has_something(desk) -> None:
    poor = Exhausted("512 more tokens would pass the limit of 100")
    rungs = ladder(Says("a"), Says("b"), Says("c", poor), Says("d", poor))
    await told(desk, rungs, 6)
    assert await told(desk, rungs, 4) == ["to d", "to b", "b", "b"]
    assert await told(desk, rungs, 6) == ["to a", "a", "a", "to b", "b", "b"], "the others are not asked again"


async def test_rungs_that_had_nothing_are_asked_again_after_a_new_best(desk) -> None:
    dry = Says("b", Exhausted("nothing to change"))
    rungs = ladder(Says("a"), dry)
    assert await told(desk, rungs, 6) == ["a", "a", "to b", "to a", "a", "a"]
    dry.answer = "point"
    assert await told(desk, rungs, 1, Verdict.KEPT) == ["a"]
    assert await told(desk, rungs, 4) == ["a", "a", "to b", "b"]


async def test_it_is_exhausted_when_all_rungs_are(desk) -> None:
    rungs = ladder(*(Says(name, Exhausted(f"no {name}s")) for name in "abc"))
    await told(desk, rungs, 2)
    with pytest.raises(Exhausted, match="a has nothing left: no as; b has nothing left: no bs; c has"):
        await rungs.propose(desk.ask())


async def test_who_has_something_a_little_later_is_waited_for(desk) -> None:
    with pytest.raises(Crowded):
        await ladder(Says("a", Crowded("calls in flight")), Says("b")).propose(desk.ask())


async def test_nothing_at_present_is_no_reason_to_step(desk) -> None:
    assert await ladder(Says("a", None), Says("b")).propose(desk.ask()) is None


async def test_in_an_outage_the_cheap_work_goes_on_and_it_climbs_again_later(desk) -> None:
    model = Says("b", Outage("the provider is down"))
    rungs = ladder(Says("a"), model)
    assert await told(desk, rungs, 4) == ["a", "a", "to b", "to a"]
    assert desk.stepped()[-1] == "b cannot be asked: the provider is down"
    model.answer = "point"
    assert await told(desk, rungs, 4) == ["a", "a", "to b", "b"]


async def test_an_outage_of_the_lowest_rung_or_over_empty_ones_is_an_outage(desk) -> None:
    down = Outage("the provider is down")
    with pytest.raises(Outage):
        await ladder(Says("a", down), Says("b")).propose(desk.ask())
    rungs = ladder(Says("a", Exhausted("all tried")), Says("b", down))
    assert await told(desk, rungs, 1) == ["to b"]
    with pytest.raises(Outage):
        await rungs.propose(desk.ask())


async def test_it_steps_down_when_proposals_fail_in_a_row_and_climbs_again_later(desk) -> None:
    model = Says("b", Refusal("b", "does not apply", Objection.APPLY))
    rungs = ladder(Says("a"), model, fallback=3)
    assert await told(desk, rungs, 7) == ["a", "a", "to b", "b", "b", "b", "to a"]
    assert desk.stepped()[-1] == "refused in a row on b: 3"
    assert await told(desk, rungs, 3) == ["a", "a", "to b"]


async def test_a_rung_that_fails_twice_in_a_row_is_left_out_until_there_is_a_new_best(desk) -> None:
    model = Says("b", Refusal("b", "does not apply", Objection.APPLY))
    rungs = ladder(Says("a"), model, fallback=1)
    assert await told(desk, rungs, 9) == ["a", "a", "to b", "b", "to a", "a", "a", "to b", "b"]
    assert await told(desk, rungs, 6) == ["to a", *["a"] * 5], "it stays below, also in a new process:"
    assert await told(desk, ladder(Says("a"), model, fallback=1), 3) == ["a"] * 3
    assert await told(desk, rungs, 1, Verdict.KEPT) == ["a"]
    assert await told(desk, rungs, 3) == ["a", "a", "to b"]


async def test_one_proposal_that_applies_makes_good_for_those_that_failed(desk) -> None:
    model = Says("b", Refusal("b", "does not apply", Objection.APPLY))
    rungs = ladder(Says("a"), model, fallback=1)
    assert await told(desk, rungs, 8) == ["a", "a", "to b", "b", "to a", "a", "a", "to b"]
    model.answer = "point"
    assert await told(desk, rungs, 1) == ["b"]
    model.answer = Refusal("b", "does not apply", Objection.APPLY)
    assert await told(desk, rungs, 5) == ["b", "to a", "a", "a", "to b"], "the count began anew"


async def test_a_broader_rung_has_its_turn_when_the_next_one_is_left_out(desk) -> None:
    model = Says("b", Refusal("b", "no JSON", Objection.REPLY))
    rungs = ladder(Says("a"), model, Says("c"), fallback=1)
    await told(desk, rungs, 10)
    assert await told(desk, rungs, 4) == ["a", "a", "to c", "c"]


async def test_the_lowest_rung_can_fail_upwards_only(desk) -> None:
    rungs = ladder(Says("a", Refusal("a", "the same as 1", Objection.DUPLICATE)), Says("b"), fallback=2)
    assert await told(desk, rungs, 4) == ["a", "a", "to b", "b"]


async def test_it_never_steps_for_ever_without_a_trial(desk) -> None:
    """Whatever its rungs do, refusals mount up, until the loop ends the lane, or it is exhausted."""
    refused = Refusal("a", "no", Objection.REPLY)
    rungs = ladder(Says("a", refused), Says("b", refused), Says("c", Exhausted("spent")), fallback=1)
    steps = [answer for answer in await told(desk, rungs, 80) if answer.startswith("to ")]
    assert len(steps) < 10


def test_its_width_is_that_of_its_narrowest_rung() -> None:
    assert ladder(Says("a", width=4), Says("b", width=2)).width == 2
    assert ladder(Says("a", width=4), Says("b")).width == 1


def test_it_needs_rungs_and_no_two_that_would_mistake_each_others_turns_for_their_own() -> None:
    with pytest.raises(Misuse, match="needs rungs"):
        Ladder([], LadderOptions(()))
    grids = [GridProposer(SPACE, GridOptions(points)) for points in (2, 3)]
    with pytest.raises(Misuse, match="two rungs of kind 'grid'"):
        ladder(*grids)
    ladder(Says("llm-code"), Says("llm-code"))


async def test_within_the_loop_every_step_is_on_record_with_its_reason(tmp_path) -> None:
    run = Bench(lambda trial: -abs(trial.node.params["x"] - 0.93), pools=Pools(attempts=14))
    model = ScriptedModel(
        [
            replied({"x": 0.9}, {"x": 0.8}, {"x": 0.81}),
            *["I do not know"] * 4,
            ModelFault("the key is gone", transient=False),
            replied({"x": 0.93}),
        ]
    )
    line = line_of(run.recorder, tmp_path, model)
    asking = ParametersProposer(SPACE, line, Plain(), ParametersOptions())
    run.proposer = Ladder(
        [
            Rung(GridProposer(SPACE, GridOptions(points=3)), 9, "grid"),
            Rung(RandomProposer(Space({"x": Parameter(ParameterKind.FLOAT, 0.0, 0.4)})), 2, "random"),
            Rung(asking, 2, "llm-parameters"),
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
        "to random: refused in a row on llm-parameters: 2",
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
