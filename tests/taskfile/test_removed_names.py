"""A task file that names what is gone is told what to write instead."""

from __future__ import annotations

import pytest

from loopty.domain.errors import Misuse
from loopty.taskfile.read import parse

TASK = """
[benchmark]
command = "sh bench.sh"
timeout_seconds = 20
[access]
write = ["src/**"]
"""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[proposer]\nparents = "uct"', "proposer.parents 'uct' is gone: use \"best\", which"),
        (
            '[proposer]\nparents = { kind = "novelty" }',
            "'novelty' is gone: use \"map-elites\" with the same",
        ),
        ('[control]\nkind = "mutate"\nparents = "top"', "control.parents 'top' is gone: use \"best\", which"),
        (
            '[proposer]\nkind = "llm-code"\noperators = ["diff", "part"]',
            "operators.1 'part' is gone: leave it out",
        ),
        (
            '[proposer]\nkind = "ladder"\n[[proposer.rungs]]\nkind = "llm-code"\nembedding = "near"',
            "proposer.rungs.0 'embedding' is gone: leave it out",
        ),
        (
            '[proposer]\nkind = "llm-code"\nsimilarity = 1.0',
            "proposer 'similarity' is gone: leave it out; a change is",
        ),
        ("[verifier]\nscreen = true", "verifier 'screen' is gone: leave it out; review = \"reject\""),
        ('[proposer]\nkind = "llm-code"\nguide_after = 4', "proposer 'guide_after' is gone: leave it out; tell"),
    ],
)
def test_a_name_that_is_gone_is_reported_with_what_to_use_instead(text, message):
    with pytest.raises(Misuse) as fault:
        parse(TASK + text)
    assert message in str(fault.value)
