"""The client of the Agent Client Protocol, with a hostile agent: it reads, writes and starts nothing for it."""

import json
import subprocess
import sys

import pytest

from loopty_sdk import acp_client

AGENT = """
import json, sys
def say(*messages):
    for message in messages:
        print(message if isinstance(message, str) else json.dumps(message), flush=True)
def hear():
    return json.loads(sys.stdin.readline())
def begin():
    hear(), say({"id": 1, "result": {}}), hear(), say({"id": 2, "result": {"sessionId": "s"}}), hear()
"""


def run(folder, agent: str) -> subprocess.CompletedProcess:
    """What the client does with this agent."""
    (folder / "prompt").write_text("work")
    command = [sys.executable, "-I", "-S", "-B", acp_client.__file__, sys.executable, "-c", AGENT + agent]
    env = {"LOOPTY_PROMPT_FILE": str(folder / "prompt")}
    return subprocess.run(
        command, cwd=folder, env=env, capture_output=True, text=True, errors="replace", timeout=60
    )


def test_no_file_and_no_program_is_given_to_an_agent(tmp_path):
    (tmp_path / "secret").write_text("mine")
    asks = [
        ("fs/read_text_file", {"path": str(tmp_path / "secret")}),
        ("fs/read_text_file", {"path": "../../../etc/passwd"}),
        ("fs/write_text_file", {"path": str(tmp_path / "owned"), "content": "theirs"}),
        ("terminal/create", {"command": "touch", "args": [str(tmp_path / "owned")]}),
        ("session/request_permission", {"options": [{"kind": "allow_once", "optionId": {"a": 1}}]}),
        ("session/request_permission", [1]),
        ([1], None),
    ]
    messages = [{"id": 100 + i, "method": ask, "params": params} for i, (ask, params) in enumerate(asks)]
    lines = (
        f"begin()\nfor ask in json.loads({json.dumps(messages)!r}):\n    say(ask)\n    say({{'heard': hear()}})\n"
    )
    done = run(tmp_path, lines + "say({'id': 3, 'result': {'stopReason': 'end_turn'}})")
    heard = [json.loads(line)["heard"] for line in done.stdout.splitlines() if "heard" in line]
    assert [answer["error"]["code"] for answer in heard] == [-32601] * len(asks)
    assert done.returncode == 0
    assert not (tmp_path / "owned").exists()


@pytest.mark.parametrize(
    "agent",
    [
        "",
        "hear()",
        "begin()",
        "sys.stdout.buffer.write(b'\\xff\\x00[[')",
        "hear(), say('[' * 100_000, {'id': 1, 'error': [1]})",
        "hear(), say({'id': 1, 'error': {'message': '\\ud800'}})",
        "hear(), say({'id': 1, 'result': {'agentCapabilities': [1]}}), hear(), say({'id': 2, 'error': None})",
    ],
)
def test_an_agent_that_breaks_off_is_said_to_have_failed(tmp_path, agent):
    done = run(tmp_path, agent)
    assert done.returncode == 1
    assert "acp_client.py" not in done.stderr, "no traceback of its own"
