"""The directory for temporary files is the one of `tempfile`, found without writing to it."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from loopty.kit.temporary_folder import temporary_top


@pytest.fixture
def no_choice(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr(tempfile, "tempdir", None)  # it remembers its choice
    for name in ("TMPDIR", "TEMP", "TMP"):
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.mark.parametrize("name", ["TMPDIR", "TEMP", "TMP", "OTHER"])
def test_it_is_the_choice_of_tempfile(no_choice: pytest.MonkeyPatch, name: str, tmp_path: Path) -> None:
    no_choice.setenv(name, str(tmp_path))
    assert temporary_top() == tempfile.gettempdir() == (str(tmp_path) if name != "OTHER" else "/tmp")


def test_a_variable_that_names_no_directory_is_passed_over(no_choice: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    no_choice.setenv("TMPDIR", str(tmp_path / "missing"))
    no_choice.setenv("TEMP", str(tmp_path / "file"))
    no_choice.setenv("TMP", str(tmp_path))
    assert temporary_top() == tempfile.gettempdir() == str(tmp_path)


def test_nothing_is_written_to_find_it(no_choice: pytest.MonkeyPatch, tmp_path: Path) -> None:
    no_choice.setenv("TMPDIR", str(tmp_path))
    before = tmp_path.stat().st_mtime_ns
    with tempfile.TemporaryFile(dir=temporary_top()):
        assert not list(tmp_path.iterdir())
    assert tmp_path.stat().st_mtime_ns == before
