"""Copies of a trial's output: regular files of bounded size, and nothing that a link points to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from loopty.evaluators import harvest
from loopty.kit.safe_folder import SafeFolder


@pytest.fixture
def outbox(tmp_path: Path) -> Path:
    folder = tmp_path / "out"
    (folder / "traces").mkdir(parents=True)
    return folder


@pytest.fixture
def traces(outbox: Path, tmp_path: Path) -> harvest.TraceCopies:
    return harvest.TraceCopies(SafeFolder(outbox, ("traces",)), SafeFolder(tmp_path, ("node",)))


def test_traces_are_copied_as_they_come_and_again_when_they_change(
    outbox: Path, traces: harvest.TraceCopies, tmp_path: Path
) -> None:
    (outbox / "traces" / "task_1.json").write_text("{")
    (outbox / "traces" / "other.txt").write_text("no trace")
    traces.copy_new()
    assert [path.name for path in (tmp_path / "node").iterdir()] == ["task_1.json"]
    (outbox / "traces" / "task_1.json").write_text("{}")
    (outbox / "traces" / "task_2.json").write_text("{}")
    traces.copy_new()
    assert {path.name: path.read_text() for path in (tmp_path / "node").iterdir()} == {
        "task_1.json": "{}",
        "task_2.json": "{}",
    }


def test_a_link_in_place_of_the_traces_is_not_followed(
    outbox: Path, traces: harvest.TraceCopies, tmp_path: Path
) -> None:
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "task_gold.json").write_text("gold")
    (outbox / "traces").rmdir()
    (outbox / "traces").symlink_to(secrets)
    traces.copy_new()
    assert not (tmp_path / "node").exists()


def test_links_pipes_and_huge_traces_are_left_behind(
    outbox: Path, traces: harvest.TraceCopies, tmp_path: Path
) -> None:
    (tmp_path / "secret").write_text("secret")
    source = outbox / "traces"
    (source / "task_link.json").symlink_to(tmp_path / "secret")
    (source / "task_hard.json").hardlink_to(tmp_path / "secret")
    os.mkfifo(source / "task_fifo.json")
    (source / "task_folder.json").mkdir()
    with (source / "task_huge.json").open("wb") as file:
        file.truncate(2 << 20)
    (source / "task_fine.json").write_text("{}")
    traces.copy_new()
    assert [path.name for path in (tmp_path / "node").rglob("*.*")] == ["task_fine.json"]


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        (b"", ""),
        (b"one\ntwo\n\n", "two"),
        (b"ValueError: no\nbye\n", "ValueError: no"),
        (b"\x1b[31mred\x07\n", "red"),
        (b"\xff\xfe bytes\n", "\ufffd\ufffd bytes"),
        (b"x" * 9000, "x" * 200),
    ],
)
def test_the_line_with_the_error_is_short_and_printable(tmp_path: Path, output: bytes, expected: str) -> None:
    (tmp_path / "log").write_bytes(output)
    assert harvest.error_line(SafeFolder(tmp_path).file("log")) == expected


def test_an_error_on_stdout_counts_more_than_the_last_line_of_stderr(tmp_path: Path) -> None:
    (tmp_path / "stdout.log").write_text("E       assert 1 == 2\nbye\n")
    (tmp_path / "stderr.log").write_text("make: *** [Makefile:2: test] Error 1\n")
    logs = [SafeFolder(tmp_path).file(f"{name}.log") for name in ("stdout", "stderr")]
    found = harvest.error_in_output(*logs)
    assert (found.cause, found.log) == ("E       assert 1 == 2", "stdout.log")
    (tmp_path / "stderr.log").write_text("sh: 1: cargo: not found\n")
    assert harvest.error_in_output(*logs).log == "stderr.log"


def test_traces_that_come_and_go_do_not_fill_the_disk(
    outbox: Path, traces: harvest.TraceCopies, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(harvest, "_MAX_TRACES", 5)
    for batch in range(4):
        for number in range(4):
            (outbox / "traces" / f"task_{batch}_{number}.json").write_text("")
        traces.copy_new()
        for path in (outbox / "traces").iterdir():
            path.unlink()
    assert len(list((tmp_path / "node").iterdir())) == 5
