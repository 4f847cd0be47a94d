"""How a program declares parameters of its own, in words for prompts. Only where proposals are tuned."""

from __future__ import annotations

from collections.abc import Iterator

from loopty.domain.declared_parameters import MARK, MOST_DECLARED

EXAMPLE = f'# {MARK} step = {{ type = "float", low = 0.01, high = 10.0, log = true, default = 1.0 }}'
"""It reads like a line of a program: models copy it."""


def declaration_lines(trials: int) -> Iterator[str]:
    """What a proposer must know to leave values open; `trials` short runs tune them."""
    yield (
        "You need not guess numbers and choices of your program: you may leave them open. Declare each in a "
        f"comment line of its own, in a file that may be changed, as in `{EXAMPLE}`. The types are `float` and "
        '`int`, with low and high, and `categorical`, with choices, as in `choices = ["a", "b"]`.'
    )
    yield (
        "The program reads the values from the JSON object in the file that the environment variable "
        'LOOPTY_PARAMS names; in Python: `json.load(open(os.environ["LOOPTY_PARAMS"]))["step"]`. Up to '
        f"{trials} short runs find good values before the change is scored. Declare only what matters, and at "
        f"most {MOST_DECLARED}; keep lines that are there as long as the program reads their values."
    )
