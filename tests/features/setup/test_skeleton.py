"""A repository without a benchmark gets the beginning of one, which runs as far as its first gap."""

import subprocess
import sys
from pathlib import Path

import pytest

from loopty.features.setup.repository_facts import repository_facts
from loopty.features.setup.skeleton import begin_benchmark

from ...needs import require


def skeleton(folder, name, text=""):
    (folder / name).write_text(text)
    return begin_benchmark(repository_facts(folder, [name]), "demo", "demo", [name])


@pytest.mark.parametrize(
    ("name", "command"),
    [
        ("demo.py", [sys.executable, "loopty_bench.py"]),
        ("demo.js", ["node", "loopty_bench.mjs"]),
        ("demo.c", ["sh", "-c", "cc -Wall -Werror -O2 -o bench loopty_bench.c && ./bench"]),
        ("demo.rs", ["sh", "-c", "rustc -o bench examples/loopty_bench.rs && ./bench"]),
    ],
)
def test_it_is_a_program_that_says_what_is_missing(tmp_path, name, command):
    require({".py": "python3", ".js": "node", ".c": "cc", ".rs": "rustc"}[Path(name).suffix])
    started = skeleton(tmp_path, name)
    path = tmp_path / started.path
    path.parent.mkdir(exist_ok=True)
    module = started.text.replace('"demo"', '"node:path"')
    path.write_text(module)
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    assert ("FUNCTION" if name == "demo.py" else "call") in done.stderr


def test_its_first_lines_are_the_task_and_name_the_proof(tmp_path):
    for name, start in [
        ("a.py", '"""A benchmark of demo'),
        ("a.go", "// A benchmark of demo"),
        ("a.lua", "# A bench"),
    ]:
        started = skeleton(tmp_path, name)
        assert started.text.startswith(start)
        assert f'loopty init --yes --force --direction min --command "{started.command}"' in started.text
