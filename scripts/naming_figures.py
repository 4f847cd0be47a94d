"""Print figures about the names in Python source trees, side by side. It only counts: it judges nothing.

python scripts/naming_figures.py src/loopty [OTHER_TREE …]
python scripts/naming_figures.py --list src/loopty

A function (also a method, property or nested function) counts as named by a participle or gerund when its name is
such a word alone (`told`, `reading`) or begins with a past participle (`opened_file`).
"""

import argparse
import ast
import collections
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

IRREGULAR = """
begun born bound broken brought built caught chosen drawn driven eaten fallen felt flown forgotten found frozen
given gone grown heard held hidden kept known laid led left lent lost made meant met paid proven risen said seen
sent shown sold sought spent spoken stood sunk taken taught thought told torn understood woken won worn written
"""
# Words of the field, and words that only look like a participle or gerund.
OWN_WORDS = """
binding embed embedded embedding exceed feed mapping need proceed pruning ring seed setting shed speed spring
string testing
"""
_IRREGULAR, _OWN_WORDS = frozenset(IRREGULAR.split()), frozenset(OWN_WORDS.split())


@dataclass
class Figures:
    """What was counted in one tree."""

    functions: int = 0
    modules: int = 0
    participles: list[str] = field(default_factory=list)
    gerunds: list[str] = field(default_factory=list)
    gerund_modules: list[str] = field(default_factory=list)
    repeated_classes: list[str] = field(default_factory=list)
    repeated_modules: list[str] = field(default_factory=list)

    def rows(self) -> Iterator[tuple[str, str]]:
        yield "functions", f"{self.functions:,}"
        yield "named by a participle", self._share(self.participles)
        yield "named by a gerund", self._share(self.gerunds)
        yield "modules", f"{self.modules:,}"
        yield "modules named by either", str(len(self.gerund_modules))
        yield "public class names used twice", str(len(self.repeated_classes))
        yield "module names used twice", str(len(self.repeated_modules))

    def names(self) -> Iterator[tuple[str, list[str]]]:
        yield "participles", self.participles
        yield "gerunds", self.gerunds
        yield "modules", self.gerund_modules
        yield "classes used twice", self.repeated_classes
        yield "modules used twice", self.repeated_modules

    def _share(self, found: list[str]) -> str:
        return f"{len(found)} ({100 * len(found) / max(self.functions, 1):.1f} %)"


def main() -> None:
    parser = argparse.ArgumentParser(description="Print figures about the names in Python source trees.")
    parser.add_argument("trees", nargs="+", type=Path, metavar="TREE")
    parser.add_argument("--list", action="store_true", help="print the names behind the figures, too")
    options = parser.parse_args()
    figures = {tree: count(tree) for tree in options.trees}
    print(" " * 30, *(f"{tree.name:>18}" for tree in figures))
    for row in zip(*(tree.rows() for tree in figures.values()), strict=True):
        print(f"{row[0][0]:30}", *(f"{value:>18}" for _, value in row))
    if options.list:
        for tree, found in figures.items():
            for heading, names in found.names():
                print(f"\n{tree}: {heading}\n  " + "\n  ".join(sorted(names) or ["none"]))


def count(tree: Path) -> Figures:
    figures = Figures()
    classes: collections.Counter[str] = collections.Counter()
    modules: collections.Counter[str] = collections.Counter()
    for path in sorted(tree.rglob("*.py")):
        if path.name.startswith("__"):
            continue
        figures.modules += 1
        modules[path.stem] += 1
        last = path.stem.split("_")[-1]
        if is_participle(last) or is_gerund(last):
            figures.gerund_modules.append(str(path.relative_to(tree)))
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                classes[node.name] += 1
            elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("__"):
                figures.functions += 1
                name, where = node.name.strip("_"), f"{path.relative_to(tree)}: {node.name}"
                if is_participle(name) or is_regular_participle(name.split("_")[0]):
                    figures.participles.append(where)
                elif is_gerund(name):
                    figures.gerunds.append(where)
    figures.repeated_classes = [name for name, times in classes.items() if times > 1]
    figures.repeated_modules = [name for name, times in modules.items() if times > 1]
    return figures


def is_participle(word: str) -> bool:
    return word in _IRREGULAR or is_regular_participle(word)


def is_regular_participle(word: str) -> bool:
    return re.fullmatch(r"[a-z]{2,}ed", word) is not None and word not in _OWN_WORDS


def is_gerund(word: str) -> bool:
    return re.fullmatch(r"[a-z]{2,}ing", word) is not None and word not in _OWN_WORDS


if __name__ == "__main__":
    main()
