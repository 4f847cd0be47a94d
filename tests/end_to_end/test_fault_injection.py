"""A fleet in which agents hang, crash and loop: every attempt is a whole change, and tokens are salvaged."""

from .conftest import CODE_TASK

USAGE = '"usage":{"input_tokens":100,"output_tokens":20}'
STEP = f"""echo '{{"type":"assistant","message":{{"id":"a","content":[],{USAGE}}}}}'"""
FAULTS = {
    "hangs": "exec sleep 100000",
    "crashes": "exit 3",
    "loops": """while :; do
echo '{"type":"assistant","message":{"content":[{"type":"tool_use","id":"t","name":"Bash","input":"make"}]}}'
echo '{"type":"user","message":{"content":[{"type":"tool_result","tool_use_id":"t","is_error":true}]}}'
sleep 0.05; done""",
    "works": ":",
}
AGENT = """#!/bin/sh
echo '{"type":"system","session_id":"s"}'
%(step)s
grep -q 'You were stopped' "$LOOPTY_PROMPT_FILE" || { test %(name)s = works || echo half > src/x.txt; %(fault)s; }
echo $(od -An -N4 -tu4 /dev/urandom) > src/x.txt
"""
FLEET = """
[noise]
repeat = "never"
confirm = 0
[proposer]
kind = "agent"
agent = "command"
stream = "claude"
timeout_seconds = 600
[proposer.stalls]
silence_seconds = 8
"""
MEMBER = '[[proposer.agents]]\nname = "{0}"\ncommand = "sh {0}.sh"\n'


def test_no_attempt_is_lost_to_a_stall_and_the_tokens_of_resumed_sessions_are_salvaged(code_place):
    for name, fault in FAULTS.items():
        code_place.write(f"{name}.sh", AGENT % {"step": STEP, "name": name, "fault": fault})
    code_place.commit()
    code_place.write("loopty.toml", CODE_TASK.format(attempts=5) + FLEET + "".join(map(MEMBER.format, FAULTS)))
    code_place.loopty("optimize")
    status = code_place.json("status")
    (attempts,) = [row for row in status["counts"] if row["pool"] == "attempt"]
    assert (attempts["started"], attempts["endings"], attempts["refused"]) == (5, {"finished": 5}, 0)
    rows = {row["name"]: row for row in status["agents"]}
    assert {name: set(row["stalls"]) for name, row in rows.items()} == {
        "hangs": {"silent"},
        "crashes": {"crash"},
        "loops": {"loop"},
        "works": set(),
    }
    for name in ("hangs", "crashes", "loops"):
        stalls = sum(rows[name]["stalls"].values())
        assert rows[name]["lost_tokens"] == 0
        assert rows[name]["salvaged_tokens"] == 120 * stalls
        assert rows[name]["nodes"] == rows[name]["sessions"]
