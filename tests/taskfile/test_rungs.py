"""The rungs of a ladder: each is checked as a proposer with its own keys."""

import pytest

from loopty.domain.errors import Misuse
from loopty.taskfile.read import parse

TASK = (
    '[benchmark]\ncommand = "python3 evaluate.py"\ntimeout_seconds = 30\n[access]\nwrite = ["program.py"]\n'
    '[proposer]\nkind = "ladder"\n[[proposer.rungs]]\n'
)


@pytest.mark.parametrize(
    ("rung", "message"),
    [
        (
            'kind = "mutate"\npatienc = 3\n',
            "proposer.rungs.0.patienc is not a known key; did you mean 'patience'?",
        ),
        ('kind = "mutate"\nbatch = 3\n', "rungs.0.batch is not a known key; known here: kind, patience, parents"),
        ('knid = "mutate"\n', "proposer.rungs.0 must be a table with a kind"),
        ('kind = "mutate"\npatience = 0\n', "proposer.rungs.0.patience must be at least 1"),
    ],
)
def test_a_wrong_key_of_a_rung_is_reported_with_the_known_keys(rung, message):
    with pytest.raises(Misuse) as caught:
        parse(TASK + rung)
    assert message in str(caught.value)


def test_a_wrong_key_of_a_proposer_is_reported_with_the_known_keys():
    with pytest.raises(Misuse, match=r"proposer\.colour is not a known key; known here: kind, parents$"):
        parse(TASK.replace('kind = "ladder"\n[[proposer.rungs]]', 'kind = "mutate"\ncolour = 1'))
