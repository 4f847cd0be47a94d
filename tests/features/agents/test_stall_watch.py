"""When a session counts as stalled, second by second, without any waiting."""

import json

import pytest

from loopty.proposers.agent.driver import AGENTS, load_driver
from loopty.proposers.agent.stalls import StallKind, StallOptions, StallWatch, Vitals
from loopty.proposers.agent.stream import AgentEvent, AgentStream

LIMITS = StallOptions().limits(load_driver("claude"), is_served=False)


class Session:
    """A session at a clock of its own."""

    def __init__(self, limits=LIMITS):
        self.now = 0.0
        self.cpu = 0.0
        self.watch = StallWatch(limits, 0.0)

    def say(self, event=None, tokens=0):
        self.watch.hear(self.now, tokens)
        self.watch.note(event or AgentEvent(text="a few words of the model, about ten tokens"), self.now)

    def call(self, name="bash", text="make test", output="failed", has_failed=True):
        self.say(AgentEvent(tool=name, tool_input=text, tool_call="c"))
        self.say(AgentEvent(tool_call="c", has_tool_ended=True, has_tool_failed=has_failed, tool_output=output))

    def wait(self, seconds, cpu_share=0.0, knows_cpu=True, is_asking=False, talks=False, **vitals):
        """The first stall in these seconds, looked for once a second."""
        for _ in range(int(seconds)):
            self.now += 1
            self.cpu += cpu_share
            if talks:
                self.say(AgentEvent(session="s"))
            known = Vitals(self.now, self.cpu if knows_cpu else None, is_asking, **vitals)
            if stall := self.watch.stall(known):
                return stall
        return None


def test_an_agent_that_falls_silent_is_noticed_within_a_minute():
    session = Session()
    session.say()
    stall = session.wait(600)
    assert (stall.kind, session.now) == (StallKind.SILENT, 45)


def test_an_agent_that_talks_or_whose_model_is_asked_or_whose_tool_computes_is_not_stalled():
    session = Session()
    for _ in range(20):
        session.say()
        assert session.wait(40) is None
    assert session.wait(600, is_asking=True) is None
    session.say(AgentEvent(tool="bash", tool_input="make", tool_call="c"))
    assert session.wait(250, cpu_share=0.9) is None


def test_a_tool_that_only_waits_or_never_ends_is_a_stall():
    idle = Session()
    idle.say(AgentEvent(tool="bash", tool_input="sleep infinity", tool_call="c"))
    stall = idle.wait(600)
    assert (stall.kind, idle.now) == (StallKind.SILENT, 45)
    assert "sleep infinity" in stall.reason
    spinning = Session()
    spinning.say(AgentEvent(tool="bash", tool_input="while :; do :; done", tool_call="c"))
    assert spinning.wait(600, cpu_share=1.0).kind is StallKind.TOOL
    assert spinning.now == 300
    unmeasured = Session()
    unmeasured.say(AgentEvent(tool="bash", tool_input="make", tool_call="c"))
    assert unmeasured.wait(600, knows_cpu=False).kind is StallKind.TOOL


def test_an_agent_that_prints_but_says_nothing_is_below_the_floor_of_tokens():
    session = Session()
    stall = session.wait(600, talks=True)
    assert (stall.kind, session.now) == (StallKind.SLOW, 50)
    thinks = Session()
    for second in range(600):
        thinks.say(AgentEvent(thought="so the loop"), tokens=second)
        assert thinks.wait(1) is None


CHATTER = AgentEvent(text="still thinking about the next step of my plan, one moment please\n", is_continued=True)


def chatting(session, seconds, **vitals):
    """The first stall of a program that prints a line a second."""
    for _ in range(seconds):
        session.say(CHATTER)
        if stall := session.wait(1, **vitals):
            return stall
    return None


@pytest.mark.parametrize("name", ["claude", "command"])
def test_chatter_is_no_token_where_loopty_serves_the_model(name):
    session = Session(StallOptions().limits(load_driver(name), is_served=True))
    stall = chatting(session, 600, served_tokens=0)
    assert (stall.kind, session.now) == (StallKind.SLOW, 50)
    works = Session(StallOptions().limits(load_driver(name), is_served=True))
    for number in range(20):
        assert chatting(works, 30, served_tokens=number * 100) is None


def test_a_plain_command_that_prints_and_asks_nothing_is_a_stall():
    limits = StallOptions().limits(load_driver("command"), is_served=False)
    alone = Session(limits)
    assert chatting(alone, 600, traffic=0).kind is StallKind.SLOW
    assert alone.now == 50
    silent_line = Session(limits)
    assert chatting(silent_line, 600, traffic=900).kind is StallKind.SLOW, "a connection on which nothing comes"
    assert silent_line.now <= 241
    for more in ({"served_tokens": 0}, {"traffic": 0}):
        busy = Session(StallOptions().limits(load_driver("command"), is_served="served_tokens" in more))
        assert chatting(busy, 600, cpu_share=1.0, **more).kind is StallKind.TOOL
        assert busy.now <= 301
    asks = Session(limits)
    for number in range(1, 20):
        assert chatting(asks, 200, traffic=number * 1000) is None
    assert chatting(Session(limits), 2000) is None, "where its connections cannot be seen"


def test_a_call_that_fails_in_the_same_way_again_and_again_is_a_loop():
    session = Session()
    for number in range(5):
        assert session.wait(1) is None
        session.call(output="1 failed")
        session.call("edit", text=f"change {number}", output="ok", has_failed=False)
    stall = session.wait(1)
    assert stall.kind is StallKind.LOOP
    assert "failed in the same way 5 times" in stall.reason
    assert "Do not make that call again" in stall.hint


def test_a_test_that_passes_after_each_edit_or_fails_differently_is_no_loop():
    session = Session()
    for number in range(12):
        session.call(output="ok", has_failed=False)
        session.call(text="pytest", output=f"{number} failed")
    assert session.wait(1) is None
    for _ in range(3):
        session.call(output="ok", has_failed=False)
    assert session.wait(1).kind is StallKind.LOOP


@pytest.mark.parametrize(
    "text", ["loopty wait 12", "cd x && ./.venv/bin/loopty run 1.3", '{"command":"loopty submit"}']
)
def test_an_agent_that_waits_for_a_slot_of_loopty_is_not_stalled(text):
    session = Session()
    session.say(AgentEvent(tool="bash", tool_input=text, tool_call="c"))
    assert session.wait(1000) is None
    named = Session()
    named.say(AgentEvent(tool="mcp__loopty__wait", tool_input="{}", tool_call="c"))
    assert named.wait(1000) is None


def test_a_path_of_the_sandbox_is_no_excuse():
    session = Session()
    session.say(AgentEvent(tool="bash", tool_input="cat /loopty/tree/a; sleep 999", tool_call="c"))
    assert session.wait(600).kind is StallKind.SILENT


def test_agents_that_print_nothing_while_they_think_have_longer_unless_their_requests_are_seen():
    for name in AGENTS:
        driver, options = load_driver(name), StallOptions()
        assert options.limits(driver, is_served=True).silence_seconds == 45
        assert options.limits(driver, is_served=False).silence_seconds in (45, 240)
    assert StallOptions(silence_seconds=7).limits(load_driver("codex"), is_served=False).silence_seconds == 7


def test_garbage_does_not_fill_the_memory():
    session = Session()
    for number in range(10_000):
        session.say(AgentEvent(tool="t", tool_call=str(number)))
        session.call(text=str(number), output="x" * 100)
    assert len(session.watch._tools) <= 4096
    assert len(session.watch._results) <= 4096


USE = {"type": "tool_use", "id": "a", "name": "Bash", "input": {"c": 1}}
RESULT = {"type": "tool_result", "tool_use_id": "a", "is_error": True, "content": "no"}
COMMAND = {"id": "a", "type": "command_execution", "command": "false"}
STATE = {"input": {"c": 1}, "output": "no", "metadata": {"exit": 1}}
CALLS = {
    "claude": [
        {"type": "assistant", "message": {"content": [USE]}},
        {"type": "user", "message": {"content": [RESULT]}},
    ],
    "codex": [
        {"type": "item.started", "item": COMMAND},
        {"type": "item.completed", "item": {**COMMAND, "exit_code": 1, "aggregated_output": "no"}},
    ],
    "gemini": [
        {"type": "tool_use", "tool_name": "shell", "tool_id": "a", "parameters": {"c": 1}},
        {"type": "tool_result", "tool_id": "a", "status": "error", "output": "no"},
    ],
    "opencode": [{"type": "tool_use", "part": {"tool": "bash", "callID": "a", "state": STATE}}],
    "pi": [
        {"type": "tool_execution_start", "toolCallId": "a", "toolName": "bash", "args": {"c": 1}},
        {"type": "tool_execution_end", "toolCallId": "a", "isError": True, "result": {"content": []}},
    ],
}
CALLS["qwen"] = CALLS["claude"]


@pytest.mark.parametrize("agent", CALLS)
def test_every_stream_tells_a_failing_call_and_its_repetition(agent):
    session = Session()
    stream = AgentStream(load_driver(agent).read_line)
    stream.on_event = lambda event: session.watch.note(event, session.now)
    for _ in range(5):
        assert session.wait(1) is None
        stream.feed("".join(json.dumps(line) + "\n" for line in CALLS[agent]))
    assert session.wait(1).kind is StallKind.LOOP
    assert not session.watch._tools
