"""The plug-ins of hosts, run by Node as their hosts run them, with a program in loopty's place that remembers."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from loopty.domain.errors import Misuse
from loopty.features.agents.hosts.entries import PluginEntry

from ....needs import needs

HOOK = """
import json, sys
told = json.load(sys.stdin)
with open({log!r}, "a") as log:
    log.write(json.dumps([sys.argv[2], told]) + "\\n")
replies = {{
    "Stop": {{"decision": "block", "reason": "go on"}},
    "SessionStart": {{"hookSpecificOutput": {{"additionalContext": "a mode is off"}}}},
}}
denied = {{"hookSpecificOutput": {{"permissionDecision": "deny", "permissionDecisionReason": "for subagents"}}}}
is_edit = sys.argv[2] == "PreToolUse" and told["tool_name"] == "edit" and "agent_id" not in told
print(json.dumps(denied if is_edit else replies.get(sys.argv[2], {{}})))
"""
OPENCODE = """
import { Loopty } from "./loopty.mjs"
const prompts = []
const client = { session: { prompt: async (given) => prompts.push(given) } }
const hooks = await Loopty({ client, directory: "/repo" })
await hooks.event({ event: { type: "session.created", properties: { info: { id: "child", parentID: "main" } } } })
const system = { system: [] }
await hooks["experimental.chat.system.transform"]({}, system)
const refusals = []
for (const sessionID of ["main", "child"])
  try {
    const call = { tool: "edit", sessionID, callID: "c" + sessionID }
    await hooks["tool.execute.before"](call, { args: { filePath: "x" } })
  } catch (error) { refusals.push(error.message) }
await hooks["tool.execute.before"]({ tool: "read", sessionID: "main", callID: "r" }, { args: {} })
const open = { tool: "loopty_open", sessionID: "child", callID: "o", args: {} }
await hooks["tool.execute.after"](open, { output: "Opened @2" })
for (const sessionID of ["main", "child"])
  await hooks.event({ event: { type: "session.idle", properties: { sessionID } } })
console.log(JSON.stringify({ system: system.system, refusals, prompts }))
"""
PI = """
import extension from "./loopty.mjs"
const handlers = {}, messages = []
extension({ on: (name, run) => (handlers[name] = run), sendUserMessage: (text) => messages.push(text) })
const started = await handlers.before_agent_start({ systemPrompt: "You are pi." })
await handlers.tool_result({ toolName: "bash", input: { command: "ls" } })
await handlers.tool_result({ toolName: "bash", input: { command: "loopty tool submit id=1.1" } })
await handlers.agent_end({})
console.log(JSON.stringify({ started, messages }))
"""


def play(tmp_path: Path, source: str, script: str) -> tuple[dict, list]:
    """What the script printed, and what loopty was told."""
    log, hook = tmp_path / "log", tmp_path / "hook.py"
    hook.write_text(HOOK.format(log=str(log)))
    text = PluginEntry(tmp_path / "x", source, [sys.executable, str(hook)]).snippet()
    # Node runs no types: those of the extension are all in these places.
    for typed in (": string[]", ": string", ": object", ": Promise<any>", ": any", ": Buffer"):
        text = text.replace(typed, "") if source.endswith(".ts") else text
    (tmp_path / "loopty.mjs").write_text(text)
    (tmp_path / "play.mjs").write_text(script)
    done = subprocess.run(["node", "play.mjs"], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout), [json.loads(line) for line in log.read_text().splitlines()]


@needs("node")
def test_in_opencode_the_directing_agent_may_not_edit_its_subagents_may_and_it_is_told_to_go_on(tmp_path):
    shown, told = play(tmp_path, "opencode.js", OPENCODE)
    assert shown["refusals"] == ["for subagents"]
    assert shown["system"] == ["a mode is off"]
    assert [prompt["path"]["id"] for prompt in shown["prompts"]] == ["main"]
    events = [(event, fields.get("session_id"), fields.get("agent_id")) for event, fields in told]
    assert events == [
        ("SessionStart", None, None),
        ("PreToolUse", "main", None),
        ("PreToolUse", "main", "child"),
        ("PostToolUse", "main", "child"),
        ("Stop", "main", None),
    ]
    assert told[3][1]["tool_response"] == "Opened @2"


@needs("node")
def test_in_pi_an_agent_that_used_loopty_is_told_to_go_on(tmp_path):
    shown, told = play(tmp_path, "pi.ts", PI)
    assert shown["started"]["systemPrompt"] == "You are pi.\na mode is off"
    assert shown["messages"] == ["go on"]
    assert [event for event, _ in told] == ["SessionStart", "PostToolUse", "Stop"]


def test_a_file_of_somebody_else_is_left_alone(tmp_path):
    entry = PluginEntry(tmp_path / "loopty.js", "opencode.js", ["loopty"])
    with pytest.raises(Misuse, match="not a plug-in of loopty's"):
        entry.text_with("export const Mine = 1\n")
    assert entry.text_without("export const Mine = 1\n") == "export const Mine = 1\n"
    assert entry.text_without(entry.text_with("")) == ""
