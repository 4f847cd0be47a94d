"""What programs say is kept only as long as nothing changed on which it depends."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

import pytest

from loopty.kit.kept_files import ProgramAnswers
from loopty.kit.safe_folder import SafeFolder

ECHO = shutil.which("echo")


@pytest.fixture
def kept(tmp_path):
    return SafeFolder(tmp_path, ("state",)).make().file("programs.json")


@pytest.fixture
def program(tmp_path):
    """A compiled program."""
    return str(shutil.copy(ECHO, tmp_path / "program"))


def script(path: Path, text: str) -> str:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return str(path)


def test_a_compiled_program_is_asked_once(kept, program):
    assert ProgramAnswers(kept).first_line(program, "one") == "one"
    kept.write(kept.read().replace(b"one\\n", b"from the file\\n"))
    assert ProgramAnswers(kept).first_line(program, "one") == "from the file"
    assert ProgramAnswers(kept).first_line(program, "two") == "two"


def test_a_program_that_changed_is_asked_again(kept, program):
    assert ProgramAnswers(kept).first_line(program, "one") == "one"
    kept.write(kept.read().replace(b"one\\n", b"from the file\\n"))
    os.utime(program, ns=(1, 1))
    assert ProgramAnswers(kept).first_line(program, "one") == "one"


def test_a_script_is_asked_each_time(tmp_path):
    answers, path = ProgramAnswers(), tmp_path / "script"
    assert answers.first_line(script(path, "echo 1")) == "1"
    assert answers.first_line(script(path, "echo 2")) == "2"


def test_a_shim_of_pyenv_is_asked_again_when_another_version_is_chosen(tmp_path, monkeypatch):
    root, work = tmp_path / "pyenv", tmp_path / "work"
    work.mkdir()
    (root / "libexec").mkdir(parents=True)
    (root / "version").write_text("3.11\n")
    asked = tmp_path / "asked"
    chooser = f'echo x >> {asked}; cat "$PWD/.python-version" 2>/dev/null || cat {root}/version'
    script(root / "libexec/pyenv", chooser)
    shim = script(tmp_path / "python3", f'export PYENV_ROOT="{root}"\nexec "{root}/libexec/pyenv" exec "$@"')
    monkeypatch.chdir(work)
    answers = ProgramAnswers()
    assert [answers.output(shim), answers.output(shim)] == ["3.11\n", "3.11\n"]
    assert asked.read_text() == "x\n"
    (work / ".python-version").write_text("3.12\n")
    assert answers.output(shim) == "3.12\n"


def test_a_program_that_fails_or_is_missing_says_nothing(kept, tmp_path):
    answers = ProgramAnswers(kept)
    assert answers.output(sys.executable, "-c", "print(1); raise SystemExit(1)") == ""
    assert answers.output(str(tmp_path / "none")) == ""


def test_a_damaged_file_is_no_answer(kept, program):
    kept.write(b"[1, 2")
    assert ProgramAnswers(kept).first_line(program, "one") == "one"
