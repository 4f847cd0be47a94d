"""Every example runs through the whole loop."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ..needs import require

EXAMPLES = Path(__file__).parents[2] / "examples"
GIT = ("-c", "user.name=user", "-c", "user.email=user@example.org")


@pytest.mark.parametrize("name", ["circle_packing", "c_kernel", "training"])
def test_a_few_attempts_of_each_example_finish_and_are_judged(name, tmp_path):
    if name == "c_kernel":
        require("cc")
    repository = tmp_path / name
    shutil.copytree(EXAMPLES / name, repository)
    task = repository / "loopty.toml"
    text = re.sub(r"^(attempts|control) = \d+", r"\1 = 3", task.read_text(), flags=re.M)
    task.write_text(re.sub(r"^wall_seconds = \d+", "wall_seconds = 600\nrepeats = 6", text, flags=re.M))
    for args in (("init", "-q"), ("add", "-A"), (*GIT, "commit", "-q", "-m", "Start")):
        subprocess.run(["git", *args], cwd=repository, check=True)
    command = [sys.executable, "-m", "loopty.cli.main", "optimize", "--quiet", "--json"]
    process = subprocess.run(command, cwd=repository, capture_output=True, text=True, timeout=300)
    assert process.returncode == 0, process.stderr
    status = json.loads(process.stdout)
    assert status["baseline"]["score"] is not None
    counts = {count["pool"]: count for count in status["counts"]}
    assert counts["attempt"]["started"] == 3
    assert counts["control"]["started"] == 3
