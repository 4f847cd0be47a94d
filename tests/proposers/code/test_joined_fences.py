"""Several fenced blocks for one file."""

import pytest

from loopty.proposers.code.new_files import apply_changes
from loopty.proposers.code.replies import parse_changes, parse_items
from loopty.proposers.code.reply_edits import ProposalFault

BEFORE = (
    "# EVOLVE-BLOCK-START\ndef encode(x):\n    return x\n\n\ndef decode(x):\n    return x\n# EVOLVE-BLOCK-END\n"
)
ENCODE = "```python\ndef encode(x):\n    return x + 1\n```\n"
DECODE = "```python\ndef decode(x):\n    return x - 1\n```\n"


def new_text(reply: str) -> str:
    (item,) = parse_items(reply, True, 1)
    edits = apply_changes(parse_changes(item, {"codec.py"}, "codec.py"), {"codec.py": BEFORE}.get, frozenset())
    text = edits["codec.py"]
    assert text is not None
    return text


def test_blocks_with_a_function_each_are_joined() -> None:
    text = new_text(f"First the encoder:\n{ENCODE}and the decoder:\n{DECODE}")
    assert "return x + 1" in text
    assert "return x - 1" in text
    assert text.startswith("# EVOLVE-BLOCK-START\ndef encode")
    assert text.endswith("# EVOLVE-BLOCK-END\n")


def test_the_last_block_that_has_everything_wins() -> None:
    both = "```python\ndef encode(x):\n    return x * 2\n\n\ndef decode(x):\n    return x // 2\n```\n"
    assert "x * 2" in new_text(f"{ENCODE}Better:\n{both}For example:\n```python\nprint(encode(1))\n```\n")


@pytest.mark.parametrize("reply", [ENCODE + ENCODE, ENCODE + "```python\nprint(1)\n```\n"])
def test_blocks_that_leave_something_out_are_refused(reply: str) -> None:
    with pytest.raises(ProposalFault, match="more than once"):
        new_text(reply)
