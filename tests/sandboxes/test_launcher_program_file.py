"""The compiled launcher is built once, and used only where nobody else could have changed it."""

from __future__ import annotations

import os
import time

import pytest

from loopty.sandboxes import launcher_program_file
from loopty.sandboxes.launcher_program_file import build_program, open_program, start_build


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(launcher_program_file, "user_cache", lambda _: tmp_path / "cache")
    (tmp_path / "cache").mkdir(mode=0o700)
    (tmp_path / "cache" / launcher_program_file._name()).write_text("a program")
    return tmp_path / "cache"


def is_usable() -> bool:
    if (descriptor := open_program()) is None:
        return False
    os.close(descriptor)
    return True


def test_a_program_of_the_user_is_usable(folder):
    assert is_usable()
    next(folder.iterdir()).unlink()
    assert not is_usable()


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_folder_that_others_may_write_is_not_used(mode, folder):
    folder.chmod(mode)
    assert not is_usable()


def test_a_program_that_others_may_write_is_not_used(folder):
    next(folder.iterdir()).chmod(0o775)
    assert not is_usable()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_program_of_somebody_else_is_not_used(folder):
    os.chown(next(folder.iterdir()), 61001, 61001)
    assert not is_usable()


def test_a_link_is_not_used(folder, tmp_path):
    program = next(folder.iterdir())
    program.rename(tmp_path / "elsewhere")
    program.symlink_to(tmp_path / "elsewhere")
    assert not is_usable()


def test_another_text_is_another_program(folder, monkeypatch, tmp_path):
    (tmp_path / "launcher.h").write_text("")
    (tmp_path / "launcher.c").write_text("int main(void) { return 0; }")
    monkeypatch.setattr(launcher_program_file, "_SOURCES", tmp_path)
    assert not is_usable()
    assert len(list(folder.iterdir())) == 1


def test_without_a_compiler_nothing_is_built(folder, monkeypatch):
    next(folder.iterdir()).unlink()
    monkeypatch.setattr(launcher_program_file, "_COMPILERS", ("/absent/cc",))
    assert not build_program()
    assert list(folder.iterdir()) == []


def test_sources_that_cannot_be_compiled_leave_nothing_behind(folder, monkeypatch, tmp_path):
    (tmp_path / "launcher.h").write_text("")
    (tmp_path / "launcher.c").write_text("no program")
    monkeypatch.setattr(launcher_program_file, "_SOURCES", tmp_path)
    next(folder.iterdir()).unlink()
    assert not build_program()
    assert list(folder.iterdir()) == []


def test_what_a_killed_build_left_is_removed(folder):
    old, new = folder / "build-old", folder / "build-new"
    for left in (old, new):
        left.mkdir()
    os.utime(old, (0, 0))
    launcher_program_file._remove_leftovers(folder)
    assert not old.exists()
    assert new.exists()


@pytest.fixture
def small_source(folder, tmp_path, monkeypatch):  # noqa: ARG001
    (tmp_path / "launcher.h").write_text("")
    (tmp_path / "launcher.c").write_text("int main(void) { return 0; }")
    monkeypatch.setattr(launcher_program_file, "_SOURCES", tmp_path)


has_compiler = any(os.access(path, os.X_OK) for path in launcher_program_file._COMPILERS)


@pytest.mark.skipif(not has_compiler, reason="needs a compiler")
@pytest.mark.usefixtures("small_source")
def test_it_is_built_beside_the_process_that_starts_the_build(folder):
    start_build()
    end = time.monotonic() + 120
    while list(folder.glob("build-*")) and time.monotonic() < end:
        time.sleep(0.05)
    assert is_usable()
    assert list(folder.glob("build-*")) == []


@pytest.mark.usefixtures("small_source")
def test_what_another_process_builds_is_not_built_twice(folder):
    (folder / f"build-{launcher_program_file._name()}").mkdir()
    assert not build_program()
    assert len(list(folder.glob("build-*"))) == 1
