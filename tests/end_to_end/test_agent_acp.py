"""An agent that speaks the Agent Client Protocol works as every other: it edits, is resumed, is refused."""

import signal
import time

from loopty.record.agent_accounts import AgentPartEnded
from loopty.record.nodes import ProposalRefused

from .conftest import CODE_TASK
from .test_agent_command import of_type, replies, score_of

AGENT = """
import json, pathlib, sys, time

def send(message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

def update(**fields):
    send({"method": "session/update", "params": {"sessionId": "s1", "update": fields}})

def call(name, status="completed"):
    update(sessionUpdate="tool_call", toolCallId=name, kind="edit", title="write", rawInput={"path": "src/x.txt"})
    update(sessionUpdate="tool_call_update", toolCallId=name, status=status, rawOutput={"text": status})

def work(prompt, was_loaded):
    if %(fault)r == "loop" and not was_loaded:
        while True:
            call("t", "failed")
            time.sleep(0.05)
    options = [{"optionId": "no", "kind": "reject_once"}, {"optionId": "yes", "kind": "allow_once"}]
    send({"id": "ask-1", "method": "session/request_permission", "params": {"options": options}})
    assert json.loads(sys.stdin.readline())["result"]["outcome"] == {"outcome": "selected", "optionId": "yes"}
    send({"id": 77, "method": "terminal/create", "params": {}})
    assert json.loads(sys.stdin.readline())["error"]["code"] == -32601
    if %(fault)r != "refusal":
        pathlib.Path("src/x.txt").write_text("9")
        call("t1")
    assert was_loaded == ("repeated yourself" in prompt)
    assert was_loaded != ("You are one step of a search" in prompt)
    for text in ("SUMMARY: nine ", "is more"):
        update(sessionUpdate="agent_message_chunk", content={"type": "text", "text": text})

was_loaded = False
for line in sys.stdin:
    request = json.loads(line)
    answer = {"id": request["id"], "result": {}}
    if request["method"] == "initialize":
        answer["result"] = {"protocolVersion": 1, "agentCapabilities": {"loadSession": True}}
    elif request["method"] == "session/new":
        answer["result"] = {"sessionId": "s1"}
        if %(fault)r == "login":
            answer = {"id": request["id"], "error": {"code": -32000, "message": "Authentication required"}}
    elif request["method"] == "session/load":
        assert request["params"]["sessionId"] == "s1"
        was_loaded = True
        for number in range(9):
            call("old", "failed")
    else:
        work(request["params"]["prompt"][0]["text"], was_loaded)
        stop = "refusal" if %(fault)r == "refusal" else "end_turn"
        answer["result"] = {"stopReason": stop, "usage": {"inputTokens": 90, "outputTokens": 20}}
    send(answer)
"""
TASK = """
[noise]
repeat = "never"
[proposer]
kind = "agent"
agent = "acp"
command = ["python3", "agent.py"]
"""


def set_up(place, fault: str) -> None:
    place.write("agent.py", AGENT % {"fault": fault})
    place.commit()
    place.write("loopty.toml", CODE_TASK.format(attempts=1) + TASK)


def test_an_agent_with_the_protocol_edits_a_file_and_gets_a_score(code_place):
    set_up(code_place, "")
    code_place.loopty("optimize")
    assert score_of(code_place, "1.1") == 9
    assert code_place.history()["1.1"].summary == "nine is more"
    assert code_place.json("spend")["total"]["tokens"] == 110
    assert replies(code_place) == ["\nSUMMARY: nine is more"]


def test_a_stalled_session_is_loaded_again_and_what_was_said_before_is_not_counted_twice(code_place):
    set_up(code_place, "loop")
    code_place.loopty("optimize")
    assert score_of(code_place, "1.1") == 9
    assert [event.stall for event in of_type(code_place, AgentPartEnded)] == ["loop", ""]


def test_a_refusal_is_recorded_and_a_missing_login_ends_the_session(code_place):
    set_up(code_place, "refusal")
    code_place.loopty("optimize", code=1)
    assert of_type(code_place, ProposalRefused)[0].reason == "acp declined the work: its model refused"
    set_up(code_place, "login")
    done = code_place.loopty("optimize", "--new-run", code=1)
    assert "Authentication required" in done.stderr


def test_an_agent_that_speaks_something_else_has_stalled_at_its_start(code_place):
    set_up(code_place, "")
    code_place.write("loopty.toml", CODE_TASK.format(attempts=1) + TASK.replace('"python3", "agent.py"', '"true"'))
    session = code_place.start("run")  # it starts the agent again and again, for minutes
    deadline = time.monotonic() + 60
    while not (ends := of_type(code_place, AgentPartEnded)) and time.monotonic() < deadline:
        time.sleep(0.1)
    session.send_signal(signal.SIGINT)
    session.communicate(timeout=60)
    assert [end.stall for end in ends[:1]] == ["start"]
    assert "the agent left without an answer" in str(ends[0])
