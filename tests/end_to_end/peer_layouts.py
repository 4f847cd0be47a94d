"""The layouts of other tools' tasks in miniature, as their users have them: no file knows of loopty."""

_PROGRAM = """\
# EVOLVE-BLOCK-START
def place(count):
    return [((7 * i % 5) / 5, (3 * i % 4) / 4) for i in range(count)]
# EVOLVE-BLOCK-END


def run():
    return place(6)
"""

OPENEVOLVE = {
    "initial_program.py": _PROGRAM,
    "evaluator.py": """\
import importlib.util
import time


def evaluate(program_path):
    started = time.time()
    spec = importlib.util.spec_from_file_location("program", program_path)
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    points = program.run()
    nearest = min(abs(a[0] - b[0]) + abs(a[1] - b[1]) for i, a in enumerate(points) for b in points[:i])
    return {"nearest": nearest, "eval_time": time.time() - started, "combined_score": nearest / 0.8}
""",
    "config.yaml": "max_iterations: 10\n",
}
SHINKA = {
    "initial.py": _PROGRAM,
    "evaluate.py": """\
import argparse

from shinka.core import run_shinka_eval


def main(program_path, results_dir):
    run_shinka_eval(program_path=program_path, results_dir=results_dir, experiment_fn_name="run", num_runs=1)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--program_path", default="initial.py")
    parser.add_argument("--results_dir", default="results")
    args = parser.parse_args()
    main(args.program_path, args.results_dir)
""",
}
CORAL = {
    "task.yaml": "task: {name: sums}\ngrader: {entrypoint: 'eval.grader:Grader', direction: maximize}\n",
    "seed/solution.py": "def solve():\n    return sum(range(10))\n",
    "eval/grader.py": """\
from coral.grader import TaskGrader


class Grader(TaskGrader):
    def evaluate(self):
        return float(self.run_program("solution.py").stdout)
""",
}
AUTORESEARCH = {
    "prepare.py": """\
def data():
    return [(x, 2 * x + x % 3 / 10) for x in range(20)]


def evaluate_bpb(slope):
    return sum((y - slope * x) ** 2 for x, y in data()) / 20
""",
    "train.py": """\
import time

from prepare import data, evaluate_bpb

started = time.time()
slope = 0.0
for _ in range(50):
    slope -= 1e-4 * sum(2 * x * (slope * x - y) for x, y in data())
print("---")
print(f"val_bpb: {evaluate_bpb(slope):.6f}")
print(f"training_seconds: {time.time() - started:.1f}")
print("num_steps: 50")
""",
    "program.md": "Change train.py, run `uv run train.py`. Lower val_bpb is better.\n",
    "pyproject.toml": '[project]\nname = "research"\nversion = "0.1"\n',
}
AIDE = {
    "input/train.csv": "x,y\n1,2\n2,4\n",
    "solution.py": """\
import csv

rows = [(float(row["x"]), float(row["y"])) for row in csv.DictReader(open("input/train.csv"))]
print("validation RMSE:", (sum((1.5 * x - y) ** 2 for x, y in rows) / len(rows)) ** 0.5)
""",
    "task.md": "Predict y. Metric: RMSE.\n",
}
GEPA = {
    "candidate.txt": "say it twice\n",
    "optimize.py": """\
from gepa.optimize_anything import optimize_anything


def evaluator(candidate, example=None):
    return len(set(candidate.split())) / 10


if __name__ == "__main__":
    optimize_anything(seed_candidate=open("candidate.txt").read(), evaluator=evaluator)
""",
}
LAYOUTS = {
    "openevolve": OPENEVOLVE,
    "shinka": SHINKA,
    "coral": CORAL,
    "autoresearch": AUTORESEARCH,
    "aide": AIDE,
    "gepa": GEPA,
}
