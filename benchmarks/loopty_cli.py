"""Drive loopty through its command line, as a user would."""

import contextlib
import sqlite3
from collections.abc import Mapping
from pathlib import Path

import repository
from cost import Cost, measure_cost, run_for_output
from samples import Sample, sample_command

_LONG_RECORD = Path(__file__).with_name("loopty_long_record.py")
_TASK = """\
[benchmark]
command = '''echo '{{"score": 1}}' > "$EVO_RESULT_PATH"'''
timeout_seconds = 60

[access]
write = ["src0/file0.py"]

[parameters.x]
type = "float"
low = 0.0
high = 1.0

[proposer]
kind = "random"

[budget]
attempts = {attempts}

[sandbox]
kind = "{sandbox}"
"""


class Loopty:
    """loopty in one repository, with a benchmark that does nothing."""

    def __init__(self, executable: Path, folder: Path, env: Mapping[str, str]) -> None:
        self._loopty = str(executable)
        self._folder = folder
        self._env = env
        self._experiments = 0
        self._attempts = 0

    @property
    def folder(self) -> Path:
        """Its repository."""
        return self._folder

    def code_task(self, attempts: int) -> str:
        """A task that edits code instead of a parameter."""
        head, _, _ = _TASK.format(attempts=attempts, sandbox="auto").partition("[parameters")
        return f'{head}[proposer]\nkind = "mutate"\n\n[budget]\nattempts = {attempts}\n'

    def init(self, attempts: int, sandbox: str = "auto") -> None:
        """Write and commit a task that allows `attempts` attempts, in this kind of sandbox."""
        self._attempts = attempts
        self.write({"loopty.toml": _TASK.format(attempts=attempts, sandbox=sandbox)})

    def write(self, files: Mapping[str, str]) -> None:
        """Write and commit these files."""
        for name, text in files.items():
            (self._folder / name).write_text(text)
        repository.commit_all(self._folder, self._env)

    def run_baseline(self) -> None:
        """Run the baseline: `optimize` does that first, and a node by hand needs it for comparison."""
        self.verb("run", "1")

    def verb(self, *words: str) -> Cost:
        return measure_cost([self._loopty, *words], self._folder, self._env)

    def new_and_run(self) -> Cost:
        """Run one experiment by verbs and return its cost: a draft, an edit that is not counted, and its trial."""
        self._experiments += 1
        node = f"1.{self._experiments}"
        cost_of_new = self.verb("new", "--parent", "1", "--sparse", "-m", "bench")
        draft = self._folder / ".loopty" / "drafts" / node
        (draft / "src0" / "file0.py").write_text(f"VALUE = {-self._experiments}\n")
        return cost_of_new + self.verb("run", node)

    def one_more_trial(self) -> Cost:
        """Resume `optimize` with a budget of one more attempt and return its cost."""
        self._attempts += 1
        (self._folder / "loopty.toml").write_text(_TASK.format(attempts=self._attempts, sandbox="auto"))
        return self.verb("optimize")

    def watch_optimize(self) -> list[Sample]:
        """Run `optimize` to its end and return samples of trials done and CPU spent."""
        return sample_command(
            [self._loopty, "optimize"],
            cwd=self._folder,
            env=self._env,
            count_done=self.count_trials,
            log=self._folder.with_suffix(".log"),
        )

    def lengthen_record(self, shape: str, count: int) -> None:
        """Lengthen the record with copies of an attempt that really ran, as a `chain` or as `siblings`."""
        python = str(Path(self._loopty).with_name("python"))
        run_for_output([python, str(_LONG_RECORD), shape, str(count)], self._folder, self._env)
        self._attempts = count

    def count_trials(self) -> int:
        """The nodes so far: those with a folder, and those whose folders are folded into one file."""
        state = self._folder / ".git" / "loopty"
        nodes, folded = state / "nodes", state / "folded.sqlite"
        plain = sum(1 for _ in nodes.iterdir()) if nodes.exists() else 0
        if not folded.exists():
            return plain
        with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(folded)) as db:
            return plain + int(db.execute("SELECT count(*) FROM folders").fetchone()[0])
        return plain
