"""Whole files, and files of which only marked blocks may change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from loopty.domain.proposal import Objection
from loopty.proposers.code.reply_faults import ProposalFault
from loopty.proposers.code.whole_file import WholeFile

HEAD, TAIL = "import os\n\nSEED = 1\n# EVOLVE-BLOCK-START\n", "# EVOLVE-BLOCK-END\n\nprint(run())\n"
MARKED = f"{HEAD}def run():\n    return 1\n{TAIL}"
BETTER = "def run():\n    return 2\n"


def applied(text: str, before: str | None = MARKED) -> str:
    return WholeFile("a.py", tuple(text.removesuffix("\n").split("\n"))).apply(before)


def test_a_file_is_what_the_reply_says_with_the_ends_of_lines_that_it_had() -> None:
    assert applied("a\nb\n", None) == "a\nb\n"
    assert applied("a\nb\n", "x\r\ny\r\n") == "a\r\nb\r\n"


def test_of_a_marked_file_the_reply_may_be_all_or_the_block_with_or_without_markers() -> None:
    wanted = f"{HEAD}{BETTER}{TAIL}"
    assert applied(wanted) == wanted
    assert applied(f"# EVOLVE-BLOCK-START\n{BETTER}# EVOLVE-BLOCK-END\n") == wanted
    assert applied(BETTER) == wanted
    assert applied(f"import os\nSEED = 1\n\n{BETTER}\nprint(run())\n") == wanted.replace(
        "    return 2\n", "    return 2\n\n"
    )


def test_sloppiness_outside_of_the_blocks_is_passed_over() -> None:
    sloppy = f"import os\nSEED = 1   \n# EVOLVE-BLOCK-START\n{BETTER}# EVOLVE-BLOCK-END\nprint(run())"
    assert applied(sloppy) == f"{HEAD}{BETTER}{TAIL}"


def test_a_change_outside_of_the_blocks_is_not_hidden() -> None:
    changed = f"{HEAD}{BETTER}{TAIL}".replace("SEED = 1", "SEED = 2")
    assert applied(changed) == changed


def test_a_bracket_that_the_block_and_the_file_end_with_stays_with_the_block() -> None:
    before = "// EVOLVE-BLOCK-START\nint f() {\n}\n// EVOLVE-BLOCK-END\n}\n"
    assert applied("int f() {\nreturn 1;\n}\n", before) == (
        "// EVOLVE-BLOCK-START\nint f() {\nreturn 1;\n}\n// EVOLVE-BLOCK-END\n}\n"
    )


def test_of_several_blocks_each_gets_its_own() -> None:
    two = f"{MARKED}# EVOLVE-BLOCK-START\nx = 1\n# EVOLVE-BLOCK-END\n"
    assert applied(two.replace("x = 1", "x = 2").replace("SEED = 1\n", ""), two) == two.replace("x = 1", "x = 2")
    with pytest.raises(ProposalFault, match="2 marked blocks"):
        applied(BETTER, two)


def test_blocks_of_a_file_with_other_ends_of_lines() -> None:
    before = MARKED.replace("\n", "\r\n")
    assert applied(BETTER, before) == f"{HEAD}{BETTER}{TAIL}".replace("\n", "\r\n")


@pytest.fixture
def marked(world_of: Callable[[dict[str, str]], Any]) -> Any:
    return world_of({"src/a.py": MARKED})


async def test_the_model_is_told_of_the_markers_and_may_give_the_block_alone(marked: Any) -> None:
    proposal = await marked.proposed(marked.proposer("rewrite"), f"```python\n{BETTER}```\n")
    assert proposal.edits == {"src/a.py": f"{HEAD}{BETTER}{TAIL}"}
    assert "only between the EVOLVE-BLOCK lines" in marked.said()
    marked.added(proposal)


async def test_a_change_outside_of_the_markers_is_fed_back_once_and_refused(
    marked: Any, block: Callable[..., str]
) -> None:
    bad = block("SEED = 1", "SEED = 2", "src/a.py")
    refusal = await marked.refused(marked.proposer(), bad, bad)
    assert refusal.objection is Objection.FORBIDDEN
    assert "line 3 is outside the marked blocks" in refusal.reason
    assert "line 3 is outside the marked blocks" in marked.said()


async def test_markers_that_do_not_pair_never_get_into_a_file(world: Any, block: Callable[..., str]) -> None:
    bad = block("", "# EVOLVE-BLOCK-END\nx = 1", "src/new.py")
    assert "EVOLVE-BLOCK-END without a START" in (await world.refused(world.proposer(), bad, bad)).reason
