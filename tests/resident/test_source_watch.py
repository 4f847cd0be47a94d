"""A change of the source is noticed, with and without the kernel's help."""

from __future__ import annotations

import importlib.util
import os
import sys

import pytest

from loopty.resident.source_watch import SourceWatch


@pytest.fixture
def source(tmp_path, monkeypatch):
    """The file of an imported module."""
    path = tmp_path / "watched_module.py"
    path.write_text("X = 1\n")
    spec = importlib.util.spec_from_file_location("watched_module", path)
    monkeypatch.setitem(sys.modules, "watched_module", importlib.util.module_from_spec(spec))
    return path


@pytest.mark.parametrize("starts", [True, False])
def test_an_edit_in_place_is_noticed(source, starts):
    watch = SourceWatch()
    if starts:
        watch.start()
    assert not watch.has_changed()
    source.write_text("X = 12\n")
    assert watch.has_changed()


def test_a_file_beside_the_source_is_no_change_of_it(source):
    watch = SourceWatch()
    watch.start()
    assert not watch.has_changed()
    (source.parent / "other.txt").write_text("new")
    assert not watch.has_changed()


def test_a_change_between_import_and_watch_is_noticed(source):
    watch = SourceWatch()
    os.utime(source, ns=(1, 1))
    watch.start()
    assert watch.has_changed()
