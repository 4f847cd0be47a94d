"""Prints how livable the house is: figures of the source, the tests and the pages, beside their aims.

python scripts/figures.py [CHECKOUT]
"""

from __future__ import annotations

import ast
import collections
import io
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parents[1])
SOURCE = ROOT / "src/loopty"
KERNEL = ("kit", "domain", "record", "ledgers", "judge", "engine")
PAGES = (".", "docs", "docs/design", "docs/research", "benchmarks")
SHORT = 80
"""Lines below which a file with one importer may as well stand in it."""
MANY = 7
"""Positional arguments of which two may be swapped unseen."""


def main() -> None:
    trees = {path: ast.parse(path.read_text()) for path in SOURCE.rglob("*.py")}
    lines = {path: len(path.read_text().splitlines()) for path in trees}
    kernel = [path for path in trees if path.relative_to(SOURCE).parts[0] in KERNEL]
    tests = sum(len(path.read_text().splitlines()) for path in (ROOT / "tests").rglob("*.py"))
    pages = [page for folder in PAGES for page in (ROOT / folder).glob("*.md")]
    inner = sum(len(list(inner_imports(tree))) for tree in trees.values())
    positional = [len(call.args) for tree in trees.values() for call in calls(tree) if len(call.args) >= MANY]
    rows = (
        ("src/loopty, lines", f"{sum(lines.values()):,}", "68,000"),
        ("src/loopty, files", f"{len(trees):,}", "420"),
        ("lines of C", f"{sum(len(path.read_text().splitlines()) for path in SOURCE.rglob('*.c')):,}", "0"),
        (f"kernel ({', '.join(KERNEL)}), lines", f"{sum(lines[path] for path in kernel):,}", "11,500"),
        ("kernel, files", f"{len(kernel):,}", ""),
        ("imports inside functions", f"{inner:,}", "120"),
        (f"files below {SHORT} lines with one importer", f"{len(short_steps(trees, lines)):,}", "40"),
        (
            f"calls with {MANY} or more positional arguments",
            f"{len(positional)}, most {max(positional, default=0)}",
            "0",
        ),
        ("comments, share of lines", f"{sum(map(comments, trees)) / sum(lines.values()):.1%}", "3.0%"),
        ("tests, lines", f"{tests:,}", "48,000"),
        ("pages, words", f"{sum(len(page.read_text().split()) for page in pages):,}", "50,000"),
    )
    print(f"| {'':46} | {'now':>12} | {'aim':>7} |\n|---|---:|---:|")
    for what, now, aim in rows:
        print(f"| {what:46} | {now:>12} | {aim:>7} |")


def calls(tree: ast.AST) -> Iterator[ast.Call]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


def inner_imports(tree: ast.AST) -> set[ast.AST]:
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return {node for function in functions for node in ast.walk(function) if is_import(node)}


def is_import(node: ast.AST) -> bool:
    return isinstance(node, ast.Import | ast.ImportFrom)


def short_steps(trees: dict[Path, ast.Module], lines: dict[Path, int]) -> list[Path]:
    """Files that are short, and that one other file imports."""
    names = {path.relative_to(SOURCE.parent).with_suffix("").as_posix().replace("/", "."): path for path in trees}
    importers: dict[str, set[Path]] = collections.defaultdict(set)
    for path, tree in trees.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                for name in {node.module, *(f"{node.module}.{each.name}" for each in node.names)} & names.keys():
                    importers[name].add(path)
    return [names[name] for name, found in importers.items() if len(found) == 1 and lines[names[name]] < SHORT]


def comments(path: Path) -> int:
    """Lines with a comment for a reader, none for a tool."""
    found = tokenize.generate_tokens(io.StringIO(path.read_text()).readline)
    texts = [token.string.lstrip("# ") for token in found if token.type == tokenize.COMMENT]
    return sum(not text.startswith(("noqa", "type:", "ruff:", "!")) for text in texts)


if __name__ == "__main__":
    main()
