"""A ledger with a bad event still opens: every reading verb shows the rest and names the event."""

import contextlib
import json
import sqlite3

import pytest


@pytest.fixture
def place(code_place):
    code_place.loopty("run", "1")
    code_place.loopty("new", "--parent", "1")
    return code_place


def edit(place, statement):
    with contextlib.closing(sqlite3.connect(place.state / "ledger.sqlite")) as db, db:
        db.execute(statement)


def test_reading_verbs_name_the_event_and_show_the_rest_and_nothing_is_added(place):
    # As an older loopty left it, which believed a worker that `true` is a score.
    edit(
        place,
        "UPDATE events SET body = json_set(body, '$.outcome.metrics.score', json('true')) "
        "WHERE kind = 'trial-ended'",
    )
    edit(place, "UPDATE fold SET version = version - 1")
    for verb in (["status"], ["tree"], ["report"], ["show", "1"], ["diff", "@2"]):
        done = place.loopty(*verb)
        assert "@" in done.stdout or verb[0] == "diff", verb
        if verb[0] != "diff":
            assert "cannot be read (outcome.metrics.score is a truth value, not a number)" in done.stderr, verb
    assert "cannot be read" in place.loopty("report", "--check", code=1).stderr
    for verb in (["optimize"], ["new", "--parent", "1"], ["direct", "faster"]):
        output = place.loopty(*verb, code=2).stderr
        assert "nothing is added to this ledger" in output
        assert output.count("\n") == 1


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET body = json_set(body, '$.summary', 'forged') WHERE kind = 'node-added'",
        "UPDATE nodes SET body = json_set(body, '$.summary', 'forged') WHERE id = '1'",
        "DELETE FROM events WHERE number = 3",
    ],
)
def test_a_check_of_an_edited_ledger_exits_with_1(place, statement):
    place.loopty("report", "--check", code=0)
    edit(place, statement)
    place.loopty("report", code=0)
    assert "changed by hand" in place.loopty("report", "--check", code=1).stderr
    assert json.loads(place.loopty("report", "--check", "--json", code=1).stdout)["flaw"]


@pytest.mark.parametrize("named", ["run 1", "node 1"])
def test_a_check_of_a_ledger_that_cannot_be_shown_exits_with_1_and_names_the_edit(place, named):
    edit(place, f"UPDATE {named[:-2]}s SET body = 'nothing' WHERE {'id' if named == 'node 1' else 'place'} = '1'")
    assert "changed by hand" in place.loopty("report", code=2).stderr
    output = place.loopty("report", "--check", code=1).stderr
    assert f"the record of {named} was changed" in output
