"""The best nodes, found without reading all of them."""

from __future__ import annotations

from typing import Any

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.proposers.code.plan import best_nodes, partners
from loopty.proposers.code.source_files import TextCache, origin_of


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
