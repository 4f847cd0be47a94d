"""What the README says can be done."""

import re
import subprocess
from pathlib import Path

TOP = Path(__file__).parents[1]


def test_the_demo_improves_on_its_baseline_and_shows_the_control_beside_it():
    done = subprocess.run(["make", "demo"], cwd=TOP, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    best = re.search(r"score ([\d.]+), ([\d.]+) % better than the baseline \(([\d.]+)\)", said)
    control = re.search(r"control [\d.]+: ([\d.]+)", said)
    assert float(best[1]) > 1.1 * float(best[3])
    assert float(best[1]) > float(control[1])
    assert "best so far" in said
    assert "+++ b/program.py" in said


def test_every_link_leads_somewhere():
    for page in (
        TOP / "README.md",
        TOP / "CONTRIBUTING.md",
        *TOP.glob("docs/**/*.md"),
        *TOP.glob("examples/**/*.md"),
    ):
        for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_every_verb_of_the_readme_exists():
    from loopty.cli.main import VERBS

    named = set(re.findall(r"loopty ([a-z]+)", (TOP / "README.md").read_text()))
    assert named - {"closes"} <= set(VERBS), named - set(VERBS)
