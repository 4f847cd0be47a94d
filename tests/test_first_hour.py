"""`loopty init` proves a benchmark in each repository of benchmarks/first_hour.toml: `pytest -m registry`."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

TOP = Path(__file__).parents[1]


def load_script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("first_hour", TOP / "benchmarks/first_hour.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["first_hour"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


script = load_script()
REPOSITORIES = script.repositories()


def test_the_list_has_many_languages_and_registries() -> None:
    assert len(REPOSITORIES) >= 15
    assert len({one.language for one in REPOSITORIES}) >= 5
    assert {one.registry for one in REPOSITORIES} == {"PyPI", "npm", "Debian"}


def test_the_page_has_a_row_for_each_repository_with_its_command() -> None:
    rows = script.PAGE.read_text().splitlines()
    for one in REPOSITORIES:
        (row,) = (line for line in rows if line.startswith(f"| {one.name} {one.version} |"))
        assert f"`loopty init {one.init}`".replace("|", "&#124;") in row
        assert "not proven" not in row


@pytest.mark.registry
@pytest.mark.parametrize("repository", REPOSITORIES, ids=[one.name for one in REPOSITORIES])
def test_init_proves_a_benchmark(repository: Any, tmp_path: Path) -> None:
    if missing := repository.missing_programs():
        pytest.skip(f"{', '.join(missing)} is not installed")
    tried = script.try_init(repository, tmp_path, script.CACHE)
    assert tried.code == 0, tried.output
    assert tried.command
    shutil.rmtree(tmp_path)
