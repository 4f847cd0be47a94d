"""What a node left behind and the next proposer may see."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from loopty.domain.ids import NodeId
from loopty.domain.trial import Leftovers, Pool
from loopty.kit.safe_folder import SafeFolder
from loopty.record.node_record import Node
from loopty.workspaces.node_folders import CHANGE, NodeFolders
from loopty.workspaces.node_leftovers import NodeLeftovers
from loopty.workspaces.state_folder import StateFolder

NODE = Node(NodeId("1.2"), Pool.ATTEMPT, "rewrite", "a change", "c", "t", 0.0, 2, 1)


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    state_folder = StateFolder(tmp_path, SafeFolder(tmp_path, ("state",)))
    state_folder.node_folder(NODE.id).make()
    return state_folder


def leftovers(state: StateFolder) -> Leftovers:
    return NodeLeftovers(NodeFolders(state)).read(NODE)


def write(state: StateFolder, name: str, text: str) -> None:
    path = state.node_folder(NODE.id).shown_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def test_a_node_without_a_folder_left_nothing(tmp_path):
    assert leftovers(StateFolder(tmp_path, SafeFolder(tmp_path))) == Leftovers()


def test_diff_logs_traces_and_the_result_apart_from_its_numbers_are_read(state):
    write(state, "change.diff", "--- a/x\n+++ b/x\n")
    write(state, "stdout.log", "hello\n")
    write(state, "stderr.log", "warning\n")
    write(state, "traces/task_a.json", json.dumps({"task_id": "a", "score": 1.0, "summary": "fine"}))
    write(
        state,
        "traces/task_b.json",
        json.dumps({"score": 0.0, "status": "failed", "failure_reason": "off by one", "log": "3 != 4"}),
    )
    result = {
        "score": 0.5,
        "tasks": {"a": 1.0, "b": 0.0},
        "started_at": "2026-01-01T00:00:00Z",
        "text_feedback": "the second case is off",
        "public": {"length": 12},
        "private": {"answer": "kept from the search"},
        "artifacts": {"profile": "90 % in f", "private": "kept, too"},
        "empty": "",
    }
    write(state, "result.json", json.dumps(result))
    assert leftovers(state) == Leftovers(
        diff="--- a/x\n+++ b/x\n",
        stdout="hello\n",
        stderr="warning\n",
        traces={
            "b": "status: failed\nscore: 0.0\nfailure_reason: off by one\nlog: 3 != 4",
            "a": "score: 1.0\nsummary: fine",
        },
        artifacts={
            "text_feedback": "the second case is off",
            "public": '{"length": 12}',
            "profile": "90 % in f",
        },
    )


def test_only_the_end_of_a_long_log_is_read(state):
    write(state, "stderr.log", "start\n" + "x" * 1_000_000 + "\nthe end\n")
    assert len(leftovers(state).stderr) <= 16 << 10
    assert leftovers(state).stderr.endswith("the end\n")


def test_the_end_of_a_long_text_in_a_trace_is_kept(state):
    write(state, "traces/task_a.json", json.dumps({"log": "x" * 100_000 + " the end"}))
    assert len(leftovers(state).traces["a"]) < 5_000
    assert leftovers(state).traces["a"].endswith("the end")


def test_only_a_few_of_many_traces_are_read_and_failed_ones_come_first(state):
    for number in range(100):
        failed = {"failure_reason": "bad"} if number == 99 else {}
        write(
            state, f"traces/task_{number:03}.json", json.dumps({"task_id": f"{number:03}", "score": 1, **failed})
        )
    traces = leftovers(state).traces
    assert len(traces) == 24
    assert next(iter(traces)) == "099"


@pytest.mark.parametrize(
    "text", ["", "no json", "[1, 2]", "null", '"text"', "{", "[" * 100_000, '{"task_id": 1e999}']
)
def test_garbage_in_traces_and_results_is_ignored(state, text):
    write(state, "traces/task_a.json", text)
    write(state, "result.json", text)
    write(state, "traces/task_b.json", json.dumps({"score": 1.0}))
    assert leftovers(state).traces["b"] == "score: 1.0"


def test_links_are_not_followed_and_pipes_do_not_block(state, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("the user's key")
    folder = state.node_folder(NODE.id).shown_path
    (folder / "stdout.log").symlink_to(secret)
    (folder / "traces").mkdir()
    (folder / "traces" / "task_a.json").symlink_to(secret)
    os.mkfifo(folder / "stderr.log")
    (folder / "change.diff").mkdir()
    assert leftovers(state) == Leftovers()


def test_files_of_audits_and_repeated_measurements_are_never_read(state):
    secret = "the held-out answer"
    for folder in (
        state.audit_folder(NODE.id, 2).shown_path,
        state.node_folder(NODE.id).shown_path / "repeat-3",
        state.node_folder(NODE.id).shown_path / "replay-4",
        state.node_folder(NODE.id).shown_path / "checks" / "20260101T000000",
    ):
        (folder / "traces").mkdir(parents=True)
        for name in ("stdout.log", "stderr.log", "change.diff"):
            (folder / name).write_text(secret)
        (folder / "result.json").write_text(json.dumps({"score": 1, "note": secret}))
        (folder / "traces" / "task_a.json").write_text(json.dumps({"log": secret}))
    assert leftovers(state) == Leftovers()


def test_a_change_that_was_just_kept_need_not_be_read(state: StateFolder) -> None:
    folders = NodeFolders(state)
    folders.remember_description(NODE.id, {CHANGE: b"+1\n"})
    assert NodeLeftovers(folders).read_diff(NODE) == "+1\n"
    folders.add(NODE.id, {CHANGE: b"+1\n", "description.md": b"words"})
    assert NodeLeftovers(folders).read_diff(NODE) == NodeLeftovers(NodeFolders(state)).read_diff(NODE) == "+1\n"
    folders.remove(NODE.id)
    assert NodeLeftovers(folders).read_diff(NODE) == ""


def test_only_the_newest_changes_stay_in_memory(state: StateFolder) -> None:
    folders = NodeFolders(state)
    nodes = [NodeId(f"1.{number}") for number in range(1, 70)]
    for node in nodes:
        folders.add(node, {CHANGE: node.encode()})
        folders.remember_description(node, {CHANGE: node.encode()})
    assert [folders.new_description(node) for node in (nodes[0], nodes[-1])] == [{}, {CHANGE: b"1.69"}]
    assert folders.open(nodes[0]).read(CHANGE) == b"1.1"
