"""Print the search tree that each example grows from its seed, to compare two versions of loopty.

python scripts/seeded_trees.py [LOOPTY] > trees.txt

Every example runs at width 1 with a budget that does not depend on the clock, so that one version always grows
the same tree. `c_kernel` measures time, so its proposer becomes `random` and only its proposals are printed.
"""

import json
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ATTEMPTS = {"circle_packing": 60, "matrix_product": 40, "training": 24, "c_kernel": 8}
MEASURES_TIME = {"c_kernel"}


def main() -> None:
    loopty = Path(sys.argv[1]).absolute() if len(sys.argv) > 1 else ROOT / ".venv/bin/loopty"
    for example, attempts in ATTEMPTS.items():
        with tempfile.TemporaryDirectory(prefix="loopty-seeded-") as scratch:
            folder = Path(scratch, example)
            prepare(folder, example, attempts)
            subprocess.run([loopty, "optimize", "--quiet"], cwd=folder, stdout=sys.stderr, check=True)
            listing = subprocess.run(
                [loopty, "tree", "--all", "--json"], cwd=folder, capture_output=True, text=True, check=True
            )
        for line in listing.stdout.splitlines():
            print(example, *fields(json.loads(line), example not in MEASURES_TIME))


def prepare(folder: Path, example: str, attempts: int) -> None:
    """Copy the example into its own repository, with a budget that is spent in the same way on any machine."""
    shutil.copytree(ROOT / "examples" / example, folder)
    task = folder / "loopty.toml"
    text = task.read_text()
    for key, value in (("width", 1), ("attempts", attempts), ("control", attempts // 4), ("target", 1e9)):
        text = re.sub(rf"(?m)^{key} = \S+", f"{key} = {value}", text)
    text = re.sub(r"(?m)^(wall_seconds|target) = .*$", "", text)
    text = re.sub(r'(?m)^kind = "median"\n.*$', 'kind = "none"', text)
    if example in MEASURES_TIME:
        text = text.replace('kind = "tpe"', 'kind = "random"')
    task.write_text(text)
    for arguments in (["init", "-q", "-b", "main"], ["add", "-A"], ["commit", "-q", "-m", "The example"]):
        git = ["git", "-c", "user.name=loopty", "-c", "user.email=loopty@localhost"]
        subprocess.run([*git, *arguments], cwd=folder, check=True)


def fields(node: dict[str, object], with_score: bool) -> list[str]:
    """The parts of a node that do not depend on the clock or the machine."""
    names = ["id", "pool", "operator", "summary", "params", "tree"]
    values = [node.get(name, "") for name in names]
    if with_score:
        outcome = node.get("outcome")
        values += [outcome.get("metrics", {}) if isinstance(outcome, dict) else {}, node.get("verdict", "")]
    return [json.dumps(value, sort_keys=True, ensure_ascii=False) for value in values]


if __name__ == "__main__":
    main()
