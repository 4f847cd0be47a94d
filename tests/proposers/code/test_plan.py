"""The best nodes, found without reading all of them."""

from __future__ import annotations

import random
from typing import Any

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.model import ModelOption
from loopty.domain.proposal import Directions
from loopty.domain.trial import Pool
from loopty.engine.protocols import Ask
from loopty.kit.records import replace
from loopty.proposers.code.options import CodeOptions, Operator
from loopty.proposers.code.plan import WIDENING, Widening, best_nodes, directions_due, make_plan, partners
from loopty.proposers.code.source_files import TextCache, origin_of
from loopty.proposers.selectors.choices import BestSelector
from loopty.record.search_learning import DirectionsGiven
from loopty.record.verdicts import Incumbents
from loopty.testing.fakes import ScriptedRoleModel


def best(world: Any) -> list[str]:
    return [str(node.id) for node in best_nodes(world.ask())]


def test_the_best_nodes_are_updated_as_results_come_in(world: Any) -> None:
    assert best(world) == ["1"]
    world.try_edits({"src/other.py": "A = 1\n"}, 3.0)
    world.try_edits({"src/other.py": "A = 2\n"}, None)
    world.try_edits({"src/other.py": "A = 3\n"}, 2.0)
    assert best(world) == ["1.1", "1.3", "1"]
    for number in range(10):
        world.try_edits({"src/other.py": f"B = {number}\n"}, 4.0 + number)
    assert best(world) == [f"1.{number}" for number in range(13, 5, -1)]


def test_partners_are_nodes_of_another_branch_with_other_code(world: Any) -> None:
    first = world.try_edits({"src/other.py": "A = 1\n"}, 3.0)
    world.try_edits({"src/other.py": "A = 2\n"}, 2.0, parent="1.1")
    other = world.try_edits({"src/main.py": "A = 3\n"}, 2.5)
    assert partners(world.ask(), first) == [other]


def test_a_file_is_read_at_the_node_that_changed_it_last(world: Any) -> None:
    world.try_edits({"src/other.py": "A = 1\n"}, 3.0)
    child = world.try_edits({"src/main.py": "B = 1\n"}, 4.0, parent="1.1")
    history, read = world.recorder.history, []

    def text(commit: str, path: str) -> str:
        read.append((commit, path))
        if path == "gone":
            raise Misuse("git has no such file")
        return path

    texts, commits = TextCache(text), [history[NodeId(name)].commit for name in ("1", "1.1", "1.1.1")]
    for node in (child, child, history[NodeId("1.1")]):
        for path in ("src/other.py", "evaluate.py"):
            assert texts.text(origin_of(history, node).commit(path), path) == path
    assert texts.text(origin_of(history, child).commit("gone"), "gone") is None
    assert read == [(commits[1], "src/other.py"), (commits[0], "evaluate.py"), (commits[0], "gone")]
    assert origin_of(history, child).changed == {"src/main.py": commits[2], "src/other.py": commits[1]}


def stand_still(world: Any, verdicts: int) -> None:
    """As if so many verdicts had brought no new best node."""
    history = world.recorder.history
    known = Incumbents.of(history.runs[1], Pool.ATTEMPT)
    history.runs[1] = history.runs[1].with_pool_part(Pool.ATTEMPT, replace(known, since_best=verdicts))


def plans(world: Any, verdicts: int, count: int = 12) -> list[tuple[str, str, str]]:
    """The parent, its reason and the model of plans at so many positions of a search that stands still."""
    stand_still(world, verdicts)
    options = CodeOptions(operators=(Operator.DIFF,), exploration=0.0)
    models = (ModelOption("cheap"), ModelOption("dear", price=1e9))
    asks = (
        Ask(world.recorder.history, 1, Pool.ATTEMPT, lambda at: random.Random(at), (), ahead=ahead)
        for ahead in range(count)
    )
    made = [make_plan(ask, options, BestSelector(), models) for ask in asks]
    return [(str(plan.parent.id), plan.parent_reason, plan.model) for plan in made]


def test_a_search_that_stands_still_widens_in_the_order_of_the_table(world: Any) -> None:
    world.try_edits({"src/other.py": "A = 1\n"}, 3.0)
    world.try_edits({"src/other.py": "A = 2\n"}, 4.0, parent="1.1")
    world.try_edits({"src/main.py": "A = 3\n"}, 2.5)
    assert {parent for parent, _, _ in plans(world, 5)} == {"1.1.1"}
    others = plans(world, WIDENING[Widening.OTHER_PARENT])
    assert {parent for parent, _, _ in others} > {"1.1.1"}
    assert [parent for parent, _, _ in others].count("1.1.1") >= 6, "every second one goes on as before"
    families = {parent for parent, why, _ in plans(world, 12) if why.endswith(Widening.OTHER_FAMILY)}
    assert families == {"1.2"}, "the best of those that do not descend from the first change of the best"
    assert [*WIDENING] == [*Widening]
    assert [*WIDENING.values()] == sorted(WIDENING.values())


async def test_directions_of_a_reviewer_are_asked_for_once_and_are_over_with_a_better_node(world: Any) -> None:
    world.try_edits({"src/other.py": "A = 1\n"}, 3.0)
    reviewer = ScriptedRoleModel("Look at the other end.")
    proposer = world.proposer("diff", reviewer=reviewer)
    stand_still(world, WIDENING[Widening.DIRECTIONS])
    given = await proposer.propose(world.ask())
    assert given == Directions("Look at the other end.")
    assert "three directions" in reviewer.prompts[0].messages[0].text
    assert "A = 1" in reviewer.prompts[0].messages[0].text, "the best program"
    world.recorder.record(lambda _: [DirectionsGiven(1, Pool.ATTEMPT, given.text)])
    stand_still(world, WIDENING[Widening.DIRECTIONS])
    assert not directions_due(world.ask())
    world.try_edits({"src/other.py": "A = 2\n"}, 4.0)
    stand_still(world, WIDENING[Widening.DIRECTIONS])
    assert directions_due(world.ask())
