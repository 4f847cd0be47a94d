"""What hooks are told: the words of each host, and garbage."""

import json

import pytest

from loopty.features.agents.hosts.hook_call import HookCall, HookMoment


def parse(event: str, **fields) -> HookCall:
    call = HookCall.parse(event, json.dumps(fields))
    assert call
    return call


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("mcp__loopty__submit", {"node": "1.2"}),
        ("Bash", {"command": "loopty tool submit '{}'"}),
        ("shell", {"command": ["bash", "-c", "python3 .loopty/tool submit id=1.2"]}),
        ("exec", {"code": "await tools.mcp__loopty__submit({node: '1.2'})"}),
        ("loopty_submit", {}),
    ],
)
def test_a_submission_is_seen_whatever_the_host_calls_it(tool, arguments):
    call = parse("PostToolUse", session_id="s", tool_name=tool, tool_input=arguments)
    assert call.uses_loopty
    assert call.submits


def test_other_tools_are_not_ours():
    call = parse("PostToolUse", session_id="s", tool_name="Bash", tool_input={"command": "ls"})
    assert not call.uses_loopty


def test_an_edit_has_its_file_and_says_whether_a_subagent_makes_it():
    call = parse("PreToolUse", tool_name="Edit", tool_input={"file_path": "/a/b.py"}, agent_id="7")
    assert (call.is_edit, call.path, call.is_subagent) == (True, "/a/b.py", True)


def test_the_events_of_gemini_have_the_same_meaning():
    assert parse("AfterAgent").moment is HookMoment.END_OF_TURN
    assert parse("BeforeTool", tool_name="write_file").refuse_tool("no")["decision"] == "deny"


@pytest.mark.parametrize("text", ["", "[]", "7", "{", '"Stop"', "null"])
def test_garbage_is_no_call(text):
    assert HookCall.parse("Stop", text) is None


def test_fields_of_another_type_count_as_missing():
    call = parse("PreToolUse", session_id=7, tool_name=["Edit"], tool_input="x", cwd=None)
    assert (call.session, call.tool, call.folder, call.is_edit) == ("", "", "", False)
