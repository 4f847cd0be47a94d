"""CPU of the user's own git commands in a repository with very many nodes, over that in one without any."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path

import repository
from bench import Bench
from cost import Cost, measure_cost, measure_in_turns, run_for_output
from table import Figure, Row, Target, cpu, growth

_FILES = 1000
_NODES = Path(__file__).with_name("loopty_nodes.py")
_TARGET = Target("at most ×1.2", 1.2)
_COMMANDS = {
    "git status": ("status", "--short"),
    "git log": ("log", "--decorate", "--oneline", "--max-count=100"),
    "git branch": ("branch", "--all"),
    "git count-objects": ("count-objects", "--verbose"),
}


def rows(bench: Bench) -> Iterator[Row]:
    nodes = 1000 if bench.quick else 10_000
    remote = bench.repository("git-remote", _FILES)
    clones = {kind: _clone(bench, remote, kind) for kind in ("none", "refs", "branches")}
    for kind in ("refs", "branches"):
        python = str(bench.loopty_executable.with_name("python"))
        run_for_output([python, str(_NODES), kind, str(nodes)], clones[kind], bench.env)
    for name, words in _COMMANDS.items():
        yield from _rows(name, nodes, lambda kind, words=words: _run(bench, clones[kind], words), bench)
    fetches = {kind: _fetch(bench, remote, clone) for kind, clone in clones.items()}
    yield from _rows("git fetch of a commit", nodes, lambda kind: fetches[kind](), bench)
    copies = {kind: _clone_again(bench, clone) for kind, clone in clones.items()}
    yield from _rows("git clone", nodes, lambda kind: copies[kind](), bench)
    sizes = {kind: _objects(bench, clone) for kind, clone in clones.items()}
    for unit, each in (("files", 0), ("KB", 1)):
        ours, theirs = ((sizes[kind][each] - sizes["none"][each]) / nodes for kind in ("refs", "branches"))
        what = f"objects of a node, {unit} of {nodes:,} nodes"
        yield Row(what, Figure(f"{ours:.3g}", ours), Figure(f"a branch each, loose: {theirs:.3g}", theirs))


def _rows(name: str, nodes: int, run: Callable[[str], Cost], bench: Bench) -> Iterator[Row]:
    without, with_refs = measure_in_turns(bench.repeats, lambda: run("none"), lambda: run("refs"))
    again, with_branches = measure_in_turns(bench.repeats, lambda: run("none"), lambda: run("branches"))
    yield Row(f"`{name}`, {nodes:,} nodes", cpu(with_refs), cpu(with_branches, "a branch each"))
    ours, theirs = growth(without, with_refs), growth(again, with_branches, "a branch each")
    yield Row(f"`{name}`, over no node", ours, theirs, _TARGET)


def _clone(bench: Bench, remote: Path, kind: str) -> Path:
    target = bench.scratch / f"git-{kind}"
    run_for_output(["git", "clone", "--quiet", f"file://{remote}", str(target)], bench.scratch, bench.env)
    # What a fetch starts in the background is not part of its cost.
    run_for_output(["git", "config", "maintenance.auto", "false"], target, bench.env)
    return target


def _clone_again(bench: Bench, clone: Path) -> Callable[[], Cost]:
    """Clones the clone, each time into a new folder."""
    numbers = itertools.count()

    def clone_again() -> Cost:
        target = bench.scratch / f"{clone.name}-copy-{next(numbers)}"
        return measure_cost(["git", "clone", "--quiet", f"file://{clone}", str(target)], bench.scratch, bench.env)

    return clone_again


def _objects(bench: Bench, clone: Path) -> tuple[int, float]:
    """The files below `.git/objects` and `.git/refs`, and the KB that they take on disk."""
    folders = [str(clone / ".git" / name) for name in ("objects", "refs")]
    files = sum(1 for folder in folders for path in Path(folder).rglob("*") if path.is_file())
    lines = run_for_output(["du", "--summarize", "--block-size=1", *folders], clone, bench.env).splitlines()
    return files, sum(int(line.split()[0]) for line in lines) / 1000


def _run(bench: Bench, clone: Path, words: tuple[str, ...]) -> Cost:
    return measure_cost(["git", *words], clone, bench.env)


def _fetch(bench: Bench, remote: Path, clone: Path) -> Callable[[], Cost]:
    """Fetches one new commit each time."""
    number = 0

    def fetch() -> Cost:
        nonlocal number
        number += 1
        (remote / f"new-{clone.name}").write_text(f"{number}\n")
        repository.commit_all(remote, bench.env)
        return measure_cost(["git", "fetch", "--quiet"], clone, bench.env)

    return fetch
