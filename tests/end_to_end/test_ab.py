"""Arms compared on copies of one repository."""

import json


def test_two_arms_run_on_the_same_budget_and_a_second_call_only_shows(code_place):
    for arm, parents in (("root", "root"), ("best", "best")):
        text = f'[proposer]\nkind = "mutate"\nparents = "{parents}"\n'
        (code_place.top.parent / f"{arm}.toml").write_text(text)
    arms = ("ab", "--arm", "../root.toml", "--arm", "../best.toml", "--seeds", "1", "--budget", "4")
    before = code_place.git("status", "--porcelain")
    found = json.loads(code_place.loopty(*arms, "--json").stdout)
    assert found["is_complete"]
    assert [row["arm"] for row in found["rows"]] == ["root", "best"]
    assert found["rows"][1]["final_over_first"]["pairs"] == 1
    shown = json.loads(code_place.loopty(*arms, "--show", "--json").stdout)
    assert shown == found, "a comparison that is shown is as complete as it is"
    assert code_place.git("status", "--porcelain") == before
