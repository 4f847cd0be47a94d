"""A fleet of agents on one search: what one tried reaches the other, and each has its own row."""

from .conftest import CODE_TASK

FLEET = '''
[noise]
repeat = "never"
[proposer]
kind = "agent"
agent = "command"
timeout_seconds = 60
[[proposer.agents]]
name = "first"
command = "echo no number > src/x.txt; date +%s%N > src/n.txt; echo SUMMARY: a daring idea"
[[proposer.agents]]
name = "second"
command = """
grep -q 'a daring idea' $LOOPTY_PROMPT_FILE || exit 0
if grep -q failed $LOOPTY_PROMPT_FILE; then echo 9 > src/x.txt; fi"""
'''


def test_the_failures_of_one_agent_are_in_the_prompt_of_the_other(code_place):
    code_place.write("loopty.toml", CODE_TASK.format(attempts=4) + FLEET)
    code_place.loopty("optimize", code=None)
    rows = {row["name"]: row for row in code_place.json("status")["agents"]}
    assert rows["first"]["kept"] == 0
    assert (rows["second"]["kept"], rows["second"]["best"]["score"]) == (1, 9)
    shown = " ".join(code_place.loopty("report").stdout.split())
    assert "second: (command)" in shown
    assert "+80.0 % over the baseline" in shown


def test_every_agent_of_a_strangers_fleet_needs_permission_and_a_name_of_its_own(code_place):
    code_place.write("loopty.toml", CODE_TASK.format(attempts=1) + FLEET)
    code_place.loopty("trust", "--revoke", code=None)
    refused = code_place.loopty("optimize", code=2).stderr
    assert "a daring idea" in refused
    assert "echo 9 > src/x.txt" in refused
    code_place.write("loopty.toml", CODE_TASK.format(attempts=1) + FLEET.replace('"second"', '"first"'))
    assert "is 'first' for two agents" in code_place.loopty("optimize", code=2).stderr
    code_place.write("loopty.toml", CODE_TASK.format(attempts=1) + FLEET.replace("name =", "nam ="))
    assert "did you mean 'name'?" in code_place.loopty("optimize", code=2).stderr
