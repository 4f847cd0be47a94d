"""Every public function and class has an example, and all of them run."""

import doctest
import importlib
import inspect
import re
from pathlib import Path

import pytest

import loopty

ROOMS = ("doors", "results", "spaces", "study", "trial", "pictures")
WITHOUT = {"StudyOver", "TrialPruned", "Campaign"}
"""Exceptions, and what docs/python.md shows."""


@pytest.mark.parametrize("name", ROOMS)
def test_the_examples_of_a_module_run(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    module = importlib.import_module(f"loopty.study.{name}")
    found = doctest.testmod(module, optionflags=doctest.ELLIPSIS)
    assert found.attempted > 0
    assert found.failed == 0


def test_everything_public_has_an_example():
    public = [name for name in loopty.__all__ if not name.startswith("__") and name not in WITHOUT]
    lacking = [name for name in public if ">>>" not in (inspect.getdoc(getattr(loopty, name)) or "")]
    assert lacking == []


def test_the_tutorial_runs_in_its_order(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs/python.md").read_text().partition("## A repository")[0]
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names = {}
    for block in blocks:
        exec(block, names)
    assert len(blocks) == 4
    assert (tmp_path / "rate.svg").exists()


def test_every_name_of_the_page_for_optuna_users_exists():
    page = (Path(__file__).parents[2] / "docs/from-optuna.md").read_text()
    right = " ".join(line.split("|")[2] for line in page.splitlines() if line.startswith("| "))
    names = re.findall(r"loopty\.(\w+)", right) + re.findall(r"study\.(\w+)", right)
    assert len(names) > 8
    assert not [name for name in names if not (hasattr(loopty, name) or hasattr(loopty.Study, name))]


def test_importing_loopty_imports_nothing_heavy():
    import subprocess
    import sys

    code = "import sys, loopty; print(sorted(n for n in sys.modules if n.startswith('loopty') or n == 'asyncio'))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['loopty', 'loopty.version']"
