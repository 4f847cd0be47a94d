"""Counts the multiplications in the candidate's source. It reads the program; it never runs it.

That the program is right is none of its business: the gate `certified` sees to that first.
"""

import ast
import sys

from loopty_sdk import Run, candidate

ALLOWED = (ast.Assign, ast.Return, ast.Tuple, ast.BinOp, ast.UnaryOp, ast.Name, ast.Load, ast.Store)
OPERATORS = (ast.Add, ast.Sub, ast.Mult, ast.USub, ast.UAdd)


def straight_line(source):
    """The body of the one function that the source may hold; the process ends when it holds anything else."""
    module = [part for part in ast.parse(source).body if not is_text(part)]
    if len(module) != 1 or not isinstance(module[0], ast.FunctionDef) or module[0].decorator_list:
        sys.exit("program.py must hold one plain function and nothing else")
    return [part for part in module[0].body if not is_text(part)]


def is_text(part):
    return (
        isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant) and isinstance(part.value.value, str)
    )


def main():
    run = Run()
    nodes = [node for part in straight_line(candidate.read("program.py")) for node in ast.walk(part)]
    for node in nodes:
        if not isinstance(node, ALLOWED + OPERATORS):
            sys.exit(f"only +, -, * and assignments count here, not {type(node).__name__}")
    run.finish(sum(isinstance(node, ast.Mult) for node in nodes))


if __name__ == "__main__":
    main()
