"""Whole files, and files with marked blocks, outside which nothing may change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from loopty.domain.proposal import Objection
from loopty.proposers.code.reply_edits import ProposalFault, WholeFile

HEAD, TAIL = "import os\n\nSEED = 1\n# EVOLVE-BLOCK-START\n", "# EVOLVE-BLOCK-END\n\nprint(run())\n"
MARKED = f"{HEAD}def run():\n    return 1\n{TAIL}"
BETTER = "def run():\n    return 2\n"


def apply_file(text: str, before: str | None = MARKED) -> str:
    return WholeFile("a.py", tuple(text.removesuffix("\n").split("\n"))).apply(before)


def test_a_file_has_the_text_of_the_reply_and_its_old_line_ends() -> None:
    assert apply_file("a\nb\n", None) == "a\nb\n"
    assert apply_file("a\nb\n", "x\r\ny\r\n") == "a\r\nb\r\n"


def test_a_reply_may_give_all_of_a_marked_file_or_the_block_with_or_without_markers() -> None:
    wanted = f"{HEAD}{BETTER}{TAIL}"
    assert apply_file(wanted) == wanted
    assert apply_file(f"# EVOLVE-BLOCK-START\n{BETTER}# EVOLVE-BLOCK-END\n") == wanted
    assert apply_file(BETTER) == wanted
    assert apply_file(f"import os\nSEED = 1\n\n{BETTER}\nprint(run())\n") == wanted.replace(
        "    return 2\n", "    return 2\n\n"
    )


def test_lines_left_out_outside_the_blocks_do_not_matter() -> None:
    careless = f"import os\nSEED = 1   \n# EVOLVE-BLOCK-START\n{BETTER}# EVOLVE-BLOCK-END\nprint(run())"
    assert apply_file(careless) == f"{HEAD}{BETTER}{TAIL}"


def test_a_change_outside_the_blocks_is_not_hidden() -> None:
    changed = f"{HEAD}{BETTER}{TAIL}".replace("SEED = 1", "SEED = 2")
    assert apply_file(changed) == changed


def test_a_bracket_that_the_block_and_the_file_end_with_stays_with_the_block() -> None:
    before = "// EVOLVE-BLOCK-START\nint f() {\n}\n// EVOLVE-BLOCK-END\n}\n"
    assert apply_file("int f() {\nreturn 1;\n}\n", before) == (
        "// EVOLVE-BLOCK-START\nint f() {\nreturn 1;\n}\n// EVOLVE-BLOCK-END\n}\n"
    )


def test_each_of_several_blocks_gets_its_own_text() -> None:
    two = f"{MARKED}# EVOLVE-BLOCK-START\nx = 1\n# EVOLVE-BLOCK-END\n"
    assert apply_file(two.replace("x = 1", "x = 2").replace("SEED = 1\n", ""), two) == two.replace(
        "x = 1", "x = 2"
    )
    with pytest.raises(ProposalFault, match="2 marked blocks"):
        apply_file(BETTER, two)


def test_blocks_of_a_file_keep_its_line_ends() -> None:
    before = MARKED.replace("\n", "\r\n")
    assert apply_file(BETTER, before) == f"{HEAD}{BETTER}{TAIL}".replace("\n", "\r\n")


@pytest.fixture
def marked_world(world_of: Callable[[dict[str, str]], Any]) -> Any:
    return world_of({"src/a.py": MARKED})


async def test_the_prompt_mentions_the_markers_and_the_reply_may_be_the_block_alone(marked_world: Any) -> None:
    proposal = await marked_world.get_proposal(marked_world.proposer("rewrite"), f"```python\n{BETTER}```\n")
    assert proposal.edits == {"src/a.py": f"{HEAD}{BETTER}{TAIL}"}
    assert "only between the EVOLVE-BLOCK lines" in marked_world.last_prompt()
    marked_world.add(proposal)


async def test_a_change_outside_the_markers_is_refused_after_one_retry(
    marked_world: Any, block: Callable[..., str]
) -> None:
    bad = block("SEED = 1", "SEED = 2", "src/a.py")
    refusal = await marked_world.get_refusal(marked_world.proposer(), bad, bad)
    assert refusal.objection is Objection.FORBIDDEN
    assert "line 3 is outside the marked blocks" in refusal.reason
    assert "line 3 is outside the marked blocks" in marked_world.last_prompt()


async def test_markers_that_do_not_pair_never_get_into_a_file(world: Any, block: Callable[..., str]) -> None:
    bad = block("", "# EVOLVE-BLOCK-END\nx = 1", "src/new.py")
    assert "EVOLVE-BLOCK-END without a START" in (await world.get_refusal(world.proposer(), bad, bad)).reason
