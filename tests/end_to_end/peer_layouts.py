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


def aggregate(results):
    score = min(abs(a[0] - b[0]) + abs(a[1] - b[1]) for i, a in enumerate(results[0]) for b in results[0][:i])
    public, feedback = {"points": len(results[0])}, "spread them"
    return {"combined_score": score, "public": public, "private": {"seed": 1}, "text_feedback": feedback}


def main(program_path, results_dir):
    run_shinka_eval(
        program_path=program_path,
        results_dir=results_dir,
        experiment_fn_name="run",
        num_runs=1,
        get_experiment_kwargs=lambda _: {},
        validate_fn=lambda points: (len(points) == 6, "wrong number"),
        aggregate_metrics_fn=aggregate,
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--program_path", default="initial.py")
    parser.add_argument("--results_dir", default="results")
    args = parser.parse_args()
    main(args.program_path, args.results_dir)
""",
}
CORAL = {
    "task.yaml": """\
task:
  name: sums
  description: Make the sum large.
grader:
  entrypoint: "eval.grader:Grader"
  timeout: 60
  direction: maximize
  args: {round: 2}
""",
    "seed/solution.py": "print(sum(range(10)) / 7)\n",
    "eval/grader.py": """\
from coral.grader import TaskGrader


class Grader(TaskGrader):
    def evaluate(self):
        value = float(self.run_program("solution.py").stdout)
        return self.score(round(value, self.args["round"]), "larger is better")
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
GEPA_CASES = {
    "optimize.py": """\
from gepa.optimize_anything import EngineConfig, GEPAConfig, optimize_anything

SEED = {"intro": "say it", "end": "bye"}


def evaluator(candidate, example):
    score = sum(word in candidate["intro"] for word in example["words"]) / len(example["words"])
    return score, {"feedback": f"wanted {example['words']}"}


def main():
    train = [{"id": "a", "words": ["say"]}, {"id": "b", "words": ["say", "twice"]}]
    optimize_anything(
        seed_candidate=SEED,
        evaluator=evaluator,
        dataset=train,
        valset=[{"id": "c", "words": ["never", "it"]}],
        objective="Say it well",
        config=GEPAConfig(engine=EngineConfig(max_metric_calls=40)),
    )
    raise SystemExit("the optimiser was not stopped")


main()
""",
}
PI_AUTORESEARCH = {
    ".auto/prompt.md": """\
# Autoresearch: faster

## Objective
Make main.py faster.

## Metrics
- **Primary**: total_ms (ms, lower is better)

## Files in Scope
### Python
- `main.py`: the program
- `lib/` (all of it)
- `.auto/measure.sh` may be updated
- `secret.py`: do not modify

## Constraints
Keep the output.
""",
    ".auto/measure.sh": "set -euo pipefail\npython3 main.py\necho METRIC total_ms=12.5\necho 'METRIC lines=3'\n",
    ".auto/checks.sh": "test -f main.py\n",
    ".auto/config.json": '{"maxIterations": 30}',
    "main.py": "print('hello: 99')\n",
    "lib/work.py": "X = 1\n",
    "secret.py": "X = 1\n",
}
EVO = {
    ".evo/meta.json": '{"active": "run_0000"}',
    ".evo/run_0000/config.json": '{"target": "agent.py", "benchmark": "python3 bench.py {target}"}',
    "agent.py": "X = 1\n",
    "bench.py": "print('{\"score\": 1.0}')\n",
}
HARBOR = {
    "task.toml": "version = '1.0'\n",
    "instruction.md": "Do it.\n",
    "environment/Dockerfile": "FROM scratch\n",
    "tests/test.sh": "echo 1 > /logs/verifier/reward.txt\n",
}
OPTUNA = {
    "tune.py": """\
import optuna


def objective(trial):
    lr = trial.suggest_float("lr", 1e-5, 1e-1, log=True)
    layers = trial.suggest_int("layers", 1, 8)
    kind = trial.suggest_categorical("kind", ["a", "b"])
    for step in range(3):
        trial.report(lr * step, step)
        if trial.should_prune():
            raise optuna.TrialPruned
    return lr * layers + (kind == "b")


if __name__ == "__main__":
    optuna.create_study(direction="minimize").optimize(objective, n_trials=3)
""",
}
STAGES = {
    **OPENEVOLVE,
    "evaluator.py": OPENEVOLVE["evaluator.py"]
    + """

def evaluate_stage1(program_path):
    return {"combined_score": evaluate(program_path)["combined_score"], "quick": 1.0}


def evaluate_stage2(program_path):
    from openevolve.evaluation_result import EvaluationResult

    return EvaluationResult(metrics=evaluate(program_path), artifacts={"hint": "spread them", "raw": b"\\xff"})
""",
    "config.yaml": """\
max_iterations: 25
llm:
  models:
    - name: gpt-5-mini
      weight: 1.0
prompt:
  system_message: |
    Place points
    far apart.
evaluator:
  timeout: 40
  cascade_thresholds: [0.4]
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
