"""A file that scores others is known by its name and by what it defines, in any language."""

import pytest

from loopty.features.setup.build_facts import evaluates_programs, has_blocks, scores_others

BLOCK = "# EVOLVE-BLOCK-START\ndef score(item):\n    return item\n# EVOLVE-BLOCK-END\n"


SCORING = """
evaluator.py evaluate.py eval_model.py run_eval.py grader.py score.py scoring_rules.js judge.go bench.rs
benchmark_all.ts eval/helpers.py tasks/grader/main.py
"""
OTHERS = "pkg/core.py retrieval.py medieval.py upgrade.py underscore.js src/workbench.py"


@pytest.mark.parametrize("path", SCORING.split())
def test_a_name_says_that_a_file_scores_others(path):
    assert scores_others(path, "")


@pytest.mark.parametrize("path", OTHERS.split())
def test_a_name_that_only_looks_like_it_does_not(path):
    assert not scores_others(path, "def run(): pass\n")


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("x.py", "def evaluate(path):\n    return 1\n"),
        ("x.py", "async def score(path): ...\n"),
        ("x.py", "def evaluate_bpb(model): ...\n"),
        ("x.py", "class SumsGrader(TaskGrader):\n"),
        ("x.py", "from shinka.core import run_shinka_eval\n"),
        ("x.py", "from loopty_sdk import Run\n"),
        ("x.py", 'def main():\n    return {"score": 1}\n\n\nif __name__ == "__main__":\n    print(main())\n'),
        ("x.js", "export async function evaluate(program) {\n"),
        ("x.js", "const score = (program) => 1;\n"),
        ("x.js", "exports.benchmark = function () {};\n"),
        ("x.go", "func Evaluate(path string) float64 {\n"),
        ("x.rs", "pub fn score(program: &Program) -> f64 {\n"),
        ("x.rs", "#[bench]\nfn sorts(b: &mut Bencher) {\n"),
        ("x.c", "static double evaluate(const board *b) {\n"),
    ],
)
def test_what_a_file_defines_says_that_it_scores_others(path, text):
    assert scores_others(path, text)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("x.py", "class Polynomial:\n    def evaluate(self, x):\n        return x\n"),
        ("x.py", 'def row(line):\n    return {"score": line}\n'),
        ("x.c", "double evaluate(const board *b);\n"),
        ("x.js", "const scores = [];\n"),
        ("x.py", BLOCK),
    ],
)
def test_methods_declarations_and_marked_programs_score_no_others(path, text):
    assert not scores_others(path, text)


def test_a_marked_program_that_is_named_an_evaluator_stays_one():
    assert scores_others("evaluator.py", BLOCK)


def test_blocks_count_only_in_a_comment():
    assert has_blocks(BLOCK)
    assert has_blocks("// EVOLVE-BLOCK-START\nint x;\n")
    assert not has_blocks('MARK = "EVOLVE-BLOCK-START"\n')


def test_an_evaluator_of_programs_takes_one_argument():
    assert evaluates_programs("e.py", "def evaluate(program_path: str, seed=1, **more) -> dict: ...\n")
    assert not evaluates_programs("e.py", "def evaluate(candidate, example): ...\n")
    assert not evaluates_programs("e.py", "def evaluate(: ...\n")
    assert not evaluates_programs("e.js", "def evaluate(path): ...\n")
