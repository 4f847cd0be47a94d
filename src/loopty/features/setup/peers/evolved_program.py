"""`loopty evolve PROGRAM EVALUATOR`: the task of two files, in a repository that is made if there is none."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from loopty.domain.errors import Misuse
from loopty.features.setup.build_facts import evaluates_programs
from loopty.features.setup.peers.gepa import gepa_candidate
from loopty.features.setup.peers.openevolve import CONFIGS, evaluated_program
from loopty.features.setup.peers.peer_task import PeerTask, TaskFolder
from loopty.features.setup.peers.recognised_tasks import below_top
from loopty.features.setup.peers.shinka import correct_program, writes_metrics
from loopty.git.command import GitCommand
from loopty.git.folders import GitFolders
from loopty.kit.records import Record

_MOST_FILES = 5_000
_MOST_BYTES = 500 << 20
_NO_SOURCE = "__pycache__/\n*.pyc\nopenevolve_output/\n"


class EvolvedFiles(Record):
    """The two files, and the folder of both."""

    folder: Path
    program: str
    evaluator: str
    is_new: bool
    """Whether there is no program yet, or an empty one: then the search starts from nothing."""

    @classmethod
    def find(cls, program: Path, evaluator: Path) -> EvolvedFiles:
        """Find the files. Raises Misuse where one is missing or no file."""
        program, evaluator = Path(os.path.abspath(program)), evaluator.resolve()  # noqa: PTH100 - a link stays
        if not evaluator.is_file():
            raise Misuse(f"{evaluator} is no file: EVALUATOR has evaluate(program_path), or writes metrics.json")
        if program == evaluator:
            raise Misuse("PROGRAM and EVALUATOR are the same file: what scores a program must not be a part of it")
        if program.is_symlink() or (program.exists() and not program.is_file()):
            raise Misuse(f"{program} is no plain file: name the file that may change")
        if not program.parent.is_dir():
            raise Misuse(f"there is no folder {program.parent}: make it, then start again")
        folder = Path(os.path.commonpath((program.parent.resolve(), evaluator.parent)))
        program = program.parent.resolve() / program.name
        is_new = not program.exists() or not program.read_bytes().strip()
        return cls(folder, str(program.relative_to(folder)), str(evaluator.relative_to(folder)), is_new)

    def make_repository(self) -> bool:
        """Make a repository of the folder, where none is around it; says whether it did. Raises Misuse."""
        try:
            GitFolders.find(self.folder)
        except Misuse:
            if any((above / ".git").exists() for above in (self.folder, *self.folder.parents)):
                raise  # it is there, and something is wrong with it
        else:
            return False
        self._require_small()
        git = GitCommand(self.folder / ".git")
        git.run("init", "-q", cwd=self.folder)
        Path(git.git_dir, "info").mkdir(exist_ok=True)
        Path(git.git_dir, "info/exclude").write_text(_NO_SOURCE, encoding="utf-8")
        git.run("commit", "-q", "--allow-empty", "-m", "Made by loopty evolve", cwd=self.folder)
        return True

    def _require_small(self) -> None:
        """Raise Misuse if trials would have to see more than a task's folder."""
        files, size = 0, 0
        if self.folder == Path.home():
            raise Misuse(f"{self.folder} is your home: put program and evaluator into a folder of their own")
        for path in _plain_files(self.folder):
            files, size = files + 1, size + path.stat().st_size
            if files > _MOST_FILES or size > _MOST_BYTES:
                raise Misuse(
                    f"{self.folder} has more than {_MOST_FILES:,} files or {_MOST_BYTES >> 20} MB, which every "
                    "trial would see: put program and evaluator into a folder of their own, or make a git "
                    "repository there that ignores the rest"
                )

    def task(self, config: Path | None) -> PeerTask:
        """Wire the two files, with what a config says. Raises Misuse for an evaluator of another form."""
        place = TaskFolder(self.folder, tuple(_beside(self.folder, (self.program, self.evaluator))))
        if config and not config.is_file():
            raise Misuse(f"{config} is no file: --config names the settings of OpenEvolve or ShinkaEvolve")
        settings = str(config.resolve()) if config else _config_beside(place, self.evaluator)
        text = place.text(self.evaluator)
        if evaluates_programs(self.evaluator, text):
            return evaluated_program(place, self.evaluator, self.program, settings)
        if writes_metrics(text):
            return correct_program(place, self.evaluator, self.program, settings)
        if found := gepa_candidate(place, self.evaluator, self.program):
            return found
        raise Misuse(
            f"{self.evaluator} has neither evaluate(program_path), nor --program_path and --results_dir, nor a "
            f"call of optimize_anything: measure it with loopty init --command 'python3 {self.evaluator}' --write "
            f"{self.program}"
        )


def task_in(files: EvolvedFiles, top: Path, config: Path | None) -> PeerTask:
    """Wire the two files as the top of their repository has them."""
    task = files.task(config)
    return task if files.folder == top else below_top(task, files.folder.relative_to(top).as_posix())


def _config_beside(place: TaskFolder, evaluator: str) -> str:
    folder = evaluator.rpartition("/")[0]
    return next((path for name in CONFIGS if (path := f"{folder}/{name}".lstrip("/")) in place.files), "")


def _beside(folder: Path, names: Sequence[str]) -> Iterator[str]:
    """Yield the files in the folders of these."""
    for inner in dict.fromkeys(Path(name).parent for name in names):
        for path in sorted((folder / inner).iterdir()):
            if path.is_file():
                yield path.relative_to(folder).as_posix()


def _plain_files(folder: Path) -> Iterator[Path]:
    for inner, _, names in os.walk(folder):
        yield from (path for name in names if (path := Path(inner, name)).is_file() and not path.is_symlink())
