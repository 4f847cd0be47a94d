"""Packages, environments, many calls at once and CPU time of a candidate, outside loopty."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from loopty_sdk import CandidateError, candidate

Write = Callable[[str, str], None]
PACKAGE = "from .inner import double\ndef render(text):\n    return double(text)\n"


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """A function that writes a file of the candidate."""
    monkeypatch.chdir(tmp_path)
    for name in ("LOOPTY_CANDIDATE", "EVO_WORKTREE"):
        monkeypatch.delenv(name, raising=False)

    def write(name: str, text: str) -> None:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    return write


@pytest.mark.parametrize("root", ["src", "", "python/lib"])
def test_a_package_is_found_in_the_top_folder_in_src_and_in_its_root(write: Write, root: str) -> None:
    write(f"{root}/page/__init__.py".lstrip("/"), PACKAGE)
    write(f"{root}/page/inner.py".lstrip("/"), "def double(text):\n    return text * 2\n")
    with candidate("page:render", root=root if root == "python/lib" else None) as render:
        assert render("a") == "aa"
    with candidate(f"{root}/page/inner.py:double".lstrip("/")) as double:
        assert double("a") == "aa"


def test_a_file_inside_a_package_imports_its_neighbours(write: Write) -> None:
    write("src/page/__init__.py", "")
    write("src/page/deep/__init__.py", "VALUE = 3\n")
    write("src/page/deep/render.py", "from . import VALUE\nfrom .. import deep\nimport beside\n"
          "def render():\n    return VALUE, deep.__name__, __name__, beside.VALUE\n")  # fmt: skip
    write("src/page/deep/beside.py", "VALUE = 4\n")
    with candidate("src/page/deep/render.py:render") as render:
        assert render() == (3, "page.deep", "page.deep.render", 4)
    with candidate("src/page/deep/__init__.py:VALUE.bit_length") as length:
        assert length() == 2


def test_a_missing_package_is_named_with_the_remedy_and_a_missing_dependency_as_it_is(write: Write) -> None:
    write("lib/page.py", "import missing_dependency\n")
    with pytest.raises(CandidateError, match=r"no module page in the top folder or src.* root=") as raised:
        candidate("page:render")()
    assert raised.value.kind == "raised"
    with pytest.raises(CandidateError, match="No module named 'missing_dependency'"):
        candidate("page:render", root="lib")()


def test_the_interpreter_may_be_the_candidates_own_with_its_packages(write: Write, tmp_path: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / ".venv"], check=True)
    packages = next(tmp_path.glob(".venv/lib/python*/site-packages")).relative_to(tmp_path)
    write(f"{packages}/dependency.py", "VALUE = 5\n")
    write(f"{packages}/page.py", "def render():\n    return 'the installed one'\n")
    write("src/page.py", "import dependency\ndef render():\n    return dependency.VALUE\n")
    with candidate("page:render", python=".venv/bin/python") as render:
        assert render() == 5
    # A benchmark that runs with that interpreter needs to say nothing.
    script = "from loopty_sdk import candidate\nprint(candidate('page:render')())\n"
    path = str(Path(__file__).parents[2] / "sdk/python")
    command = [tmp_path / ".venv/bin/python", "-c", script]
    assert subprocess.check_output(command, env={"PYTHONPATH": path}, text=True) == "5\n"


def test_many_calls_travel_in_one_message_and_each_has_its_time(write: Write) -> None:
    write("program.py", "import time\ncalls = []\ndef f(wait, word='x'):\n    calls.append(word)\n"
          "    time.sleep(wait)\n    return len(calls), word\n")  # fmt: skip
    with candidate("program.py:f") as f:
        assert f.call_many([(0.0, "a"), (0.1,), [0.0, "b"]]) == [(1, "a"), (2, "x"), (3, "b")]
        assert len(f.seconds_each) == 3
        assert sum(f.seconds_each) == pytest.approx(f.seconds)
        assert f.seconds >= f.seconds_each[1] >= 0.09
        assert f.call_many([]) == []
        large = [(0.0, "y" * 100_000)] * 50
        assert [word for _, word in f.call_many(large)] == [word for _, word in large]


def test_many_calls_end_at_the_first_that_raises_and_the_process_stays(write: Write) -> None:
    write("program.py", "calls = []\ndef f(x):\n    calls.append(x)\n    return 1 / x\n")
    with candidate("program.py:f") as f:
        with pytest.raises(CandidateError, match=r"ZeroDivisionError.* \(call 2 of 3\)$") as raised:
            f.call_many([(1,), (0,), (2,)])
        assert raised.value.kind == "raised"
        assert f(4) == 0.25
    with candidate("program.py:calls.append") as append:
        assert append.call_many([(1,), (2,)]) == [None, None]


def test_each_of_many_calls_has_the_time_limit_of_one(write: Write) -> None:
    write("program.py", "import time\ndef f(wait):\n    time.sleep(wait)\n")
    with candidate("program.py:f", seconds=1.0) as f:
        f.call_many([(0.4,)] * 4)
        with pytest.raises(CandidateError, match="took more than 1 s"):
            f.call_many([(0.0,), (100.0,)])


def test_answers_of_many_calls_are_checked(write: Write) -> None:
    write("program.py", "def f(x):\n    return x if x != 7 else 8\n")
    with (
        pytest.raises(CandidateError, match="returned 8 instead of 7") as raised,
        candidate("program.py:f", check=lambda x: x) as f,
    ):
        f.call_many([(x,) for x in range(10)])
    assert raised.value.kind == "wrong"


BUSY = """
import os, time
def work(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass
def f(busy, idle):
    work(busy)
    time.sleep(idle)
if __name__ == "__main__":
    work(0.2)
"""


def test_cpu_time_counts_work_and_not_waiting(write: Write) -> None:
    write("program.py", BUSY)
    with candidate("program.py:f") as f:
        f(0.0, 0.3)
        assert f.cpu_seconds < 0.1
        f(0.3, 0.0)
        assert 0.25 < f.cpu_seconds < 1.0
        f.call_many([(0.1, 0.1)] * 3)
        assert 0.25 < f.cpu_seconds < 1.0
    assert f.cpu_seconds > 0.25, "it can be read after the end"
    ended = candidate.run([sys.executable, "program.py"])
    assert 0.15 < ended.cpu_seconds < 2.0
