"""Modes and hooks, as a host calls them: who is told to go on, whose edits are refused."""

import json
import os
import subprocess
import sys

import pytest


class HostSession:
    """A session of a host in a repository."""

    def __init__(self, measured, name: str = "s1") -> None:
        self._place, self._name = measured, name

    def hook(self, event: str, **fields) -> dict:
        told = {"session_id": self._name, "cwd": str(self._place.top), **fields}
        return hook(self._place.top, event, json.dumps(told))

    def use_loopty(self, tool: str = "context") -> None:
        assert self.hook("PostToolUse", tool_name=f"mcp__loopty__{tool}", tool_input={}) == {}

    def stop(self, **variables: str) -> dict:
        told = json.dumps({"session_id": self._name, "cwd": str(self._place.top)})
        return hook(self._place.top, "Stop", told, **variables)

    def edit(self, path: str, **fields) -> dict:
        return self.hook("PreToolUse", tool_name="Edit", tool_input={"file_path": path}, **fields)


def hook(folder, event: str, text: str, **variables: str) -> dict:
    done = subprocess.run(
        [sys.executable, "-m", "loopty", "hook", event],
        cwd=folder,
        env={**os.environ, **variables},
        input=text,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert not done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def measured(code_place, monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    code_place.loopty("run", "1")
    return code_place


@pytest.fixture
def session(measured):
    return HostSession(measured)


def test_an_agent_that_uses_loopty_is_told_to_go_on_three_times_and_again_after_a_submission(session):
    session.use_loopty()
    replies = [session.stop() for _ in range(4)]
    assert [reply.get("decision") for reply in replies] == ["block", "block", "block", None]
    assert "attempts are left" in replies[0]["reason"]
    session.use_loopty()
    assert session.stop() == {}
    session.use_loopty("submit")
    assert session.stop()["decision"] == "block"


def test_a_session_that_never_used_loopty_is_left_alone(measured, session):
    session.use_loopty()
    other = HostSession(measured, "s2")
    assert other.stop() == {}
    assert other.edit("src/x.txt") == {}


def test_nobody_is_told_to_go_on_when_the_mode_is_off(measured, session):
    session.use_loopty()
    assert session.stop(LOOPTY_AUTONOMOUS="off") == {}
    measured.loopty("mode", "autonomous", "off")
    assert session.stop() == {}
    assert session.stop(LOOPTY_AUTONOMOUS="on")["decision"] == "block"


def test_an_edit_by_the_directing_agent_is_refused_and_a_subagents_is_not(measured, session):
    session.use_loopty()
    for path in (
        "src/x.txt",
        str(measured.top / "src/x.txt"),
        str(measured.top / ".loopty/nodes/1.1/src/x.txt"),
        "",
    ):
        reply = session.edit(path)
        assert reply["hookSpecificOutput"]["permissionDecision"] == "deny", path
        assert session.edit(path, agent_id="7") == {}
    assert session.edit("/elsewhere/notes.md") == {}
    measured.loopty("mode", "subagents-only", "off")
    assert session.edit("src/x.txt") == {}


def test_a_mode_that_is_off_by_inheritance_is_announced(measured, session):
    assert session.hook("SessionStart") == {}
    measured.loopty("mode", "autonomous", "off", "--user")
    told = session.hook("SessionStart")["hookSpecificOutput"]["additionalContext"]
    assert "autonomous is off (your own default)" in told
    measured.loopty("mode", "autonomous", "on")
    assert session.hook("SessionStart") == {}


def test_the_nearer_setting_wins(measured):
    def shown() -> tuple[bool, str]:
        row = json.loads(measured.loopty("mode", "autonomous", "--json").stdout)[0]
        return row["on"], row["source"]

    assert shown() == (True, "the default")
    measured.loopty("mode", "autonomous", "off", "--user")
    assert shown() == (False, "your own default")
    measured.loopty("mode", "autonomous", "on")
    assert shown() == (True, "this repository's setting")
    measured.loopty("mode", "autonomous", "inherit")
    assert shown() == (False, "your own default")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"cwd": "/nowhere/at/all"}', '{"cwd": 7}', "x" * 100_000])
def test_a_hook_never_breaks_its_host(measured, text):
    for event in ("Stop", "PreToolUse", "PostToolUse", "SessionStart"):
        assert hook(measured.top, event, text) == {}


def test_a_damaged_file_of_sessions_is_begun_anew(measured, session):
    for damage in (b"{", b"[1]", b'{"s1": 7}', b'{"s1": ["x", "y"]}'):
        measured.state.joinpath("host_sessions.json").write_bytes(damage)
        assert session.stop() == {}
        session.use_loopty()
        assert session.stop()["decision"] == "block"


def test_outside_a_repository_a_hook_has_nothing_to_say(tmp_path):
    assert hook(tmp_path, "Stop", "{}") == {}


def test_a_mode_can_be_set_before_anything_has_run(code_place):
    code_place.loopty("mode", "autonomous", "off")
    assert "autonomous is off (this repository's setting)" in code_place.loopty("mode").stdout


class Orchestra(HostSession):
    """A directing agent and a subagent, whose calls run between their hooks."""

    def call(self, work, tool: str = "Bash", agent: str = "", text: str = "") -> None:
        fields = {"tool_name": tool, "tool_input": {"command": text}, "tool_use_id": os.urandom(4).hex()}
        fields |= {"agent_id": agent} if agent else {}
        assert self.hook("PreToolUse", **fields) == {}
        shown = work()
        assert self.hook("PostToolUse", **fields, tool_response={"stdout": shown or ""}) == {}

    def open_draft(self, hypothesis: str, agent: str = "") -> str:
        command = ("tool", "open", f"hypothesis={hypothesis}")
        replies = []

        def work() -> str:
            replies.append(self._place.loopty(*command).stdout)
            return replies[0]

        self.call(work, agent=agent, text="loopty tool open")
        return json.loads(replies[0])["id"]

    def write(self, node: str, number: int, agent: str = "") -> None:
        path = self._place.top / ".loopty/drafts" / node / "src/x.txt"
        self.call(lambda: path.write_text(f"{number}\n") and None, agent=agent, text="echo > x.txt")

    def submit(self, node: str) -> dict:
        done = self._place.loopty("tool", "submit", f"id={node}", "mode=tune", code=None)
        return json.loads(done.stdout)


@pytest.fixture
def orchestra(measured):
    return Orchestra(measured)


def test_an_edit_through_a_shell_is_refused_at_submit_unless_a_subagent_made_it(orchestra, measured):
    by_subagent, by_director = orchestra.open_draft("a", agent="7"), orchestra.open_draft("b")
    orchestra.write(by_subagent, 8, agent="7")
    orchestra.write(by_director, 9)
    assert "error" not in orchestra.submit(by_subagent)
    refused = orchestra.submit(by_director)["error"]
    assert "src/x.txt was changed while no subagent was at work" in refused
    assert "loopty agent mode subagents-only off" in refused
    orchestra.write(by_director, 10, agent="7")  # the edit stays the director's, whoever writes after it
    assert "no subagent" in orchestra.submit(by_director)["error"]
    measured.loopty("mode", "subagents-only", "off")
    assert "error" not in orchestra.submit(by_director)


def test_an_edit_of_the_repository_through_a_shell_is_refused_at_submit_until_it_is_undone(orchestra, measured):
    node = orchestra.open_draft("a", agent="7")
    orchestra.write(node, 8, agent="7")
    file = measured.top / "src/x.txt"
    before = file.read_text()
    file.write_text("4\n")  # a person's edit, between two calls
    assert "error" not in orchestra.submit(node)
    orchestra.call(lambda: file.write_text("6\n") and None, text="echo 6 > src/x.txt")
    assert "src/x.txt of the repository itself was changed" in orchestra.submit(node)["error"]
    file.write_text(before)
    assert "error" not in orchestra.submit(node)


def test_a_draft_that_was_opened_where_no_hook_tells_who_calls_may_be_edited_by_anybody(orchestra, measured):
    reply = json.loads(measured.loopty("tool", "open", "hypothesis=a").stdout)
    told = {"tool_name": "run_shell_command", "tool_input": {"command": "loopty tool open"}}
    assert orchestra.hook("PostToolUse", **told, tool_response=json.dumps(reply)) == {}
    (measured.top / ".loopty/drafts" / reply["id"] / "src/x.txt").write_text("9\n")
    assert "error" not in orchestra.submit(reply["id"])


def test_a_patch_of_the_directing_agent_is_an_edit(orchestra):
    orchestra.use_loopty()
    fields = {"tool_name": "mcp__loopty__submit", "tool_input": {"id": "1.1", "patch": "--- a"}}
    assert orchestra.hook("PreToolUse", **fields)["hookSpecificOutput"]["permissionDecision"] == "deny"
    assert orchestra.hook("PreToolUse", **fields, agent_id="7") == {}
    plain = {"tool_name": "mcp__loopty__submit", "tool_input": {"id": "1.1"}}
    assert orchestra.hook("PreToolUse", **plain) == {}
