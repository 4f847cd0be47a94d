"""Drive loopty through its command line, as a user would."""

from collections.abc import Mapping
from pathlib import Path

import repository
from cost import Cost, measure_cost, run_for_output
from sampling import Sample, sample_command

_PRETEND = Path(__file__).with_name("loopty_pretend.py")
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

[pools]
attempts = {attempts}
"""


class Loopty:
    """loopty in one repository, with a benchmark that does nothing."""

    def __init__(self, executable: Path, folder: Path, env: Mapping[str, str]) -> None:
        self._loopty = str(executable)
        self._folder = folder
        self._env = env
        self._experiments = 0

    def init(self, attempts: int) -> None:
        """Write and commit a task that allows so many attempts."""
        self.write({"loopty.toml": _TASK.format(attempts=attempts)})

    def write(self, files: Mapping[str, str]) -> None:
        """Write and commit these files."""
        for name, text in files.items():
            (self._folder / name).write_text(text)
        repository.commit_all(self._folder, self._env)

    def run_baseline(self) -> None:
        """What `optimize` does first, and a node by hand needs before it can be compared."""
        self.verb("run", "1")

    def verb(self, *words: str) -> Cost:
        return measure_cost([self._loopty, *words], self._folder, self._env)

    def new_and_run(self) -> Cost:
        """One experiment by verbs: a draft, an edit that is not counted, and its trial."""
        self._experiments += 1
        node = f"1.{self._experiments}"
        made = self.verb("new", "--parent", "1", "-m", "bench")
        draft = self._folder / ".loopty" / "drafts" / node
        (draft / "src0" / "file0.py").write_text(f"VALUE = {-self._experiments}\n")
        return made + self.verb("run", node)

    def watch_optimize(self) -> list[Sample]:
        """Samples of trials done and CPU spent, over a whole `optimize`."""
        return sample_command(
            [self._loopty, "optimize"],
            cwd=self._folder,
            env=self._env,
            count_done=self._trials,
            log=self._folder.with_suffix(".log"),
        )

    def lengthen_record(self, shape: str, count: int) -> None:
        """Lengthen the record with copies of an attempt that was really run: a `chain`, or `siblings`."""
        python = str(Path(self._loopty).with_name("python"))
        run_for_output([python, str(_PRETEND), shape, str(count)], self._folder, self._env)

    def _trials(self) -> int:
        nodes = self._folder / ".loopty" / "nodes"
        return sum(1 for _ in nodes.iterdir()) if nodes.exists() else 0
