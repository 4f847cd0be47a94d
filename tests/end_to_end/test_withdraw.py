"""Verdicts that are taken back: discard, invalidate, remeasure, and gates that come late."""

import json

import pytest

from loopty.campaign.campaign import Campaign
from loopty.domain.benchmark import Gate
from loopty.domain.errors import Misuse

from .state import events


def tried(place, number, parent="1", code=0):
    """A node with this number, run."""
    made = place.json("new", "--parent", parent)
    (place.top / made["workspace"] / "src/x.txt").write_text(f"{number}\n")
    return json.loads(place.loopty("run", made["node"], "--json", code=code).stdout)["id"]


@pytest.fixture
def tree(code_place):
    """1 (5) is beaten by 1.1 (6), that by 1.2 (90); 1.3 (8) loses only to 1.2."""
    code_place.loopty("run", "1")
    for number in (6, 90, 8):
        tried(code_place, number)
    return code_place


def test_a_cheat_is_invalidated_with_its_descendants_and_what_lost_to_it_returns(tree):
    below = tried(tree, 95, parent="1.2")
    assert tree.json("best")["id"] == below
    done = tree.loopty("invalidate", "1.2", "--why", "it reads the answers")
    assert done.stdout == "withdrawn: @3, @5\nunjudged again: @4\nbest: @2\n"
    assert tree.json("best")["id"] == "1.1"
    assert "was kept: it reads the answers" in tree.loopty("tree").stdout
    page = " ".join(tree.loopty("show", "1.2").stdout.split())
    assert "because it reads the answers" in page
    assert "withdrawn was kept: better: score 90 against 6" in page
    shown = tree.json("show", "1.2")
    assert shown["verdict"] == "rejected"
    assert shown["withdrawn"] == {
        "verdict": "kept",
        "reason": "better: score 90 against 6 of @2",
        "why": "it reads the answers",
        "by_hand": True,
    }
    report = " ".join(tree.loopty("report").stdout.split())
    assert "@3 was kept, is rejected: it reads the answers" in report
    assert "1 node lost only against those: loopty node recheck" in report
    assert tree.json("report")["status"]["reopened"] == ["1.3"]
    assert "@4 kept: better: score 8 against 6" in tree.loopty("remeasure").stdout
    assert tree.json("best")["id"] == "1.3"
    assert tree.json("remeasure") == []


def test_a_discarded_node_hands_over_and_stays_in_the_record(tree):
    found = tree.json("discard", "1.2", "--why", "too long to review")
    handles = found.pop("handles")
    assert handles == {"1.2": 3, "1.3": 4, "1.1": 2}
    assert found == {"withdrawn": ["1.2"], "reopened": ["1.3"], "best": "1.1"}
    assert tree.json("show", "1.2")["verdict"] == "discarded"
    assert "withdrawn: too long to review" in tree.loopty("apply", "1.2").stderr


def test_the_same_code_is_not_measured_until_it_is_lucky(tree):
    before = events(tree)
    for verb in ("remeasure", "run"):
        assert "@2" in tree.loopty(verb, "1.1", code=2).stderr
    assert "does not change that" in tree.loopty("remeasure", "1.3", code=2).stderr
    assert events(tree) == before


def test_a_withdrawal_needs_a_reason(tree):
    assert "--why" in tree.loopty("discard", "1.2", code=2).stderr
    assert "say why" in tree.loopty("invalidate", "1.2", "--why", "  ", code=2).stderr
    assert "4,000: shorten it" in tree.loopty("discard", "1.2", "--why", "x" * 4001, code=2).stderr


def test_what_is_no_text_is_refused(tree):
    odd, campaign = "bad \udcff", Campaign(tree.top)
    for action in (
        lambda: campaign.discard("1.2", odd),
        lambda: campaign.invalidate("1.2", odd),
        lambda: campaign.accept("1.2", odd),
        lambda: campaign.direct(odd),
        lambda: campaign.add_gate("1", Gate(odd, command="true")),
        lambda: campaign.add_gate("1", Gate("one", command=odd)),
        lambda: campaign.add_gate("1", Gate("one", metric=odd, minimum=0.0)),
    ):
        with pytest.raises(Misuse, match="is not valid text"):
            action()
    output = tree.loopty("show", "1.1\nx", code=2).stderr
    assert "is not a node id" in output
    assert output.count("\n") == 1


@pytest.mark.parametrize(
    "condition", [("--command", "test $(cat src/x.txt) -lt 50"), ("--metric", "score", "--maximum", "50")]
)
def test_a_gate_added_late_is_applied_to_kept_nodes(tree, condition):
    found = tree.json("gate", "add", "1", "--name", "plausible", *condition)
    assert (found["withdrawn"], found["reopened"], found["best"]) == (["1.2"], ["1.3"], "1.1")
    shown = tree.json("show", "1.2")
    assert shown["verdict"] == "rejected"
    assert "gate plausible" in shown["reason"]
    assert tree.json("remeasure", "1.3")[0]["verdict"] == "kept"


def test_a_gate_that_all_kept_nodes_pass_withdraws_nothing(tree):
    done = tree.loopty("gate", "add", "1", "--name", "any", "--command", "true")
    assert done.stdout == ""
    assert tree.json("best")["id"] == "1.2"


def test_run_and_apply_say_that_integrity_is_weak(tree):
    made = tree.json("new", "--parent", "1")
    (tree.top / made["workspace"] / "src/x.txt").write_text("99\n")
    assert "integrity: weak" in tree.loopty("run", made["node"]).stdout.splitlines()
    assert "integrity: weak" in tree.loopty("apply").stdout.splitlines()
    assert tree.json("apply", "best", "--force")["integrity"] == "weak"
