"""The streams of coding agents, recorded from the real programs (shortened), and how sessions end."""

import json

import pytest

from loopty.domain.declared_types import misfit
from loopty.domain.model import Usage
from loopty.features.agents.drivers import acp, aider
from loopty.proposers.agent.driver import AGENTS, BY_COMMAND, STREAMS, AgentEndpoint, AgentOrder, load_driver
from loopty.proposers.agent.stream import AgentEnd, AgentStream
from loopty.proposers.agent.work import classify_end

CODEX = """\
{"type":"thread.started","thread_id":"01a1dcc2-44ea"}
{"type":"item.completed","item":{"id":"item_0","type":"error","message":"Model metadata not found."}}
{"type":"turn.started"}
{"type":"item.started","item":{"id":"item_1","type":"command_execution","command":"sed -i s/-/+/ calc.py"}}
{"type":"item.completed","item":{"id":"item_1","type":"command_execution","exit_code":0,"status":"completed"}}
{"type":"item.completed","item":{"id":"item_3","type":"agent_message","text":"Fixed add() in calc.py."}}
{"type":"turn.completed","usage":{"input_tokens":31156,"cached_input_tokens":0,"output_tokens":68}}
"""
CLAUDE = """\
{"type":"system","subtype":"init","session_id":"da55fdb6","model":"scripted"}
{"type":"assistant","message":{"id":"msg_91","content":[{"type":"tool_use","id":"t1","name":"Bash","input":{}}],\
"stop_reason":null,"usage":{"input_tokens":1162,"output_tokens":1,"cache_read_input_tokens":0}},"session_id":"da55fdb6"}
{"type":"user","message":{"role":"user","content":[{"tool_use_id":"t1","type":"tool_result","content":"ok"}]}}
{"type":"assistant","message":{"id":"msg_4b","content":[{"type":"text","text":"Fixed add() in calc.py."}],\
"usage":{"input_tokens":1345,"output_tokens":1}},"session_id":"da55fdb6"}
{"type":"result","subtype":"success","is_error":false,"result":"Fixed add() in calc.py.","stop_reason":"end_turn",\
"session_id":"da55fdb6","total_cost_usd":0.02043,"usage":{"input_tokens":3756,"cache_creation_input_tokens":10,\
"cache_read_input_tokens":20,"output_tokens":66}}
"""
QWEN = """\
{"type":"system","subtype":"init","session_id":"1fce9aae","model":"scripted"}
{"type":"assistant","message":{"id":"c5ed","content":[{"type":"tool_use","name":"run_shell_command","input":{}}],\
"usage":{"input_tokens":19856,"output_tokens":22,"cache_read_input_tokens":5,"total_tokens":19878}}}
{"type":"result","subtype":"success","session_id":"1fce9aae","is_error":false,"result":"Fixed add() in calc.py.",\
"usage":{"input_tokens":59950,"output_tokens":72,"cache_read_input_tokens":5,"total_tokens":60022}}
"""
GEMINI = """\
{"type":"init","session_id":"9615d284","model":"scripted"}
{"type":"message","role":"user","content":"Fix the bug in calc.py"}
{"type":"tool_use","tool_name":"run_shell_command","tool_id":"r1","parameters":{"command":"sed"}}
{"type":"tool_result","tool_id":"r1","status":"success","output":""}
{"type":"message","role":"assistant","content":"Fixed add() ","delta":true}
{"type":"message","role":"assistant","content":"in calc.py.","delta":true}
{"type":"result","status":"success","stats":{"total_tokens":39274,"input_tokens":39202,"output_tokens":72,"cached":0}}
"""
OPENCODE = """\
{"type":"step_start","sessionID":"ses_e2","part":{"id":"prt_1","type":"step-start"}}
{"type":"tool_use","sessionID":"ses_e2","part":{"type":"tool","tool":"bash","state":{"status":"completed"}}}
{"type":"step_finish","sessionID":"ses_e2","part":{"id":"prt_2","reason":"tool-calls",\
"tokens":{"total":7795,"input":7776,"output":19,"reasoning":0,"cache":{"write":0,"read":0}},"cost":0.007814}}
{"type":"text","sessionID":"ses_e2","part":{"id":"prt_3","type":"text","text":"Fixed add() in calc.py."}}
{"type":"step_finish","sessionID":"ses_e2","part":{"id":"prt_4","reason":"stop",\
"tokens":{"total":7954,"input":7900,"output":19,"reasoning":0,"cache":{"write":5,"read":30}},"cost":0.007973}}
"""
PI = """\
{"type":"session","version":3,"id":"01a1dcd4"}
{"type":"message_end","message":{"role":"user","content":[{"type":"text","text":"Fix the bug"}]}}
{"type":"tool_execution_start","toolCallId":"c0","toolName":"bash","args":{}}
{"type":"message_end","message":{"role":"assistant","content":[{"type":"toolCall","name":"bash"}],"stopReason":"toolUse",\
"usage":{"input":1432,"output":19,"cacheRead":0,"cacheWrite":0,"totalTokens":1451,"cost":{"total":0.00147}}}}
{"type":"message_end","message":{"role":"assistant","content":[{"type":"text","text":"Fixed add() in calc.py."}],\
"stopReason":"stop","usage":{"input":1500,"output":20,"cacheRead":10,"cacheWrite":0,"cost":{"total":0.001}}}}
"""
AIDER = """\
Fixed add() in calc.py.
Tokens: 1.2k sent, 345 received. Cost: $0.0042 message, $0.0042 session.
"""
ACP = """\
{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}}
{"loopty_session": "s-9"}
{"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":"agent_thought_chunk",\
"content":{"type":"text","text":"Let me see."}}}}
{"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":"tool_call","toolCallId":"t1",\
"kind":"execute","title":"sed","status":"pending","rawInput":{"command":"sed"}}}}
{"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":"tool_call_update","toolCallId":"t1",\
"status":"completed"}}}
{"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":"usage_update","used":900,"size":9000,\
"cost":{"amount":0.25,"currency":"USD"}}}}
{"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":"agent_message_chunk",\
"content":{"type":"text","text":"Fixed add() "}}}}
{"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":"agent_message_chunk",\
"content":{"type":"text","text":"in calc.py."}}}}
{"jsonrpc":"2.0","id":3,"result":{"stopReason":"end_turn","usage":{"inputTokens":900,"cachedReadTokens":100,\
"outputTokens":40,"thoughtTokens":10,"totalTokens":1050}}}
"""
SAMPLES = {
    "acp": (ACP, "s-9", Usage(1000, 50, 100, 10), 0.25),
    "codex": (CODEX, "01a1dcc2-44ea", Usage(31156, 68), 0.0),
    "claude": (CLAUDE, "da55fdb6", Usage(3786, 66, 20), 0.02043),
    "qwen": (QWEN, "1fce9aae", Usage(59950, 72, 5), 0.0),
    "gemini": (GEMINI, "9615d284", Usage(39202, 72), 0.0),
    "opencode": (OPENCODE, "ses_e2", Usage(7776 + 7935, 38, 30), 0.015787),
    "pi": (PI, "01a1dcd4", Usage(1432 + 1510, 39, 10), 0.00247),
    "aider": (AIDER, "", Usage(1200, 345), 0.0042),
}


def read(agent: str, text: str) -> AgentStream:
    stream = AgentStream(load_driver(agent).read_line)
    for start in range(0, len(text), 37):  # in pieces, as it comes
        stream.feed(text[start : start + 37])
    stream.close()
    return stream


@pytest.mark.parametrize("agent", SAMPLES)
def test_a_recorded_stream_tells_session_words_tokens_and_cost(agent):
    text, session, usage, cost = SAMPLES[agent]
    stream = read(agent, text)
    assert stream.text.strip() == "Fixed add() in calc.py."
    assert (stream.session, stream.usage) == (session, usage)
    assert stream.cost_usd == pytest.approx(cost)
    assert stream.tool_calls == (0 if agent == "aider" else 1)
    assert classify_end(stream, 0, "", "").end is AgentEnd.CLEAN


@pytest.mark.parametrize("agent", SAMPLES)
def test_garbage_in_a_stream_is_skipped(agent):
    garbage = [
        '{"type":',
        "[1]",
        '{"type":"result","usage":[],"result":7,"stats":"x"}',
        "\x00",
        '{"type":[]}',
        "null",
    ]
    garbage += ['{"type":"turn.completed","usage":{"input_tokens":-5,"output_tokens":true}}', "[" * 100_000]
    garbage += ['{"type":"step_finish","part":{"tokens":{"input":1e99,"cache":7},"cost":"free"}}']
    garbage += ['{"type":"message_end","message":{"role":"assistant","content":"x","usage":{"cost":3}}}']
    stream = read(agent, "\n".join(garbage))
    assert stream.usage == Usage()
    assert stream.cost_usd == 0


def test_the_trajectory_of_mini_swe_agent_tells_tokens_and_end():
    usage = {"prompt_tokens": 500, "completion_tokens": 40}
    message = {"role": "assistant", "content": "THOUGHT: fix it", "extra": {"response": {"usage": usage}}}
    info = {"exit_status": "Submitted", "submission": "SUMMARY: done", "model_stats": {"instance_cost": 0.1}}
    stream = AgentStream(lambda _: ())
    for event in load_driver("mini-swe-agent").read_result(
        json.dumps({"info": info, "messages": [message, message]}).encode()
    ):
        stream.apply(event)
    assert (stream.usage, stream.cost_usd, stream.text) == (Usage(1000, 80), 0.1, "SUMMARY: done")
    assert stream.end is AgentEnd.CLEAN


ENDS = [
    (
        "codex",
        '{"type":"turn.failed","error":{"message":"stream disconnected before completion"}}',
        1,
        "unavailable",
    ),
    ("codex", '{"type":"turn.failed","error":{"message":"the tool broke"}}', 1, "crashed"),
    ("codex", '{"type":"error","message":"You have hit your usage limit"}', 1, "unavailable"),
    ("claude", '{"type":"result","subtype":"error_max_turns","is_error":true}', 1, "limited"),
    ("claude", '{"type":"result","is_error":true,"result":"Not logged in · Please run /login"}', 1, "unavailable"),
    ("claude", '{"type":"result","stop_reason":"refusal","result":"I cannot do that"}', 0, "refused"),
    ("claude", '{"type":"result","subtype":"error_during_execution","is_error":true}', 0, "crashed"),
    ("gemini", '{"type":"result","status":"error","error":{"message":"quota exceeded"}}', 1, "unavailable"),
    ("opencode", '{"type":"error","error":{"name":"APIError","data":{"message":"Overloaded"}}}', 0, "unavailable"),
    ("pi", '{"type":"message_end","message":{"role":"assistant","stopReason":"length"}}', 0, "limited"),
    ("aider", "litellm.AuthenticationError: invalid api key", 0, "unavailable"),
]


@pytest.mark.parametrize(("agent", "line", "code", "end"), ENDS)
def test_crash_refusal_limit_and_outage_are_told_apart(agent, line, code, end):
    assert classify_end(read(agent, line), code, "", "").end == end


def test_a_limit_of_loopty_comes_before_what_the_stream_says():
    found = classify_end(read("codex", CODEX), 137, "still working after 3 s", "killed")
    assert (found.end, found.has_work, found.reason) == (AgentEnd.LIMITED, True, "still working after 3 s")


def test_an_exit_code_without_words_is_a_crash():
    found = classify_end(read("command", ""), 139, "", "")
    assert (found.end, found.reason) == (AgentEnd.CRASHED, "exit code 139")


ENDPOINT = AgentEndpoint("http://127.0.0.1:8790", "loopty-key", "m-1")


@pytest.mark.parametrize("agent", AGENTS)
def test_a_served_agent_gets_the_address_and_the_throwaway_key_and_no_other(agent):
    driver = load_driver(agent)
    order = AgentOrder("do it", "/h/p.md", "/h", "other", ("--more",), ENDPOINT, command=("my-agent",))
    command = driver.make_command(order)
    everything = " ".join((*command.argv, *command.env.values(), *command.files.values()))
    assert command.argv[0] == (driver.program or "my-agent")
    assert "--more" in command.argv
    assert "http://127.0.0.1:8790" in everything
    assert "loopty-key" in everything
    assert "other" not in command.argv
    assert "do it" in command.argv or driver.name in BY_COMMAND  # these read the file


@pytest.mark.parametrize("agent", [name for name in AGENTS if load_driver(name).can_resume])
def test_a_session_is_resumed_by_its_name(agent):
    order = AgentOrder("go on", "/h/p.md", "/h", session="s-123")
    command = load_driver(agent).make_command(order)
    assert "s-123" in (*command.argv, *command.env.values())


def test_any_command_can_print_the_stream_of_an_agent():
    for name in STREAMS:
        assert load_driver("command", name).name == "command"
    assert load_driver("command", "codex").read_line is load_driver("codex").read_line


def test_the_error_of_an_agent_by_its_protocol_has_its_detail():
    line = (
        '{"jsonrpc": "2.0", "id": 2, "error": {"code": -32603, "message": "Internal error", "data": "no model"}}'
    )
    (event,) = acp.read_line(line)
    assert (event.end, event.fault) == (AgentEnd.CRASHED, "Internal error: no model")
    (event,) = acp.read_line('{"id": 2, "error": {"code": -32603, "message": "Internal error"}}')
    assert event.fault == "Internal error"


def test_a_count_of_aider_without_end_is_bounded():
    (event,) = aider.read_line(f"Tokens: {'9' * 500}k sent, {'9' * 500}M received. Cost: ${'9' * 500} message")
    assert misfit(event.usage) is None
    assert event.cost_usd == 1e9


@pytest.mark.parametrize("name", ["--help", "a\0b", "\ud800", "a b", "a\n", "\x1b]0;owned\x07", "x" * 10_000])
def test_a_name_that_no_program_could_get_is_no_session(name):
    stream = AgentStream(acp.read_line)
    stream.feed(json.dumps({"loopty_session": "sess_1"}) + "\n")
    stream.feed(json.dumps({"loopty_session": name}) + "\n")
    assert stream.session == "sess_1"


@pytest.mark.parametrize("value", ["NaN", "-1", "1e999", '"9"', "true", "1" + "0" * 400, "[" * 500 + "]" * 500])
def test_no_claim_of_an_agent_is_a_cost_or_a_count_that_cannot_be(value):
    stream = AgentStream(acp.read_line)
    cost = f'{{"sessionUpdate": "usage_update", "cost": {{"currency": "USD", "amount": {value}}}}}'
    stream.feed(f'{{"method": "session/update", "params": {{"update": {cost}}}}}\n')
    stream.feed(f'{{"result": {{"stopReason": "end_turn", "usage": {{"totalTokens": {value}}}}}}}\n')
    assert (stream.cost_usd, stream.usage, stream.end) == (0.0, Usage(), AgentEnd.CLEAN)
