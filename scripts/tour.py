"""Writes docs/design/tour.md: the files that one real experiment passes through, from a trace of it."""

from __future__ import annotations

import ast
import itertools
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import loopty
from loopty.campaign.campaign import Campaign
from loopty.record.trials import TRIALS
from loopty.record.verdicts import VERDICTS

SOURCE = Path(loopty.__file__).parent
PAGE = Path(__file__).parents[1] / "docs/design/tour.md"
TASK = {
    "loopty.toml": """
[benchmark]
command = "python3 bench.py"
result = "stdout"
timeout_seconds = 30
[access]
write = ["value.py"]
[proposer]
kind = "mutate"
[noise]
repeat = "never"
[budget]
attempts = 5
""",
    "bench.py": "import value\nprint(value.VALUE)\n",
    "value.py": "VALUE = 3\n",
}
STAGES = ("The trial", "The verdict", "The next proposal")
ENDS = ("trial-ended", "node-judged", "trial-started")
"""The event that ends each of them."""
TRACED = 3
"""The attempt that is traced: by then nothing happens for the first time."""
Note = Callable[[FrameType, str, object], None]


def trace() -> list[dict[str, str]]:
    """Run a search; return the files of each stage of one experiment, with the first function called in each."""
    stages: list[dict[str, str]] = [{} for _ in STAGES]
    attempt = stage = 0
    ending = {fold.__code__: kind for kind, fold in zip(ENDS, _folds(), strict=True)}

    def note(frame: FrameType, event: str, _argument: object) -> None:
        nonlocal attempt, stage
        code = frame.f_code
        if event != "call" or not code.co_filename.startswith(str(SOURCE)):
            return
        if kind := ending.get(code):
            attempt += kind == "trial-started"
            stage = (ENDS.index(kind) + 1) % len(ENDS)
        if attempt == TRACED and code.co_name[0] != "<":
            stages[stage].setdefault(Path(code.co_filename).relative_to(SOURCE).as_posix(), code.co_qualname)

    with tempfile.TemporaryDirectory() as folder:
        _prepare(Path(folder))
        _run_traced(note, Campaign(Path(folder)).optimize)
    return stages


def _folds() -> Iterator[Callable[..., None]]:
    """The functions that fold the ends of the stages in."""
    families = (TRIALS, VERDICTS, TRIALS)
    for kind, family in zip(ENDS, families, strict=True):
        name = "".join(word.title() for word in kind.split("-"))
        yield next(fold for event, fold in family.folds.items() if event.__name__ == name)


def _prepare(folder: Path) -> None:
    """Make a repository with a task."""
    for name, text in TASK.items():
        (folder / name).write_text(text)
    who = ("-c", "user.name=loopty", "-c", "user.email=loopty@example.org")
    for words in (("init", "-q"), ("add", "."), (*who, "commit", "-qm", "a task")):
        subprocess.run(("git", *words), cwd=folder, check=True)


def _run_traced(note: Note, run: Callable[[], object]) -> None:
    threading.setprofile(note)
    sys.setprofile(note)
    try:
        run()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


def page(stages: list[dict[str, str]], old: str) -> str:
    """Put the lists of these files into the page, in place of those that stand there."""
    listed: set[str] = set()
    for title, files in zip(STAGES, stages, strict=True):
        new = [file for file in files if file not in listed]
        listed |= set(new)
        rooms = itertools.groupby(sorted(new, key=_room_order(new)), key=_room)
        lines = [f"**{room}**\n\n" + "".join(map(_line, found)) for room, found in rooms]
        section = f"## {title}: {len(files)} files\n\n" + "\n".join(lines)
        old = re.sub(rf"## {title}: .*?(?=\n## )", lambda _, text=section: text, old, flags=re.DOTALL)
    return old


def _room(file: str) -> str:
    return file.rpartition("/")[0]


def _room_order(files: list[str]) -> Callable[[str], int]:
    """Rooms by their first file, files within a room as they come."""
    first: dict[str, int] = {}
    for place, file in enumerate(files):
        first.setdefault(_room(file), place)
    return lambda file: first[_room(file)]


def _line(file: str) -> str:
    """Name the file and what it is, by the beginning of its docstring."""
    summary = (ast.get_docstring(ast.parse((SOURCE / file).read_text())) or "").split("\n")[0]
    end = re.search(r"(?<=.{12})(?:[,.;:](?: |$)| that | which | who )", summary)
    return f"- `{file}`: {summary[: end.start()] if end else summary}\n"


def listed_files(text: str) -> set[str]:
    """The files that the page lists for an experiment."""
    return set(re.findall(r"^- `([\w/]+\.py)`: ", text.split("## A plug-in")[0], re.MULTILINE))


if __name__ == "__main__":
    PAGE.write_text(page(trace(), PAGE.read_text()))
