"""`loopty init` proves a benchmark in repositories of benchmarks/first_hour.toml and of the random samples.

`pytest -m registry` fetches them; without it only the lists and their page are tested.
"""

from __future__ import annotations

import importlib.util
import shutil
import sys
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

TOP = Path(__file__).parents[1]


def load_script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, TOP / f"benchmarks/{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


script = load_script("first_hour")
for module in ("wild_types", "wild_preparation", "wild_development"):  # in the order of their imports
    load_script(module)
wild_page = load_script("wild_page")
wild = load_script("wild")
REPOSITORIES = script.repositories()
SAMPLES = wild.load_results()
TRIED = [row for rows in SAMPLES.values() for row in rows if not row.passed_over]


def test_the_list_has_many_languages_and_registries() -> None:
    assert len(REPOSITORIES) >= 15
    assert len({one.language for one in REPOSITORIES}) >= 5
    assert {one.registry for one in REPOSITORIES} == {"PyPI", "npm", "Debian"}


@pytest.mark.registry
@pytest.mark.parametrize("repository", REPOSITORIES, ids=[one.name for one in REPOSITORIES])
def test_init_proves_a_benchmark(repository: Any, tmp_path: Path) -> None:
    if missing := repository.missing_programs():
        pytest.skip(f"{', '.join(missing)} is not installed, or does not run")
    tried = script.try_init(repository, tmp_path, script.CACHE)
    assert tried.code == 0, tried.output
    assert tried.command
    shutil.rmtree(tmp_path)


def test_the_names_are_many_and_none_was_chosen_by_hand() -> None:
    names = [(one.registry, one.name) for group in wild.groups() for one in group]
    assert len(names) == len(set(names)) > 200
    assert not set(names) & {(one.registry, one.name) for one in REPOSITORIES}


def test_a_seed_draws_the_same_names_again_and_none_of_an_earlier_sample() -> None:
    first = wild.draw(1, set())
    assert wild.draw(1, set()) == first
    used = {group[0].name for group in first}
    assert not used & {one.name for group in wild.draw(2, used) for one in group}


def test_each_group_gives_its_share() -> None:
    assert wild.quotas([173, 87, 45, 78, 36, 31, 35, 20], 30) == [10, 5, 3, 5, 2, 2, 2, 1]
    assert sum(wild.quotas([173, 87, 45, 78, 36, 31, 35, 20], 20)) == 20


def test_the_page_shows_every_repository_that_was_tried() -> None:
    page = wild_page.page(SAMPLES, len([one for group in wild.groups() for one in group]), wild.WITHIN)
    assert wild_page.PAGE.read_text() == page, "run: python benchmarks/wild.py --page"
    assert page.count("\n| ") == len(wild_page.tried(SAMPLES[max(SAMPLES, key=int)])) + 1


@pytest.mark.registry
@pytest.mark.parametrize("drawn", TRIED, ids=[row.name for row in TRIED])
def test_init_does_no_worse_than_it_did_in_a_repository_that_was_drawn(drawn: Any, tmp_path: Path) -> None:
    if not drawn.proven:
        pytest.skip("it was not proven before")
    one = wild.WildRepository(drawn.name, drawn.registry, drawn.language)
    result = wild.try_wild(one, script.CACHE, tmp_path, threading.Semaphore())
    if result.passed_over:
        pytest.skip(result.passed_over)
    assert result.proven, result.message
    shutil.rmtree(tmp_path)
