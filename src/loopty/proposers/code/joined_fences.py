"""Several fenced blocks for one file in a reply: small models give a function in each, or a draft first."""

from __future__ import annotations

import re
from collections.abc import Sequence

from loopty.proposers.code.whole_file import WholeFile

_DEFINITION = re.compile(
    r"^(?:pub |export |static |async )*(?:def|class|fn|func|function|struct) +(\w+)", re.MULTILINE
)


def join_fences(blocks: Sequence[WholeFile], before: str) -> WholeFile | None:
    """The file that the blocks mean together; None when that is not clear.

    The last block that defines all that the file defines; otherwise all blocks, where each defines something else.
    """
    wanted = set(_DEFINITION.findall(before))
    defined = [set(_DEFINITION.findall("\n".join(block.lines))) for block in blocks]
    if not wanted:
        return None
    for block, names in zip(reversed(blocks), reversed(defined), strict=True):
        if wanted <= names:
            return block
    together = set().union(*defined)
    if len(together) < sum(map(len, defined)) or not wanted <= together:
        return None
    lines = [line for block in blocks for line in (*block.lines, "")]
    return WholeFile(blocks[0].path, tuple(lines[:-1]))
