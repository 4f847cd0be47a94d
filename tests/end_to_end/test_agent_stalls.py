"""Sessions that stall: they cost no attempt, go on once, and then the work goes elsewhere."""

import os
import subprocess

import pytest

from loopty.domain.trial import Pool
from loopty.record.agent_accounts import AgentAccounts, AgentPartEnded, AgentSearchStalled
from loopty.record.calls import Spend
from loopty.record.nodes import NodeAdded, ProposalRefused

from .test_agent_command import of_type, score_of, set_up, wait_for

QUICK = "[proposer.stalls]\nsilence_seconds = 8\n"
BENCH = "[proposer.stalls]\nbench_after = {}\n"
TALK = """echo '{"type":"system","session_id":"s1"}'
echo '{"type":"assistant","message":{"id":"m1","content":[],"usage":{"input_tokens":100,"output_tokens":20}}}'
"""
LOOP = """while :; do
echo '{"type":"assistant","message":{"content":[{"type":"tool_use","id":"a","name":"B"}]}}'
echo '{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"a","is_error":true}]}}'
sleep 0.05; done
"""
CRASH = "echo 9 > src/x.txt; echo broken >&2; exit 3"


def account(place, name="command"):
    accounts = AgentAccounts.of(place.history().runs[1])
    return accounts.accounts[accounts.keys[name]]


def with_script(place, script: str, more: str = "", attempts: int = 1) -> None:
    place.write("agent.sh", script)
    set_up(place, "exec sh agent.sh", f'stream = "claude"\n{more}', attempts)


def test_a_session_that_hangs_goes_on_once_with_a_hint_and_its_tokens_are_salvaged(code_place):
    script = (
        'if grep -q "gave no sign of life" "$LOOPTY_PROMPT_FILE"; then echo 9 > src/x.txt; else sleep 60000; fi'
    )
    with_script(code_place, TALK + script, QUICK)
    code_place.loopty("optimize")
    assert score_of(code_place, "1.1") == 9
    first, second = of_type(code_place, AgentPartEnded)
    assert (first.stall, first.is_resumed, first.tokens) == ("silent", True, 120)
    assert (second.stall, second.end, second.tokens_before) == ("", "clean", 120)
    found = account(code_place)
    assert (found.sessions, found.stalled_sessions, found.lost_sessions) == (1, 1, 0)
    assert (found.salvaged_tokens, found.lost_tokens, found.nodes) == (120, 0, 1)
    assert not Spend.of(code_place.history().runs[1]).reservations
    assert not list((code_place.state / "agents").glob("*/home/.loopty-prompt.md"))[1:]


@pytest.mark.parametrize(("fault", "kind"), [(CRASH, "crash"), (LOOP, "loop")])
def test_a_configuration_that_always_stalls_is_benched_and_no_attempt_is_lost(code_place, fault, kind):
    with_script(code_place, TALK + fault, BENCH.format(2))
    done = code_place.loopty("optimize", code=1)
    assert "command is benched until" in done.stdout
    assert f"its last 2 sessions were lost to stalls, the last one to {kind}" in done.stderr
    assert f"command stalled ({kind}" in done.stderr
    found = account(code_place)
    assert (found.stalls, found.sessions, found.lost_sessions) == ({kind: 4}, 2, 2)
    assert (found.lost_tokens, found.salvaged_tokens, found.stall_rate) == (480, 0, 1.0)
    assert not of_type(code_place, ProposalRefused)
    assert [event.node for event in of_type(code_place, NodeAdded)] == ["1"]
    code_place.loopty("optimize", code=1)  # nothing is forgotten
    assert account(code_place) == found
    status = code_place.json("status")
    assert status["counts"][0]["started"] == 0
    assert status["agents"][0]["benched_seconds"] > 0
    shown = " ".join(code_place.loopty("status").stdout.split())
    assert f"stalled in 100 % of sessions ({kind} 4); 0 tokens salvaged, 480 lost" in shown
    set_up(code_place, "echo 8 > src/x.txt")  # another configuration has an account of its own
    code_place.loopty("optimize")
    assert score_of(code_place, "1.1") == 8


def test_without_the_watch_a_crash_is_a_refusal_as_of_any_proposer(code_place):
    with_script(code_place, TALK + "exit 3", "[proposer.stalls]\nwatch = false\n")
    code_place.loopty("optimize", code=1)
    assert of_type(code_place, ProposalRefused)[0].reason == "command crashed: exit code 3"


def test_the_same_failure_again_and_again_is_told_to_the_agent(code_place):
    script = (
        TALK + 'grep -q "does not get on: your last 3 changes failed in the same way" "$LOOPTY_PROMPT_FILE" && '
        "{ echo 7 > src/x.txt; exit; }\n"
        "date +%s%N > src/note.txt; echo no number > src/x.txt\n"
    )
    with_script(code_place, script, attempts=7)  # it is asked ahead, while a trial runs
    code_place.loopty("optimize", code=None)
    assert {event.kind for event in of_type(code_place, AgentSearchStalled)} == {"same failure"}
    assert 7 in [node.outcome.metrics.get("score") for node in code_place.history().nodes(1, Pool.ATTEMPT)]
    assert account(code_place).lost_sessions == 0


def test_a_kill_after_a_stall_forgets_neither_the_stall_nor_its_tokens(code_place):
    seconds = 800000 + os.getpid()
    script = f"""{TALK}
if ! grep -q "repeated yourself" "$LOOPTY_PROMPT_FILE"; then
{LOOP}
elif ! test -f src/second; then
  touch src/second; exec sleep {seconds}
else
  rm src/second; echo 9 > src/x.txt
fi
"""
    with_script(code_place, script)

    def is_waiting() -> bool:
        return bool(subprocess.run(["pgrep", "-f", f"^sleep {seconds}"], capture_output=True).stdout)

    process = code_place.start("optimize")
    wait_for(is_waiting, process)
    process.kill()
    process.communicate(timeout=60)
    code_place.loopty("optimize")
    assert score_of(code_place, "1.1") == 9
    found = account(code_place)
    assert (found.stalls, found.sessions, found.stalled_sessions, found.lost_sessions) == ({"loop": 1}, 1, 1, 0)
    assert (found.salvaged_tokens, found.lost_tokens) == (120, 0)
