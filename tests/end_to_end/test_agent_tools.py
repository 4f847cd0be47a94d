"""The tools of an agent that loopty starts: at a socket in its sandbox, for its own tree alone."""

import pytest

from loopty.record.directives import Notes

from .conftest import CODE_TASK
from .test_agent_command import AGENT, replies

GATE = """
[[gates]]
name = "small"
command = "test $(cat src/x.txt) -lt 100 || {{ echo far too large; exit 1; }}"
"""


def work(place, script: str, attempts: int = 1) -> str:
    """What an agent with this script said."""
    place.write("loopty.toml", CODE_TASK.format(attempts=attempts) + (GATE + AGENT).format(script=script, more=""))
    place.commit()
    place.loopty("optimize")
    return replies(place)[-1]


def test_an_agent_tries_checks_and_notes_its_own_tree(code_place):
    said = work(
        code_place,
        """echo 900 > src/x.txt; loopty tool check
        echo 9 > src/x.txt; loopty tool check; loopty tool try command="cat src/x.txt; pwd"
        loopty tool context words=200; loopty tool show id=1 what=gate; loopty tool note text="nine is fine" 2>&1
        echo "SUMMARY: nine" """,
    )
    assert "far too large" in said
    assert "every gate passes" in said
    assert "exit code 0" in said
    assert "metric score: higher is better" in said
    assert "the gates of @1" in said
    (note,) = Notes.of(code_place.history().runs[1]).newest
    assert (note.client, note.text) == ("command", "nine is fine")
    assert code_place.history()["1.1"].outcome.metrics["score"] == 9
    work(code_place, 'grep -A2 "nine is fine" "$LOOPTY_PROMPT_FILE"; echo 10 > src/x.txt', attempts=2)
    assert "nine is fine" in replies(code_place)[-1]


@pytest.mark.parametrize(
    ("call", "answer"),
    [
        ("submit id=1", "you have one draft"),
        ("submit", "submit takes mode=tune here"),
        ("submit mode=tune", "the task has no [tune] slice"),
        ("open hypothesis=x", "the tools here are"),
        ("manage action=abort id=1", "the tools here are"),
        ("try id=1.1 command=ls", "you have one draft"),
        ("check id=1.1", "you have one draft"),
        ("show id=1.1 what=diff", "is no finished node"),
        ("try command='cat secret.txt .git/config loopty.toml /loopty/home/*'", "exit code 1"),
        (
            "try command='sh bench.sh; cat $EVO_RESULT_PATH'",
            "It ran the benchmark, which counts: 0 more such tries",
        ),
        ("try command='sh b*h.sh'; sh bench.sh; cat b*.sh", "exit code 2"),
        ("wait id=t1.1", "there is no ticket"),
        ("wait", "needs id"),
        ("wait @1", "@1 kept"),
        ("wait id=1.1", "is no finished node"),
        ("""submit '{"mode": "tune", "params": "{}"}'""", "the task has no [tune] slice"),
    ],
)
def test_an_agent_reaches_no_other_draft_and_no_state(code_place, call, answer):
    code_place.write("secret.txt", "the answer\n")
    task = CODE_TASK.format(attempts=1) + AGENT.format(
        script=f'loopty tool {call} 2>&1; echo 9 > src/x.txt; echo "SUMMARY: nine"', more=""
    )
    code_place.write("loopty.toml", task.replace("[access]\n", '[access]\nhidden = ["secret.txt"]\n'))
    code_place.commit()
    code_place.loopty("new", "-m", "a person's draft")
    code_place.loopty("optimize")
    said = replies(code_place)[-1]
    assert answer in said
    assert "the answer" not in said
