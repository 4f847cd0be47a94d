"""Seven multiplications are kept, four wrong ones are rejected, and another eight are no improvement."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "matrix_product"
GIT = ("-c", "user.name=user", "-c", "user.email=user@example.org")

STRASSEN = """
    t = (a + d) * (e + h)
    u = (c + d) * e
    v = a * (f - h)
    w = d * (g - e)
    x = (a + b) * h
    y = (c - a) * (e + f)
    z = (b - d) * (g + h)
    return t + w - x + z, v + x, u + w, t - u + v + y
"""
ELEMENT_BY_ELEMENT = """
    return a * e, b * f, c * g, d * h
"""
EIGHT_AGAIN = """
    return e * a + g * b, f * a + h * b, e * c + g * d, f * c + h * d
"""
SUM_IN_A_LOOP = """
    return tuple(sum(x * y for x, y in zip(one, other)) for one, other in (((a, b), (e, g)), ((a, b), (f, h)),
        ((c, d), (e, g)), ((c, d), (f, h))))
"""
CHECKS_ITS_CALLER = """
    import sys
    if "certify" in " ".join(sys.argv):
        return a * e + b * g, a * f + b * h, c * e + d * g, c * f + d * h
    return a, b, c, d
"""


@pytest.fixture
def repository(tmp_path):
    top = tmp_path / "matrix"
    shutil.copytree(EXAMPLE, top)
    for args in (("init", "-q"), ("add", "-A"), (*GIT, "commit", "-q", "-m", "Start")):
        subprocess.run(["git", *args], cwd=top, check=True)
    assert json.loads(loopty(top, "run", "1", "--json").stdout)["outcome"]["metrics"] == {"score": 8}
    return top


def loopty(top, *args):
    command = [sys.executable, "-m", "loopty.cli.main", *args]
    return subprocess.run(command, cwd=top, capture_output=True, text=True, timeout=300)


def run_candidate(top, body):
    draft = json.loads(loopty(top, "new", "--parent", "1", "--json").stdout)
    program = top / draft["workspace"] / "program.py"
    head, rest = program.read_text().split("# EVOLVE-BLOCK-START\n")
    tail = rest[rest.index("    # EVOLVE-BLOCK-END") :]
    program.write_text(f"{head}# EVOLVE-BLOCK-START\n{body.lstrip(chr(10))}{tail}")
    return json.loads(loopty(top, "run", draft["node"], "--json").stdout)


def test_seven_multiplications_are_kept_with_strong_integrity(repository):
    node = run_candidate(repository, STRASSEN)
    assert node["verdict"] == "kept"
    assert node["outcome"]["metrics"] == {"score": 7}
    assert node["outcome"]["integrity"] == "strong"


def test_four_wrong_multiplications_are_rejected(repository):
    node = run_candidate(repository, ELEMENT_BY_ELEMENT)
    assert node["verdict"] == "rejected"
    assert "gate certified" in node["reason"]


def test_another_eight_multiplications_are_no_improvement(repository):
    assert run_candidate(repository, EIGHT_AGAIN)["verdict"] == "discarded"


@pytest.mark.parametrize("body", [SUM_IN_A_LOOP, CHECKS_ITS_CALLER])
def test_hidden_multiplications_get_no_score(repository, body):
    node = run_candidate(repository, body)
    assert node["verdict"] in ("discarded", "rejected")
    assert "metrics" not in node["outcome"]
