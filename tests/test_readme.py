"""The README's demo, links and commands work."""

import re
import subprocess
from pathlib import Path

TOP = Path(__file__).parents[1]


def test_the_demo_beats_its_baseline_and_names_its_control():
    # The demo ends as soon as it has shown what is asserted below.
    process = subprocess.run(
        ["make", "demo", "DEMO_TARGET=2.5"], cwd=TOP, capture_output=True, text=True, timeout=600
    )
    assert process.returncode == 0, process.stderr
    output = " ".join(process.stdout.split())
    best = re.search(r"% better than the baseline \((?P<baseline>[\d.]+)\).*?; score (?P<best>[\d.]+)", output)
    control = re.search(
        r"Without selection, the best of \d+ random changes of the first program has ([\d.]+)", output
    )
    assert float(best["best"].rstrip(".")) > 1.1 * float(best["baseline"])
    assert float(control[1].rstrip(".")) >= float(best["baseline"]), "a control that found nothing is the baseline"
    assert "best so far" in output
    assert re.search(r"\+\+\+ b/(solver|moves).py", output)
    assert re.search(r"Watch it: (http://127.0.0.1:\d+/#token=|cd build/demo; \S*loopty dashboard)", output)
    assert "The best published packing of 26 circles has 2.6359831" in output


def test_every_verb_of_the_readme_exists():
    from loopty.cli.verbs import EVERY_DAY, GROUPS

    blocks = re.findall(r"```\n(.*?)```|`(loopty [^`]+)`", (TOP / "README.md").read_text(), re.DOTALL)
    named = set(re.findall(r"^loopty ([a-z]+)", "\n".join(map("".join, blocks)), re.MULTILINE))
    assert {"init", "run", "apply"} <= named <= {*EVERY_DAY, *GROUPS}, named


def test_the_readme_can_be_read_in_one_go():
    assert len((TOP / "README.md").read_text().splitlines()) <= 120
