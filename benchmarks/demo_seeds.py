"""Runs the example of `make demo` with several seeds, and prints a table of how far each came and how fast."""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

EXAMPLE = Path(__file__).parent.parent / "examples" / "circle_packing"
GIT = ("git", "-c", "user.name=demo", "-c", "user.email=demo@localhost")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--seeds", type=int, default=10)
    arguments.add_argument("--seconds", type=int, default=120, help="the time of one run")
    arguments.add_argument("--at-once", type=int, default=1, help="how many runs at a time, each on two cores")
    options = arguments.parse_args()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {options.seconds} s a run\n")
    print("| seed | best | seconds | attempts | control's best | load |\n|---|---|---|---|---|---|", flush=True)
    for first in range(0, options.seeds, options.at_once):
        runs = [Run(seed, options) for seed in range(first, min(first + options.at_once, options.seeds))]
        for run in runs:
            print(run.row(), flush=True)


class Run:
    """One seed's run, in a repository of its own."""

    def __init__(self, seed: int, options: argparse.Namespace) -> None:
        self._seed = seed
        self._folder = Path(tempfile.mkdtemp(prefix="demo-seed-"))
        tree = self._folder / "packing"
        shutil.copytree(EXAMPLE, tree, ignore=shutil.ignore_patterns("__pycache__"))
        task = tree / "loopty.toml"
        text = re.sub(r"^seed = .*", f"seed = {seed}", task.read_text(), flags=re.M)
        task.write_text(re.sub(r"^wall_seconds = .*", f"wall_seconds = {options.seconds}", text, flags=re.M))
        for command in (("init", "-q"), ("add", "-A"), ("commit", "-qm", "Before the search")):
            subprocess.run([*GIT, *command], cwd=tree, check=True)
        core = 2 * (seed % options.at_once)
        pinned = ["taskset", "-c", f"{core},{core + 1}"] if options.at_once > 1 else []
        command = [*pinned, sys.executable, "-m", "loopty.cli.main", "optimize", "--quiet", "--json"]
        self._process = subprocess.Popen(command, cwd=tree, stdout=subprocess.PIPE, text=True)

    def row(self) -> str:
        """Wait for the run's end; its row of the table."""
        status = json.loads(self._process.communicate()[0])
        shutil.rmtree(self._folder)
        attempts = status["counts"][0]["endings"]["finished"]
        best, control = (f"{status[name]['score']:.5f}" for name in ("best", "control"))
        load = f"{os.getloadavg()[0]:.1f}"
        return f"| {self._seed} | {best} | {status['elapsed_seconds']:.0f} | {attempts} | {control} | {load} |"


if __name__ == "__main__":
    main()
